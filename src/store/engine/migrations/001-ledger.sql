-- Accounts, the journal of money, checkpoints, and a few values about the store itself. Money is nano-dollars in 64-bit integers; times
-- are milliseconds since the epoch.

-- An account's identity. Names are unique: people search by them.
CREATE TABLE account (
  id         TEXT    NOT NULL PRIMARY KEY,
  name       TEXT    NOT NULL UNIQUE,
  plan       TEXT    NOT NULL,
  created_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- An account's money: the only rows of the ledger that are ever updated. It is a table of its own because a commit writes whole pages,
-- and narrow rows share them. The CHECK is the last defence: a bug above it fails a commit, not a customer.
CREATE TABLE balance (
  account TEXT    NOT NULL PRIMARY KEY REFERENCES account (id),
  posted  INTEGER NOT NULL DEFAULT 0,
  held    INTEGER NOT NULL DEFAULT 0,
  frozen  INTEGER NOT NULL DEFAULT 0 CHECK (frozen IN (0, 1)),
  CHECK (posted - held >= 0 AND held >= 0)
) STRICT, WITHOUT ROWID;

-- Append-only. An open hold is a kind 0 without its kind 1. The id of a hold and of its settle is the exchange's. It is time-ordered, so
-- that rows are added near the end (random ids cost 3.5 times the CPU). The id of a grant is 'credit:' and its reference, so that a
-- repeated reference collides. No foreign key: the UPDATE of the balance in the same transaction has found the row, and `verify` checks
-- again.
CREATE TABLE event (
  id                 TEXT    NOT NULL,
  kind               INTEGER NOT NULL CHECK (kind IN (0, 1, 2)), -- 0 hold, 1 settle, 2 credit
  account            TEXT    NOT NULL,
  amount             INTEGER NOT NULL CHECK (amount >= 0),       -- held, charged, granted
  at                 INTEGER NOT NULL,
  -- hold: everything that the bill depends on, copied, so that a reload cannot change it
  key                TEXT,
  model              TEXT,
  price_input        INTEGER,                                    -- nano-dollars per million tokens
  price_cached_input INTEGER,
  price_cache_write  INTEGER,
  price_output       INTEGER,
  price_request      INTEGER,                                    -- nano-dollars per request
  cap_tokens         INTEGER,
  idempotency_key    TEXT,
  -- settle
  overrun            INTEGER,                                    -- cost above the hold: the operator's loss
  source             TEXT,
  outcome            TEXT,
  code               TEXT,
  prompt_tokens      INTEGER,
  cached_tokens      INTEGER,
  cache_write_tokens INTEGER,
  completion_tokens  INTEGER,
  reasoning_tokens   INTEGER,
  attempts           TEXT,                                       -- JSON
  trail              TEXT,                                       -- JSON
  -- credit
  actor              TEXT,
  note               TEXT,
  PRIMARY KEY (id, kind)
) STRICT, WITHOUT ROWID;

CREATE TRIGGER event_is_never_updated BEFORE UPDATE ON event
BEGIN SELECT RAISE(ABORT, 'events are append-only'); END;
CREATE TRIGGER event_is_never_deleted BEFORE DELETE ON event
BEGIN SELECT RAISE(ABORT, 'events are append-only'); END;

-- Append-only: the progress of a stream. Recovery reads the last one of an open hold.
CREATE TABLE checkpoint (
  exchange          TEXT    NOT NULL,
  seq               INTEGER NOT NULL,
  amount            INTEGER NOT NULL CHECK (amount >= 0),
  prompt_tokens     INTEGER NOT NULL,
  completion_tokens INTEGER NOT NULL,
  at                INTEGER NOT NULL,
  PRIMARY KEY (exchange, seq)
) STRICT, WITHOUT ROWID;

-- 'open_from': no open hold has a smaller exchange id. 'secret_check': a digest of the HMAC secret. 'probe': the last test write.
-- 'commits': the number of commits.
CREATE TABLE meta (
  name  TEXT NOT NULL PRIMARY KEY,
  value TEXT NOT NULL
) STRICT, WITHOUT ROWID;
