-- A hold keeps its whole price, and a settle the units that have no column of their own. The columns price_input to price_search
-- are those of earlier versions; none of their rows is changed.

ALTER TABLE event ADD COLUMN price TEXT; -- hold: JSON, a list of rules (money/ledger-fields.ts)
ALTER TABLE event ADD COLUMN units TEXT; -- settle: JSON, counts by unit, and the tier; NULL: none
ALTER TABLE correction ADD COLUMN price TEXT;
ALTER TABLE correction ADD COLUMN units TEXT;
