//! The statements of a tenant's storage, each a constant, and its rows in domain terms.
//!
//! SQLite prepares a statement once by its text. Those on the way of an enrolment or a renewal are few on purpose: each costs a crossing of
//! the JS border, and each row and index entry written is billed (docs/performance.md, Cost).

use protocol::admin::AuditItem;
use verifier::UnixTime;
use verifier::registry::store::{
    AllottedSerial, EvidenceRecord, OutboxItem, Presented, Runner, Slot, Standing, Stored, Token,
};
use verifier::registry::{Revocation, RevocationReason, StoreError};

use super::sql::{Row, unreadable};

macro_rules! token_columns {
    () => {
        "id, secret_sha256, description, created_at, expires_at, max_uses, uses, revoked"
    };
}

pub const TOKEN: &str = concat!("SELECT ", token_columns!(), " FROM tokens WHERE id = ?");
pub const TOKENS: &str = concat!("SELECT ", token_columns!(), " FROM tokens WHERE id > ? ORDER BY id LIMIT ?");
/// Of a token only uses and revocation change.
pub const PUT_TOKEN: &str = concat!(
    "INSERT INTO tokens (",
    token_columns!(),
    ") VALUES (?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (id) DO UPDATE SET uses = excluded.uses, revoked = excluded.revoked"
);

macro_rules! runner_columns {
    () => {
        "r.id, r.principal, r.attested_at, r.last_seen, r.current_serial, r.current_spki, r.next_serial, r.next_spki, \
         r.not_after, r.live_until, r.ends_at, r.suspect, r.evicted"
    };
}

pub const RUNNER: &str = concat!("SELECT ", runner_columns!(), " FROM runners r WHERE r.id = ?");
/// Runners of a key: the one whose id `?2` was made from it, and those that the index has.
pub const RUNNERS_BY_KEY: &str = concat!(
    "SELECT ",
    runner_columns!(),
    " FROM runners r WHERE r.id = ?2 AND r.mode = ?3 UNION ALL SELECT ",
    runner_columns!(),
    " FROM keys k JOIN runners r ON r.id = k.runner_id WHERE k.spki_sha256 = ?1 AND k.runner_id <> ?2 AND r.mode = ?3"
);
pub const RUNNERS: &str =
    concat!("SELECT ", runner_columns!(), " FROM runners r WHERE r.id > ? AND r.evicted = 0 ORDER BY r.id LIMIT ?");
pub const ENDED_RUNNERS: &str =
    concat!("SELECT ", runner_columns!(), " FROM runners r WHERE r.id > ? AND r.ends_at < ? ORDER BY r.id LIMIT ?");
/// An update touches the index of instances only where the life of the runner moved.
pub const PUT_RUNNER: &str = "INSERT INTO runners (id, mode, instance, principal, attested_at, last_seen, current_serial, current_spki, \
    next_serial, next_spki, not_after, live_until, ends_at, suspect, evicted) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) \
    ON CONFLICT (id) DO UPDATE SET mode = excluded.mode, instance = excluded.instance, principal = excluded.principal, \
    attested_at = excluded.attested_at, last_seen = excluded.last_seen, current_serial = excluded.current_serial, \
    current_spki = excluded.current_spki, next_serial = excluded.next_serial, next_spki = excluded.next_spki, \
    not_after = excluded.not_after, live_until = excluded.live_until, ends_at = excluded.ends_at, suspect = excluded.suspect, \
    evicted = excluded.evicted";
pub const DELETE_RUNNER: &str = "DELETE FROM runners WHERE id = ?";
/// Two questions at once: is it banned, is another runner of the instance active.
pub const STANDING: &str = "SELECT EXISTS (SELECT 1 FROM bans WHERE scope = 'runner' AND mode = ?1 AND subject = ?2) \
    OR EXISTS (SELECT 1 FROM bans WHERE scope = 'instance' AND mode = ?1 AND subject = ?3), \
    EXISTS (SELECT 1 FROM runners WHERE instance = ?3 AND live_until > ?4 AND mode = ?1 AND id <> ?2 AND suspect = 0 AND evicted = 0)";

pub const PUT_KEY: &str = "INSERT INTO keys (spki_sha256, runner_id, kept_until) VALUES (?, ?, ?) \
    ON CONFLICT (spki_sha256, runner_id) DO UPDATE SET kept_until = MAX(kept_until, excluded.kept_until)";

macro_rules! serial_columns {
    () => {
        "s.runner_id, s.serial, s.spki_sha256, s.parent, s.allotted_at, s.not_before, s.not_after, s.reattest_before, s.revoked"
    };
}

pub const SERIAL: &str =
    concat!("SELECT ", serial_columns!(), " FROM serials s WHERE s.runner_id = ? AND s.serial = ?");
/// Everything that a renewal asks of the certificate it presents; `?3` is now, `?4` the name of the policy's version.
pub const PRESENTED: &str = concat!(
    "SELECT EXISTS (SELECT 1 FROM bans WHERE scope = 'runner' AND mode = r.mode AND subject = r.id) \
     OR EXISTS (SELECT 1 FROM bans WHERE scope = 'instance' AND mode = r.mode AND subject = r.instance), \
     (SELECT COUNT(*) FROM serials WHERE runner_id = r.id AND not_after > ?3), \
     (SELECT value FROM meta WHERE name = ?4), ",
    serial_columns!(),
    ", ",
    runner_columns!(),
    " FROM serials s JOIN runners r ON r.id = s.runner_id WHERE s.runner_id = ?1 AND s.serial = ?2"
);
pub const ADD_SERIAL: &str = "INSERT INTO serials (runner_id, serial, spki_sha256, parent, allotted_at, not_before, not_after, \
    reattest_before, revoked) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)";
pub const RENEWAL_OF: &str = concat!(
    "SELECT ",
    serial_columns!(),
    " FROM serials s WHERE s.runner_id = ? AND s.parent = ? AND s.spki_sha256 = ? ORDER BY s.allotted_at DESC LIMIT 1"
);
pub const LATEST_SERIAL: &str = concat!(
    "SELECT ",
    serial_columns!(),
    " FROM serials s WHERE s.runner_id = ? AND s.spki_sha256 = ? ORDER BY s.allotted_at DESC LIMIT 1"
);
pub const COUNT_SERIALS: &str = "SELECT COUNT(*) FROM serials WHERE runner_id = ? AND not_after > ?";

pub const EVIDENCE: &str =
    "SELECT digest, spki_sha256, runner_id, serial, kept_until, void FROM evidence WHERE digest = ?";
pub const PUT_EVIDENCE: &str = "INSERT INTO evidence (digest, spki_sha256, runner_id, serial, kept_until, void) VALUES (?, ?, ?, ?, ?, ?) \
    ON CONFLICT (digest) DO UPDATE SET spki_sha256 = excluded.spki_sha256, runner_id = excluded.runner_id, serial = excluded.serial, \
    kept_until = excluded.kept_until, void = excluded.void";
pub const VOID_EVIDENCE: &str = "UPDATE evidence SET void = 1 WHERE runner_id = ?";

pub const PUT_BAN: &str = "INSERT OR REPLACE INTO bans (scope, mode, subject, reason, since) VALUES (?, ?, ?, ?, ?)";
pub const DELETE_BAN: &str = "DELETE FROM bans WHERE scope = ? AND mode = ? AND subject = ?";

pub const APPEND_AUDIT: &str = "INSERT INTO audit (time, event) VALUES (?, ?)";
pub const AUDIT: &str = "SELECT id, event FROM audit WHERE id < ? ORDER BY id DESC LIMIT ?";

pub const OUTBOX: &str = "SELECT seq, serial, revoked_at, reason, not_after FROM outbox ORDER BY seq LIMIT ?";
pub const OUTBOX_ACK: &str = "DELETE FROM outbox WHERE seq <= ?";

pub const META: &str = "SELECT value FROM meta WHERE name = ?";
pub const PUT_META: &str = "INSERT OR REPLACE INTO meta (name, value) VALUES (?, ?)";

pub const HOLDS_ROWS: &str = "SELECT EXISTS (SELECT 1 FROM tokens) OR EXISTS (SELECT 1 FROM runners) OR EXISTS (SELECT 1 FROM keys) \
    OR EXISTS (SELECT 1 FROM serials) OR EXISTS (SELECT 1 FROM evidence) OR EXISTS (SELECT 1 FROM outbox) \
    OR EXISTS (SELECT 1 FROM audit WHERE id < (SELECT MAX(id) FROM audit))";

/// How to find what has ended in a table; `?1` is the horizon.
pub struct Ended {
    pub name: &'static str,
    pub key: &'static str,
    pub condition: &'static str,
}

pub const ENDED_SERIALS: Ended = Ended { name: "serials", key: "runner_id, serial", condition: "not_after < ?1" };
pub const ENDED_OUTBOX: Ended = Ended { name: "outbox", key: "seq", condition: "not_after < ?1" };
/// Keys of a slot stay as long as their runner, keys of a banned runner as long as the ban.
pub const ENDED_KEYS: Ended = Ended {
    name: "keys",
    key: "spki_sha256, runner_id",
    condition: "kept_until < ?1 \
        AND NOT EXISTS (SELECT 1 FROM runners r WHERE r.id = keys.runner_id \
            AND (r.current_spki = keys.spki_sha256 OR r.next_spki = keys.spki_sha256)) \
        AND NOT EXISTS (SELECT 1 FROM runners r JOIN bans b ON b.scope = 'runner' AND b.mode = r.mode AND b.subject = r.id \
            WHERE r.id = keys.runner_id)",
};
pub const ENDED_EVIDENCE: Ended = Ended { name: "evidence", key: "digest", condition: "kept_until < ?1" };
pub const ENDED_TOKENS: Ended = Ended { name: "tokens", key: "id", condition: "expires_at < ?1" };
pub const OLD_AUDIT: Ended = Ended {
    name: "audit",
    key: "id",
    // Events are in order of time but for a clock that went back, which at worst keeps some longer. The last one numbers the next.
    condition: "id < COALESCE((SELECT MIN(id) FROM audit WHERE time >= ?1), (SELECT MAX(id) FROM audit))",
};
pub const SURPLUS_AUDIT: Ended =
    Ended { name: "audit", key: "id", condition: "id <= (SELECT COALESCE(MAX(id), 0) FROM audit) - ?1" };

pub fn token(row: &mut Row) -> Stored<Token> {
    Ok(Token {
        id: row.text()?,
        secret_sha256: row.text()?,
        description: row.optional_text()?,
        created_at: row.time()?,
        expires_at: row.time()?,
        max_uses: row.number()?,
        uses: row.number()?,
        revoked: row.flag()?,
    })
}

pub fn runner(row: &mut Row) -> Stored<Runner> {
    Ok(Runner {
        id: row.text()?,
        principal: json(&row.text()?)?,
        attested_at: row.time()?,
        last_seen: row.time()?,
        current: slot(row)?,
        next: slot(row)?,
        not_after: row.time()?,
        live_until: row.time()?,
        ends_at: row.time()?,
        suspect: row.flag()?,
        evicted: row.flag()?,
    })
}

fn slot(row: &mut Row) -> Stored<Option<Slot>> {
    match (row.optional_text()?, row.optional_text()?) {
        (Some(serial), Some(spki_sha256)) => Ok(Some(Slot { serial, spki_sha256 })),
        (None, None) => Ok(None),
        _ => Err(unreadable("a serial with its key")),
    }
}

pub fn serial(row: &mut Row) -> Stored<AllottedSerial> {
    Ok(AllottedSerial {
        runner_id: row.text()?,
        serial: row.text()?,
        spki_sha256: row.text()?,
        parent: row.optional_text()?,
        allotted_at: row.time()?,
        not_before: row.time()?,
        not_after: row.time()?,
        reattest_before: row.optional_integer()?.map(UnixTime::from_secs),
        revoked: row.flag()?,
    })
}

pub fn presented(row: &mut Row) -> Stored<Presented> {
    Ok(Presented {
        banned: row.flag()?,
        serials: row.number()?,
        policy_version: row.optional_text()?,
        serial: serial(row)?,
        runner: runner(row)?,
    })
}

pub fn standing(row: &mut Row) -> Stored<Standing> {
    Ok(Standing { banned: row.flag()?, other_active: row.flag()? })
}

pub fn evidence(row: &mut Row) -> Stored<EvidenceRecord> {
    Ok(EvidenceRecord {
        digest: row.text()?,
        spki_sha256: row.text()?,
        runner_id: row.optional_text()?,
        serial: row.optional_text()?,
        until: row.time()?,
        void: row.flag()?,
    })
}

pub fn event(row: &mut Row) -> Stored<AuditItem> {
    let id = row.number()?;
    Ok(AuditItem { id, ..json(&row.text()?)? })
}

pub fn outbox_item(row: &mut Row) -> Stored<OutboxItem> {
    Ok(OutboxItem {
        seq: row.number()?,
        revocation: Revocation {
            serial: row.text()?,
            revoked_at: row.time()?,
            reason: RevocationReason::from_code(row.number()?).ok_or_else(|| unreadable("a CRLReason"))?,
            not_after: row.time()?,
        },
    })
}

fn json<T: serde::de::DeserializeOwned>(text: &str) -> Stored<T> {
    serde_json::from_str(text).map_err(|error| StoreError::Corrupt(error.to_string()))
}

pub fn to_json(value: &impl serde::Serialize) -> Stored<String> {
    serde_json::to_string(value).map_err(|error| StoreError::Corrupt(error.to_string()))
}
