-- State that replicas share: the view that each one publishes, and the number of tries to sign in or register.

CREATE TABLE replica_view (
  replica BIGINT NOT NULL PRIMARY KEY REFERENCES replica (id) ON DELETE CASCADE,
  view    TEXT NOT NULL
);

-- One row for each subject of a limit (src/store/people/tries.ts). A row has no meaning after `until`.
CREATE TABLE try_count (
  limit_name TEXT COLLATE "C" NOT NULL,
  subject    BYTEA NOT NULL,                   -- keyed digest: an address, an e-mail address, a browser, a session
  state      TEXT NOT NULL,                    -- JSON
  until      BIGINT NOT NULL,
  PRIMARY KEY (limit_name, subject)
);

CREATE INDEX try_count_by_until ON try_count (until);
