-- Budgets (money/budgets.ts). Those of an account or a key are in its row; those of plans and policies are in files. A hold has its list
-- of budgets, so the ledger keeps only held and spent amounts. No earlier command could create a budget, so no rows are lost.

ALTER TABLE account ADD COLUMN budgets TEXT;        -- JSON, a list; NULL: none
ALTER TABLE key ADD COLUMN budgets TEXT;

-- hold: `budgets` is JSON from here on (money/budgets.ts), and `tags` an object of texts; NULL: none. `correction` inherits it.
ALTER TABLE event ADD COLUMN tags JSON;

-- Alerts for operators. The id identifies the event, so that each event has one alert.
CREATE TABLE alert (
  id      TEXT COLLATE "C" NOT NULL PRIMARY KEY,
  kind    TEXT COLLATE "C" NOT NULL,
  at      BIGINT NOT NULL,
  account TEXT COLLATE "C",                         -- NULL: it is about the gateway
  data    JSON NOT NULL
);

CREATE INDEX alert_by_time ON alert (at, id);

DROP FUNCTION settle_budgets(TEXT, BIGINT, BIGINT, BIGINT);
DROP FUNCTION start_of_period(TEXT, BIGINT);
DROP TABLE budget_use;
DROP TABLE budget;

-- The spent and held amounts of holds that began in a period. `amount` is the limit of the last hold that had room.
CREATE TABLE budget_period (
  account      TEXT COLLATE "C" NOT NULL REFERENCES account (id),
  budget       TEXT COLLATE "C" NOT NULL,           -- where it is written, its period, and whom it limits
  period_start BIGINT NOT NULL,
  period_end   BIGINT,                              -- NULL: it has no end
  amount       BIGINT NOT NULL,
  held         BIGINT NOT NULL DEFAULT 0 CHECK (held >= 0),
  spent        BIGINT NOT NULL DEFAULT 0 CHECK (spent >= 0),
  marked       INTEGER NOT NULL DEFAULT 0,          -- the highest mark of which there is an alert, in percent
  PRIMARY KEY (account, budget, period_start),
  CHECK (spent + held <= amount)
) WITH (fillfactor = 50);

-- A budget of a hold: [name, start of the period, its end, amount, marks in percent, lowest first].

-- The highest mark that an amount has reached; 0: none.
CREATE FUNCTION mark_of(marks JSONB, limited_to BIGINT, has_spent BIGINT) RETURNS INTEGER LANGUAGE sql IMMUTABLE AS $$
  SELECT coalesce(max(CAST(mark AS INTEGER)), 0) FROM jsonb_array_elements_text(marks) AS listed (mark)
  WHERE limited_to > 0 AND CAST(has_spent AS NUMERIC) * 100 >= CAST(limited_to AS NUMERIC) * CAST(mark AS INTEGER)
$$;

-- Called by `write_group`, which forbids scans. After a change of the limit, marks that are no longer reached may cause an alert again.
CREATE FUNCTION reserve_in_budgets(of_account TEXT, budgets JSONB, more BIGINT, has_changed BOOLEAN) RETURNS VOID LANGUAGE plpgsql AS $$
BEGIN
  IF has_changed THEN
    UPDATE budget_period AS had SET marked = least(marked, mark_of(one -> 4, CAST(one ->> 3 AS BIGINT), spent))
    FROM jsonb_array_elements(budgets) AS listed (one)
    WHERE had.account = of_account AND had.budget = one ->> 0 AND had.period_start = CAST(one ->> 1 AS BIGINT)
      AND had.amount <> CAST(one ->> 3 AS BIGINT);
  END IF;
  INSERT INTO budget_period AS had (account, budget, period_start, period_end, amount, held)
  SELECT of_account, one ->> 0, CAST(one ->> 1 AS BIGINT), CAST(one ->> 2 AS BIGINT), CAST(one ->> 3 AS BIGINT), more
  FROM jsonb_array_elements(budgets) AS listed (one)
  ON CONFLICT ON CONSTRAINT budget_period_pkey DO UPDATE SET held = had.held + more, amount = excluded.amount;
END $$;

-- Writes an alert for each mark in a range that has none in its period.
CREATE FUNCTION mark_budget(of_account TEXT, b JSONB, limited_to BIGINT, above INTEGER, upto INTEGER, has_spent BIGINT, now_ms BIGINT)
RETURNS VOID LANGUAGE plpgsql AS $$
DECLARE
  before INTEGER;
BEGIN
  SELECT marked INTO before FROM budget_period
  WHERE account = of_account AND budget = b ->> 0 AND period_start = CAST(b ->> 1 AS BIGINT);
  IF NOT FOUND OR before >= upto THEN RETURN; END IF;
  INSERT INTO alert (id, kind, at, account, data)
  SELECT concat_ws(' ', 'budget', of_account, b ->> 0, b ->> 1, mark, limited_to), 'budget', now_ms, of_account,
    json_build_object('budget', b ->> 0, 'start', b -> 1, 'end', b -> 2, 'amount', CAST(limited_to AS TEXT),
      'spent', CAST(has_spent AS TEXT), 'mark', CAST(mark AS INTEGER))
  FROM jsonb_array_elements_text(b -> 4) AS listed (mark)
  WHERE CAST(mark AS INTEGER) > greatest(before, above) AND CAST(mark AS INTEGER) <= upto
  ON CONFLICT DO NOTHING;
  -- `marked` applies to the limit in the row. A refused hold may have another limit; then `marked` stays.
  UPDATE budget_period SET marked = upto
  WHERE account = of_account AND budget = b ->> 0 AND period_start = CAST(b ->> 1 AS BIGINT) AND amount = limited_to;
END $$;

CREATE FUNCTION settle_budgets(of_account TEXT, budgets JSONB, was_held BIGINT, charged BIGINT, now_ms BIGINT) RETURNS VOID
LANGUAGE plpgsql AS $$
DECLARE
  b JSONB;
  limited_to BIGINT;
  has_spent BIGINT;
  reached INTEGER;
  before INTEGER;
BEGIN
  FOR b, limited_to, has_spent, reached, before IN
    UPDATE budget_period AS had SET held = held - was_held,
      spent = least(CAST(spent AS NUMERIC) + charged, 9223372036854775807)
    FROM jsonb_array_elements(budgets) AS listed (one)
    WHERE had.account = of_account AND had.budget = one ->> 0 AND had.period_start = CAST(one ->> 1 AS BIGINT)
    -- The limit may have changed since the hold.
    RETURNING one, amount, spent,
      -- Below the lowest mark nothing is reached, and most charges are there.
      CASE WHEN marked < 100 AND CAST(spent AS NUMERIC) * 100 >= CAST(amount AS NUMERIC) * CAST(one -> 4 ->> 0 AS INTEGER)
        THEN mark_of(one -> 4, amount, spent) ELSE 0 END, marked
  LOOP
    IF reached > before THEN PERFORM mark_budget(of_account, b, limited_to, 0, reached, has_spent, now_ms); END IF;
  END LOOP;
END $$;

-- Like 004-money.sql, with the budgets of a hold. Replicas of the previous version send none, and continue to work.
--
-- Answers of a hold:   held, account, key or budget (short; `account` is its place in the list), frozen, unknown_account; ended (it is settled),
--   other (it has another hold), other_open (which this replica has open)
-- Answers of a settle: settled, already_settled, no_hold; corrected, beyond (its hold), no_account
CREATE OR REPLACE FUNCTION write_group(requests JSON, now_ms BIGINT)
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
  budgets JSONB;
  b JSONB;
  place_of_short BIGINT;
  has_changed BOOLEAN;
  stops BIGINT;
  limit_of_short BIGINT;
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
      e.tags := CAST(e.tags #>> '{}' AS JSON);
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
          -- The lock on the balance also protects all budgets of the account.
          budgets := CAST(e.budgets AS JSONB);
          IF budgets IS NOT NULL THEN
            SELECT min(place) FILTER (WHERE coalesce(CAST(spent AS NUMERIC) + held, 0) + e.amount > limited_to),
              bool_or(had.amount <> limited_to AND marked > 0)
            INTO place_of_short, has_changed
            FROM jsonb_array_elements(budgets) WITH ORDINALITY AS listed (one, place)
              CROSS JOIN LATERAL CAST(one ->> 3 AS BIGINT) AS limited_to
              LEFT JOIN budget_period AS had ON had.account = e.account AND had.budget = one ->> 0
                AND had.period_start = CAST(one ->> 1 AS BIGINT);
            IF place_of_short IS NOT NULL THEN
              answer := 'budget';
              b := budgets -> CAST(place_of_short - 1 AS INTEGER);
            END IF;
          END IF;
          IF answer IS NULL THEN
            INSERT INTO event SELECT e.* ON CONFLICT ON CONSTRAINT event_pkey DO NOTHING;
            IF FOUND THEN
              IF budgets IS NOT NULL THEN PERFORM reserve_in_budgets(e.account, budgets, e.amount, has_changed); END IF;
              answer := 'held';
              RETURN NEXT;
              CONTINUE;
            END IF;
          END IF;
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
        account := CAST(place_of_short - 1 AS TEXT);
        SELECT spent, held INTO booked, on_hold FROM budget_period AS had
        WHERE had.account = e.account AND had.budget = b ->> 0 AND had.period_start = CAST(b ->> 1 AS BIGINT);
        on_hold := coalesce(on_hold, 0);
        booked := coalesce(booked, 0);
        limit_of_short := CAST(b ->> 3 AS BIGINT);
        available := limit_of_short - booked - on_hold;
        -- The hold has no room even without the other holds. Below 80% spent, the hold is large rather than the budget used up.
        IF available + on_hold < e.amount AND CAST(booked AS NUMERIC) * 100 >= CAST(limit_of_short AS NUMERIC) * 80 THEN
          PERFORM mark_budget(e.account, b, limit_of_short, 99, 100, booked, now_ms);
        END IF;
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
          IF h.budgets LIKE '[%' THEN PERFORM settle_budgets(h.account, CAST(h.budgets AS JSONB), h.amount, e.amount, now_ms); END IF;
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
            booked := least(e.amount - s.amount,
              (SELECT posted - held FROM balance WHERE balance.account = h.account),
              (SELECT greatest(cap - spent - held, 0) FROM key_total WHERE key_total.key = h.key AND cap IS NOT NULL),
              (SELECT min(greatest(had.amount - spent - held, 0))
                FROM jsonb_array_elements(CASE WHEN h.budgets LIKE '[%' THEN CAST(h.budgets AS JSONB) END) AS listed (one_budget)
                  JOIN budget_period AS had ON had.account = h.account AND had.budget = one_budget ->> 0
                    AND had.period_start = CAST(one_budget ->> 1 AS BIGINT)));
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
            IF h.budgets LIKE '[%' THEN PERFORM settle_budgets(h.account, CAST(h.budgets AS JSONB), 0, booked, now_ms); END IF;
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

CREATE INDEX alert_of_account ON alert (account, at, id) WHERE account IS NOT NULL;

-- The receivers of alerts (`alerts.webhooks`), by name. Alerts from before `since` are not sent; those until `upto` have their
-- deliveries.
CREATE TABLE alert_receiver (
  name  TEXT COLLATE "C" NOT NULL PRIMARY KEY,
  since BIGINT NOT NULL,
  upto  BIGINT NOT NULL
);

-- The delivery of an alert to one receiver. While a replica sends it, `next_at` is the end of that replica's lease.
CREATE TABLE alert_delivery (
  alert        TEXT COLLATE "C" NOT NULL REFERENCES alert (id) ON DELETE CASCADE,
  receiver     TEXT COLLATE "C" NOT NULL REFERENCES alert_receiver (name),
  attempts     INTEGER NOT NULL DEFAULT 0,
  next_at      BIGINT NOT NULL,
  delivered_at BIGINT,
  given_up_at  BIGINT,
  failure      TEXT,                                -- of the last attempt
  PRIMARY KEY (alert, receiver)
);

CREATE INDEX alert_delivery_due ON alert_delivery (receiver, next_at) WHERE delivered_at IS NULL AND given_up_at IS NULL;

-- Accounts whose credit is below `alerts.low_balance`. Each has its alert, and gets the next one after its credit was above the limit.
CREATE TABLE low_account (
  account TEXT COLLATE "C" NOT NULL PRIMARY KEY REFERENCES account (id)
);

-- Finds current periods without reading ended ones.
CREATE INDEX budget_period_by_end ON budget_period (account, coalesce(period_end, 9223372036854775807));
