-- Credit can be taken back: a credit whose amount is below 0. Replicas of earlier versions read it as they read every credit. The rows
-- that are there were checked when they came, so nothing is read here.
ALTER TABLE event DROP CONSTRAINT event_amount_check;
ALTER TABLE event ADD CONSTRAINT event_amount_check CHECK (amount >= 0 OR kind = 2) NO INHERIT NOT VALID;
