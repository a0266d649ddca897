-- Budgets (money/budgets.ts). Those of an account or a key are in its row; those of plans and policies are in files. A hold has its list
-- of budgets, so the ledger keeps only held and spent amounts. No earlier command could create a budget, so no rows are lost.

DROP TABLE budget_use;
DROP TABLE budget;

ALTER TABLE account ADD COLUMN budgets TEXT;      -- JSON, a list; NULL: none
ALTER TABLE key ADD COLUMN budgets TEXT;

-- The spent and held amounts of holds that began in a period. `amount` is the limit of the last hold that had room.
CREATE TABLE budget_period (
  account      TEXT    NOT NULL REFERENCES account (id),
  budget       TEXT    NOT NULL,                  -- where it is written, its period, and whom it limits
  period_start INTEGER NOT NULL,
  period_end   INTEGER,                           -- NULL: it has no end
  amount       INTEGER NOT NULL,
  held         INTEGER NOT NULL DEFAULT 0 CHECK (held >= 0),
  spent        INTEGER NOT NULL DEFAULT 0 CHECK (spent >= 0),
  marked       INTEGER NOT NULL DEFAULT 0,        -- the highest mark of which there is an alert, in percent
  PRIMARY KEY (account, budget, period_start),
  CHECK (spent + held <= amount)
) STRICT, WITHOUT ROWID;

-- hold: `budgets` is JSON from here on (money/budgets.ts), and `tags` an object of texts; NULL: none
ALTER TABLE event ADD COLUMN tags TEXT;
ALTER TABLE correction ADD COLUMN tags TEXT;

-- Alerts for operators. The id identifies the event, so that each event has one alert.
CREATE TABLE alert (
  id      TEXT    NOT NULL PRIMARY KEY,
  kind    TEXT    NOT NULL,
  at      INTEGER NOT NULL,
  account TEXT,                                   -- NULL: it is about the gateway
  data    TEXT    NOT NULL                        -- JSON
) STRICT, WITHOUT ROWID;

CREATE INDEX alert_by_time ON alert (at, id);

CREATE INDEX alert_of_account ON alert (account, at, id) WHERE account IS NOT NULL;

-- The receivers of alerts (`alerts.webhooks`), by name. Alerts from before `since` are not sent; those until `upto` have their
-- deliveries.
CREATE TABLE alert_receiver (
  name  TEXT    NOT NULL PRIMARY KEY,
  since INTEGER NOT NULL,
  upto  INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- The delivery of an alert to one receiver. While a replica sends it, `next_at` is the end of that replica's lease.
CREATE TABLE alert_delivery (
  alert        TEXT    NOT NULL REFERENCES alert (id) ON DELETE CASCADE,
  receiver     TEXT    NOT NULL REFERENCES alert_receiver (name),
  attempts     INTEGER NOT NULL DEFAULT 0,
  next_at      INTEGER NOT NULL,
  delivered_at INTEGER,
  given_up_at  INTEGER,
  failure      TEXT,                              -- of the last attempt
  PRIMARY KEY (alert, receiver)
) STRICT, WITHOUT ROWID;

CREATE INDEX alert_delivery_due ON alert_delivery (receiver, next_at) WHERE delivered_at IS NULL AND given_up_at IS NULL;

-- Accounts whose credit is below `alerts.low_balance`. Each has its alert, and gets the next one after its credit was above the limit.
CREATE TABLE low_account (
  account TEXT NOT NULL PRIMARY KEY REFERENCES account (id)
) STRICT, WITHOUT ROWID;

-- Finds current periods without reading ended ones.
CREATE INDEX budget_period_by_end ON budget_period (account, coalesce(period_end, 9223372036854775807));
