-- Responses that clients may refer to for a while. Their content is encrypted under the store's secret (vault.ts), in a table of its own,
-- so that an extended lifetime does not rewrite it.

CREATE TABLE response (
  id         TEXT    NOT NULL PRIMARY KEY,
  account    TEXT    NOT NULL REFERENCES account (id) ON DELETE CASCADE,
  expires_at INTEGER NOT NULL,
  bytes      INTEGER NOT NULL CHECK (bytes > 0) -- of the box and of these rows
) STRICT, WITHOUT ROWID;

CREATE INDEX response_by_age ON response (expires_at);
CREATE INDEX response_by_account ON response (account, expires_at);

CREATE TABLE response_box (
  response TEXT NOT NULL PRIMARY KEY REFERENCES response (id) ON DELETE CASCADE,
  box      BLOB NOT NULL
) STRICT;

-- The size of each account's responses, so that it is not summed up for each write.
CREATE TABLE response_total (
  account TEXT    NOT NULL PRIMARY KEY REFERENCES account (id) ON DELETE CASCADE,
  bytes   INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TRIGGER response_added AFTER INSERT ON response BEGIN
  INSERT INTO response_total (account, bytes) VALUES (new.account, new.bytes)
  ON CONFLICT (account) DO UPDATE SET bytes = bytes + excluded.bytes;
END;

CREATE TRIGGER response_removed AFTER DELETE ON response BEGIN
  UPDATE response_total SET bytes = bytes - old.bytes WHERE account = old.account;
END;
