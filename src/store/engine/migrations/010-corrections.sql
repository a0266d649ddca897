-- Late settles: recovery had settled the exchange without its usage. Append-only, one row for an exchange. A correction is another event
-- of kind 1 with the same columns, in a table of its own so that the key of `event` stays.

CREATE TABLE correction (
  id                 TEXT    NOT NULL PRIMARY KEY,
  kind               INTEGER NOT NULL CHECK (kind = 1),
  account            TEXT    NOT NULL,
  amount             INTEGER NOT NULL,                       -- charged in addition to the settle; below 0: given back
  at                 INTEGER NOT NULL,
  settled_at         INTEGER NOT NULL,                       -- `at` of the settle: usage counts the exchange there
  key                TEXT,
  model              TEXT,
  -- in place of the settle's
  overrun            INTEGER NOT NULL CHECK (overrun >= 0),
  source             TEXT    NOT NULL,
  outcome            TEXT    NOT NULL,
  code               TEXT,
  prompt_tokens      INTEGER NOT NULL,
  cached_tokens      INTEGER NOT NULL,
  cache_write_tokens INTEGER NOT NULL,
  completion_tokens  INTEGER NOT NULL,
  reasoning_tokens   INTEGER NOT NULL,
  searches           INTEGER,
  attempts           TEXT    NOT NULL,
  trail              TEXT    NOT NULL,
  -- of other kinds: always NULL
  price_input        INTEGER,
  price_cached_input INTEGER,
  price_cache_write  INTEGER,
  price_output       INTEGER,
  price_request      INTEGER,
  price_search       INTEGER,
  cap_tokens         INTEGER,
  idempotency_key    TEXT,
  actor              TEXT,
  note               TEXT
) STRICT, WITHOUT ROWID;

CREATE TRIGGER correction_is_never_updated BEFORE UPDATE ON correction
BEGIN SELECT RAISE(ABORT, 'corrections are append-only'); END;
CREATE TRIGGER correction_is_never_deleted BEFORE DELETE ON correction
BEGIN SELECT RAISE(ABORT, 'corrections are append-only'); END;

CREATE INDEX correction_by_account ON correction (account, at, id);
