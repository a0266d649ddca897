-- The whole store, as SQLite's migrations 1 to 9 leave it. Money is nano-dollars in 64-bit integers; times are milliseconds
-- since the epoch. Texts have the collation "C": ids and names sort by their bytes, and `lower` folds a to z alone.

CREATE TABLE account (
  id         TEXT COLLATE "C" NOT NULL PRIMARY KEY,
  name       TEXT COLLATE "C" NOT NULL UNIQUE,
  plan       TEXT COLLATE "C" NOT NULL,
  created_at BIGINT NOT NULL
);

CREATE INDEX account_by_name ON account (lower(name), id);
CREATE INDEX account_by_plan ON account (plan);

-- Updated by every hold and settle, and narrow: half of each page is left free, so that the new version of a row stays on the
-- page of the old one. The CHECK is the last line: a bug above it fails a commit, not a customer.
CREATE TABLE balance (
  account TEXT COLLATE "C" NOT NULL PRIMARY KEY REFERENCES account (id),
  posted  BIGINT NOT NULL DEFAULT 0,
  held    BIGINT NOT NULL DEFAULT 0,
  frozen  BIGINT NOT NULL DEFAULT 0 CHECK (frozen IN (0, 1)),
  CHECK (posted - held >= 0 AND held >= 0)
) WITH (fillfactor = 50);

-- Append-only. An open hold is a kind 0 without its kind 1. No foreign key: the UPDATE of the balance in the same
-- transaction has just found the row, and `verify` looks again. What is JSON has that type, which keeps the text as it is.
CREATE TABLE event (
  id                 TEXT COLLATE "C" NOT NULL,
  kind               BIGINT NOT NULL CHECK (kind IN (0, 1, 2)), -- 0 hold, 1 settle, 2 credit
  account            TEXT COLLATE "C" NOT NULL,
  amount             BIGINT NOT NULL CHECK (amount >= 0),       -- held, charged, granted
  at                 BIGINT NOT NULL,
  -- hold: everything that the bill depends on, copied, so that a reload cannot change it
  key                TEXT COLLATE "C",
  model              TEXT COLLATE "C",
  price_input        BIGINT,                                    -- nano-dollars per million tokens
  price_cached_input BIGINT,
  price_cache_write  BIGINT,
  price_output       BIGINT,
  price_request      BIGINT,                                    -- nano-dollars per request
  price_search       BIGINT,                                    -- per search; NULL: no more than its tokens
  cap_tokens         BIGINT,
  idempotency_key    TEXT COLLATE "C",
  -- settle
  overrun            BIGINT,                                    -- cost beyond the hold: the house's loss
  source             TEXT COLLATE "C",
  outcome            TEXT COLLATE "C",
  code               TEXT COLLATE "C",
  prompt_tokens      BIGINT,
  cached_tokens      BIGINT,
  cache_write_tokens BIGINT,
  completion_tokens  BIGINT,
  reasoning_tokens   BIGINT,
  searches           BIGINT,                                    -- NULL: none
  attempts           JSON,
  trail              JSON,
  -- credit
  actor              TEXT COLLATE "C",
  note               TEXT COLLATE "C",
  PRIMARY KEY (id, kind)
);

CREATE INDEX event_by_account ON event (account, at, id) WHERE kind <> 0;
CREATE INDEX credit_by_account ON event (account, at, id) WHERE kind = 2;

CREATE FUNCTION refuse_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN RAISE EXCEPTION 'events are append-only' USING ERRCODE = 'integrity_constraint_violation'; END $$;
CREATE TRIGGER event_is_never_changed BEFORE UPDATE OR DELETE ON event
FOR EACH ROW EXECUTE FUNCTION refuse_change();

-- Append-only: how far a stream had come. Recovery reads the last one of an open hold.
CREATE TABLE checkpoint (
  exchange          TEXT COLLATE "C" NOT NULL,
  seq               BIGINT NOT NULL,
  amount            BIGINT NOT NULL CHECK (amount >= 0),
  prompt_tokens     BIGINT NOT NULL,
  completion_tokens BIGINT NOT NULL,
  at                BIGINT NOT NULL,
  PRIMARY KEY (exchange, seq)
);

-- 'open_from': no open hold has a smaller exchange id. 'secret_check': a digest of the HMAC secret. 'probe': the last
-- look whether the ledger can be written.
CREATE TABLE meta (
  name  TEXT COLLATE "C" NOT NULL PRIMARY KEY,
  value TEXT COLLATE "C" NOT NULL
);

-- A key is the name that stays; its secrets come and go with rotation, at most two of them live.
CREATE TABLE key (
  id         TEXT COLLATE "C" NOT NULL PRIMARY KEY,
  account    TEXT COLLATE "C" NOT NULL REFERENCES account (id),
  name       TEXT COLLATE "C" NOT NULL,
  models     TEXT COLLATE "C",                 -- JSON array of catalog ids; NULL: every public model
  created_at BIGINT NOT NULL,
  expires_at BIGINT,                           -- NULL: never
  revoked_at BIGINT,
  purpose    TEXT COLLATE "C"                  -- for whom the gateway made it by itself: 'playground'
);

CREATE INDEX key_by_account ON key (account, id);
CREATE INDEX key_alive ON key (account, expires_at) WHERE revoked_at IS NULL;

-- Never the token itself: its HMAC-SHA-256 under the store's secret, and four characters to recognise it by.
CREATE TABLE secret (
  digest     BYTEA NOT NULL PRIMARY KEY CHECK (length(digest) = 32),
  key        TEXT COLLATE "C" NOT NULL REFERENCES key (id),
  last4      TEXT COLLATE "C" NOT NULL,
  created_at BIGINT NOT NULL,
  expires_at BIGINT,                           -- end of the grace of a rotated secret; NULL: as long as the key
  revoked_at BIGINT
);

CREATE INDEX secret_by_key ON secret (key);
CREATE INDEX secret_alive ON secret (key, expires_at) WHERE revoked_at IS NULL;

-- What each key has spent and holds, and what it may. `ceiling` is the cap, or what was spent and held already when the
-- cap was set below that: nothing is held beyond it.
CREATE TABLE key_total (
  key          TEXT COLLATE "C" NOT NULL PRIMARY KEY,
  cap          BIGINT CHECK (cap >= 0),        -- NULL: none
  ceiling      BIGINT,
  held         BIGINT NOT NULL DEFAULT 0 CHECK (held >= 0),
  spent        BIGINT NOT NULL DEFAULT 0 CHECK (spent >= 0),
  requests     BIGINT NOT NULL DEFAULT 0,
  last_used_at BIGINT,
  CHECK (spent + held <= ceiling)
) WITH (fillfactor = 50);

-- What was used, summed up as it is written. Rows of the account '' have the key '': all accounts together.
CREATE TABLE usage (
  account           TEXT COLLATE "C" NOT NULL,
  grain             BIGINT NOT NULL CHECK (grain IN (0, 1)), -- 0 hour, 1 day
  at                BIGINT NOT NULL,                         -- start of the span in UTC
  key               TEXT COLLATE "C" NOT NULL,
  model             TEXT COLLATE "C" NOT NULL,
  requests          BIGINT NOT NULL,
  failed            BIGINT NOT NULL,                         -- of them, those that were not answered
  prompt_tokens     BIGINT NOT NULL,
  cached_tokens     BIGINT NOT NULL,
  completion_tokens BIGINT NOT NULL,
  reasoning_tokens  BIGINT NOT NULL,
  charged           BIGINT NOT NULL,
  PRIMARY KEY (account, grain, at, key, model)
) WITH (fillfactor = 50);

-- People who use the dashboard, and what lets them in. A password is a slow hash with its parameters (PHC string format).
CREATE TABLE person (
  id         TEXT COLLATE "C" NOT NULL PRIMARY KEY,
  email      TEXT COLLATE "C" NOT NULL UNIQUE, -- in lower case
  folded     TEXT COLLATE "C" NOT NULL,        -- by which addresses are compared (email.ts)
  password   TEXT COLLATE "C" NOT NULL,
  account    TEXT COLLATE "C" NOT NULL REFERENCES account (id),
  role       TEXT COLLATE "C" NOT NULL CHECK (role IN ('member', 'operator')),
  created_at BIGINT NOT NULL
);

CREATE INDEX person_by_account ON person (account);
CREATE INDEX person_operators ON person (role) WHERE role = 'operator';
CREATE INDEX person_by_folded ON person (folded);

CREATE TABLE session (
  digest     BYTEA NOT NULL PRIMARY KEY CHECK (length(digest) = 32),
  person     TEXT COLLATE "C" NOT NULL REFERENCES person (id),
  created_at BIGINT NOT NULL,
  seen_at    BIGINT NOT NULL
);

CREATE INDEX session_by_person ON session (person, created_at);
CREATE INDEX session_by_age ON session (created_at);

-- A link works while it is neither past nor ended. One that was used stays until it is past, with who used it, so that
-- an operation in doubt, asked for again, finds that it was done.
CREATE TABLE link (
  id         TEXT COLLATE "C" NOT NULL PRIMARY KEY,
  digest     BYTEA NOT NULL UNIQUE CHECK (length(digest) = 32),
  kind       TEXT COLLATE "C" NOT NULL CHECK (kind IN ('invitation', 'reset')),
  role       TEXT COLLATE "C" NOT NULL CHECK (role IN ('member', 'operator')),
  account    TEXT COLLATE "C" REFERENCES account (id),
  plan       TEXT COLLATE "C",
  credit     BIGINT NOT NULL CHECK (credit >= 0),
  email      TEXT COLLATE "C",
  person     TEXT COLLATE "C" REFERENCES person (id),
  created_at BIGINT NOT NULL,
  expires_at BIGINT NOT NULL,
  created_by TEXT COLLATE "C" NOT NULL,
  ended_at   BIGINT,                           -- used or revoked
  used_by    TEXT COLLATE "C"                  -- the id of the use, made by the caller
);

CREATE INDEX link_by_age ON link (expires_at);
CREATE INDEX link_by_account ON link (account);
CREATE INDEX link_by_person ON link (person);
CREATE INDEX link_by_maker ON link (created_by);

-- Tokens of operators' machines.
CREATE TABLE operator_token (
  id         TEXT COLLATE "C" NOT NULL PRIMARY KEY,
  digest     BYTEA NOT NULL UNIQUE CHECK (length(digest) = 32),
  name       TEXT COLLATE "C" NOT NULL,
  last4      TEXT COLLATE "C" NOT NULL,
  created_at BIGINT NOT NULL,
  expires_at BIGINT,                           -- NULL: never
  created_by TEXT COLLATE "C" NOT NULL,
  revoked_at BIGINT
);

CREATE INDEX operator_token_by_maker ON operator_token (created_by) WHERE revoked_at IS NULL;

-- Responses that clients may refer to for a while. What they say is encrypted under the store's secret (vault.ts).
CREATE TABLE response (
  id         TEXT COLLATE "C" NOT NULL PRIMARY KEY,
  account    TEXT COLLATE "C" NOT NULL REFERENCES account (id) ON DELETE CASCADE,
  expires_at BIGINT NOT NULL,
  bytes      BIGINT NOT NULL CHECK (bytes > 0) -- of the boxes and of these rows
);

CREATE INDEX response_by_age ON response (expires_at);
CREATE INDEX response_by_account ON response (account, expires_at);

CREATE TABLE response_box (
  response TEXT COLLATE "C" NOT NULL REFERENCES response (id) ON DELETE CASCADE,
  part     TEXT COLLATE "C" NOT NULL,
  box      BYTEA NOT NULL,
  UNIQUE (response, part)
);
-- It is encrypted: to compress it would take time and save nothing.
ALTER TABLE response_box ALTER COLUMN box SET STORAGE EXTERNAL;

-- What each account has, so that nobody has to add it up.
CREATE TABLE response_total (
  account TEXT COLLATE "C" NOT NULL PRIMARY KEY REFERENCES account (id) ON DELETE CASCADE,
  bytes   BIGINT NOT NULL
);

CREATE FUNCTION count_response() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF TG_OP = 'INSERT' THEN
    INSERT INTO response_total (account, bytes) VALUES (new.account, new.bytes)
    ON CONFLICT (account) DO UPDATE SET bytes = response_total.bytes + excluded.bytes;
  ELSE
    UPDATE response_total SET bytes = bytes - old.bytes WHERE account = old.account;
  END IF;
  RETURN NULL;
END $$;
CREATE TRIGGER response_counted AFTER INSERT OR DELETE ON response
FOR EACH ROW EXECUTE FUNCTION count_response();

-- Holds, settles and checkpoints in the order in which they were asked for, as one statement: what ledger.ts does, without a
-- way to the server and back for each. It ends at the first one that is not plain (refused, repeated, without a hold), which
-- has changed nothing then; ledger.ts goes on with that one. A row for each that was done.
CREATE FUNCTION write_many(requests JSON, now_ms BIGINT)
RETURNS TABLE (available BIGINT, account TEXT, key TEXT, model TEXT, amount BIGINT)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
  r RECORD;
  h RECORD;
  room BIGINT;
BEGIN
  -- In one order, so that two who write at once never wait for each other.
  PERFORM 1 FROM balance WHERE balance.account IN (
    SELECT coalesce(x.account, held.account) FROM json_to_recordset(requests) AS x (exchange TEXT, account TEXT)
      LEFT JOIN event AS held ON held.id = x.exchange AND held.kind = 0
  ) ORDER BY balance.account FOR NO KEY UPDATE;
  FOR r IN SELECT * FROM json_to_recordset(requests) AS x (
    what BIGINT, exchange TEXT, account TEXT, amount BIGINT, key TEXT, model TEXT, price_input BIGINT,
    price_cached_input BIGINT, price_cache_write BIGINT, price_output BIGINT, price_request BIGINT, price_search BIGINT,
    cap_tokens BIGINT, idempotency_key TEXT, overrun BIGINT, source TEXT, outcome TEXT, code TEXT, prompt_tokens BIGINT,
    cached_tokens BIGINT, cache_write_tokens BIGINT, completion_tokens BIGINT, reasoning_tokens BIGINT, searches BIGINT,
    attempts TEXT, trail TEXT
  ) LOOP
    IF r.what = 0 THEN
      UPDATE balance SET held = held + r.amount
      WHERE balance.account = r.account AND posted - held >= r.amount AND frozen = 0
      RETURNING posted - held INTO room;
      IF NOT FOUND THEN RETURN; END IF;
      INSERT INTO key_total (key, held, requests, last_used_at) VALUES (r.key, r.amount, 1, now_ms)
      ON CONFLICT ON CONSTRAINT key_total_pkey DO UPDATE
      SET held = key_total.held + excluded.held, requests = key_total.requests + 1, last_used_at = excluded.last_used_at
      WHERE key_total.cap IS NULL OR key_total.spent + key_total.held + excluded.held <= key_total.cap;
      IF NOT FOUND THEN
        UPDATE balance SET held = held - r.amount WHERE balance.account = r.account;
        RETURN;
      END IF;
      INSERT INTO event (id, kind, account, amount, at, key, model, price_input, price_cached_input, price_cache_write,
        price_output, price_request, cap_tokens, idempotency_key, price_search)
      VALUES (r.exchange, 0, r.account, r.amount, now_ms, r.key, r.model, r.price_input, r.price_cached_input,
        r.price_cache_write, r.price_output, r.price_request, r.cap_tokens, r.idempotency_key, r.price_search)
      ON CONFLICT ON CONSTRAINT event_pkey DO NOTHING;
      IF NOT FOUND THEN
        UPDATE balance SET held = held - r.amount WHERE balance.account = r.account;
        UPDATE key_total SET held = held - r.amount, requests = requests - 1 WHERE key_total.key = r.key;
        RETURN;
      END IF;
      RETURN QUERY SELECT room, r.account, r.key, r.model, r.amount;
    ELSIF r.what = 1 THEN
      SELECT event.* INTO h FROM event JOIN balance ON balance.account = event.account
      WHERE event.id = r.exchange AND event.kind = 0;
      IF NOT FOUND OR r.amount > h.amount THEN RETURN; END IF;
      INSERT INTO event (id, kind, account, amount, at, overrun, source, outcome, code, prompt_tokens, cached_tokens,
        cache_write_tokens, completion_tokens, reasoning_tokens, attempts, trail, searches)
      VALUES (r.exchange, 1, h.account, r.amount, now_ms, r.overrun, r.source, r.outcome, r.code, r.prompt_tokens,
        r.cached_tokens, r.cache_write_tokens, r.completion_tokens, r.reasoning_tokens, r.attempts::json, r.trail::json,
        r.searches)
      ON CONFLICT ON CONSTRAINT event_pkey DO NOTHING;
      IF NOT FOUND THEN RETURN; END IF;
      UPDATE balance SET held = held - h.amount, posted = posted - r.amount WHERE balance.account = h.account;
      UPDATE key_total SET held = held - h.amount,
        spent = CASE WHEN spent > 9223372036854775807 - r.amount THEN 9223372036854775807 ELSE spent + r.amount END
      WHERE key_total.key = h.key;
      RETURN QUERY SELECT NULL::BIGINT, h.account, h.key, h.model, h.amount;
    ELSE
      INSERT INTO checkpoint (exchange, seq, amount, prompt_tokens, completion_tokens, at)
      SELECT r.exchange, coalesce((SELECT max(seq) FROM checkpoint WHERE exchange = r.exchange), 0) + 1, r.amount,
        r.prompt_tokens, r.completion_tokens, now_ms
      WHERE EXISTS (SELECT 1 FROM event WHERE id = r.exchange AND kind = 0)
        AND NOT EXISTS (SELECT 1 FROM event WHERE id = r.exchange AND kind = 1);
      RETURN QUERY SELECT NULL::BIGINT, NULL::TEXT, NULL::TEXT, NULL::TEXT, NULL::BIGINT;
    END IF;
  END LOOP;
END $$;
