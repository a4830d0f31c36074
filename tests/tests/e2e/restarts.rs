//! The harness itself, and what must outlive a verifier that is stopped or killed.

use edge_tests::stack::{Key, Options, Stack, evidence, serial};
use serde_json::json;

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
