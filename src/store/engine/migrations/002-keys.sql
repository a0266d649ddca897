-- Gateway keys. A key is the permanent name; its secrets are replaced by rotation, and at most two of them are live.

CREATE TABLE key (
  id         TEXT    NOT NULL PRIMARY KEY,
  account    TEXT    NOT NULL REFERENCES account (id),
  name       TEXT    NOT NULL,
  models     TEXT,                -- JSON array of catalog ids; NULL: every public model
  created_at INTEGER NOT NULL,
  expires_at INTEGER,             -- NULL: never
  revoked_at INTEGER
) STRICT, WITHOUT ROWID;

CREATE INDEX key_by_account ON key (account);

-- Never the token itself: its HMAC-SHA-256 under the store's secret, and its last four characters for lists.
CREATE TABLE secret (
  digest     BLOB    NOT NULL PRIMARY KEY CHECK (length(digest) = 32),
  key        TEXT    NOT NULL REFERENCES key (id),
  last4      TEXT    NOT NULL,
  created_at INTEGER NOT NULL,
  expires_at INTEGER,             -- end of the grace of a rotated secret; NULL: as long as the key
  revoked_at INTEGER
) STRICT, WITHOUT ROWID;

CREATE INDEX secret_by_key ON secret (key);
