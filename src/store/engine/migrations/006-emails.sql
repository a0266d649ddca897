-- By what addresses are compared (email.ts), which SQLite cannot work out: migrate.ts fills it in, in the same transaction.
-- Not unique: two who were told apart before stay two, each by the address as it is written.

ALTER TABLE person ADD COLUMN folded TEXT NOT NULL DEFAULT '';
CREATE INDEX person_by_folded ON person (folded);
