-- Limits on money (money/budgets.ts). The cap of a key, its budget for life, stays in `key_total`.

CREATE TABLE budget (
  id     TEXT    NOT NULL PRIMARY KEY,
  of     TEXT    NOT NULL CHECK (of IN ('account', 'key', 'tag', 'caller', 'model')),
  name   TEXT    NOT NULL,                              -- the id of the account or of the key
  period TEXT    NOT NULL CHECK (period IN ('life', 'day', 'month')),
  zone   TEXT    NOT NULL CHECK (zone = 'UTC'),
  amount INTEGER NOT NULL CHECK (amount >= 0),
  UNIQUE (of, name, period)
) STRICT, WITHOUT ROWID;

-- The spent and held amounts of holds that began in a period. `amount` is that of the budget; `ceiling` as in `key_total`.
CREATE TABLE budget_use (
  budget       TEXT    NOT NULL REFERENCES budget (id) ON DELETE CASCADE,
  period_start INTEGER NOT NULL,
  amount       INTEGER NOT NULL,
  ceiling      INTEGER NOT NULL,
  held         INTEGER NOT NULL DEFAULT 0 CHECK (held >= 0),
  spent        INTEGER NOT NULL DEFAULT 0 CHECK (spent >= 0),
  PRIMARY KEY (budget, period_start),
  CHECK (spent + held <= ceiling)
) STRICT, WITHOUT ROWID;

-- hold: the ids of the budgets in which it reserves, separated by a space; NULL: none
ALTER TABLE event ADD COLUMN budgets TEXT;
ALTER TABLE correction ADD COLUMN budgets TEXT;

-- A hold keeps its whole price, and a settle the units without a column of their own. The columns price_input to price_search are those
-- of earlier versions; their rows are not changed.

ALTER TABLE event ADD COLUMN price TEXT; -- hold: JSON, a list of rules (money/ledger-fields.ts)
ALTER TABLE event ADD COLUMN units TEXT; -- settle: JSON, counts by unit, and the tier; NULL: none
ALTER TABLE correction ADD COLUMN price TEXT;
ALTER TABLE correction ADD COLUMN units TEXT;

-- A credit below 0 removes credit. SQL cannot change the CHECK of a column, and a copy of the table would need minutes and space for the
-- whole ledger: `allowTakenCredit` in migrate.ts changes its text.
