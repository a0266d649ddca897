-- Web searches by a provider: the price of one, copied into the hold, and their number.

ALTER TABLE event ADD COLUMN price_search INTEGER; -- hold: nano-dollars per search; NULL: no more than its tokens
ALTER TABLE event ADD COLUMN searches     INTEGER; -- settle; NULL: none
