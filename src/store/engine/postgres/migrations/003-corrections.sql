-- Late settles: recovery had settled the exchange without its usage. Append-only, one row for an exchange. A correction is another event
-- of kind 1, in a child table of `event`, so that the key of `event` stays and replicas of earlier versions continue to work. Queries for
-- events without corrections use ONLY.

-- A correction may give money back. Existing rows were checked when they were written, so nothing is read here.
ALTER TABLE event DROP CONSTRAINT event_amount_check;
ALTER TABLE event ADD CONSTRAINT event_amount_check CHECK (amount >= 0) NO INHERIT NOT VALID;

CREATE TABLE correction (
  settled_at BIGINT NOT NULL,                                -- `at` of the settle: usage counts the exchange there
  PRIMARY KEY (id),
  CHECK (kind = 1 AND overrun >= 0)
) INHERITS (event);

CREATE TRIGGER correction_is_never_changed BEFORE UPDATE OR DELETE ON correction
FOR EACH ROW EXECUTE FUNCTION refuse_change();

CREATE INDEX correction_by_account ON correction (account, at, id);
