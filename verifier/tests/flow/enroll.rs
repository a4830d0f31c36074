//! `POST /v1/enroll`.

use protocol::admin::BanScope;
use protocol::{Code, Reason};
use serde_json::{Value, json};

use crate::tokens::Signer;
use crate::world::{Refusal, Runner, World, good, invalid, refusal, token};

/// Each body has the fault of its line and, where there is room for them, those of all lines below.
#[test]
fn the_first_failure_wins_in_the_order_of_the_contract() {
    let world = World::new();
    let runner = Runner::new();
    let far = |claims: &mut Value| claims["iss"] = "https://evil.example".into();
    let lines: [(&str, Value, Refusal); 9] = [
        ("form", json!([runner.csr()]), (Code::MalformedRequest, None)),
        ("fields", json!({"csr": "x", "attestation": token(far), "more": 1}), (Code::MalformedRequest, None)),
        ("mode", json!({"csr": "x", "attestation": {"mode": "mtls-renewal"}}), (Code::MalformedRequest, None)),
        (
            "limits",
            json!({"csr": "x", "attestation": {"mode": "gke-oidc", "token": "a".repeat(16 * 1024 + 1)}}),
            (Code::MalformedRequest, None),
        ),
        ("csr", json!({"csr": "x", "attestation": {"mode": "gke-oidc", "token": "a"}}), (Code::CsrInvalid, None)),
        ("K1", runner.with(&json!({"mode": "gke-oidc", "token": "a"})), invalid(Reason::TokenMalformed)),
        ("K3", runner.with(&token(far)), invalid(Reason::IssuerUnknown)),
        ("K5", runner.with(&token(|claims| claims["aud"] = "other".into())), invalid(Reason::AudienceMismatch)),
        (
            "mapping",
            runner.with(&token(|claims| {
                claims["sub"] = "system:serviceaccount:runners:other".into();
                claims["kubernetes.io"]["serviceaccount"]["name"] = "other".into();
            })),
            (Code::IdentityNotMapped, None),
        ),
    ];
    for (line, body, expected) in lines {
        assert_eq!(refusal(world.enroll(&body)), expected, "{line}");
    }
    assert_eq!(world.records(), [], "no refusal before the object reaches an object");
}

/// In the object: K7, then ban, then state.
#[test]
fn a_used_token_comes_before_a_ban_and_a_ban_before_the_rest() {
    let world = World::new();
    let (runner, other) = (Runner::new(), Runner::new());
    let issued = world.enroll(&runner.with(&good("one"))).unwrap();
    world.ban(&issued.response.runner_id, BanScope::Instance);
    assert_eq!(refusal(world.enroll(&other.with(&good("one")))), invalid(Reason::TokenReused));
    assert_eq!(refusal(world.enroll(&other.with(&good("two")))), (Code::RunnerBanned, None));
    assert_eq!(refusal(world.enroll(&runner.with(&good("one")))), (Code::RunnerBanned, None));
}

/// CHECKS I3.
#[test]
fn the_same_request_again_is_the_same_allotment_and_changes_nothing() {
    let mut world = World::new();
    let runner = Runner::new();
    let body = runner.with(&good("one"));
    let first = world.enroll(&body).unwrap();
    let audited = |world: &World| world.records().len();
    let before = audited(&world);
    world.pass(10);
    let again = world.enroll(&body).unwrap();
    assert_eq!(again.allotment, first.allotment);
    assert_eq!(again.response.certificate, first.response.certificate);
    assert_ne!(again.response.server_time, first.response.server_time);
    assert_eq!(audited(&world), before);
}

/// CHECKS B4: everything else is verified first.
#[test]
fn a_bootstrap_token_is_spent_by_success_alone() {
    let world = World::new();
    let runner = Runner::new();
    let attestation = world.mint();
    for body in [
        json!({"csr": "x", "attestation": attestation}),
        json!({"csr": runner.csr(), "attestation": attestation, "more": 1}),
        runner.with(&json!({"mode": "bootstrap-token", "token": attestation["token"].as_str().unwrap().replace("acme", "closed")})),
        runner.with(&json!({"mode": "bootstrap-token", "token": attestation["token"].as_str().unwrap().replace("acme", "nobody")})),
    ] {
        world.enroll(&body).unwrap_err();
        assert_eq!(world.uses(), [0], "{body}");
    }
    // CHECKS B1: a name outside the policy never reaches an object.
    let tenants: Vec<String> = world.records().into_iter().map(|(tenant, _)| tenant).collect();
    assert_eq!(tenants, ["acme"]);
    world.enroll(&runner.with(&attestation)).unwrap();
    assert_eq!(world.uses(), [1]);
    // The same key again is the same use; another key is one too many.
    world.enroll(&runner.with(&attestation)).unwrap();
    let denied = refusal(world.enroll(&Runner::new().with(&attestation)));
    assert_eq!(denied, invalid(Reason::BootstrapTokenRefused));
    assert_eq!(world.uses(), [1]);
}

#[test]
fn what_is_not_available_outside_is_a_retry_and_leaves_nothing() {
    let runner = Runner::new();
    let world = World::cut_off();
    let denial = world.enroll(&runner.with(&good("one"))).unwrap_err();
    assert_eq!((denial.code, denial.reason), (Code::UpstreamUnavailable, None));
    assert!(denial.retry_after.is_some());
    let world = World::throttled();
    assert_eq!(refusal(world.enroll(&runner.with(&good("one")))), (Code::UpstreamUnavailable, None));
    assert_eq!(world.records(), []);
}

/// For the log and the audit: an identity is known from its proof on, a tenant from the mapping on.
#[test]
fn what_is_known_of_a_caller_is_what_was_proven() {
    let mut world = World::new();
    let runner = Runner::new();
    let known = |world: &World, attestation: &Value| {
        let (_, subject) = world.enroll_text(&runner.with(attestation).to_string());
        (subject.mode.is_some(), subject.identity.is_some(), subject.tenant, subject.runner_id.is_some())
    };
    let forged = json!({"mode": "gke-oidc", "token": Signer::new("b").sign(&crate::tokens::claims())});
    assert_eq!(known(&world, &forged), (true, false, None, false));
    let acme = Some("acme".to_owned());
    assert_eq!(known(&world, &good("one")), (true, true, acme.clone(), true));
    let token = world.mint();
    assert_eq!(known(&world, &token), (true, true, acme.clone(), true));
    let spent = world.enroll_text(&Runner::new().with(&token).to_string()).1;
    assert_eq!((&spent.identity, spent.proven_tenant()), (&None, None), "a token that is refused proves nothing");
    world.without_rules();
    assert_eq!(known(&world, &good("two")), (true, true, None, false));
}

/// CHECKS I2: the certificate is what was allotted, for the CSR's key, in the name of the tenant.
#[test]
fn the_answer_is_what_was_allotted() {
    let world = World::new();
    let runner = Runner::new();
    let issued = world.enroll(&runner.with(&good("one"))).unwrap();
    let (response, allotment) = (&issued.response, &issued.allotment);
    assert_eq!(response.tenant, "acme");
    assert_eq!(response.spiffe_id, format!("spiffe://edge.example.com/tenant/acme/runner/{}", response.runner_id));
    assert_eq!(allotment.not_before, world.now.plus(-60));
    assert_eq!(allotment.not_after, world.now.plus(3_600));
    assert_eq!(response.renew_after, world.now.plus(1_800).to_rfc3339());
    assert_eq!(response.reattest_before, Some(world.now.plus(86_400).to_rfc3339()));
    assert_eq!(response.server_time, world.now.to_rfc3339());
}
