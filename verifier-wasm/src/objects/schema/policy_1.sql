-- The one document in force, as JSON.
CREATE TABLE policy (
  one INTEGER PRIMARY KEY CHECK (one = 1),
  version INTEGER NOT NULL,
  etag TEXT NOT NULL,
  document TEXT NOT NULL
);

-- Every tenant that a policy ever named.
CREATE TABLE tenants (id TEXT PRIMARY KEY) WITHOUT ROWID;

CREATE TABLE audit (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  event TEXT NOT NULL
);
