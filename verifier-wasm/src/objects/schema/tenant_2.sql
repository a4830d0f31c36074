-- Events are numbered after the last one, which stays.
CREATE TABLE audit_next (
  id INTEGER PRIMARY KEY,
  time INTEGER NOT NULL,
  event TEXT NOT NULL
);

INSERT INTO audit_next (id, time, event) SELECT id, time, event FROM audit ORDER BY id;

DROP TABLE audit;

ALTER TABLE audit_next RENAME TO audit;
