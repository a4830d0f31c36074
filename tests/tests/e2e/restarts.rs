//! The harness itself, and what must outlive a verifier that is stopped or killed.

use std::time::Duration;

use edge_tests::process::Stream;
use edge_tests::stack::{Key, Options, Stack, evidence, serial};
use rustix::process::Signal;
use serde_json::{Value, json};

#[test]
fn a_killed_verifier_comes_back_with_everything_it_answered() {
    let mut stack = Stack::start(Options::new("stack"));
    let token = stack.admin().mint("acme");
    let (key, next) = (Key::generate(), Key::generate());
    let attestation = evidence::token("bootstrap-token", &token.token);
    let enrolled = stack.enroll(&key, &attestation).expect(200).json();
    let logged = stack.logged(stack.enroll(&key, &attestation).expect(200).header("x-request-id").unwrap());
    assert_eq!(logged["event"], "enroll");
    assert_eq!(logged["tenant"], "acme");

    stack.kill();
    stack.restart();
    assert_eq!(stack.client().get("/healthz").expect(200).json()["status"], "ok");
    let again = stack.enroll(&key, &attestation).expect(200).json();
    for field in ["runner_id", "not_before", "not_after"] {
        assert_eq!(again[field], enrolled[field], "{field}");
    }
    let certificate = enrolled["certificate"].as_str().unwrap();
    assert_eq!(serial(again["certificate"].as_str().unwrap()), serial(certificate));
    assert_eq!(stack.admin().tokens("acme").items[0].uses, 1);

    stack.stop();
    stack.restart();
    let renewed = stack.renew(&key, certificate, &next).expect(200).json();
    assert_eq!(renewed["runner_id"], enrolled["runner_id"]);
    let runner = stack.admin().runner("acme", renewed["runner_id"].as_str().unwrap());
    assert_eq!(json!(runner)["state"], "active");
    assert_eq!(runner.serial, serial(renewed["certificate"].as_str().unwrap()));
    assert_ne!(runner.serial, serial(certificate));
}

/// For what the runner does at once, on a machine that is busy.
const SOON: Duration = Duration::from_secs(30);

#[test]
fn a_runner_keeps_its_certificate_while_the_verifier_is_away_and_renews_when_it_is_back() {
    let mut stack = Stack::start(Options::new("away"));
    let token = stack.admin().mint("acme");
    let host = stack.host("daemon").with_token(&token.token);
    let mut runner = host.start();
    let first = runner.wait_for_line(Stream::Stdout, "certificate", SOON, |line| line.starts_with('{')).unwrap();
    let first: Value = serde_json::from_str(&first).unwrap();
    let serial_now = || serial(&std::fs::read_to_string(host.state.join("certificate.pem")).unwrap());
    let enrolled = serial_now();

    stack.kill();
    let said = runner.stderr().lines().count();
    runner.signal(Signal::HUP).unwrap();
    let mut lines = 0;
    let complaint = runner.wait_for_line(Stream::Stderr, "complaint", SOON, |_| {
        lines += 1;
        lines > said
    });
    complaint.unwrap();
    assert_eq!(serial_now(), enrolled);

    stack.restart();
    runner.signal(Signal::HUP).unwrap();
    let renewed = runner.wait_for_line(Stream::Stdout, "next certificate", SOON, |line| {
        serde_json::from_str::<Value>(line)
            .is_ok_and(|line| line["runner_id"].is_string() && line["serial"] != first["serial"])
    });
    let renewed: Value = serde_json::from_str(&renewed.unwrap()).unwrap();
    assert_eq!(renewed["runner_id"], first["runner_id"]);
    assert_ne!(serial_now(), enrolled);
    assert_eq!(stack.admin().tokens("acme").items[0].uses, 1, "it renewed, and did not enrol again");
    assert!(runner.terminate().unwrap().success());
}
