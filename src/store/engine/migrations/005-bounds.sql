-- Finds live rows without reading dead ones: dead keys and secrets are kept for ever.

CREATE INDEX key_alive ON key (account, expires_at) WHERE revoked_at IS NULL;
CREATE INDEX secret_alive ON secret (key, expires_at) WHERE revoked_at IS NULL;

-- The newest sessions of a person, to end the others; and the links and tokens of a maker, to end them with the maker.
DROP INDEX session_by_person;
CREATE INDEX session_by_person ON session (person, created_at);
CREATE INDEX operator_token_by_maker ON operator_token (created_by) WHERE revoked_at IS NULL;
