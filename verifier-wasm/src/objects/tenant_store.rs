//! [`Store`] over SQLite: every row of a tenant. The statements are prepared once by their text and cost a few microseconds each.

use protocol::Mode;
use protocol::admin::{AuditItem, BanScope};
use verifier::UnixTime;
use verifier::registry::store::{
    AllottedSerial, Ban, Covered, EvidenceRecord, Horizon, OutboxItem, Runner, Slot, Store, Stored, Token,
};
use verifier::registry::{Revocation, RevocationReason, StoreError};

use super::sql::{Bind, Row, Sql, row_number, unreadable};

/// A tenant's storage. The schema must be in place.
pub struct SqlStore<'a> {
    sql: &'a dyn Sql,
    revoked: bool,
}

impl<'a> SqlStore<'a> {
    /// Over this database.
    pub const fn new(sql: &'a dyn Sql) -> Self {
        Self { sql, revoked: false }
    }

    /// Whether serials were revoked through this store: the outbox may hold something new.
    pub const fn has_revoked(&self) -> bool {
        self.revoked
    }

    fn run(&self, statement: &str, bindings: &[Bind<'_>]) -> Stored<()> {
        self.sql.query(statement, bindings).map(drop)
    }

    fn one<T>(
        &self,
        statement: &str,
        bindings: &[Bind<'_>],
        read: impl Fn(&mut Row) -> Stored<T>,
    ) -> Stored<Option<T>> {
        self.sql.query(statement, bindings)?.first_mut().map(read).transpose()
    }

    fn all<T>(&self, statement: &str, bindings: &[Bind<'_>], read: impl Fn(&mut Row) -> Stored<T>) -> Stored<Vec<T>> {
        self.sql.query(statement, bindings)?.iter_mut().map(read).collect()
    }

    /// Deletes at most `limit` rows of a table by its key; whether the limit was reached.
    fn delete(&self, table: &Ended, horizon: Bind<'_>, limit: u32) -> Stored<bool> {
        let Ended { name, key, condition } = table;
        let statement = format!(
            "DELETE FROM {name} WHERE ({key}) IN (SELECT {key} FROM {name} WHERE {condition} LIMIT ?2) RETURNING 1"
        );
        let deleted = self.sql.query(&statement, &[horizon, limit.into()])?.len();
        Ok(deleted >= limit as usize)
    }
}

/// How to find what has ended in a table; `?1` is the horizon.
struct Ended {
    name: &'static str,
    key: &'static str,
    condition: &'static str,
}

const SERIALS: Ended = Ended { name: "serials", key: "runner_id, serial", condition: "not_after < ?1" };
const OUTBOX: Ended = Ended { name: "outbox", key: "seq", condition: "not_after < ?1" };
/// Keys of a slot stay as long as their runner, keys of a banned runner as long as the ban.
const KEYS: Ended = Ended {
    name: "keys",
    key: "spki_sha256, runner_id",
    condition: "kept_until < ?1 \
        AND NOT EXISTS (SELECT 1 FROM runners r WHERE r.id = keys.runner_id \
            AND (r.current_spki = keys.spki_sha256 OR r.next_spki = keys.spki_sha256)) \
        AND NOT EXISTS (SELECT 1 FROM runners r JOIN bans b ON b.scope = 'runner' AND b.mode = r.mode AND b.subject = r.id \
            WHERE r.id = keys.runner_id)",
};
const EVIDENCE: Ended = Ended { name: "evidence", key: "digest", condition: "kept_until < ?1" };
const TOKENS: Ended = Ended { name: "tokens", key: "id", condition: "expires_at < ?1" };
const AUDIT_BY_AGE: Ended = Ended {
    name: "audit",
    key: "id",
    // Events are in order of time but for a clock that went back, which at worst keeps some longer.
    condition: "id < (SELECT COALESCE(MIN(id), 9223372036854775807) FROM audit WHERE time >= ?1)",
};
const AUDIT_BY_NUMBER: Ended =
    Ended { name: "audit", key: "id", condition: "id <= (SELECT COALESCE(MAX(id), 0) FROM audit) - ?1" };

const TOKEN: &str = "id, secret_sha256, description, created_at, expires_at, max_uses, uses, revoked";

fn token(row: &mut Row) -> Stored<Token> {
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

const RUNNER: &str = "r.id, r.principal, r.attested_at, r.last_seen, r.current_serial, r.current_spki, r.next_serial, r.next_spki, \
    r.not_after, r.live_until, r.ends_at, r.suspect, r.evicted";

fn runner(row: &mut Row) -> Stored<Runner> {
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

const SERIAL: &str =
    "runner_id, serial, spki_sha256, parent, allotted_at, not_before, not_after, reattest_before, revoked";

fn serial(row: &mut Row) -> Stored<AllottedSerial> {
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

fn evidence(row: &mut Row) -> Stored<EvidenceRecord> {
    Ok(EvidenceRecord {
        digest: row.text()?,
        spki_sha256: row.text()?,
        runner_id: row.optional_text()?,
        serial: row.optional_text()?,
        until: row.time()?,
        void: row.flag()?,
    })
}

fn ban(row: &mut Row) -> Stored<Ban> {
    Ok(Ban {
        scope: row.parsed()?,
        mode: row.parsed()?,
        subject: row.text()?,
        reason: row.optional_text()?,
        since: row.time()?,
    })
}

fn event(row: &mut Row) -> Stored<AuditItem> {
    let id = row.number()?;
    Ok(AuditItem { id, ..json(&row.text()?)? })
}

fn outbox_item(row: &mut Row) -> Stored<OutboxItem> {
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

fn to_json(value: &impl serde::Serialize) -> Stored<String> {
    serde_json::to_string(value).map_err(|error| StoreError::Corrupt(error.to_string()))
}

impl Store for SqlStore<'_> {
    fn token(&self, id: &str) -> Stored<Option<Token>> {
        self.one(&format!("SELECT {TOKEN} FROM tokens WHERE id = ?"), &[id.into()], token)
    }

    fn put_token(&mut self, token: &Token) -> Stored<()> {
        self.run(
            &format!("INSERT OR REPLACE INTO tokens ({TOKEN}) VALUES (?, ?, ?, ?, ?, ?, ?, ?)"),
            &[
                (&token.id).into(),
                (&token.secret_sha256).into(),
                token.description.as_deref().into(),
                token.created_at.into(),
                token.expires_at.into(),
                token.max_uses.into(),
                token.uses.into(),
                token.revoked.into(),
            ],
        )
    }

    fn tokens(&self, after: Option<&str>, limit: u32) -> Stored<Vec<Token>> {
        let statement = format!("SELECT {TOKEN} FROM tokens WHERE id > ? ORDER BY id LIMIT ?");
        self.all(&statement, &[after.unwrap_or_default().into(), limit.into()], token)
    }

    fn runner(&self, id: &str) -> Stored<Option<Runner>> {
        self.one(&format!("SELECT {RUNNER} FROM runners r WHERE r.id = ?"), &[id.into()], runner)
    }

    fn runner_by_key(&self, mode: Mode, identity: &str, spki_sha256: &str) -> Stored<Option<Runner>> {
        let statement = format!(
            "SELECT {RUNNER} FROM keys k JOIN runners r ON r.id = k.runner_id WHERE k.spki_sha256 = ? AND r.mode = ? \
             ORDER BY r.evicted, r.id"
        );
        let owners = self.all(&statement, &[spki_sha256.into(), mode.as_str().into()], runner)?;
        Ok(owners.into_iter().find(|runner| runner.principal.identity() == identity))
    }

    fn active_in_instance(&self, mode: Mode, instance: &str, except: &str, now: UnixTime) -> Stored<Option<String>> {
        self.one(
            "SELECT id FROM runners WHERE instance = ? AND live_until > ? AND mode = ? AND id <> ? AND suspect = 0 AND evicted = 0 \
             LIMIT 1",
            &[instance.into(), now.into(), mode.as_str().into(), except.into()],
            Row::text,
        )
    }

    fn put_runner(&mut self, runner: &Runner) -> Stored<()> {
        let slot =
            |slot: &Option<Slot>| slot.as_ref().map(|slot| (slot.serial.clone(), slot.spki_sha256.clone())).unzip();
        let (current_serial, current_spki): (Option<String>, Option<String>) = slot(&runner.current);
        let (next_serial, next_spki): (Option<String>, Option<String>) = slot(&runner.next);
        let instance = runner.principal.instance();
        let principal = to_json(&runner.principal)?;
        self.run(
            "INSERT OR REPLACE INTO runners (id, mode, instance, principal, attested_at, last_seen, current_serial, current_spki, \
             next_serial, next_spki, not_after, live_until, ends_at, suspect, evicted) \
             VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            &[
                (&runner.id).into(),
                runner.principal.mode().as_str().into(),
                (&instance).into(),
                (&principal).into(),
                runner.attested_at.into(),
                runner.last_seen.into(),
                current_serial.as_ref().into(),
                current_spki.as_ref().into(),
                next_serial.as_ref().into(),
                next_spki.as_ref().into(),
                runner.not_after.into(),
                runner.live_until.into(),
                runner.ends_at.into(),
                runner.suspect.into(),
                runner.evicted.into(),
            ],
        )
    }

    fn delete_runner(&mut self, id: &str) -> Stored<()> {
        self.run("DELETE FROM runners WHERE id = ?", &[id.into()])
    }

    fn runners(&self, after: Option<&str>, limit: u32) -> Stored<Vec<Runner>> {
        let statement =
            format!("SELECT {RUNNER} FROM runners r WHERE r.id > ? AND r.evicted = 0 ORDER BY r.id LIMIT ?");
        self.all(&statement, &[after.unwrap_or_default().into(), limit.into()], runner)
    }

    fn ended_runners(&self, after: Option<&str>, now: UnixTime, limit: u32) -> Stored<Vec<Runner>> {
        let statement =
            format!("SELECT {RUNNER} FROM runners r WHERE r.id > ? AND r.ends_at < ? ORDER BY r.id LIMIT ?");
        self.all(&statement, &[after.unwrap_or_default().into(), now.into(), limit.into()], runner)
    }

    fn put_key(&mut self, runner_id: &str, spki_sha256: &str, until: UnixTime) -> Stored<()> {
        self.run(
            "INSERT INTO keys (spki_sha256, runner_id, kept_until) VALUES (?, ?, ?) \
             ON CONFLICT (spki_sha256, runner_id) DO UPDATE SET kept_until = MAX(kept_until, excluded.kept_until)",
            &[spki_sha256.into(), runner_id.into(), until.into()],
        )
    }

    fn serial(&self, runner_id: &str, number: &str) -> Stored<Option<AllottedSerial>> {
        let statement = format!("SELECT {SERIAL} FROM serials WHERE runner_id = ? AND serial = ?");
        self.one(&statement, &[runner_id.into(), number.into()], serial)
    }

    fn add_serial(&mut self, serial: &AllottedSerial) -> Stored<()> {
        self.run(
            &format!("INSERT INTO serials ({SERIAL}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"),
            &[
                (&serial.runner_id).into(),
                (&serial.serial).into(),
                (&serial.spki_sha256).into(),
                serial.parent.as_ref().into(),
                serial.allotted_at.into(),
                serial.not_before.into(),
                serial.not_after.into(),
                serial.reattest_before.into(),
                serial.revoked.into(),
            ],
        )
    }

    fn renewal_of(&self, runner_id: &str, parent: &str, spki_sha256: &str) -> Stored<Option<AllottedSerial>> {
        let statement = format!(
            "SELECT {SERIAL} FROM serials WHERE runner_id = ? AND parent = ? AND spki_sha256 = ? ORDER BY allotted_at DESC LIMIT 1"
        );
        self.one(&statement, &[runner_id.into(), parent.into(), spki_sha256.into()], serial)
    }

    fn latest_serial(&self, runner_id: &str, spki_sha256: &str) -> Stored<Option<AllottedSerial>> {
        let statement = format!(
            "SELECT {SERIAL} FROM serials WHERE runner_id = ? AND spki_sha256 = ? ORDER BY allotted_at DESC LIMIT 1"
        );
        self.one(&statement, &[runner_id.into(), spki_sha256.into()], serial)
    }

    fn count_serials(&self, runner_id: &str, now: UnixTime) -> Stored<u32> {
        let statement = "SELECT COUNT(*) FROM serials WHERE runner_id = ? AND not_after > ?";
        let count = self.one(statement, &[runner_id.into(), now.into()], Row::number)?;
        Ok(count.unwrap_or_default())
    }

    fn revoke_serials(&mut self, covered: Covered<'_>, reason: RevocationReason, now: UnixTime) -> Stored<()> {
        self.revoked = true;
        let (condition, subject, mode) = match covered {
            Covered::Runner(id) => ("id = ?1 AND ?2 IS NULL", id, Bind::Null),
            Covered::Instance(mode, instance) => ("instance = ?1 AND mode = ?2", instance, mode.as_str().into()),
        };
        let live =
            format!("revoked = 0 AND not_after > ?3 AND runner_id IN (SELECT id FROM runners WHERE {condition})");
        self.run(
            &format!(
                "INSERT INTO outbox (serial, revoked_at, reason, not_after) \
                 SELECT serial, ?3, ?4, not_after FROM serials WHERE {live} ORDER BY not_after, serial"
            ),
            &[subject.into(), mode, now.into(), i64::from(reason.code()).into()],
        )?;
        self.run(&format!("UPDATE serials SET revoked = 1 WHERE {live}"), &[subject.into(), mode, now.into()])?;
        self.run(&format!("UPDATE runners SET live_until = 0 WHERE {condition}"), &[subject.into(), mode])
    }

    fn evidence(&self, digest: &str) -> Stored<Option<EvidenceRecord>> {
        let statement =
            "SELECT digest, spki_sha256, runner_id, serial, kept_until, void FROM evidence WHERE digest = ?";
        self.one(statement, &[digest.into()], evidence)
    }

    fn put_evidence(&mut self, record: &EvidenceRecord) -> Stored<()> {
        self.run(
            "INSERT OR REPLACE INTO evidence (digest, spki_sha256, runner_id, serial, kept_until, void) VALUES (?, ?, ?, ?, ?, ?)",
            &[
                (&record.digest).into(),
                (&record.spki_sha256).into(),
                record.runner_id.as_ref().into(),
                record.serial.as_ref().into(),
                record.until.into(),
                record.void.into(),
            ],
        )
    }

    fn void_evidence(&mut self, runner_id: &str) -> Stored<()> {
        self.run("UPDATE evidence SET void = 1 WHERE runner_id = ?", &[runner_id.into()])
    }

    fn ban(&self, scope: BanScope, mode: Mode, subject: &str) -> Stored<Option<Ban>> {
        self.one(
            "SELECT scope, mode, subject, reason, since FROM bans WHERE scope = ? AND mode = ? AND subject = ?",
            &[scope.as_str().into(), mode.as_str().into(), subject.into()],
            ban,
        )
    }

    fn put_ban(&mut self, ban: &Ban) -> Stored<()> {
        self.run(
            "INSERT OR REPLACE INTO bans (scope, mode, subject, reason, since) VALUES (?, ?, ?, ?, ?)",
            &[
                ban.scope.as_str().into(),
                ban.mode.as_str().into(),
                (&ban.subject).into(),
                ban.reason.as_ref().into(),
                ban.since.into(),
            ],
        )
    }

    fn delete_ban(&mut self, scope: BanScope, mode: Mode, subject: &str) -> Stored<()> {
        self.run(
            "DELETE FROM bans WHERE scope = ? AND mode = ? AND subject = ?",
            &[scope.as_str().into(), mode.as_str().into(), subject.into()],
        )
    }

    fn append_audit(&mut self, event: &AuditItem, now: UnixTime) -> Stored<()> {
        let event = to_json(event)?;
        self.run("INSERT INTO audit (time, event) VALUES (?, ?)", &[now.into(), (&event).into()])
    }

    fn audit(&self, before: Option<u64>, limit: u32) -> Stored<Vec<AuditItem>> {
        let before = before.map_or(i64::MAX, row_number);
        let statement = "SELECT id, event FROM audit WHERE id < ? ORDER BY id DESC LIMIT ?";
        self.all(statement, &[before.into(), limit.into()], event)
    }

    fn outbox(&self, limit: u32) -> Stored<Vec<OutboxItem>> {
        let statement = "SELECT seq, serial, revoked_at, reason, not_after FROM outbox ORDER BY seq LIMIT ?";
        self.all(statement, &[limit.into()], outbox_item)
    }

    fn outbox_ack(&mut self, seq: u64) -> Stored<()> {
        self.run("DELETE FROM outbox WHERE seq <= ?", &[row_number(seq).into()])
    }

    fn meta(&self, name: &str) -> Stored<Option<String>> {
        self.one("SELECT value FROM meta WHERE name = ?", &[name.into()], Row::text)
    }

    fn put_meta(&mut self, name: &str, value: &str) -> Stored<()> {
        self.run("INSERT OR REPLACE INTO meta (name, value) VALUES (?, ?)", &[name.into(), value.into()])
    }

    fn purge(&mut self, horizon: &Horizon, limit: u32) -> Stored<bool> {
        let more = [
            self.delete(&SERIALS, horizon.serials.into(), limit)?,
            self.delete(&OUTBOX, horizon.outbox.into(), limit)?,
            self.delete(&KEYS, horizon.keys.into(), limit)?,
            self.delete(&EVIDENCE, horizon.uses.into(), limit)?,
            self.delete(&TOKENS, horizon.tokens.into(), limit)?,
            self.delete(&AUDIT_BY_AGE, horizon.audit.into(), limit)?,
            self.delete(&AUDIT_BY_NUMBER, row_number(horizon.audit_rows).into(), limit)?,
        ];
        Ok(more.contains(&true))
    }

    fn holds_rows(&self) -> Stored<bool> {
        let statement = "SELECT EXISTS (SELECT 1 FROM tokens) OR EXISTS (SELECT 1 FROM runners) OR EXISTS (SELECT 1 FROM keys) \
            OR EXISTS (SELECT 1 FROM serials) OR EXISTS (SELECT 1 FROM evidence) OR EXISTS (SELECT 1 FROM audit) \
            OR EXISTS (SELECT 1 FROM outbox)";
        Ok(self.one(statement, &[], Row::flag)?.unwrap_or_default())
    }
}

#[cfg(all(test, not(target_arch = "wasm32")))]
mod tests {
    use proptest::prelude::*;
    use rusqlite::Connection;
    use verifier::registry::suite::{cases, sequence};

    use super::*;
    use crate::objects::schema;

    fn database() -> Connection {
        let sql = Connection::open_in_memory().unwrap();
        schema::migrate(&sql, schema::TENANT).unwrap();
        sql
    }

    #[test]
    fn every_case_of_the_registry_holds() {
        for (name, case) in cases() {
            println!("{name}");
            case(&mut SqlStore::new(&database()));
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 100, ..ProptestConfig::default() })]
        #[test]
        fn any_sequence_keeps_the_invariants(steps in proptest::collection::vec(any::<[u8; 4]>(), 0..80)) {
            sequence::run(&mut SqlStore::new(&database()), &steps);
        }
    }

    /// Look-ups on the way of an enrolment or renewal go by an index (PERFORMANCE P7).
    #[test]
    fn no_hot_statement_scans_a_table() {
        let sql = database();
        for statement in [
            "SELECT 1 FROM keys k JOIN runners r ON r.id = k.runner_id WHERE k.spki_sha256 = 'x' AND r.mode = 'y'",
            "SELECT id FROM runners WHERE instance = 'x' AND live_until > 1",
            "SELECT 1 FROM serials WHERE runner_id = 'x' AND parent = 'y'",
            "SELECT 1 FROM evidence WHERE digest = 'x'",
            "DELETE FROM serials WHERE not_after < 1",
        ] {
            for mut row in sql.query(&format!("EXPLAIN QUERY PLAN {statement}"), &[]).unwrap() {
                row.integer().unwrap();
                row.integer().unwrap();
                row.integer().unwrap();
                let plan = row.text().unwrap();
                assert!(plan.starts_with("SEARCH"), "{statement}: {plan}");
            }
        }
    }
}
