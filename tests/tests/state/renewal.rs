//! Renewal (CHECKS I4 to I6): current and next, lost answers, two holders, what the policy and the operator took away.

use edge_tests::stack::{AUDIENCE, Key, evidence};
use serde_json::json;

use crate::support::{Held, Shared, assert_certificate_invalid, enroll_pod, enroll_token, pod, state};

static STACK: Shared = Shared::new("state-renewal");

#[test]
fn keys_rotate_and_the_runner_stays_the_same() {
    let stack = STACK.lock();
    let (first, _) = enroll_pod(&stack, "rotates");
    let same_key = Held::from(&first.key, first.renew(&stack, &first.key));
    assert_ne!(same_key.serial(), first.serial());
    let mut held = same_key;
    for _ in 0..3 {
        held = held.rotate(&stack);
        assert_eq!(held.runner_id, first.runner_id);
        assert_eq!(stack.admin().runner("acme", &held.runner_id).serial, held.serial());
    }
}

#[test]
fn a_lost_answer_is_repaired_by_asking_again() {
    let stack = STACK.lock();
    let (first, _) = enroll_pod(&stack, "lost");
    let next = Key::generate();
    let lost = Held::from(&next, first.renew(&stack, &next));
    let repaired = Held::from(&next, first.renew(&stack, &next));
    assert_eq!(repaired.serial(), lost.serial());
    let after = repaired.rotate(&stack);
    // The first use of `next` retired `first`; the answer to what it had asked stays what it was, and changes nothing.
    let late = Held::from(&next, first.renew(&stack, &next));
    assert_eq!(late.serial(), lost.serial());
    assert_eq!(stack.admin().runner("acme", &first.runner_id).serial, after.serial());
    assert_eq!(state(&stack, &first.runner_id), "active");
}

#[test]
fn another_key_replaces_next_and_the_log_says_so() {
    let stack = STACK.lock();
    let (first, _) = enroll_pod(&stack, "crashed-before-storing");
    let lost = first.rotate(&stack);
    let next = Key::generate();
    let answer = first.renew(&stack, &next);
    let request_id = answer.header("x-request-id").unwrap().to_owned();
    let replaced = Held::from(&next, answer);
    assert_ne!(replaced.serial(), lost.serial());
    let event = stack.admin().audit("acme").into_iter().find(|event| event.request_id == request_id).unwrap();
    assert_eq!(event.reason.as_deref(), Some("next_replaced"));
    // What was replaced is retired: whoever presents it is one of two holders.
    lost.renew(&stack, &Key::generate()).assert_problem(403, "certificate_superseded", "");
    assert_eq!(state(&stack, &first.runner_id), "suspect");
}

#[test]
fn two_holders_stop_both_until_a_full_attestation() {
    let stack = STACK.lock();
    let (first, used) = enroll_pod(&stack, "stolen");
    let second = first.rotate(&stack);
    let third = second.rotate(&stack);

    first.renew(&stack, &Key::generate()).assert_problem(403, "certificate_superseded", "");
    assert_eq!(state(&stack, &first.runner_id), "suspect");
    for held in [&first, &second, &third] {
        held.renew(&stack, &Key::generate()).assert_problem(403, "must_reattest", "");
    }
    // Evidence that was used does not clear it: the thief may have that, too.
    stack.enroll(&first.key, &used).assert_problem(401, "attestation_invalid", "token_reused");
    assert!(!stack.admin().revoked().contains(&third.serial()));

    let fresh = Held::from(&third.key, stack.enroll(&third.key, &pod(&stack, "stolen")));
    assert_eq!(fresh.runner_id, first.runner_id);
    assert_eq!(state(&stack, &first.runner_id), "active");
    stack.admin().assert_on_crl(&[first.serial(), second.serial(), third.serial()]);
    assert!(!stack.admin().revoked().contains(&fresh.serial()));
    for held in [&first, &second, &third] {
        assert_certificate_invalid(&held.renew(&stack, &Key::generate()));
    }
    fresh.rotate(&stack);
    let types: Vec<_> = stack.admin().audit("acme").into_iter().map(|event| json!(event)["type"].clone()).collect();
    assert!(types.contains(&json!("suspect")));
}

#[test]
fn a_reattestation_keeps_the_id_and_does_not_retire_current() {
    let stack = STACK.lock();
    let (first, _) = enroll_pod(&stack, "reattests");
    let second = Held::from(&first.key, stack.enroll(&first.key, &pod(&stack, "reattests")));
    assert_eq!(second.runner_id, first.runner_id);
    assert_ne!(second.serial(), first.serial());
    // `current` still renews: the answer to the re-attestation may have been lost.
    first.rotate(&stack);
}

#[test]
fn what_the_policy_took_away() {
    let stack = STACK.lock();
    let (in_pod, _) = enroll_pod(&stack, "unmapped");
    let (by_token, _) = enroll_token(&stack, "globex");
    let mut without_rule = stack.policy();
    without_rule["oidc_issuers"].as_array_mut().unwrap().remove(0);
    without_rule["tenants"][0]["rules"].as_array_mut().unwrap().remove(2);
    without_rule["tenants"].as_array_mut().unwrap().remove(1);
    stack.admin().apply(&without_rule);
    for held in [&in_pod, &by_token] {
        held.renew(&stack, &Key::generate()).assert_problem(403, "identity_not_mapped", "");
    }
    // To another tenant: the record stays where it is.
    let mut moved = stack.policy();
    let rule = moved["tenants"][0]["rules"].as_array_mut().unwrap().remove(2);
    moved["tenants"][1]["rules"].as_array_mut().unwrap().push(rule);
    stack.admin().apply(&moved);
    in_pod.renew(&stack, &Key::generate()).assert_problem(403, "identity_not_mapped", "");
    stack.admin().apply(&stack.policy());
    for held in [&in_pod, &by_token] {
        held.rotate(&stack);
    }
}

#[test]
fn what_the_operator_took_away() {
    let stack = STACK.lock();
    let (banned, _) = enroll_pod(&stack, "renews-banned");
    stack.admin().ban("acme", &banned.runner_id, &json!({}));
    banned.renew(&stack, &Key::generate()).assert_problem(403, "runner_banned", "");
    let (evicted, _) = enroll_pod(&stack, "renews-evicted");
    stack.admin().evict("acme", &evicted.runner_id);
    assert_certificate_invalid(&evicted.renew(&stack, &Key::generate()));
    stack.admin().assert_on_crl(&[banned.serial(), evicted.serial()]);
}

#[test]
fn the_proof_is_of_this_time_this_key_this_request() {
    let stack = STACK.lock();
    let (held, _) = enroll_pod(&stack, "proofs");
    let (other, _) = enroll_pod(&stack, "proofs-of-another");
    let next = Key::generate();
    let now = stack.now();
    let ask = |proof: &serde_json::Value| stack.client().post("/v1/renew", &evidence::request(&next, proof));
    let proof = |key: &Key, audience: &str, time, next: &Key| key.renewal(&held.certificate, audience, time, next);
    let mut moved = proof(&held.key, AUDIENCE, now, &next);
    moved["timestamp"] = json!(now + 1);
    for bad in [
        proof(&held.key, AUDIENCE, now - 310, &next),
        proof(&held.key, AUDIENCE, now + 320, &next),
        proof(&held.key, "other.example.com", now, &next),
        proof(&held.key, AUDIENCE, now, &Key::generate()),
        proof(&other.key, AUDIENCE, now, &next),
        moved,
    ] {
        ask(&bad).assert_problem(401, "attestation_invalid", "proof_invalid");
    }
    assert_eq!(stack.admin().runner("acme", &held.runner_id).serial, held.serial(), "nothing was allotted");
    ask(&proof(&held.key, AUDIENCE, now - 280, &next)).assert_status(200);
}
