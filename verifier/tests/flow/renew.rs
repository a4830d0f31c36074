//! `POST /v1/renew`.

use protocol::admin::BanScope;
use protocol::{Code, Reason};
use serde_json::json;
use verifier::Denial;
use verifier::checks::Check;
use verifier::evidence::mtls_renewal::{EdgeClientCertificate, EdgeTlsFields};

use crate::world::{Runner, World, good, invalid, leaf, refusal};

fn edge(pem: &str) -> EdgeClientCertificate {
    let base64: String = pem.lines().filter(|line| !line.starts_with('-')).collect();
    let text = format!(":{base64}:");
    let fields = EdgeTlsFields { verified: Some("SUCCESS"), revoked: None, rfc9440: Some(&text) };
    EdgeClientCertificate::from_edge(fields).unwrap().unwrap()
}

#[test]
fn a_renewal_is_the_same_runner_with_another_serial_and_key() {
    let mut world = World::new();
    let (runner, next) = (Runner::new(), Runner::new());
    let issued = world.enroll(&runner.with(&good("one"))).unwrap();
    world.pass(1_800);
    let body = next.with(&runner.renewal(&issued, &next, world.now));
    let renewed = world.renew(&body).unwrap();
    assert_eq!(renewed.response.runner_id, issued.response.runner_id);
    assert_eq!(renewed.response.tenant, "acme");
    assert_ne!(renewed.allotment.serial, issued.allotment.serial);
    // CHECKS I4: a repeat gives the same and changes nothing.
    let before = world.records();
    assert_eq!(world.renew(&body).unwrap().allotment, renewed.allotment);
    assert_eq!(world.records().len(), before.len());
    // The edge's handshake is proof enough, and a certificate in the body must be the same.
    let by_edge = |body: &str, pem: &str| world.renew_with(body, Ok(Some(edge(pem))));
    let alone = next.with(&json!({"mode": "mtls-renewal"})).to_string();
    assert_eq!(by_edge(&alone, &leaf(&issued)).unwrap().allotment, renewed.allotment);
    let other = by_edge(&body.to_string(), &leaf(&renewed));
    assert_eq!(refusal(other), invalid(Reason::CertificateInvalid));
}

#[test]
fn the_first_failure_wins_in_the_order_of_the_contract() {
    let world = World::new();
    let (runner, next) = (Runner::new(), Runner::new());
    let issued = world.enroll(&runner.with(&good("one"))).unwrap();
    let before = world.records();
    let unreadable = || Err(Denial::evidence(Check::I8, Reason::CertificateInvalid, "unreadable"));
    let proof = runner.renewal(&issued, &next, world.now);
    let mut long = proof.clone();
    long["certificate"] = "x".repeat(16 * 1024 + 1).into();
    let mut late = proof.clone();
    late["timestamp"] = (world.now.secs() - 301).into();
    let mut foreign = late.clone();
    foreign["certificate"] = world.authority.root.to_pem().into();
    for (line, body, expected) in [
        ("form", json!({"attestation": proof}), (Code::MalformedRequest, None)),
        ("mode", json!({"csr": "x", "attestation": good("two")}), (Code::MalformedRequest, None)),
        ("limits", json!({"csr": "x", "attestation": long}), (Code::MalformedRequest, None)),
        ("csr", json!({"csr": "x", "attestation": foreign}), (Code::CsrInvalid, None)),
        ("edge", next.with(&foreign), invalid(Reason::CertificateInvalid)),
    ] {
        assert_eq!(refusal(world.renew_with(&body.to_string(), unreadable())), expected, "{line}");
    }
    for (line, body, expected) in [
        ("certificate", next.with(&foreign), invalid(Reason::CertificateInvalid)),
        ("proof", next.with(&late), invalid(Reason::ProofInvalid)),
        ("no evidence", next.with(&json!({"mode": "mtls-renewal"})), invalid(Reason::CertificateInvalid)),
        ("another csr", runner.with(&proof), invalid(Reason::ProofInvalid)),
    ] {
        assert_eq!(refusal(world.renew(&body)), expected, "{line}");
    }
    assert_eq!(world.records(), before, "no refusal before the record reaches the record");
}

/// CHECKS I5, I6.
#[test]
fn what_the_record_and_the_policy_say_now_decides() {
    let renew = |world: &World, runner: &Runner, issued: &verifier::Issued| {
        let next = Runner::new();
        refusal(world.renew(&next.with(&runner.renewal(issued, &next, world.now))))
    };
    let enrolled = || {
        let (world, runner) = (World::new(), Runner::new());
        let issued = world.enroll(&runner.with(&good("one"))).unwrap();
        (world, runner, issued)
    };
    let (mut world, runner, issued) = enrolled();
    world.without_rules();
    assert_eq!(renew(&world, &runner, &issued), (Code::IdentityNotMapped, None));
    let (mut world, runner, issued) = enrolled();
    world.without_tenant();
    assert_eq!(renew(&world, &runner, &issued), (Code::IdentityNotMapped, None));
    let (world, runner, issued) = enrolled();
    world.ban(&issued.response.runner_id, BanScope::Runner);
    assert_eq!(renew(&world, &runner, &issued), (Code::RunnerBanned, None));
    let (mut world, runner, issued) = enrolled();
    world.pass(3_601);
    assert_eq!(renew(&world, &runner, &issued), invalid(Reason::CertificateInvalid));
    // Another deployment's certificate, though of the same names.
    let (mut world, runner, issued) = enrolled();
    world.authority = crate::support::Authority::new("elsewhere");
    assert_eq!(renew(&world, &runner, &issued), invalid(Reason::CertificateInvalid));
}
