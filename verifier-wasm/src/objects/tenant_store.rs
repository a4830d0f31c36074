//! [`Store`] over SQLite: every row of a tenant.

use protocol::Mode;
use protocol::admin::{AuditItem, BanScope};
use verifier::UnixTime;
use verifier::registry::store::{
    AllottedSerial, Ban, Covered, EvidenceRecord, Horizon, OutboxItem, Presented, Runner, Slot, Standing, Store,
    Stored, Token,
};
use verifier::registry::{POLICY_VERSION, RevocationReason};

use super::sql::{Bind, Row, Sql, row_number};
use super::tenant_rows::{self as rows, Ended, to_json};

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

fn columns(slot: Option<&Slot>) -> (Option<&str>, Option<&str>) {
    slot.map(|slot| (slot.serial.as_str(), slot.spki_sha256.as_str())).unzip()
}

impl Store for SqlStore<'_> {
    fn token(&self, id: &str) -> Stored<Option<Token>> {
        self.one(rows::TOKEN, &[id.into()], rows::token)
    }

    fn put_token(&mut self, token: &Token) -> Stored<()> {
        self.run(
            rows::PUT_TOKEN,
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
        self.all(rows::TOKENS, &[after.unwrap_or_default().into(), limit.into()], rows::token)
    }

    fn runner(&self, id: &str) -> Stored<Option<Runner>> {
        self.one(rows::RUNNER, &[id.into()], rows::runner)
    }

    fn runners_by_key(&self, mode: Mode, identity: &str, spki_sha256: &str, first: &str) -> Stored<Vec<Runner>> {
        let bindings = [spki_sha256.into(), first.into(), mode.as_str().into()];
        let mut owners = self.all(rows::RUNNERS_BY_KEY, &bindings, rows::runner)?;
        owners.retain(|runner| runner.principal.identity() == identity);
        Ok(owners)
    }

    fn standing(&self, mode: Mode, runner_id: &str, instance: &str, now: UnixTime) -> Stored<Standing> {
        let bindings = [mode.as_str().into(), runner_id.into(), instance.into(), now.into()];
        // One row always, but for a tenant that was never written to.
        Ok(self.one(rows::STANDING, &bindings, rows::standing)?.unwrap_or_default())
    }

    fn put_runner(&mut self, runner: &Runner) -> Stored<()> {
        let (current_serial, current_spki) = columns(runner.current.as_ref());
        let (next_serial, next_spki) = columns(runner.next.as_ref());
        let instance = runner.principal.instance();
        let principal = to_json(&runner.principal)?;
        self.run(
            rows::PUT_RUNNER,
            &[
                (&runner.id).into(),
                runner.principal.mode().as_str().into(),
                (&instance).into(),
                (&principal).into(),
                runner.attested_at.into(),
                runner.last_seen.into(),
                current_serial.into(),
                current_spki.into(),
                next_serial.into(),
                next_spki.into(),
                runner.not_after.into(),
                runner.live_until.into(),
                runner.ends_at.into(),
                runner.suspect.into(),
                runner.evicted.into(),
            ],
        )
    }

    fn delete_runner(&mut self, id: &str) -> Stored<()> {
        self.run(rows::DELETE_RUNNER, &[id.into()])
    }

    fn runners(&self, after: Option<&str>, limit: u32) -> Stored<Vec<Runner>> {
        self.all(rows::RUNNERS, &[after.unwrap_or_default().into(), limit.into()], rows::runner)
    }

    fn ended_runners(&self, after: Option<&str>, now: UnixTime, limit: u32) -> Stored<Vec<Runner>> {
        let bindings = [after.unwrap_or_default().into(), now.into(), limit.into()];
        self.all(rows::ENDED_RUNNERS, &bindings, rows::runner)
    }

    fn put_key(&mut self, runner_id: &str, spki_sha256: &str, until: UnixTime) -> Stored<()> {
        self.run(rows::PUT_KEY, &[spki_sha256.into(), runner_id.into(), until.into()])
    }

    fn presented(&self, runner_id: &str, serial: &str, now: UnixTime) -> Stored<Option<Presented>> {
        let bindings = [runner_id.into(), serial.into(), now.into(), POLICY_VERSION.into()];
        self.one(rows::PRESENTED, &bindings, rows::presented)
    }

    fn serial(&self, runner_id: &str, serial: &str) -> Stored<Option<AllottedSerial>> {
        self.one(rows::SERIAL, &[runner_id.into(), serial.into()], rows::serial)
    }

    fn add_serial(&mut self, serial: &AllottedSerial) -> Stored<()> {
        self.run(
            rows::ADD_SERIAL,
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
        self.one(rows::RENEWAL_OF, &[runner_id.into(), parent.into(), spki_sha256.into()], rows::serial)
    }

    fn latest_serial(&self, runner_id: &str, spki_sha256: &str) -> Stored<Option<AllottedSerial>> {
        self.one(rows::LATEST_SERIAL, &[runner_id.into(), spki_sha256.into()], rows::serial)
    }

    fn count_serials(&self, runner_id: &str, now: UnixTime) -> Stored<u32> {
        let count = self.one(rows::COUNT_SERIALS, &[runner_id.into(), now.into()], Row::number)?;
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
        self.one(rows::EVIDENCE, &[digest.into()], rows::evidence)
    }

    fn put_evidence(&mut self, record: &EvidenceRecord) -> Stored<()> {
        self.run(
            rows::PUT_EVIDENCE,
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
        self.run(rows::VOID_EVIDENCE, &[runner_id.into()])
    }

    fn put_ban(&mut self, ban: &Ban) -> Stored<()> {
        self.run(
            rows::PUT_BAN,
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
        self.run(rows::DELETE_BAN, &[scope.as_str().into(), mode.as_str().into(), subject.into()])
    }

    fn append_audit(&mut self, event: &AuditItem, now: UnixTime) -> Stored<()> {
        let event = to_json(event)?;
        self.run(rows::APPEND_AUDIT, &[now.into(), (&event).into()])
    }

    fn audit(&self, before: Option<u64>, limit: u32) -> Stored<Vec<AuditItem>> {
        let before = before.map_or(i64::MAX, row_number);
        self.all(rows::AUDIT, &[before.into(), limit.into()], rows::event)
    }

    fn outbox(&self, limit: u32) -> Stored<Vec<OutboxItem>> {
        self.all(rows::OUTBOX, &[limit.into()], rows::outbox_item)
    }

    fn outbox_ack(&mut self, seq: u64) -> Stored<()> {
        self.run(rows::OUTBOX_ACK, &[row_number(seq).into()])
    }

    fn meta(&self, name: &str) -> Stored<Option<String>> {
        self.one(rows::META, &[name.into()], Row::text)
    }

    fn put_meta(&mut self, name: &str, value: &str) -> Stored<()> {
        self.run(rows::PUT_META, &[name.into(), value.into()])
    }

    fn purge(&mut self, horizon: &Horizon, limit: u32) -> Stored<bool> {
        let more = [
            self.delete(&rows::ENDED_SERIALS, horizon.serials.into(), limit)?,
            self.delete(&rows::ENDED_OUTBOX, horizon.outbox.into(), limit)?,
            self.delete(&rows::ENDED_KEYS, horizon.keys.into(), limit)?,
            self.delete(&rows::ENDED_EVIDENCE, horizon.uses.into(), limit)?,
            self.delete(&rows::ENDED_TOKENS, horizon.tokens.into(), limit)?,
            self.delete(&rows::OLD_AUDIT, horizon.audit.into(), limit)?,
            self.delete(&rows::SURPLUS_AUDIT, row_number(horizon.audit_rows).into(), limit)?,
        ];
        Ok(more.contains(&true))
    }

    fn holds_rows(&self) -> Stored<bool> {
        Ok(self.one(rows::HOLDS_ROWS, &[], Row::flag)?.unwrap_or_default())
    }
}

#[cfg(all(test, not(target_arch = "wasm32")))]
mod tests {
    use std::cell::RefCell;

    use proptest::prelude::*;
    use rusqlite::Connection;
    use verifier::registry::suite::world::{NOW, World, by_token, enrolment, pod, renewal};
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

    /// What schema 1 stored (tests/vectors/README.md), the JSON in it too.
    #[test]
    fn rows_of_the_first_version_are_read() {
        let sql = Connection::open_in_memory().unwrap();
        sql.script(include_str!("../../../tests/vectors/storage/tenant_1.sql")).unwrap();
        let count = |table: &str| {
            let rows = sql.query(&format!("SELECT COUNT(*) FROM {table}"), &[]).unwrap();
            rows.into_iter().next().unwrap().number::<usize>().unwrap()
        };
        let (events, uses) = (count("audit"), count("evidence"));
        schema::migrate(&sql, schema::TENANT).unwrap();
        let mut store = SqlStore::new(&sql);
        let numbers = |store: &SqlStore<'_>| -> Vec<u64> {
            store.audit(None, 1_000).unwrap().iter().map(|event| event.id).collect()
        };
        assert!(events >= 20 && numbers(&store).into_iter().rev().eq(1..=events as u64));
        let event = store.audit(None, 1).unwrap().remove(0);
        store.append_audit(&event, NOW).unwrap();
        assert_eq!(numbers(&store)[0], events as u64 + 1, "numbers go on");

        assert_eq!(store.tokens(None, 100).unwrap().len(), 2);
        let runners = store.ended_runners(None, UnixTime::MAX, 100).unwrap();
        let visible = store.runners(None, 100).unwrap();
        assert_eq!((runners.len(), visible.len()), (8, 7));
        for mode in [Mode::BootstrapToken, Mode::AwsSts, Mode::GkeOidc, Mode::EksOidc] {
            assert!(visible.iter().any(|runner| runner.principal.mode() == mode), "{mode}");
        }
        for runner in &runners {
            for slot in [&runner.current, &runner.next].into_iter().flatten() {
                let serial = store.serial(&runner.id, &slot.serial).unwrap().expect("a serial of a slot");
                let presented = store.presented(&runner.id, &slot.serial, NOW).unwrap().expect("what a renewal asks");
                assert_eq!(
                    (&serial.spki_sha256, &presented.runner, &presented.serial),
                    (&slot.spki_sha256, runner, &serial)
                );
                let owners = store
                    .runners_by_key(runner.principal.mode(), &runner.principal.identity(), &slot.spki_sha256, "")
                    .unwrap();
                assert_eq!(owners, std::slice::from_ref(runner));
            }
        }
        let digests = sql.query("SELECT digest FROM evidence", &[]).unwrap();
        let read = digests.into_iter().filter_map(|mut row| store.evidence(&row.text().unwrap()).unwrap());
        assert_eq!(read.count(), uses);
        let banned = |runner: &&Runner| {
            let principal = &runner.principal;
            store.standing(principal.mode(), &runner.id, &principal.instance(), NOW).unwrap().banned
        };
        assert_eq!(runners.iter().filter(banned).count(), 2);
        let rules = store.meta("policy_rules").unwrap().expect("the rules of the tenant");
        assert!(serde_json::from_str::<Vec<verifier::appraisal::Rule>>(&rules).is_ok_and(|rules| rules.len() == 4));
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 100, ..ProptestConfig::default() })]
        #[test]
        fn any_sequence_keeps_the_invariants(steps in proptest::collection::vec(any::<[u8; 4]>(), 0..80)) {
            sequence::run(&mut SqlStore::new(&database()), &steps);
        }
    }

    /// SQLite with a record of what it was asked.
    struct Recorder {
        sql: Connection,
        asked: RefCell<Vec<String>>,
    }

    impl Recorder {
        fn new() -> Self {
            Self { sql: database(), asked: RefCell::default() }
        }

        /// How many statements read and how many wrote since the last call.
        fn asked(&self) -> (usize, usize) {
            let asked = self.asked.take();
            let reads = asked.iter().filter(|statement| statement.starts_with("SELECT")).count();
            (reads, asked.len() - reads)
        }
    }

    impl Sql for Recorder {
        fn query(&self, statement: &str, bindings: &[Bind<'_>]) -> Stored<Vec<Row>> {
            self.asked.borrow_mut().push(statement.to_owned());
            self.sql.query(statement, bindings)
        }

        fn script(&self, script: &str) -> Stored<()> {
            self.sql.script(script)
        }
    }

    /// What each call costs (docs/performance.md, Cost): more is a decision, not an accident.
    #[test]
    fn statements_of_a_call() {
        let sql = Recorder::new();
        let mut store = SqlStore::new(&sql);
        let mut world = World::new(&mut store);
        let pod_enrolment = |evidence: &str, key: &str| enrolment(&pod("u1"), evidence, key);
        let first = world.enroll(&pod_enrolment("e1", "k1")).unwrap();
        assert_eq!(sql.asked(), (3, 4), "enrolment of a new runner");
        world.enroll(&pod_enrolment("e1", "k1")).unwrap();
        assert_eq!(sql.asked(), (4, 1), "the same again");
        let again = world.enroll(&pod_enrolment("e2", "k1")).unwrap();
        assert_eq!(sql.asked(), (4, 5), "enrolment of a known runner");
        world.enroll(&pod_enrolment("e2", "k2")).unwrap_err();
        assert_eq!(sql.asked(), (2, 1), "evidence with another key");
        let second = world.renew(&renewal(&again, "k2")).unwrap();
        assert_eq!(sql.asked(), (3, 6), "the first renewal under a new policy");
        world.renew(&renewal(&second, "k3")).unwrap();
        assert_eq!(sql.asked(), (3, 4), "renewal");
        world.renew(&renewal(&first, "k2")).unwrap_err();
        sql.asked();
        let token = world.mint(1);
        assert_eq!(sql.asked(), (0, 2), "mint");
        world.enroll(&by_token(&token.token, "b1")).unwrap();
        assert_eq!(sql.asked(), (4, 5), "enrolment by token");
        world.enroll(&by_token(&token.token, "b2")).unwrap_err();
        assert_eq!(sql.asked(), (3, 1), "a token that is used up");
    }

    /// Look-ups on the way of an enrolment or renewal go by an index (PERFORMANCE P7).
    #[test]
    fn no_hot_statement_scans_a_table() {
        let sql = database();
        for statement in [
            rows::TOKEN,
            rows::RUNNER,
            rows::RUNNERS_BY_KEY,
            rows::STANDING,
            rows::SERIAL,
            rows::PRESENTED,
            rows::RENEWAL_OF,
            rows::LATEST_SERIAL,
            rows::COUNT_SERIALS,
            rows::EVIDENCE,
            rows::META,
            "DELETE FROM serials WHERE not_after < ?",
        ] {
            let parameters = sql.prepare(statement).unwrap().parameter_count();
            let bindings = vec![Bind::Text("x"); parameters];
            for mut row in sql.query(&format!("EXPLAIN QUERY PLAN {statement}"), &bindings).unwrap() {
                row.integer().unwrap();
                row.integer().unwrap();
                row.integer().unwrap();
                let plan = row.text().unwrap();
                assert!(!plan.starts_with("SCAN") || plan == "SCAN CONSTANT ROW", "{statement}: {plan}");
            }
        }
    }
}
