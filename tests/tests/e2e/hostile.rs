//! Inputs made to break a parser or an isolate: each is refused, and the next request on that isolate is served (CHECKS A2).

use edge_tests::emulators::Fault;
use edge_tests::stack::{ACME_ACCOUNT, ACME_ROLE, Client, Key, Stack, b64url, evidence};
use serde_json::{Value, json};

use crate::support::{Shared, assert_problem_form};

static STACK: Shared = Shared::new("hostile");

#[track_caller]
fn assert_alive(stack: &Stack, after: &str) {
    let token = stack.admin().mint("acme").token;
    let answer = stack.enroll(&Key::generate(), &evidence::token("bootstrap-token", &token));
    assert_eq!(answer.status, 200, "after {after}: {}", answer.text());
}

fn sts(headers: &Value) -> Value {
    json!({"mode": "aws-sts", "region": "eu-west-1", "headers": headers, "body": evidence::STS_BODY})
}

/// What a hostile caller may send to `/v1/enroll`, each by a name.
fn bodies() -> Vec<(&'static str, Vec<u8>)> {
    let key = Key::generate();
    let around = |attestation: &Value| evidence::request(&key, attestation).to_string().into_bytes();
    let token = |text: &str| around(&evidence::token("gke-oidc", text));
    let deep = |open: &str, close: &str, depth: usize| format!("{}1{}", open.repeat(depth), close.repeat(depth));
    let jws =
        |header: &str, payload: &str| format!("{}.{}.AAAA", b64url(header.as_bytes()), b64url(payload.as_bytes()));
    let good = r#"{"alg":"RS256","kid":"k"}"#;
    let mut raw = around(&evidence::token("gke-oidc", "X"));
    let at = raw.iter().position(|byte| *byte == b'X').unwrap();
    raw[at] = 0xff;
    vec![
        ("a token of 1 MiB", token(&"A".repeat(1024 * 1024))),
        ("a token of dots", token(&".".repeat(16_384))),
        ("a token of commas and NUL", token("a\u{0}.b\u{0}.c")),
        ("a token of letters outside ASCII", token(&"é.ü.ß".repeat(500))),
        ("20,000 arrays", deep("[", "]", 20_000).into_bytes()),
        ("10,000 objects", deep("{\"a\":", "}", 10_000).into_bytes()),
        ("20,000 arrays as evidence", format!(r#"{{"csr":"A","attestation":{}}}"#, deep("[", "]", 20_000)).into_bytes()),
        ("20,000 arrays as a token", format!(r#"{{"csr":"A","attestation":{{"mode":"gke-oidc","token":{}}}}}"#, deep("[", "]", 20_000)).into_bytes()),
        ("an unclosed depth", "[".repeat(65_000).into_bytes()),
        ("a deep claim", token(&jws(good, &format!(r#"{{"iss":{}}}"#, deep("[", "]", 5_000))))),
        ("a deep header", token(&jws(&deep("[", "]", 5_000), "{}"))),
        ("numbers without end", token(&jws(good, &format!(r#"{{"exp":1{}}}"#, "0".repeat(10_000))))),
        ("numbers with exponent", token(&jws(good, r#"{"exp":1e999999999,"iat":-1e308}"#))),
        ("a kid of NUL", token(&jws("{\"alg\":\"RS256\",\"kid\":\"\\u0000\"}", "{}"))),
        ("a name of 64 KiB", format!(r#"{{"{}":1}}"#, "n".repeat(65_000)).into_bytes()),
        ("a header name of 60 KiB", around(&sts(&json!({"n".repeat(60_000): "x"})))),
        ("header names of NUL and line ends", around(&sts(&json!({"ho\u{0}st": "a", "x\r\ny": "b", "": "c"})))),
        ("header values of NUL and line ends", around(&sts(&json!({"host": "a\r\nx: y", "accept": "\u{0}"})))),
        ("header values outside ASCII", around(&sts(&json!({"host": "ſts.eu-west-1.amazonaws.com", "x-amz-date": "２０２６０９２１T141320Z"})))),
        ("octets that are not UTF-8", raw),
        ("only octets that are not UTF-8", vec![0xff; 60_000]),
        ("a byte order mark", [b"\xef\xbb\xbf".as_slice(), &token("x")].concat()),
        ("NULs", vec![0; 60_000]),
        ("a lone surrogate", br#"{"csr":"\ud800","attestation":{"mode":"gke-oidc","token":"x"}}"#.to_vec()),
        ("many duplicate keys", format!("{{{}}}", vec!["\"csr\":1"; 8_000].join(",")).into_bytes()),
        ("a CSR of nested sequences", json!({"csr": b64url(&[0x30, 0x80].repeat(3_000)), "attestation": {"mode": "gke-oidc", "token": "x"}}).to_string().into_bytes()),
        ("a CSR that claims 4 GiB", json!({"csr": b64url(&[0x30, 0x84, 0xff, 0xff, 0xff, 0xff]), "attestation": {"mode": "gke-oidc", "token": "x"}}).to_string().into_bytes()),
        ("PEM without end", json!({"csr": format!("-----BEGIN CERTIFICATE REQUEST-----{}", "\n".repeat(8_000)), "attestation": {"mode": "gke-oidc", "token": "x"}}).to_string().into_bytes()),
    ]
}

#[test]
fn hostile_bodies_are_refused_and_the_isolate_lives() {
    let stack = STACK.lock();
    for (name, body) in bodies() {
        for path in ["/v1/enroll", "/v1/renew", "/v1/verify"] {
            let answer = stack.service().post_bytes(path, body.clone());
            assert!(
                (400..500).contains(&answer.status) || (path == "/v1/verify" && answer.status == 200),
                "{name} {path}: {} {}",
                answer.status,
                answer.text()
            );
            if answer.status != 200 {
                assert_problem_form(&answer);
            }
            assert!(answer.body.len() < 4_096, "{name}: an answer of {} octets", answer.body.len());
        }
        assert_alive(&stack, name);
    }
}

#[test]
fn hostile_certificates_and_proofs_are_refused() {
    let stack = STACK.lock();
    let key = Key::generate();
    let token = stack.admin().mint("acme").token;
    let enrolled = stack.enroll(&key, &evidence::token("bootstrap-token", &token)).expect(200).json();
    let chain = enrolled["certificate"].as_str().unwrap();
    let good = key.renewal(chain, edge_tests::stack::AUDIENCE, stack.now(), &key);
    let with = |name: &str, value: Value| {
        let mut proof = good.clone();
        proof[name] = value;
        stack.client().post("/v1/renew", &evidence::request(&key, &proof))
    };
    let leaf = edge_tests::stack::leaf_pem(chain);
    for certificate in [
        String::new(),
        "x".to_owned(),
        chain.to_owned() + chain,
        leaf.replace("MII", "MIJ"),
        leaf[..leaf.len() / 2].to_owned(),
        std::fs::read_to_string(stack.root_file()).unwrap(),
        format!("-----BEGIN CERTIFICATE-----\n{}\n-----END CERTIFICATE-----\n", "MIAwgDCAMIAw".repeat(1_000)),
    ] {
        with("certificate", json!(certificate)).assert_problem(401, "attestation_invalid", "certificate_invalid");
    }
    for timestamp in [0, -1, i64::MAX, i64::MIN, stack.now() - 301, stack.now() + 302] {
        with("timestamp", json!(timestamp)).assert_problem(401, "attestation_invalid", "proof_invalid");
    }
    for signature in ["", "x", "AAAA", &"A".repeat(86), &"A".repeat(4_096)] {
        with("signature", json!(signature)).assert_problem(401, "attestation_invalid", "proof_invalid");
    }
    stack.client().post("/v1/renew", &evidence::request(&key, &good)).assert_status(200);
    assert_alive(&stack, "renewals");
}

#[test]
fn hostile_headers_paths_and_queries_are_refused_and_the_isolate_lives() {
    let stack = STACK.lock();
    let admin = stack.admin().0;
    let forged = [
        ("cf-connecting-ip", "not an address"),
        ("x-forwarded-for", "127.0.0.1, ::1"),
        ("x-forwarded-client-cert", "Cert=abc"),
        ("client-cert", ":AAAA:"),
        ("cf-client-cert-der-base64", "AAAA"),
        ("content-length", "0"),
        ("accept", "\u{ff}"),
    ];
    for (name, value) in forged {
        if name != "content-length" {
            let body = json!({"csr": Key::generate().csr(), "attestation": {"mode": "mtls-renewal"}});
            let request = stack.client().request("POST", "/v1/renew").header(name, value.as_bytes());
            let answer = Client::send(request.json(&body));
            answer.assert_problem(401, "attestation_invalid", "certificate_invalid");
        }
    }
    for path in [
        format!("/v1/{}", "a/".repeat(4_000)),
        format!("/v1/admin/tenants/{}/runners", "a".repeat(8_000)),
        "/v1/admin/tenants/%00/runners".to_owned(),
        "/v1/admin/tenants/acme%2F..%2Fglobex/runners".to_owned(),
        "/v1/admin/tenants/acme/runners/%F0%9F%92%A9".to_owned(),
        format!("/v1/admin/tenants/acme/audit?cursor={}", "9".repeat(5_000)),
        "/v1/admin/tenants/acme/audit?cursor=-1&cursor=2&limit=1&limit=2".to_owned(),
        "/v1/admin/tenants/acme/tokens?%ff=%fe".to_owned(),
        "/v1/admin/tenants/constructor/runners".to_owned(),
    ] {
        let answer = admin.get(&path);
        assert!([200, 400, 404].contains(&answer.status), "{path}: {} {}", answer.status, answer.text());
    }
    assert_alive(&stack, "headers and paths");
}

#[test]
fn a_hostile_sts_does_not_take_the_isolate_down() {
    let stack = STACK.lock();
    let role = stack.sts.add_role_session(ACME_ACCOUNT, ACME_ROLE, "i-0abc");
    let answer_of = |content_type: &str, body: String| {
        stack.sts.set_fault(Fault::Status {
            status: 200,
            body: Some(body),
            content_type: Some(content_type.to_owned()),
        });
        let key = Key::generate();
        let answer = stack.enroll(&key, &stack.sts_request(&role, &key).evidence());
        stack.sts.clear_faults();
        answer
    };
    for (content_type, body) in [
        ("application/json", "[".repeat(60_000)),
        ("application/json", format!("{}1{}", "[".repeat(20_000), "]".repeat(20_000))),
        ("application/json", "{\"a\":".repeat(10_000)),
        ("text/xml", "<a>".repeat(20_000)),
        ("text/xml", format!("<a {}/>", "b='c' ".repeat(10_000))),
        ("text/xml", format!("<!DOCTYPE a [{}]><a/>", "<!ENTITY b 'c'>".repeat(1_000))),
        ("text/xml", format!("{}{}", "<a>".repeat(9_000), "</a>".repeat(9_000))),
        ("text/xml", format!("<{}/>", "n".repeat(64_000))),
        ("text/xml", format!("<a {}='b'/>", "n".repeat(64_000))),
        ("application/json", format!(r#"{{"{}":1}}"#, "n".repeat(64_000))),
        ("text/xml", "\u{0}".repeat(1_000)),
        ("application/json", r#"{"GetCallerIdentityResponse":{"GetCallerIdentityResult":{"Account":"1","Arn":"arn:aws:iam::1:user/\u0000","UserId":"\ud800"}}}"#.to_owned()),
    ] {
        answer_of(content_type, body).assert_problem(401, "attestation_invalid", "sts_response_invalid");
        assert_alive(&stack, content_type);
    }
}
