-- A hold keeps its whole price, and a settle the units without a column of their own. The columns price_input to price_search are those
-- of earlier versions; their rows are not changed. `correction` inherits both.
ALTER TABLE event ADD COLUMN price JSON; -- hold: a list of rules (money/ledger-fields.ts)
ALTER TABLE event ADD COLUMN units JSON; -- settle: counts by unit, and the tier; NULL: none

-- Limits on money (money/budgets.ts). The cap of a key, its budget for life, stays in `key_total`, so replicas of earlier versions
-- enforce it too. They ignore other budgets.
CREATE TABLE budget (
  id     TEXT COLLATE "C" NOT NULL PRIMARY KEY,
  of     TEXT COLLATE "C" NOT NULL CHECK (of IN ('account', 'key', 'tag', 'caller', 'model')),
  name   TEXT COLLATE "C" NOT NULL,                     -- the id of the account or of the key
  period TEXT COLLATE "C" NOT NULL CHECK (period IN ('life', 'day', 'month')),
  zone   TEXT COLLATE "C" NOT NULL CHECK (zone = 'UTC'),
  amount BIGINT NOT NULL CHECK (amount >= 0),
  UNIQUE (of, name, period)
);

-- The spent and held amounts of holds that began in a period. `amount` is that of the budget; `ceiling` as in `key_total`.
CREATE TABLE budget_use (
  budget       TEXT COLLATE "C" NOT NULL REFERENCES budget (id) ON DELETE CASCADE,
  period_start BIGINT NOT NULL,
  amount       BIGINT NOT NULL,
  ceiling      BIGINT NOT NULL,
  held         BIGINT NOT NULL DEFAULT 0 CHECK (held >= 0),
  spent        BIGINT NOT NULL DEFAULT 0 CHECK (spent >= 0),
  PRIMARY KEY (budget, period_start),
  CHECK (spent + held <= ceiling)
) WITH (fillfactor = 50);

-- hold: the ids of the budgets in which it reserves, separated by a space; NULL: none
ALTER TABLE event ADD COLUMN budgets TEXT COLLATE "C";

-- In UTC.
CREATE FUNCTION start_of_period(period TEXT, at BIGINT) RETURNS BIGINT LANGUAGE sql IMMUTABLE AS $$
  SELECT CASE period WHEN 'life' THEN 0 WHEN 'day' THEN at - at % 86400000
    ELSE CAST(extract(epoch FROM date_trunc('month', to_timestamp(at / 1000) AT TIME ZONE 'UTC')) AS BIGINT) * 1000 END
$$;

CREATE FUNCTION settle_budgets(ids TEXT, at BIGINT, was_held BIGINT, charged BIGINT) RETURNS VOID LANGUAGE plpgsql
SET enable_seqscan = off AS $$
BEGIN
  UPDATE budget_use SET held = held - was_held,
    spent = least(CAST(spent AS NUMERIC) + charged, 9223372036854775807)
  FROM budget
  WHERE budget.id = ANY (string_to_array(ids, ' ')) AND budget_use.budget = budget.id
    AND period_start = start_of_period(period, at);
END $$;

-- The amounts that one exchange adds to `usage`. A type of its own, because a later version may add columns to the table while this one
-- serves.
CREATE TYPE counted AS (
  account           TEXT COLLATE "C",
  grain             BIGINT,
  at                BIGINT,
  key               TEXT COLLATE "C",
  model             TEXT COLLATE "C",
  requests          BIGINT,
  failed            BIGINT,
  prompt_tokens     BIGINT,
  cached_tokens     BIGINT,
  completion_tokens BIGINT,
  reasoning_tokens  BIGINT,
  charged           BIGINT
);

-- A group of the ledger's operations in one statement, with an answer for each of them, whatever its result. `write_many` and `write_all`
-- stay for replicas of earlier versions. A line is a row of `event`, in which JSON is a text, or of kind 3: a checkpoint.
--
-- Answers of a hold:   held, account, key or budget (short), frozen, unknown_account; ended (it is settled),
--   other (it has another hold), other_open (which this replica has open)
-- Answers of a settle: settled, already_settled, no_hold; corrected, beyond (its hold), no_account
CREATE FUNCTION write_group(requests JSON, now_ms BIGINT)
RETURNS TABLE (answer TEXT, available BIGINT, on_hold BIGINT, account TEXT, amount BIGINT) LANGUAGE plpgsql
-- A plan that was made while a table was small is kept, so it must also be good for a large table.
SET enable_seqscan = off AS $$
#variable_conflict use_column
DECLARE
  e event;
  h event;
  s event;
  c correction;
  booked BIGINT;
  b budget;
  has_budgets BOOLEAN;
  stops BIGINT;
  one TEXT;
  used counted[] := coalesce(nullif(current_setting('tollgate.used', TRUE), ''), '{}');
BEGIN
  -- In one order, so that concurrent writers cannot deadlock; one by one, so that each is found by the index.
  FOR one IN
    SELECT DISTINCT coalesce(x.account, (SELECT event.account FROM event WHERE event.id = x.id AND event.kind = 0))
      COLLATE "C" AS account
    FROM json_to_recordset(requests) AS x (id TEXT, account TEXT) ORDER BY account
  LOOP
    PERFORM 1 FROM balance WHERE balance.account = one FOR NO KEY UPDATE;
  END LOOP;
  has_budgets := EXISTS (SELECT 1 FROM budget);
  -- Budgets that accounts share. The lock on the balance protects the others.
  IF has_budgets THEN PERFORM 1 FROM budget WHERE of NOT IN ('account', 'key') ORDER BY id FOR NO KEY UPDATE; END IF;
  FOR e IN SELECT * FROM json_populate_recordset(NULL::event, requests) LOOP
    e.at := now_ms;
    e.replica := CAST(nullif(current_setting('tollgate.replica', TRUE), '') AS BIGINT);
    answer := NULL;
    account := NULL;
    amount := NULL;
    on_hold := NULL;
    available := NULL;
    IF e.kind = 0 THEN
      e.price := CAST(e.price #>> '{}' AS JSON);
      UPDATE balance SET held = held + e.amount
      WHERE balance.account = e.account AND posted - held >= e.amount AND frozen = 0
      RETURNING posted - held INTO available;
      IF NOT FOUND THEN answer := 'account';
      ELSE
        INSERT INTO key_total (key, held, requests, last_used_at) VALUES (e.key, e.amount, 1, now_ms)
        ON CONFLICT ON CONSTRAINT key_total_pkey DO UPDATE
        SET held = key_total.held + excluded.held, requests = key_total.requests + 1, last_used_at = excluded.last_used_at
        WHERE key_total.cap IS NULL OR key_total.spent + key_total.held + excluded.held <= key_total.cap;
        IF NOT FOUND THEN answer := 'key';
        ELSE
          IF has_budgets THEN
            FOR b IN
              SELECT * FROM budget WHERE (of, name) IN (('account', e.account), ('key', e.key), ('model', e.model))
              ORDER BY id FOR SHARE
            LOOP
              INSERT INTO budget_use (budget, period_start, amount, ceiling, held)
              SELECT b.id, start_of_period(b.period, now_ms), b.amount, b.amount, e.amount WHERE e.amount <= b.amount
              ON CONFLICT ON CONSTRAINT budget_use_pkey DO UPDATE SET held = budget_use.held + excluded.held
              WHERE budget_use.spent + budget_use.held + excluded.held <= budget_use.amount;
              IF NOT FOUND THEN
                answer := 'budget';
                EXIT;
              END IF;
              e.budgets := concat_ws(' ', e.budgets, b.id);
            END LOOP;
          END IF;
          IF answer IS NULL THEN
            INSERT INTO event SELECT e.* ON CONFLICT ON CONSTRAINT event_pkey DO NOTHING;
            IF FOUND THEN
              answer := 'held';
              RETURN NEXT;
              CONTINUE;
            END IF;
          END IF;
          IF e.budgets IS NOT NULL THEN PERFORM settle_budgets(e.budgets, now_ms, e.amount, 0); END IF;
          UPDATE key_total SET held = held - e.amount, requests = requests - 1 WHERE key_total.key = e.key;
        END IF;
        UPDATE balance SET held = held - e.amount WHERE balance.account = e.account;
      END IF;
      SELECT * INTO h FROM event WHERE id = e.id AND kind = 0;
      IF FOUND THEN
        account := h.account;
        amount := h.amount;
        IF h.account <> e.account OR h.amount <> e.amount THEN
          answer := CASE WHEN h.replica IS DISTINCT FROM e.replica OR EXISTS (
            SELECT 1 FROM event WHERE id = e.id AND kind = 1) THEN 'other' ELSE 'other_open' END;
        ELSIF EXISTS (SELECT 1 FROM event WHERE id = e.id AND kind = 1) THEN answer := 'ended';
        ELSE answer := 'held';
        END IF;
      END IF;
      IF answer = 'key' THEN
        SELECT cap - spent - held, held INTO available, on_hold FROM key_total WHERE key_total.key = e.key;
      ELSIF answer = 'budget' THEN
        account := b.of;
        SELECT sum(budget_use.amount - spent - held), coalesce(sum(held), 0) INTO available, on_hold
        FROM budget_use WHERE budget = b.id AND period_start = start_of_period(b.period, now_ms);
        available := coalesce(available, b.amount);
      ELSE
        SELECT posted - held, held, frozen INTO available, on_hold, stops FROM balance WHERE balance.account = e.account;
        IF NOT FOUND AND answer = 'account' THEN answer := 'unknown_account';
        ELSIF stops <> 0 AND answer = 'account' THEN answer := 'frozen';
        END IF;
      END IF;
    ELSIF e.kind = 1 THEN
      SELECT * INTO h FROM event WHERE id = e.id AND kind = 0;
      account := h.account;
      amount := h.amount;
      IF NOT FOUND THEN answer := 'no_hold';
      ELSIF e.amount > h.amount THEN answer := 'beyond';
      ELSIF NOT EXISTS (SELECT 1 FROM balance WHERE balance.account = h.account) THEN answer := 'no_account';
      ELSE
        e.account := h.account;
        e.attempts := CAST(e.attempts #>> '{}' AS JSON);
        e.trail := CAST(e.trail #>> '{}' AS JSON);
        e.units := CAST(e.units #>> '{}' AS JSON);
        INSERT INTO event SELECT e.* ON CONFLICT ON CONSTRAINT event_pkey DO NOTHING;
        IF FOUND THEN
          answer := 'settled';
          UPDATE balance SET held = held - h.amount, posted = posted - e.amount WHERE balance.account = h.account;
          UPDATE key_total SET held = held - h.amount,
            spent = least(CAST(spent AS NUMERIC) + e.amount, 9223372036854775807)
          WHERE key_total.key = h.key;
          IF h.budgets IS NOT NULL THEN PERFORM settle_budgets(h.budgets, h.at, h.amount, e.amount); END IF;
          used := used || CAST(ROW(h.account, 0, now_ms, h.key, h.model, 1, CASE e.outcome WHEN 'answered' THEN 0 ELSE 1 END,
            e.prompt_tokens, e.cached_tokens, e.completion_tokens, e.reasoning_tokens, e.amount) AS counted);
        ELSE
          answer := 'already_settled';
          SELECT * INTO s FROM ONLY event WHERE id = e.id AND kind = 1 AND source = 'recovered' AND e.source <> 'recovered'
            AND NOT EXISTS (SELECT 1 FROM correction WHERE correction.id = e.id);
          IF FOUND THEN
            -- As corrections.ts does.
            answer := 'corrected';
            PERFORM 1 FROM key_total WHERE key_total.key = h.key FOR NO KEY UPDATE;
            PERFORM 1 FROM budget WHERE id = ANY (string_to_array(h.budgets, ' ')) ORDER BY id FOR SHARE;
            booked := least(e.amount - s.amount,
              (SELECT posted - held FROM balance WHERE balance.account = h.account),
              (SELECT greatest(cap - spent - held, 0) FROM key_total WHERE key_total.key = h.key AND cap IS NOT NULL),
              (SELECT min(greatest(budget_use.amount - spent - held, 0)) FROM budget_use JOIN budget ON budget.id = budget
                WHERE budget.id = ANY (string_to_array(h.budgets, ' ')) AND period_start = start_of_period(period, h.at)));
            used := used || CAST(ROW(h.account, 0, s.at, h.key, h.model, 0, CASE e.outcome WHEN 'answered' THEN 0 ELSE 1 END
              - CASE s.outcome WHEN 'answered' THEN 0 ELSE 1 END, e.prompt_tokens - s.prompt_tokens,
              e.cached_tokens - s.cached_tokens, e.completion_tokens - s.completion_tokens,
              e.reasoning_tokens - s.reasoning_tokens, booked) AS counted);
            e.overrun := e.overrun + e.amount - s.amount - booked;
            e.amount := booked;
            e.key := h.key;
            e.model := h.model;
            s.attempts := e.attempts;
            s.trail := e.trail;
            e.attempts := NULL;
            e.trail := NULL;
            c := json_populate_record(NULL::correction, to_json(e));
            c.attempts := s.attempts;
            c.trail := s.trail;
            c.settled_at := s.at;
            INSERT INTO correction SELECT c.*;
            UPDATE balance SET posted = posted - booked WHERE balance.account = h.account;
            UPDATE key_total SET spent = least(CAST(spent AS NUMERIC) + booked, 9223372036854775807)
            WHERE key_total.key = h.key;
            IF h.budgets IS NOT NULL THEN PERFORM settle_budgets(h.budgets, h.at, 0, booked); END IF;
          END IF;
        END IF;
      END IF;
    ELSE
      answer := 'written';
      INSERT INTO checkpoint (exchange, seq, amount, prompt_tokens, completion_tokens, at)
      SELECT e.id, coalesce((SELECT max(seq) FROM checkpoint WHERE exchange = e.id), 0) + 1, e.amount, e.prompt_tokens,
        e.completion_tokens, now_ms
      WHERE EXISTS (SELECT 1 FROM event WHERE id = e.id AND kind = 0)
        AND NOT EXISTS (SELECT 1 FROM event WHERE id = e.id AND kind = 1);
    END IF;
    RETURN NEXT;
  END LOOP;
  PERFORM set_config('tollgate.used', CAST(used AS TEXT), TRUE);
END $$;

-- Adds the usage of the settles of this transaction, like usage.ts. It is the last statement before COMMIT: all replicas update the rows
-- of all accounts together, in one order.
CREATE FUNCTION add_usage() RETURNS VOID LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO usage AS had (account, grain, at, key, model, requests, failed, prompt_tokens, cached_tokens,
    completion_tokens, reasoning_tokens, charged)
  SELECT coalesce(one.account, ''), step.grain, one.at - one.at % step.ms, coalesce(one.key, ''), one.model, sum(requests),
    sum(failed), sum(prompt_tokens), sum(cached_tokens), sum(completion_tokens), sum(reasoning_tokens),
    least(sum(charged), 9223372036854775807)
  FROM unnest(CAST(nullif(current_setting('tollgate.used', TRUE), '') AS counted[])) AS one
    CROSS JOIN (VALUES (0, 3600000), (1, 86400000)) AS step (grain, ms)
  GROUP BY GROUPING SETS ((2, 3, one.account, one.key, 5), (2, 3, 5))
  ORDER BY 2, 3, 1, 4, 5
  ON CONFLICT (account, grain, at, key, model) DO UPDATE SET requests = had.requests + excluded.requests,
    failed = had.failed + excluded.failed, prompt_tokens = had.prompt_tokens + excluded.prompt_tokens,
    cached_tokens = had.cached_tokens + excluded.cached_tokens,
    completion_tokens = had.completion_tokens + excluded.completion_tokens,
    reasoning_tokens = had.reasoning_tokens + excluded.reasoning_tokens,
    charged = least(CAST(had.charged AS NUMERIC) + excluded.charged, 9223372036854775807);
END $$;

-- A credit below 0 removes credit. Replicas of earlier versions show it, but their `verify` calls it corrupt. Existing rows were checked
-- when they were written, so nothing is read here.
ALTER TABLE event DROP CONSTRAINT event_amount_check;
ALTER TABLE event ADD CONSTRAINT event_amount_check CHECK (amount >= 0 OR kind = 2) NO INHERIT NOT VALID;
