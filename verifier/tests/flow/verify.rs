//! `POST /v1/verify`.

use protocol::admin::BanScope;
use protocol::{Code, Decision, Reason, TraceOutcome, VerifyResponse};
use serde_json::{Value, json};
use verifier::checks::Check;

use crate::world::{Runner, World, good, invalid, refusal, token};

fn explain(runner: &Runner, attestation: &Value) -> Value {
    json!({"csr": runner.csr(), "attestation": attestation, "consume": false})
}

fn consume(runner: &Runner, attestation: &Value) -> Value {
    json!({"spki_sha256": runner.spki_sha256(), "attestation": attestation})
}

fn refused_with(response: &VerifyResponse) -> (Option<Code>, Option<Reason>) {
    assert_eq!((response.decision, response.consumed), (Decision::Deny, false));
    (response.code, response.reason)
}

/// `K1+ K2+ K3- K4. …`: passed, failed, not reached.
fn outline(response: &VerifyResponse) -> String {
    let entries = response.trace.iter().map(|entry| {
        let outcome = match entry.outcome {
            TraceOutcome::Pass => '+',
            TraceOutcome::Fail => '-',
            TraceOutcome::Skipped => '.',
        };
        format!("{}{outcome}", entry.check)
    });
    entries.collect::<Vec<_>>().join(" ")
}

#[test]
fn an_allowed_appraisal_passes_every_check_of_its_mode() {
    let world = World::new();
    let runner = Runner::new();
    let response = world.verify(&explain(&runner, &good("one"))).unwrap();
    assert_eq!((response.decision, response.code, response.reason), (Decision::Allow, None, None));
    assert_eq!(outline(&response), "K1+ K2+ K3+ K4+ K5+ K6+ M1+ K7+ M2+");
    assert_eq!((response.tenant.as_deref(), response.consumed), (Some("acme"), false));
    assert!(response.identity.unwrap().ends_with("#system:serviceaccount:runners:runner"));
    let response = world.verify(&explain(&runner, &world.mint())).unwrap();
    assert_eq!(outline(&response), "B1+ B3+ M2+");
}

/// What passed comes first, then the check that refused, then what was not reached.
#[test]
fn a_refusal_stands_in_the_trace_where_it_happened() {
    let mut world = World::new();
    let runner = Runner::new();
    let outline_of = |world: &World, attestation: &Value| {
        let response = world.verify(&explain(&runner, attestation)).unwrap();
        (outline(&response), response.reason.or(None), response.identity.is_some(), response.tenant)
    };
    let issuer = token(|claims| claims["iss"] = "https://evil.example".into());
    assert_eq!(
        outline_of(&world, &issuer),
        ("K1+ K2+ K3- K4. K5. K6. M1. K7. M2.".to_owned(), Some(Reason::IssuerUnknown), false, None)
    );
    let audience = token(|claims| claims["aud"] = "other".into());
    assert_eq!(
        outline_of(&world, &audience),
        ("K1+ K2+ K3+ K4+ K5- K6. M1. K7. M2.".to_owned(), Some(Reason::AudienceMismatch), false, None)
    );
    let acme = Some("acme".to_owned());
    world.enroll(&Runner::new().with(&good("one"))).unwrap();
    assert_eq!(
        outline_of(&world, &good("one")),
        ("K1+ K2+ K3+ K4+ K5+ K6+ M1+ K7- M2.".to_owned(), Some(Reason::TokenReused), true, acme.clone())
    );
    let enrolled = world.enroll(&runner.with(&good("two"))).unwrap();
    world.ban(&enrolled.response.runner_id, BanScope::Instance);
    assert_eq!(
        outline_of(&world, &good("three")),
        ("K1+ K2+ K3+ K4+ K5+ K6+ M1+ K7+ M2-".to_owned(), None, true, acme)
    );
    world.without_rules();
    let unmapped = world.verify(&explain(&runner, &good("four"))).unwrap();
    assert_eq!(refused_with(&unmapped), (Some(Code::IdentityNotMapped), None));
    assert_eq!(outline(&unmapped), "K1+ K2+ K3+ K4+ K5+ K6+ M1- K7. M2.");
    assert!(unmapped.identity.is_some() && unmapped.tenant.is_none());
}

/// Values compared are there for people; a token is not.
#[test]
fn a_trace_names_both_values_and_no_secret() {
    let world = World::new();
    let attestation = world.mint();
    let text = attestation["token"].as_str().unwrap();
    for attestation in [attestation.clone(), good("one"), token(|claims| claims["aud"] = "other".into())] {
        let response = world.verify(&explain(&Runner::new(), &attestation)).unwrap();
        let shown = serde_json::to_string(&response).unwrap();
        assert!(!shown.contains(attestation["token"].as_str().unwrap()), "{shown}");
        assert!(!shown.contains(text.rsplit('_').next().unwrap()), "{shown}");
        for entry in &response.trace {
            let check = Check::ALL.iter().find(|check| check.id() == entry.check).unwrap();
            assert_eq!(entry.name, check.name());
            let values = (entry.expected.is_some(), entry.actual.is_some());
            assert_eq!(values == (true, true), entry.outcome != TraceOutcome::Skipped, "{entry:?}");
        }
    }
}

/// `consume: false` writes nothing, audit included, and answers as enroll would.
#[test]
fn explaining_leaves_no_trace_in_the_record() {
    let world = World::new();
    let (runner, other) = (Runner::new(), Runner::new());
    let token = world.mint();
    world.enroll(&runner.with(&good("one"))).unwrap();
    world.enroll(&runner.with(&token)).unwrap();
    let before = world.records();
    for attestation in [good("one"), good("two"), token.clone(), world_closed(&token)] {
        for who in [&runner, &other] {
            world.verify(&explain(who, &attestation)).unwrap();
            assert_eq!(world.records(), before, "{attestation}");
        }
    }
    let spent = world.verify(&explain(&other, &token)).unwrap();
    assert_eq!(refused_with(&spent), (Some(Code::AttestationInvalid), Some(Reason::BootstrapTokenRefused)));
    assert_eq!((spent.identity, spent.tenant), (None, None));
}

fn world_closed(token: &Value) -> Value {
    json!({"mode": "bootstrap-token", "token": token["token"].as_str().unwrap().replace("acme", "closed")})
}

/// With `consume` the evidence belongs to the key it was verified for.
#[test]
fn consumed_evidence_is_of_its_key_alone_and_registers_no_runner() {
    let world = World::new();
    let (runner, other) = (Runner::new(), Runner::new());
    for attestation in [good("one"), world.mint()] {
        assert!(world.verify(&consume(&runner, &attestation)).unwrap().consumed);
        let denied = world.verify(&consume(&other, &attestation)).unwrap();
        assert!(!denied.consumed && denied.decision == Decision::Deny, "{attestation}");
        world.enroll(&other.with(&attestation)).unwrap_err();
        // The same key may still enrol with it.
        world.enroll(&runner.with(&attestation)).unwrap();
    }
    assert_eq!(world.uses(), [1]);
}

#[test]
fn the_call_itself_can_be_wrong() {
    let world = World::new();
    let runner = Runner::new();
    let evidence = good("one");
    for body in [
        json!({"attestation": evidence}),
        json!({"attestation": evidence, "csr": runner.csr(), "spki_sha256": runner.spki_sha256()}),
        json!({"attestation": evidence, "spki_sha256": "AAAA"}),
        json!({"attestation": evidence, "spki_sha256": runner.spki_sha256() + "="}),
        json!({"attestation": {"mode": "mtls-renewal"}, "csr": runner.csr()}),
        json!({"attestation": evidence, "csr": runner.csr(), "consume": 1}),
        json!([evidence]),
    ] {
        assert_eq!(refusal(world.verify(&body)), (Code::MalformedRequest, None), "{body}");
    }
    let broken = json!({"attestation": evidence, "csr": "x"});
    assert_eq!(refusal(world.verify(&broken)), (Code::CsrInvalid, None));
    assert_eq!(world.records(), []);
    // An outside that is not there is no appraisal.
    let denial = World::cut_off().verify(&explain(&runner, &evidence)).unwrap_err();
    assert_eq!(denial.code, Code::UpstreamUnavailable);
    // A 403 is one.
    assert_ne!(refusal(world.enroll(&json!({}))), invalid(Reason::TokenMalformed));
}
