-- People who use the dashboard, with their credentials. Secrets are HMAC-SHA-256 digests under the store's secret, like those of keys. A
-- password is a slow hash with its parameters (PHC string format).

CREATE TABLE person (
  id         TEXT    NOT NULL PRIMARY KEY,
  email      TEXT    NOT NULL UNIQUE,     -- in lower case
  password   TEXT    NOT NULL,
  account    TEXT    NOT NULL REFERENCES account (id),
  role       TEXT    NOT NULL CHECK (role IN ('member', 'operator')),
  created_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE INDEX person_by_account ON person (account);
CREATE INDEX person_operators ON person (role) WHERE role = 'operator';

CREATE TABLE session (
  digest     BLOB    NOT NULL PRIMARY KEY CHECK (length(digest) = 32),
  person     TEXT    NOT NULL REFERENCES person (id),
  created_at INTEGER NOT NULL,
  seen_at    INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE INDEX session_by_person ON session (person);
CREATE INDEX session_by_age ON session (created_at);

-- A link works until it expires or ends. A used one stays until it expires, with the id of its use, so that a repeated operation finds
-- that it was done.
CREATE TABLE link (
  id         TEXT    NOT NULL PRIMARY KEY,
  digest     BLOB    NOT NULL UNIQUE CHECK (length(digest) = 32),
  kind       TEXT    NOT NULL CHECK (kind IN ('invitation', 'reset')),
  role       TEXT    NOT NULL CHECK (role IN ('member', 'operator')),
  account    TEXT    REFERENCES account (id),
  plan       TEXT,
  credit     INTEGER NOT NULL CHECK (credit >= 0),
  email      TEXT,
  person     TEXT    REFERENCES person (id),
  created_at INTEGER NOT NULL,
  expires_at INTEGER NOT NULL,
  created_by TEXT    NOT NULL,
  ended_at   INTEGER,             -- used or revoked
  used_by    TEXT                 -- the id of the use, made by the caller
) STRICT, WITHOUT ROWID;

CREATE INDEX link_by_age ON link (expires_at);
CREATE INDEX link_by_account ON link (account);
CREATE INDEX link_by_person ON link (person);
CREATE INDEX link_by_maker ON link (created_by);

-- Tokens of operators' programs.
CREATE TABLE operator_token (
  id         TEXT    NOT NULL PRIMARY KEY,
  digest     BLOB    NOT NULL UNIQUE CHECK (length(digest) = 32),
  name       TEXT    NOT NULL,
  last4      TEXT    NOT NULL,
  created_at INTEGER NOT NULL,
  expires_at INTEGER,             -- NULL: never
  created_by TEXT    NOT NULL,
  revoked_at INTEGER
) STRICT, WITHOUT ROWID;

-- For keys that the gateway made by itself: 'playground'.
ALTER TABLE key ADD COLUMN purpose TEXT;

-- Accounts in the order of pages.
CREATE INDEX account_by_name ON account (name COLLATE NOCASE, id);
CREATE INDEX account_by_plan ON account (plan);
