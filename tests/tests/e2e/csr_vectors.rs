//! `tests/vectors/csr` over HTTP, through WebCrypto: each with a bootstrap token of its own (CHECKS I1, I2).

use edge_tests::stack::{b64url, evidence, leaf};
use serde::Deserialize;
use serde_json::json;
use x509_cert::der::Encode as _;
use x509_cert::ext::pkix::{BasicConstraints, ExtendedKeyUsage, KeyUsage, SubjectAltName};

use crate::support::{Shared, assert_problem_form, cases, vector};

static STACK: Shared = Shared::new("csr-vectors");

#[derive(Deserialize)]
struct Case {
    id: String,
    expect: String,
    #[serde(default)]
    reasons: Vec<String>,
    file: String,
}

/// Whatever was asked for, the profile is ours.
fn assert_profile(case: &str, chain: &str, runner_id: &str) {
    let certificate = leaf(chain);
    let tbs = certificate.tbs_certificate();
    assert_eq!(tbs.subject().to_string(), format!("CN={runner_id},O=acme"), "{case}");
    let mut oids: Vec<String> =
        tbs.extensions().unwrap().iter().map(|extension| extension.extn_id.to_string()).collect();
    oids.sort();
    // basicConstraints, keyUsage, subjectAltName, authorityKeyIdentifier, extKeyUsage, subjectKeyIdentifier
    assert_eq!(oids, ["2.5.29.14", "2.5.29.15", "2.5.29.17", "2.5.29.19", "2.5.29.35", "2.5.29.37"], "{case}");
    let (critical, constraints) = tbs.get_extension::<BasicConstraints>().unwrap().unwrap();
    assert!(critical && !constraints.ca, "{case}");
    let (critical, usage) = tbs.get_extension::<KeyUsage>().unwrap().unwrap();
    assert!(critical && usage.digital_signature() && !usage.key_cert_sign() && !usage.crl_sign(), "{case}");
    let (_, extended) = tbs.get_extension::<ExtendedKeyUsage>().unwrap().unwrap();
    let extended: Vec<String> = extended.0.iter().map(ToString::to_string).collect();
    assert_eq!(extended, ["1.3.6.1.5.5.7.3.2"], "{case}: clientAuth");
    let (_, names) = tbs.get_extension::<SubjectAltName>().unwrap().unwrap();
    let uri = format!("spiffe://edge.example.com/tenant/acme/runner/{runner_id}");
    assert_eq!(names.0.len(), 1, "{case}");
    assert!(names.to_der().unwrap().ends_with(uri.as_bytes()), "{case}: {names:?}");
}

#[test]
fn every_csr_of_the_vectors_gets_our_certificate_or_a_refusal() {
    let stack = STACK.lock();
    let token = stack.admin().mint_with("acme", &json!({"max_uses": 1_000})).token;
    for case in cases::<Case>("csr") {
        let file = vector("csr", &case.file);
        let csr = if case.file.split('.').next_back() == Some("pem") {
            String::from_utf8(file).unwrap()
        } else {
            b64url(&file)
        };
        let body = json!({"csr": csr, "attestation": evidence::token("bootstrap-token", &token)});
        let answer = stack.client().post("/v1/enroll", &body);
        match case.expect.as_str() {
            "accept" => assert_eq!(answer.status, 200, "{}: {}", case.id, answer.text()),
            "refuse" => {
                assert!(case.reasons.contains(&answer.code()), "{}: {} {}", case.id, answer.status, answer.text());
            }
            "either" => assert!([200, 400].contains(&answer.status), "{}: {}", case.id, answer.text()),
            other => panic!("{other}"),
        }
        if answer.status == 200 {
            let answer = answer.json();
            assert_profile(&case.id, answer["certificate"].as_str().unwrap(), answer["runner_id"].as_str().unwrap());
        } else {
            assert_problem_form(&answer);
        }
    }
}
