//! Mutual TLS that the edge terminated (CHECKS I8): what `cf.tlsClientAuth` says counts only where it says everything.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use edge_tests::stack::{AUDIENCE, Answer, Client, Key, Options, Stack, evidence, leaf_der};
use serde_json::{Value, json};

use crate::foreign::{Forged, other_ca};
use crate::support::{Held, assert_certificate_invalid, enroll_pod};

/// RFC 9440: a byte sequence of the certificate's DER.
fn rfc9440(certificate: &str) -> String {
    format!(":{}:", STANDARD.encode(leaf_der(certificate)))
}

fn seen(verified: &str, revoked: &str, certificate: &str) -> Value {
    json!({"tlsClientAuth": {
        "certPresented": "1", "certVerified": verified, "certRevoked": revoked, "certRFC9440": certificate,
    }})
}

/// Renews with nothing in the body but the mode.
fn alone(stack: &Stack, next: &Key) -> Answer {
    stack.client().post("/v1/renew", &evidence::request(next, &json!({"mode": "mtls-renewal"})))
}

/// The same with the headers by which proxies pass a client certificate on.
fn with_forged_headers(stack: &Stack, held: &Held) -> Answer {
    let body = evidence::request(&Key::generate(), &json!({"mode": "mtls-renewal"}));
    let value = rfc9440(&held.certificate);
    let escaped = edge_tests::stack::leaf_pem(&held.certificate).replace('\n', "%0A");
    let request = stack.client().request("POST", "/v1/renew").json(&body);
    let headers = [
        ("client-cert", value.as_str()),
        ("cf-client-cert-der-base64", value.trim_matches(':')),
        ("cf-cert-verified", "true"),
        ("cf-tls-client-auth", "SUCCESS"),
        ("x-client-cert", &escaped),
        ("x-ssl-cert", &escaped),
        ("ssl-client-verify", "SUCCESS"),
        ("x-forwarded-client-cert", &escaped),
    ];
    Client::send(headers.into_iter().fold(request, |request, (name, value)| request.header(name, value)))
}

#[test]
fn the_edge_vouches_only_for_what_it_verified() {
    let mut stack = Stack::start(Options::new("state-edge-tls"));
    let (held, _) = enroll_pod(&stack, "edge");
    let (other, _) = enroll_pod(&stack, "edge-other");
    let good = rfc9440(&held.certificate);

    // Verified: the handshake is the proof.
    stack.restart_with(|options| options.cf = Some(seen("SUCCESS", "0", &good)));
    let next = Key::generate();
    let renewed = Held::from(&next, alone(&stack, &next));
    assert_eq!(renewed.runner_id, held.runner_id);
    assert_eq!(Held::from(&next, alone(&stack, &next)).serial(), renewed.serial());
    Held::from(&next, held.renew(&stack, &next));
    assert_certificate_invalid(&other.renew(&stack, &Key::generate()));
    let mut bad_proof = held.key.renewal(&held.certificate, AUDIENCE, stack.now(), &next);
    bad_proof["signature"] = json!(other.key.sign(b"x"));
    let answer = stack.client().post("/v1/renew", &evidence::request(&next, &bad_proof));
    answer.assert_problem(401, "attestation_invalid", "proof_invalid");

    // Anything else: only the body counts, and no header helps.
    let foreign = rfc9440(&Forged { ca: other_ca(&stack), ..Forged::of(&stack, &held) }.make(stack.folder()));
    for (what, cf) in [
        ("failed", Some(seen("FAILED:self signed certificate", "0", &good))),
        ("none", Some(seen("NONE", "0", ""))),
        ("revoked", Some(seen("SUCCESS", "1", &good))),
        ("not passed whole", Some(seen("SUCCESS", "0", ""))),
        ("absent", Some(json!({}))),
    ] {
        println!("{what}");
        stack.restart_with(|options| options.cf = cf);
        assert_certificate_invalid(&alone(&stack, &Key::generate()));
        assert_certificate_invalid(&with_forged_headers(&stack, &held));
        held.rotate(&stack);
    }

    // Some CA of the zone matched, not ours; or what came is no certificate.
    for cf in [seen("SUCCESS", "0", &foreign), seen("SUCCESS", "0", "no byte sequence")] {
        stack.restart_with(|options| options.cf = Some(cf));
        assert_certificate_invalid(&alone(&stack, &Key::generate()));
    }
}
