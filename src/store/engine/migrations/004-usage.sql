-- Usage, summed up as it is written, so that no page has to read the ledger; and indexes for lists of the ledger.

-- One row for each span of time in which an account's key used a model. Rows of the account '' have the key '': all accounts together.
-- Written in the transaction of the settle.
CREATE TABLE usage (
  account           TEXT    NOT NULL,
  grain             INTEGER NOT NULL CHECK (grain IN (0, 1)), -- 0 hour, 1 day
  at                INTEGER NOT NULL,                         -- start of the span in UTC
  key               TEXT    NOT NULL,
  model             TEXT    NOT NULL,
  requests          INTEGER NOT NULL,
  failed            INTEGER NOT NULL,                         -- of them, those that were not answered
  prompt_tokens     INTEGER NOT NULL,
  cached_tokens     INTEGER NOT NULL,
  completion_tokens INTEGER NOT NULL,
  reasoning_tokens  INTEGER NOT NULL,
  charged           INTEGER NOT NULL,
  PRIMARY KEY (account, grain, at, key, model)
) STRICT, WITHOUT ROWID;

-- What each key has spent and holds, and its limit. `ceiling` is the cap, or the spent and held amount if a lower cap was set: nothing is
-- held beyond it. The CHECK is the last defence, like that of `balance`.
CREATE TABLE key_total (
  key          TEXT    NOT NULL PRIMARY KEY,
  cap          INTEGER CHECK (cap >= 0),          -- NULL: none
  ceiling      INTEGER,
  held         INTEGER NOT NULL DEFAULT 0 CHECK (held >= 0),
  spent        INTEGER NOT NULL DEFAULT 0 CHECK (spent >= 0),
  requests     INTEGER NOT NULL DEFAULT 0,
  last_used_at INTEGER,
  CHECK (spent + held <= ceiling)
) STRICT, WITHOUT ROWID;

-- From the existing events. Money is added up in halves of 32 bits, and stays at the largest integer if the sum would overflow, like the
-- writer's sums: sum() would fail, and the store could not be opened any more.
WITH settled AS (
  SELECT settle.account, settle.at, coalesce(hold.key, '') AS key, coalesce(hold.model, '') AS model, settle.outcome,
    settle.prompt_tokens, settle.cached_tokens, settle.completion_tokens, settle.reasoning_tokens, settle.amount
  FROM event AS settle JOIN event AS hold ON hold.id = settle.id AND hold.kind = 0
  WHERE settle.kind = 1
), grains (grain, span) AS (VALUES (0, 3600000), (1, 86400000))
INSERT INTO usage
SELECT account, grain, at - at % span, key, model, count(*), sum(outcome <> 'answered'), sum(prompt_tokens),
  sum(cached_tokens), sum(completion_tokens), sum(reasoning_tokens),
  CASE WHEN sum(amount >> 32) + (sum(amount & 0xffffffff) >> 32) > 0x7fffffff THEN 9223372036854775807
    ELSE (sum(amount >> 32) << 32) + sum(amount & 0xffffffff) END
FROM settled, grains
GROUP BY 1, 2, 3, 4, 5;

INSERT INTO usage
SELECT '', grain, at, '', model, sum(requests), sum(failed), sum(prompt_tokens), sum(cached_tokens),
  sum(completion_tokens), sum(reasoning_tokens),
  CASE WHEN sum(charged >> 32) + (sum(charged & 0xffffffff) >> 32) > 0x7fffffff THEN 9223372036854775807
    ELSE (sum(charged >> 32) << 32) + sum(charged & 0xffffffff) END
FROM usage
GROUP BY 2, 3, 5;

INSERT INTO key_total (key, held, spent, requests, last_used_at)
SELECT hold.key, sum(CASE WHEN settle.id IS NULL THEN hold.amount ELSE 0 END),
  coalesce(CASE WHEN sum(settle.amount >> 32) + (sum(settle.amount & 0xffffffff) >> 32) > 0x7fffffff THEN 9223372036854775807
    ELSE (sum(settle.amount >> 32) << 32) + sum(settle.amount & 0xffffffff) END, 0),
  count(*), max(hold.at)
FROM event AS hold LEFT JOIN event AS settle ON settle.id = hold.id AND settle.kind = 1
WHERE hold.kind = 0 AND hold.key IS NOT NULL
GROUP BY 1;

-- Entries and receipts, newest first. Credits have an index of their own, because they are rare.
CREATE INDEX event_by_account ON event (account, at, id) WHERE kind <> 0;
CREATE INDEX credit_by_account ON event (account, at, id) WHERE kind = 2;
