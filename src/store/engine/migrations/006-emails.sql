-- The folded address, by which addresses are compared (email.ts). SQLite cannot compute it: migrate.ts fills it in, in the same
-- transaction. Not unique: two addresses that were different before folding stay two.

ALTER TABLE person ADD COLUMN folded TEXT NOT NULL DEFAULT '';
CREATE INDEX person_by_folded ON person (folded);
