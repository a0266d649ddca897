-- Searches of the web that a provider makes: what one costs, copied into the hold, and how many there were.

ALTER TABLE event ADD COLUMN price_search INTEGER; -- hold: nano-dollars per search; NULL: no more than its tokens
ALTER TABLE event ADD COLUMN searches     INTEGER; -- settle; NULL: none
