//! Storage of other versions, in workerd: what an older one wrote goes on, what a newer one wrote is left alone, and a migration that fails
//! leaves everything as it was.
//!
//! `tests/vectors/storage/tenant_1.sql` is what the verifier of schema 1 stored of [`live`], pinned: rows, and the JSON inside them. A new
//! schema brings a file of its own: `PIN_STORAGE=<file> cargo test --workspace --test state migration` writes it.

use std::fs;

use edge_tests::emulators::TokenOptions;
use edge_tests::stack::{Answer, Key, Options, Stack, evidence, places};
use rusqlite::Connection;
use serde_json::{Value, json};

use crate::foreign::Forged;
use crate::storage;
use crate::support::{Held, assert_certificate_invalid, pod, state};

/// The schema of the `Tenant` object that this tree writes.
const SCHEMA: &str = "2";

// Keys of the runners that `live` makes, in the order of its lines.
const CURRENT: u8 = 1;
const NEXT: u8 = 2;
const BANNED: u8 = 3;
const EVICTED: u8 = 4;
const SUSPECT: [u8; 3] = [5, 6, 7];
const BY_TOKEN: u8 = 8;
const BANNED_BY_TOKEN: u8 = 9;
const AWS: u8 = 10;
const EKS: u8 = 11;
const SEEN_BY_VERIFY: u8 = 12;

/// A token of the pod of this name whose `jti` is that name, so that it is the same evidence whenever it is made.
fn pinned_pod(stack: &Stack, name: &str) -> Value {
    let options = TokenOptions { pod: name.to_owned(), jti: Some(name.to_owned()), ..TokenOptions::default() };
    evidence::token("gke-oidc", &stack.issuer.token(&options))
}

#[track_caller]
fn enroll(stack: &Stack, key: u8, attestation: &Value) -> Held {
    let key = Key::numbered(key);
    Held::from(&key, stack.enroll(&key, attestation))
}

#[track_caller]
fn renew(stack: &Stack, held: &Held, key: u8) -> Held {
    let key = Key::numbered(key);
    Held::from(&key, held.renew(stack, &key))
}

/// What tenant acme goes through before its storage is looked at: a row of every kind. Its two tokens, of which the second is revoked.
fn live(stack: &Stack) -> Vec<String> {
    let admin = stack.admin();
    renew(stack, &enroll(stack, CURRENT, &pinned_pod(stack, "renewed")), NEXT);
    let banned = enroll(stack, BANNED, &pinned_pod(stack, "banned"));
    admin.ban("acme", &banned.runner_id, &json!({"reason": "it's stolen"}));
    let evicted = enroll(stack, EVICTED, &pinned_pod(stack, "evicted"));
    admin.evict("acme", &evicted.runner_id);
    let first = enroll(stack, SUSPECT[0], &pinned_pod(stack, "suspect"));
    renew(stack, &renew(stack, &first, SUSPECT[1]), SUSPECT[2]);
    first.renew(stack, &Key::generate()).assert_problem(403, "certificate_superseded", "");
    let token = admin.mint_with("acme", &json!({"max_uses": 3, "ttl": "30d", "description": "for \"laptops\""}));
    let attestation = evidence::token("bootstrap-token", &token.token);
    enroll(stack, BY_TOKEN, &attestation);
    let banned = enroll(stack, BANNED_BY_TOKEN, &attestation);
    admin.ban("acme", &banned.runner_id, &json!({"scope": "runner"}));
    let revoked = admin.mint("acme");
    admin.revoke("acme", &revoked.id);
    let credentials = stack.sts.add_role_session("111122223333", "rootpilot-runner", "i-0pinned");
    enroll(stack, AWS, &stack.sts_request(&credentials, &Key::numbered(AWS)).evidence());
    enroll(stack, EKS, &evidence::token("eks-oidc", &stack.eks_token("eks")));
    let seen = json!({
        "attestation": pinned_pod(stack, "verified"), "spki_sha256": Key::numbered(SEEN_BY_VERIFY).spki_sha256(),
    });
    assert_eq!(stack.service().post("/v1/verify", &seen).expect(200).json()["consumed"], true);
    vec![token.token, revoked.token]
}

/// The pinned script, and the tokens that its first lines name.
fn pinned() -> (String, Vec<String>) {
    let script = fs::read_to_string(places::vectors().join("storage/tenant_1.sql")).unwrap();
    let tokens = script.lines().filter_map(|line| line.strip_prefix("-- token ")).map(str::to_owned).collect();
    (script, tokens)
}

/// A stopped stack whose tenant acme is as the pinned script left it, a minute ago.
fn stopped_with(name: &str, script: &str) -> Stack {
    let mut stack = Stack::start(Options::new(name));
    stack.admin().mint("acme");
    stack.stop();
    let now = stack.now();
    storage::object(&stack, storage::WITH_TOKENS, |sql| {
        storage::restore(sql, script);
        let kept: i64 = sql.query_row("SELECT MAX(time) FROM audit", [], |row| row.get(0)).unwrap();
        storage::shift_times(sql, now - 60 - kept);
    });
    stack
}

/// The runners of a stored tenant by key, with certificates made anew by its CA from what is recorded.
struct Fleet<'a> {
    stack: &'a Stack,
    /// Hash of the key, runner id, serial.
    recorded: Vec<(String, String, String)>,
}

fn spki_hex(key: u8) -> String {
    use sha2::{Digest as _, Sha256};
    base16ct::lower::encode_string(&Sha256::digest(Key::numbered(key).spki()))
}

impl Fleet<'_> {
    #[track_caller]
    fn held(&self, key: u8) -> Held {
        let hash = spki_hex(key);
        let of_key: Vec<_> = self.recorded.iter().filter(|(spki, ..)| *spki == hash).collect();
        let [(_, runner_id, serial)] = of_key[..] else { panic!("key {key}: {of_key:?}") };
        let (key, serial) = (Key::numbered(key), serial.clone());
        let ca = self.stack.folder().join("ca");
        let forged = Forged { ca, key: &key, runner_id, serial, usage: "clientAuth", days: "1" };
        Held { certificate: forged.make(self.stack.folder()), runner_id: runner_id.clone(), key: key.clone() }
    }

    fn state(&self, key: u8) -> Value {
        state(self.stack, &self.held(key).runner_id)
    }

    /// The answer to an enrolment of this key in a pod with new evidence.
    fn attest(&self, key: &Key, name: &str) -> Answer {
        self.stack.enroll(key, &pod(self.stack, name))
    }
}

fn recorded(sql: &Connection) -> Vec<(String, String, String)> {
    let mut statement = sql.prepare("SELECT spki_sha256, runner_id, serial FROM serials").unwrap();
    let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?))).unwrap();
    rows.map(Result::unwrap).collect()
}

/// As an object that died before it told the CRL anything, and one whose isolates are all behind: the rules it keeps decide.
fn interrupt(sql: &Connection) {
    sql.execute_batch(
        "DELETE FROM outbox;
         INSERT INTO outbox (serial, revoked_at, reason, not_after)
             SELECT serial, allotted_at, 9, not_after FROM serials WHERE revoked = 1;
         UPDATE meta SET value = '1000' WHERE name = 'policy_version';",
    )
    .unwrap();
}

/// Everything that was stored counts as if nothing had been in between. `stack` is stopped.
fn goes_on(stack: &mut Stack, tokens: &[String]) {
    let (recorded, events) = storage::object(stack, storage::WITH_RUNNERS, |sql| {
        interrupt(sql);
        let events: u32 = sql.query_row("SELECT COUNT(*) FROM audit", [], |row| row.get(0)).unwrap();
        (recorded(sql), u64::from(events))
    });
    stack.restart();
    let fleet = Fleet { stack, recorded };
    lists_are_whole(&fleet, events);
    renewals_go_on(&fleet);
    evidence_is_remembered(&fleet);
    tokens_count_on(&fleet, tokens);
    bans_hold(&fleet);
    let next = stack.admin().audit("acme").first().unwrap().id;
    assert!(next > events, "numbers of events go on: {next}");
    stack.stop();
    storage::object(stack, storage::WITH_RUNNERS, |sql| {
        let version: String =
            sql.query_row("SELECT value FROM meta WHERE name = 'schema'", [], |row| row.get(0)).unwrap();
        assert_eq!(version, SCHEMA);
        assert!(!storage::dump(sql).contains("audit_next"));
    });
}

fn lists_are_whole(fleet: &Fleet<'_>, events: u64) {
    let admin = fleet.stack.admin();
    for (key, expected) in [
        (NEXT, "active"),
        (BANNED, "banned"),
        (SUSPECT[0], "suspect"),
        (BY_TOKEN, "active"),
        (BANNED_BY_TOKEN, "banned"),
        (AWS, "active"),
        (EKS, "active"),
    ] {
        assert_eq!(fleet.state(key), expected, "{key}");
    }
    assert_eq!(admin.runners("acme").items.len(), 7);
    let path = format!("/v1/admin/tenants/acme/runners/{}", fleet.held(EVICTED).runner_id);
    admin.0.get(&path).assert_problem(404, "not_found", "");
    let uses: Vec<_> =
        admin.tokens("acme").items.into_iter().map(|item| (item.uses, item.max_uses, item.revoked)).collect();
    assert!(uses.contains(&(2, 3, false)) && uses.contains(&(0, 1, true)) && uses.len() == 2, "{uses:?}");
    let numbers: Vec<u64> = admin.audit("acme").iter().map(|event| event.id).collect();
    assert_eq!(numbers, (1..=events).rev().collect::<Vec<u64>>());
}

fn renewals_go_on(fleet: &Fleet<'_>) {
    let stack = fleet.stack;
    let (current, next) = (fleet.held(CURRENT), fleet.held(NEXT));
    // The answer that was given, given again; then it is used.
    assert_eq!(renew(stack, &current, NEXT).serial(), next.serial());
    let after = next.rotate(stack);
    assert_eq!(after.runner_id, current.runner_id);
    for key in [BY_TOKEN, AWS, EKS] {
        let held = fleet.held(key);
        assert_eq!(held.rotate(stack).rotate(stack).runner_id, held.runner_id);
    }
    let [first, second, third] = SUSPECT.map(|key| fleet.held(key));
    for held in [&first, &second, &third] {
        held.renew(stack, &Key::generate()).assert_problem(403, "must_reattest", "");
    }
    let cleared = Held::from(&third.key, fleet.attest(&third.key, "suspect"));
    assert_eq!((cleared.runner_id.clone(), fleet.state(SUSPECT[0])), (first.runner_id, json!("active")));
    cleared.rotate(stack);
}

fn evidence_is_remembered(fleet: &Fleet<'_>) {
    let stack = fleet.stack;
    let current = fleet.held(CURRENT);
    assert_eq!(enroll(stack, CURRENT, &pinned_pod(stack, "renewed")).serial(), current.serial());
    for name in ["renewed", "banned", "evicted", "suspect", "verified"] {
        let thief = stack.enroll(&Key::generate(), &pinned_pod(stack, name));
        thief.assert_problem(401, "attestation_invalid", "token_reused");
    }
    let evicted = fleet.held(EVICTED);
    let used = stack.enroll(&evicted.key, &pinned_pod(stack, "evicted"));
    used.assert_problem(401, "attestation_invalid", "token_reused");
    assert_certificate_invalid(&evicted.renew(stack, &Key::generate()));
    enroll(stack, SEEN_BY_VERIFY, &pinned_pod(stack, "verified"));
    // Any key of the runner, with new evidence.
    let again = Held::from(&Key::numbered(NEXT), fleet.attest(&Key::numbered(NEXT), "renewed"));
    assert_eq!(again.runner_id, current.runner_id);
}

fn tokens_count_on(fleet: &Fleet<'_>, tokens: &[String]) {
    let stack = fleet.stack;
    let [usable, revoked] = tokens else { panic!("{tokens:?}") };
    let by = |token: &str| evidence::token("bootstrap-token", token);
    let (again, first) = (enroll(stack, BY_TOKEN, &by(usable)), fleet.held(BY_TOKEN));
    assert_eq!((again.serial(), again.runner_id), (first.serial(), first.runner_id));
    let last = Key::generate();
    Held::from(&last, stack.enroll(&last, &by(usable)));
    for (token, cause) in [(usable, "used_up"), (revoked, "revoked")] {
        let refused = stack.enroll(&Key::generate(), &by(token));
        refused.assert_problem(401, "attestation_invalid", "bootstrap_token_refused");
        assert_eq!(json!(stack.admin().audit("acme")[0])["cause"], cause);
    }
}

fn bans_hold(fleet: &Fleet<'_>) {
    let stack = fleet.stack;
    for key in [BANNED, BANNED_BY_TOKEN] {
        fleet.held(key).renew(stack, &Key::generate()).assert_problem(403, "runner_banned", "");
    }
    let banned = fleet.held(BANNED);
    for key in [&banned.key, &Key::generate()] {
        fleet.attest(key, "banned").assert_problem(403, "runner_banned", "");
    }
    stack.admin().assert_on_crl(&[BANNED, EVICTED, BANNED_BY_TOKEN].map(|key| fleet.held(key).serial()));
    assert_eq!(stack.admin().unban("acme", &banned.runner_id)["state"], "expired");
    assert_eq!(Held::from(&banned.key, fleet.attest(&banned.key, "banned")).runner_id, banned.runner_id);
}

#[test]
fn what_this_version_stores_goes_on() {
    let mut stack = Stack::start(Options::new("state-present"));
    let tokens = live(&stack);
    stack.stop();
    if let Some(file) = std::env::var_os("PIN_STORAGE") {
        let names: String = tokens.iter().flat_map(|token| ["-- token ", token, "\n"]).collect();
        let script = storage::object(&stack, storage::WITH_RUNNERS, storage::dump);
        fs::write(file, names + &script).unwrap();
    }
    goes_on(&mut stack, &tokens);
}

#[test]
fn what_the_first_version_stored_goes_on() {
    let (script, tokens) = pinned();
    let mut stack = stopped_with("state-first-version", &script);
    goes_on(&mut stack, &tokens);
}

#[track_caller]
fn assert_unavailable(answer: &Answer) {
    answer.assert_problem(503, "upstream_unavailable", "");
    assert!(answer.header("retry-after").is_some(), "it is to be tried again");
}

/// Every kind of call to tenant acme is told to come again.
#[track_caller]
fn nothing_is_decided(stack: &Stack, held: &Held) {
    let (admin, acme) = (stack.admin().0, "/v1/admin/tenants/acme");
    let call = json!({"attestation": pod(stack, "new"), "spki_sha256": held.key.spki_sha256(), "consume": false});
    let runner = format!("{acme}/runners/{}", held.runner_id);
    for answer in [
        stack.enroll(&Key::generate(), &pod(stack, "new")),
        held.renew(stack, &Key::generate()),
        stack.service().post("/v1/verify", &call),
        admin.get(&format!("{acme}/tokens")),
        admin.get(&format!("{acme}/audit")),
        admin.get(&runner),
        admin.post(&format!("{acme}/tokens"), &json!({})),
        admin.post(&format!("{runner}/ban"), &json!({})),
        admin.post(&format!("{runner}/evict"), &json!({})),
    ] {
        assert_unavailable(&answer);
    }
    stack.client().get("/healthz").assert_status(200);
    stack.admin().mint("globex");
}

fn set_schema(sql: &Connection, version: &str) {
    let changed = sql.execute("UPDATE meta SET value = ? WHERE name = 'schema'", [version]).unwrap();
    assert_eq!(changed, 1);
}

#[test]
fn a_migration_that_fails_midway_leaves_everything_as_it_was() {
    let (script, _) = pinned();
    let mut stack = stopped_with("state-half-migrated", &script);
    // The last statement of the migration cannot rename a table while a view looks at it; the ones before it dropped the old one.
    let before = storage::object(&stack, storage::WITH_RUNNERS, |sql| {
        sql.execute_batch("CREATE VIEW onlooker AS SELECT event FROM audit").unwrap();
        (recorded(sql), storage::dump(sql))
    });
    stack.restart();
    let held = Fleet { stack: &stack, recorded: before.0.clone() }.held(NEXT);
    nothing_is_decided(&stack, &held);
    assert!(stack.log_text().contains("onlooker"), "the log says why: {}", stack.log_text());
    stack.stop();
    storage::object(&stack, storage::WITH_RUNNERS, |sql| {
        assert_eq!((recorded(sql), storage::dump(sql)), before);
        sql.execute_batch("DROP VIEW onlooker").unwrap();
    });
    stack.restart();
    held.rotate(&stack);
}

#[test]
fn what_a_newer_version_stored_is_left_alone() {
    let mut stack = Stack::start(Options::new("state-newer"));
    let held = enroll(&stack, 1, &pod(&stack, "newer"));
    stack.stop();
    let before = storage::object(&stack, storage::WITH_RUNNERS, |sql| {
        sql.execute_batch("ALTER TABLE runners ADD COLUMN of_tomorrow TEXT NOT NULL DEFAULT 'kept'").unwrap();
        set_schema(sql, "99");
        storage::dump(sql)
    });
    stack.restart();
    nothing_is_decided(&stack, &held);
    assert!(stack.log_text().contains("schema 99 is newer"), "the log says why: {}", stack.log_text());
    stack.stop();
    storage::object(&stack, storage::WITH_RUNNERS, |sql| {
        assert_eq!(storage::dump(sql), before);
        set_schema(sql, SCHEMA);
        sql.execute_batch("ALTER TABLE runners DROP COLUMN of_tomorrow").unwrap();
    });
    stack.restart();
    held.rotate(&stack);
}

/// The tenant's outbox keeps what the CRL is not told yet (CHECKS I7), and without a policy nothing is decided.
#[test]
fn newer_revocations_and_policies_are_left_alone_too() {
    let mut stack = Stack::start(Options::new("state-newer-others"));
    let held = enroll(&stack, 1, &pod(&stack, "newer"));
    stack.admin().crl();
    stack.stop();
    storage::object(&stack, storage::REVOCATION, |sql| set_schema(sql, "99"));
    stack.restart();
    assert_eq!(stack.admin().ban("acme", &held.runner_id, &json!({}))["state"], "banned");
    assert_unavailable(&stack.client().get("/v1/crl"));
    assert_unavailable(&stack.client().get("/v1/crl.pem"));
    stack.stop();
    storage::object(&stack, storage::REVOCATION, |sql| set_schema(sql, "1"));
    let policy = storage::object(&stack, storage::POLICY, |sql| {
        set_schema(sql, "99");
        storage::dump(sql)
    });
    stack.restart();
    stack.admin().assert_on_crl(&[held.serial()]);
    let other = stack.enroll(&Key::generate(), &pod(&stack, "other"));
    assert_unavailable(&other);
    assert_unavailable(&stack.admin().0.get("/v1/admin/policy"));
    assert_unavailable(&stack.admin().0.call("PUT", "/v1/admin/policy", &stack.policy()));
    stack.stop();
    storage::object(&stack, storage::POLICY, |sql| {
        assert_eq!(storage::dump(sql), policy);
        set_schema(sql, "1");
    });
    stack.restart();
    stack.enroll(&Key::generate(), &pod(&stack, "other")).assert_status(200);
}
