//! Evidence belongs to the first key that used it (CHECKS K7, S8).

use edge_tests::stack::{ACME_ACCOUNT, ACME_ROLE, Key, evidence};
use serde_json::json;

use crate::support::{Held, Shared, all_at_once, enroll_pod};

static STACK: Shared = Shared::new("state-replay");

#[test]
fn a_projected_token_is_of_one_key() {
    let stack = STACK.lock();
    for (mode, token) in [("gke-oidc", stack.gke_token("replay")), ("eks-oidc", stack.eks_token("replay"))] {
        let (key, attestation) = (Key::generate(), evidence::token(mode, &token));
        let first = Held::from(&key, stack.enroll(&key, &attestation));
        stack.enroll(&Key::generate(), &attestation).assert_problem(401, "attestation_invalid", "token_reused");
        let again = Held::from(&key, stack.enroll(&key, &attestation));
        assert_eq!((again.serial(), again.runner_id), (first.serial(), first.runner_id));
    }
}

#[test]
fn of_many_keys_at_once_one_gets_the_token() {
    let stack = STACK.lock();
    let attestation = evidence::token("gke-oidc", &stack.gke_token("race"));
    let outcomes = all_at_once(20, |_| stack.enroll(&Key::generate(), &attestation).outcome());
    let admitted = outcomes.iter().filter(|(status, ..)| *status == 200).count();
    let reused = outcomes.iter().filter(|(_, _, reason)| reason == "token_reused").count();
    assert_eq!((admitted, reused), (1, 19), "{outcomes:?}");
}

#[test]
fn a_captured_sts_request_is_refused_before_any_call() {
    let stack = STACK.lock();
    let key = Key::generate();
    let credentials = stack.sts.add_role_session(ACME_ACCOUNT, ACME_ROLE, "i-0replay");
    let captured = stack.sts_request(&credentials, &key).evidence();
    let thief = Key::generate();
    stack.enroll(&thief, &captured).assert_problem(401, "attestation_invalid", "binding_mismatch");
    let mut rewritten = captured.clone();
    rewritten["headers"]["x-rootpilot-binding"] = json!(evidence::binding("edge.example.com", &thief));
    assert_eq!(stack.sts.request_count(), 0);
    // With the thief's own binding the check holds, and the signature of the owner does not.
    stack.enroll(&thief, &rewritten).assert_problem(401, "attestation_invalid", "sts_refused");

    let first = Held::from(&key, stack.enroll(&key, &captured));
    let again = Held::from(&key, stack.enroll(&key, &captured));
    assert_eq!((again.serial(), again.runner_id), (first.serial(), first.runner_id));
    stack.enroll(&thief, &captured).assert_problem(401, "attestation_invalid", "binding_mismatch");
}

#[test]
fn a_replayed_enrolment_moves_nothing() {
    let stack = STACK.lock();
    let (held, attestation) = enroll_pod(&stack, "moves-nothing");
    let next = held.rotate(&stack);
    let before = json!(stack.admin().runner("acme", &held.runner_id));
    let replayed = Held::from(&held.key, stack.enroll(&held.key, &attestation));
    assert_eq!(replayed.serial(), held.serial());
    let after = stack.admin().runner("acme", &held.runner_id);
    assert_eq!(
        (json!(after)["serial"].clone(), json!(after.attested_at)),
        (json!(next.serial()), before["attested_at"].clone())
    );
    next.rotate(&stack);
}

#[test]
fn evidence_spent_by_verify_is_spent() {
    let stack = STACK.lock();
    let (key, thief) = (Key::generate(), Key::generate());
    let attestation = evidence::token("gke-oidc", &stack.gke_token("verify"));
    let ask = |key: &Key, consume: bool| {
        let call = json!({"attestation": attestation, "spki_sha256": key.spki_sha256(), "consume": consume});
        stack.service().post("/v1/verify", &call).expect(200).json()
    };
    assert_eq!(ask(&thief, false)["decision"], "allow", "explaining binds nothing");
    assert_eq!(ask(&key, true)["consumed"], true);
    let refused = ask(&thief, true);
    assert_eq!((&refused["reason"], &refused["consumed"]), (&json!("token_reused"), &json!(false)));
    stack.enroll(&thief, &attestation).assert_problem(401, "attestation_invalid", "token_reused");
    stack.enroll(&key, &attestation).assert_status(200);
}
