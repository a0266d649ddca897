-- Each part of a kept response has its own box, because most reads need one part: the input may repeat a whole conversation. Existing
-- responses cannot be split. They are deleted; they would be kept for hours at most.

DELETE FROM response;
DROP TABLE response_box;

CREATE TABLE response_box (
  response TEXT NOT NULL REFERENCES response (id) ON DELETE CASCADE,
  part     TEXT NOT NULL,
  box      BLOB NOT NULL,
  UNIQUE (response, part)
) STRICT;
