-- Each part of a kept response has its own box, because most readers want one part: the input may repeat a whole conversation.
-- What was kept before cannot be cut into parts, and was kept for hours at most: it goes.

DELETE FROM response;
DROP TABLE response_box;

CREATE TABLE response_box (
  response TEXT NOT NULL REFERENCES response (id) ON DELETE CASCADE,
  part     TEXT NOT NULL,
  box      BLOB NOT NULL,
  UNIQUE (response, part)
) STRICT;
