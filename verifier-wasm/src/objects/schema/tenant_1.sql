-- Times are Unix seconds. Hashes, serials and ids are text as on the wire. Flags are 0 or 1.

CREATE TABLE tokens (
  id TEXT PRIMARY KEY,
  secret_sha256 TEXT NOT NULL,
  description TEXT,
  created_at INTEGER NOT NULL,
  expires_at INTEGER NOT NULL,
  max_uses INTEGER NOT NULL,
  uses INTEGER NOT NULL,
  revoked INTEGER NOT NULL
) WITHOUT ROWID;

-- principal: JSON; mode and instance are taken out of it for the index.
CREATE TABLE runners (
  id TEXT PRIMARY KEY,
  mode TEXT NOT NULL,
  instance TEXT NOT NULL,
  principal TEXT NOT NULL,
  attested_at INTEGER NOT NULL,
  last_seen INTEGER NOT NULL,
  current_serial TEXT,
  current_spki TEXT,
  next_serial TEXT,
  next_spki TEXT,
  not_after INTEGER NOT NULL,
  live_until INTEGER NOT NULL,
  ends_at INTEGER NOT NULL,
  suspect INTEGER NOT NULL,
  evicted INTEGER NOT NULL
) WITHOUT ROWID;

CREATE INDEX runners_by_instance ON runners (instance, live_until);

CREATE TABLE keys (
  spki_sha256 TEXT NOT NULL,
  runner_id TEXT NOT NULL,
  kept_until INTEGER NOT NULL,
  PRIMARY KEY (spki_sha256, runner_id)
) WITHOUT ROWID;

CREATE INDEX keys_by_end ON keys (kept_until);

CREATE TABLE serials (
  runner_id TEXT NOT NULL,
  serial TEXT NOT NULL,
  spki_sha256 TEXT NOT NULL,
  parent TEXT,
  allotted_at INTEGER NOT NULL,
  not_before INTEGER NOT NULL,
  not_after INTEGER NOT NULL,
  reattest_before INTEGER,
  revoked INTEGER NOT NULL,
  PRIMARY KEY (runner_id, serial)
) WITHOUT ROWID;

CREATE INDEX serials_by_end ON serials (not_after);

CREATE TABLE evidence (
  digest TEXT PRIMARY KEY,
  spki_sha256 TEXT NOT NULL,
  runner_id TEXT,
  serial TEXT,
  kept_until INTEGER NOT NULL,
  void INTEGER NOT NULL
) WITHOUT ROWID;

CREATE INDEX evidence_by_end ON evidence (kept_until);

CREATE TABLE bans (
  scope TEXT NOT NULL,
  mode TEXT NOT NULL,
  subject TEXT NOT NULL,
  reason TEXT,
  since INTEGER NOT NULL,
  PRIMARY KEY (scope, mode, subject)
) WITHOUT ROWID;

-- event: JSON of the protocol's audit item, without its id.
CREATE TABLE audit (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  time INTEGER NOT NULL,
  event TEXT NOT NULL
);

CREATE TABLE outbox (
  seq INTEGER PRIMARY KEY AUTOINCREMENT,
  serial TEXT NOT NULL,
  revoked_at INTEGER NOT NULL,
  reason INTEGER NOT NULL,
  not_after INTEGER NOT NULL
);
