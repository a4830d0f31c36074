-- Times are Unix seconds; reason is the CRLReason of RFC 5280.
CREATE TABLE revoked (
  serial TEXT PRIMARY KEY,
  revoked_at INTEGER NOT NULL,
  reason INTEGER NOT NULL,
  not_after INTEGER NOT NULL
) WITHOUT ROWID;

-- Number of the last CRL.
CREATE TABLE number (
  one INTEGER PRIMARY KEY CHECK (one = 1),
  value INTEGER NOT NULL
);
