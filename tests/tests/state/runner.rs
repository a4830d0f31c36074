//! The real runner against the real verifier: renewal with a new key, a crash between key and answer, what sends it back to its evidence.

use std::fs;
use std::time::Duration;

use edge_tests::process::{ChildProcess, Stream};
use edge_tests::stack::{Host, Options, Stack, serial};
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::storage;
use crate::support::{Shared, state};
use crate::swallow::Relay;

static STACK: Shared = Shared::new("state-runner");

/// For what the runner does at once, on a machine that is busy.
const SOON: Duration = Duration::from_secs(30);

/// A runner that was started, and the certificates that it spoke of.
struct Running<'a> {
    host: &'a Host,
    process: ChildProcess,
    /// Their serials.
    known: Vec<String>,
}

impl<'a> Running<'a> {
    fn start(host: &'a Host) -> Self {
        Self { host, process: host.start(), known: Vec::new() }
    }

    /// The next line on standard output that speaks of a certificate not spoken of before.
    #[track_caller]
    fn next_certificate(&mut self) -> Value {
        let known = &self.known;
        let line = self.process.wait_for_line(Stream::Stdout, "another certificate", SOON, |line| {
            let line: Value = serde_json::from_str(line).unwrap_or_default();
            line["serial"].as_str().is_some_and(|serial| known.iter().all(|known| known != serial))
        });
        let line = line.unwrap_or_else(|error| panic!("{error}\n{}", self.process.stderr()));
        let line: Value = serde_json::from_str(&line).unwrap();
        self.known.push(text(&line, "serial"));
        line
    }

    /// Asks it to renew now.
    fn hurry(&self) {
        self.process.signal(Signal::HUP).unwrap();
    }

    /// Waits until it says something with this text on standard error, beyond the first `known` lines.
    #[track_caller]
    fn says(&mut self, text: &str, known: usize) {
        let mut seen = 0;
        let said = self.process.wait_for_line(Stream::Stderr, text, SOON, |line| {
            seen += 1;
            seen > known && line.contains(text)
        });
        said.unwrap_or_else(|error| panic!("{error}\n{}", self.process.stderr()));
    }

    fn lines(&self) -> usize {
        self.process.stderr().lines().count()
    }

    /// Serial of the certificate on disk.
    fn serial(&self) -> String {
        serial_of(self.host)
    }
}

fn serial_of(host: &Host) -> String {
    serial(&fs::read_to_string(host.state.join("certificate.pem")).unwrap())
}

fn key_of(host: &Host) -> String {
    fs::read_to_string(host.state.join("key.pem")).unwrap()
}

fn text(value: &Value, name: &str) -> String {
    value[name].as_str().unwrap_or_else(|| panic!("{name} of {value}")).to_owned()
}

/// A machine with new evidence of the pod of this name.
fn pod_host(stack: &Stack, name: &str) -> Host {
    stack.host(name).with_projected("gke-oidc", &stack.gke_token(name))
}

/// New evidence for the same machine, as kubelet would write it.
fn refresh_token(stack: &Stack, host: &Host, name: &str) {
    let _ = host.clone().with_projected("gke-oidc", &stack.gke_token(name));
}

#[test]
fn it_renews_with_a_new_key_each_time_and_stays_the_same_runner() {
    let stack = STACK.lock();
    let host = pod_host(&stack, "renews");
    let mut runner = Running::start(&host);
    let first = runner.next_certificate();
    let runner_id = text(&first, "runner_id");
    let mut keys = vec![key_of(&host)];
    for _ in 0..3 {
        runner.hurry();
        let next = runner.next_certificate();
        assert_eq!(next["runner_id"], first["runner_id"]);
        assert_eq!(next["serial"], runner.serial());
        assert_eq!(stack.admin().runner("acme", &runner_id).serial, runner.serial());
        keys.push(key_of(&host));
    }
    keys.sort_unstable();
    keys.dedup();
    assert_eq!(keys.len(), 4, "a new key at each renewal");
    let types: Vec<Value> = events_of(&stack, &runner_id).iter().map(|event| event["type"].clone()).collect();
    assert_eq!(types, [json!("renew"), json!("renew"), json!("renew"), json!("enroll")]);
    assert!(runner.process.terminate().unwrap().success());
}

fn events_of(stack: &Stack, runner_id: &str) -> Vec<Value> {
    let events = stack.admin().audit("acme").into_iter().map(|event| json!(event));
    events.filter(|event| event["runner_id"] == runner_id).collect()
}

/// Killed when the record has the next certificate, the disk its key, and the runner no answer: the same request repeats the answer.
#[test]
fn killed_between_storing_the_key_and_the_answer_it_goes_on_from_there() {
    let stack = STACK.lock();
    let relay = Relay::start(&stack);
    let host = pod_host(&stack, "crashes").with("RUNNER_CONTROL_PLANE_URL", relay.url());
    let mut runner = Running::start(&host);
    let first = runner.next_certificate();
    let (runner_id, enrolled) = (text(&first, "runner_id"), text(&first, "serial"));
    let key = key_of(&host);

    relay.swallow_next_answer();
    runner.hurry();
    relay.wait_until_swallowed();
    runner.process.kill().unwrap();
    let allotted = stack.admin().runner("acme", &runner_id).serial;
    assert_ne!(allotted, enrolled, "the record has the next certificate");
    assert_eq!((serial_of(&host), key_of(&host)), (enrolled.clone(), key), "the disk has the old one");

    let mut runner = Running::start(&host);
    assert_eq!(runner.next_certificate()["serial"], enrolled);
    runner.hurry();
    let repaired = runner.next_certificate();
    assert_eq!((text(&repaired, "serial"), text(&repaired, "runner_id")), (allotted.clone(), runner_id.clone()));
    runner.hurry();
    let after = text(&runner.next_certificate(), "serial");
    assert_eq!(runner.serial(), after);
    assert_eq!(state(&stack, &runner_id), "active");
    let renewals = events_of(&stack, &runner_id).into_iter().filter(|event| event["type"] == "renew");
    assert!(renewals.clone().all(|event| event["outcome"] == "allow"));
    assert_eq!(renewals.count(), 3, "the lost one, its repetition, the next");
    assert!(runner.process.terminate().unwrap().success());
}

/// The first answer of all is lost, and the token is used up by then.
#[test]
fn killed_before_the_answer_to_its_enrolment_it_repeats_that() {
    let stack = STACK.lock();
    let relay = Relay::start(&stack);
    let token = stack.admin().mint("acme");
    let host = stack.host("crashes-at-once").with_token(&token.token).with("RUNNER_CONTROL_PLANE_URL", relay.url());
    relay.swallow_next_answer();
    let mut runner = host.start();
    relay.wait_until_swallowed();
    runner.kill().unwrap();
    let allotted = stack.admin().runners("acme").items.into_iter().find(|item| item.identity.ends_with(&token.id));
    let allotted = allotted.expect("the record has the runner");
    assert!(!host.state.join("certificate.pem").exists());
    let enrolled = host.run(&["enroll"]).expect(0).json();
    assert_eq!((&enrolled["runner_id"], &enrolled["serial"]), (&json!(allotted.runner_id), &json!(allotted.serial)));
    let uses: Vec<u32> = stack
        .admin()
        .tokens("acme")
        .items
        .into_iter()
        .filter(|item| item.id == token.id)
        .map(|item| item.uses)
        .collect();
    assert_eq!(uses, [1]);
}

/// The time of the last full attestation is put back in the storage of the verifier, which is what a day without one amounts to.
#[test]
fn past_its_reattestation_it_attests_and_keeps_its_id() {
    let mut stack = Stack::start(Options::new("state-reattests"));
    let host = pod_host(&stack, "reattests");
    let mut runner = Running::start(&host);
    let first = runner.next_certificate();
    let (runner_id, enrolled) = (text(&first, "runner_id"), text(&first, "serial"));

    stack.stop();
    let changed = storage::object(&stack, storage::WITH_RUNNERS, |sql| {
        sql.execute("UPDATE runners SET attested_at = attested_at - 86400 WHERE id = ?", [&runner_id]).unwrap()
    });
    assert_eq!(changed, 1);
    stack.restart();
    let long_ago = stack.admin().runner("acme", &runner_id).attested_at;

    // Its token was used: it says so and waits for another one, and keeps the certificate meanwhile.
    let known = runner.lines();
    runner.hurry();
    runner.says("token_reused", known);
    let denied = events_of(&stack, &runner_id);
    assert_eq!((&denied[0]["reason"], &denied[1]["code"]), (&json!("token_reused"), &json!("must_reattest")));
    assert_eq!(runner.serial(), enrolled);
    refresh_token(&stack, &host, "reattests");
    let again = runner.next_certificate();
    assert_eq!(text(&again, "runner_id"), runner_id);
    let record = stack.admin().runner("acme", &runner_id);
    assert_eq!(record.serial, runner.serial());
    assert!(record.attested_at > long_ago, "{} {long_ago}", record.attested_at);
    runner.hurry();
    assert_eq!(text(&runner.next_certificate(), "runner_id"), runner_id);
    assert!(runner.process.terminate().unwrap().success());
}

#[test]
fn banned_it_keeps_what_it_has_and_says_why() {
    let stack = STACK.lock();
    let host = pod_host(&stack, "runner-banned");
    let mut runner = Running::start(&host);
    let first = runner.next_certificate();
    let (runner_id, enrolled) = (text(&first, "runner_id"), text(&first, "serial"));
    stack.admin().ban("acme", &runner_id, &json!({"reason": "lost"}));
    let known = runner.lines();
    runner.hurry();
    runner.says("runner_banned", known);
    assert_eq!(runner.serial(), enrolled);
    stack.admin().assert_on_crl(std::slice::from_ref(&enrolled));
    assert!(runner.process.terminate().unwrap().success());

    // After unban it attests: what was revoked stays so.
    let _ = stack.admin().unban("acme", &runner_id);
    refresh_token(&stack, &host, "runner-banned");
    let mut runner = Running::start(&host);
    assert_eq!(runner.next_certificate()["serial"], enrolled);
    runner.hurry();
    let back = runner.next_certificate();
    assert_eq!(text(&back, "runner_id"), runner_id);
    assert_eq!(state(&stack, &runner_id), "active");
    assert!(runner.process.terminate().unwrap().success());
}

#[test]
fn evicted_it_comes_back_with_new_evidence() {
    let stack = STACK.lock();
    let host = pod_host(&stack, "runner-evicted");
    let mut runner = Running::start(&host);
    let first = runner.next_certificate();
    let (runner_id, enrolled) = (text(&first, "runner_id"), text(&first, "serial"));
    stack.admin().evict("acme", &runner_id);
    let known = runner.lines();
    runner.hurry();
    runner.says("token_reused", known);
    stack.admin().0.get(&format!("/v1/admin/tenants/acme/runners/{runner_id}")).assert_problem(404, "not_found", "");
    refresh_token(&stack, &host, "runner-evicted");
    let back = runner.next_certificate();
    let now = stack.admin().runner("acme", &text(&back, "runner_id"));
    assert_eq!((now.serial, json!(now.state)), (text(&back, "serial"), json!("active")));
    stack.admin().assert_on_crl(&[enrolled]);
    assert!(runner.process.terminate().unwrap().success());
}
