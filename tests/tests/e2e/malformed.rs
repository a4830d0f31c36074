//! 400: bodies that have not the documented form, at every level (PROTOCOL, Routes, Enroll, Limits).

use edge_tests::stack::{Answer, Key, REGION, evidence};
use serde_json::{Value, json};

use crate::support::{Shared, assert_problem_form};

static STACK: Shared = Shared::new("malformed");

#[track_caller]
fn assert_malformed(answer: &Answer, about: &str) {
    assert_eq!(answer.outcome(), (400, "malformed_request".to_owned(), String::new()), "{about}: {}", answer.text());
    assert_problem_form(answer);
}

/// A body with one well-formed `aws-sts` evidence whose values are of no account.
fn sts_body(attestation: &str) -> String {
    format!(r#"{{"csr":"AAAA","attestation":{attestation}}}"#)
}

#[test]
fn what_is_no_json_object_of_the_form_is_malformed() {
    let stack = STACK.lock();
    let client = stack.client();
    let deep = format!("{}1{}", "[".repeat(200), "]".repeat(200));
    for path in ["/v1/enroll", "/v1/renew"] {
        for body in [
            "",
            " ",
            "null",
            "[]",
            "1",
            "\"csr\"",
            "{",
            "{}",
            "{}{}",
            r#"{"csr":"AAAA"}"#,
            r#"{"attestation":{"mode":"gke-oidc","token":"x"}}"#,
            r#"{"csr":null,"attestation":{"mode":"gke-oidc","token":"x"}}"#,
            r#"{"csr":7,"attestation":{"mode":"gke-oidc","token":"x"}}"#,
            r#"{"csr":"AAAA","attestation":null}"#,
            r#"{"csr":"AAAA","attestation":[]}"#,
            r#"["AAAA",{"mode":"gke-oidc","token":"x"}]"#,
            r#"{"csr":"AAAA","attestation":["gke-oidc","x",null,null,null,null,null,null]}"#,
            r#"{"csr":"AAAA","attestation":"gke-oidc"}"#,
            r#"{"csr":"AAAA","attestation":{"mode":"gke-oidc","token":"x"},}"#,
            r#"{"csr":"AAAA","attestation":{"mode":"gke-oidc","token":"x"}} trailing"#,
            "{\"csr\":\"AAAA\",\"attestation\":{\"mode\":\"gke-oidc\",\"token\":\"x\u{0}\"}}",
            r"{'csr':'AAAA'}",
            r#"{"csr":"AAAA","attestation":{"mode":"gke-oidc","token":"\ud800"}}"#,
            deep.as_str(),
        ] {
            assert_malformed(&client.post_bytes(path, body), body);
        }
    }
}

#[test]
fn unknown_fields_and_duplicate_keys_are_refused_at_every_level() {
    let stack = STACK.lock();
    let client = stack.client();
    let sts = |inside: &str| sts_body(&format!(r#"{{"mode":"aws-sts","region":"{REGION}","body":"b",{inside}}}"#));
    let bodies = [
        r#"{"csr":"AAAA","attestation":{"mode":"gke-oidc","token":"x"},"extra":1}"#.to_owned(),
        r#"{"csr":"AAAA","csr":"AAAA","attestation":{"mode":"gke-oidc","token":"x"}}"#.to_owned(),
        r#"{"csr":"AAAA","attestation":{"mode":"gke-oidc","token":"x"},"attestation":{"mode":"gke-oidc","token":"x"}}"#
            .to_owned(),
        r#"{"csr":"AAAA","attestation":{"mode":"gke-oidc","mode":"gke-oidc","token":"x"}}"#.to_owned(),
        r#"{"csr":"AAAA","attestation":{"mode":"gke-oidc","token":"x","token":"x"}}"#.to_owned(),
        r#"{"csr":"AAAA","attestation":{"mode":"gke-oidc","token":"x","tok\u0065n":"x"}}"#.to_owned(),
        r#"{"csr":"AAAA","attestation":{"mode":"gke-oidc","token":"x","region":"eu-west-1"}}"#.to_owned(),
        r#"{"csr":"AAAA","attestation":{"mode":"bootstrap-token","token":"x","tenant":"acme"}}"#.to_owned(),
        r#"{"csr":"AAAA","attestation":{"token":"x"}}"#.to_owned(),
        r#"{"csr":"AAAA","attestation":{"mode":"GKE-OIDC","token":"x"}}"#.to_owned(),
        r#"{"csr":"AAAA","attestation":{"mode":"saml","token":"x"}}"#.to_owned(),
        r#"{"csr":"AAAA","attestation":{"mode":null,"token":"x"}}"#.to_owned(),
        r#"{"csr":"AAAA","attestation":{"mode":"gke-oidc"}}"#.to_owned(),
        r#"{"csr":"AAAA","attestation":{"mode":"gke-oidc","token":null}}"#.to_owned(),
        r#"{"csr":"AAAA","attestation":{"mode":"gke-oidc","token":["x"]}}"#.to_owned(),
        r#"{"csr":"AAAA","attestation":{"mode":"mtls-renewal"}}"#.to_owned(),
        sts(r#""headers":{"host":"a","host":"a"}"#),
        sts(r#""headers":{"host":"a","ho\u0073t":"a"}"#),
        sts(r#""headers":{"host":["a"]}"#),
        sts(r#""headers":{"host":null}"#),
        sts(r#""headers":{"host":1}"#),
        sts(r#""headers":[["host","a"]]"#),
        sts(r#""headers":null"#),
        sts(r#""headers":{},"headers":{}"#),
        sts(r#""region":"eu-west-1","headers":{}"#),
    ];
    for body in &bodies {
        assert_malformed(&client.post_bytes("/v1/enroll", body.as_str()), body);
    }
    for name in ["url", "method", "path", "query", "endpoint", "host", "service", "URL"] {
        let body = sts(&format!(r#""headers":{{}},"{name}":"x""#));
        assert_malformed(&client.post_bytes("/v1/enroll", body.as_str()), name);
    }
    assert_eq!(stack.sts.request_count(), 0);
}

#[test]
fn renewals_take_their_own_evidence_only_and_whole() {
    let stack = STACK.lock();
    let client = stack.client();
    let good = json!({"mode": "mtls-renewal", "certificate": "x", "timestamp": 1, "signature": "x"});
    let renew = |attestation: &Value| client.post("/v1/renew", &json!({"csr": "AAAA", "attestation": attestation}));
    renew(&good).assert_problem(400, "csr_invalid", "");
    for name in ["certificate", "timestamp", "signature"] {
        let mut partial = good.clone();
        partial.as_object_mut().unwrap().remove(name);
        assert_malformed(&renew(&partial), name);
    }
    for wrong in [json!("1"), json!(1.5), json!(1e30), json!(null), json!([1])] {
        let mut evidence = good.clone();
        evidence["timestamp"] = wrong;
        assert_malformed(&renew(&evidence), &evidence.to_string());
    }
    for mode in ["bootstrap-token", "gke-oidc", "eks-oidc"] {
        assert_malformed(&renew(&evidence::token(mode, "x")), mode);
    }
    assert_malformed(
        &client.post("/v1/enroll", &json!({"csr": "AAAA", "attestation": good})),
        "mtls-renewal to enroll",
    );
}

#[test]
fn limits_hold_to_the_octet() {
    let stack = STACK.lock();
    let client = stack.client();
    let key = Key::generate();
    let sts = |headers: Value| {
        let attestation =
            json!({"mode": "aws-sts", "region": "nowhere-1", "headers": headers, "body": evidence::STS_BODY});
        client.post("/v1/enroll", &evidence::request(&key, &attestation))
    };
    let numbered = |count: usize, value: &str| -> Value {
        (0..count).map(|number| (format!("h{number:02}"), json!(value))).collect::<serde_json::Map<_, _>>().into()
    };
    // Within the limits the region is what is refused.
    let within = |answer: &Answer| answer.assert_problem(401, "attestation_invalid", "region_not_allowed");
    within(&sts(numbered(16, "x")));
    assert_malformed(&sts(numbered(17, "x")), "17 headers");
    within(&sts(json!({"x": "y".repeat(4_096)})));
    assert_malformed(&sts(json!({"x": "y".repeat(4_097)})), "header value");
    assert_malformed(&sts(json!({"y".repeat(4_097): "x"})), "header name");
    within(&sts(json!({"X-Amz-Security-Token": "y".repeat(16_384)})));
    assert_malformed(&sts(json!({"x-amz-security-token": "y".repeat(16_385)})), "session token");
    within(&sts(numbered(6, &"y".repeat(4_093))));
    assert_malformed(&sts(numbered(7, &"y".repeat(4_093))), "headers together");

    let token = |length: usize| {
        client.post("/v1/enroll", &evidence::request(&key, &evidence::token("eks-oidc", &"x".repeat(length))))
    };
    token(16_384).assert_problem(401, "attestation_invalid", "token_malformed");
    assert_malformed(&token(16_385), "token");
    let csr = |length: usize| {
        client.post("/v1/enroll", &json!({"csr": "A".repeat(length), "attestation": evidence::token("eks-oidc", "x")}))
    };
    csr(8_192).assert_problem(400, "csr_invalid", "");
    assert_malformed(&csr(8_193), "CSR");
    let renewal = |length: usize| {
        let proof =
            json!({"mode": "mtls-renewal", "certificate": "x".repeat(length), "timestamp": 1, "signature": "x"});
        client.post("/v1/renew", &evidence::request(&key, &proof))
    };
    renewal(16_384).assert_problem(401, "attestation_invalid", "certificate_invalid");
    assert_malformed(&renewal(16_385), "certificate");
}

#[test]
fn bad_mints_bans_and_pages_are_malformed() {
    let stack = STACK.lock();
    let admin = stack.admin().0;
    let tokens = "/v1/admin/tenants/acme/tokens";
    for body in [
        json!({"ttl": "0s"}),
        json!({"ttl": "31d"}),
        json!({"ttl": "soon"}),
        json!({"ttl": 3600}),
        json!({"ttl": "-1h"}),
        json!({"max_uses": 0}),
        json!({"max_uses": -1}),
        json!({"max_uses": 1.5}),
        json!({"max_uses": 4_294_967_296_u64}),
        json!({"max_uses": "1"}),
        json!({"description": 1}),
        json!({"description": "x".repeat(10_000)}),
        json!({"tenant": "globex"}),
        json!([]),
    ] {
        assert_malformed(&admin.post(tokens, &body), &body.to_string());
    }
    assert_malformed(&admin.post_bytes(tokens, r#"{"ttl":"1h","ttl":"2h"}"#), "duplicate");
    for query in ["limit=0", "limit=201", "limit=x", "limit=-1", "cursor=%00", "cursor=zzzz"] {
        for list in ["tokens", "runners", "audit"] {
            let path = format!("/v1/admin/tenants/acme/{list}?{query}");
            assert_malformed(&admin.get(&path), &path);
        }
    }
    let token = stack.admin().mint("acme");
    let runner = stack.enroll(&Key::generate(), &evidence::token("bootstrap-token", &token.token)).expect(200).json();
    let ban = format!("/v1/admin/tenants/acme/runners/{}/ban", runner["runner_id"].as_str().unwrap());
    for body in [json!({"scope": "tenant"}), json!({"scope": 1}), json!({"why": "x"}), json!({"reason": 1})] {
        assert_malformed(&admin.post(&ban, &body), &body.to_string());
    }
    for (method, path) in [
        ("GET", "/v1/admin/tenants/acme/runners/aaaaaaaaaaaaaaaaaaaaaaaaaa"),
        ("DELETE", "/v1/admin/tenants/acme/tokens/aaaaaaaaaaaaaaaa"),
        ("GET", "/v1/admin/tenants/nobody/tokens"),
        ("GET", "/v1/admin/tenants/UPPER/runners"),
        ("GET", "/v1/admin/tenants/nobody/audit"),
    ] {
        admin.call(method, path, &json!({})).assert_problem(404, "not_found", "");
    }
    admin.post("/v1/admin/tenants/nobody/tokens", &json!({})).assert_problem(404, "not_found", "");
    let nobody = "/v1/admin/tenants/acme/runners/aaaaaaaaaaaaaaaaaaaaaaaaaa";
    for order in ["ban", "unban", "evict"] {
        admin.post(&format!("{nobody}/{order}"), &json!({})).assert_problem(404, "not_found", "");
    }
}
