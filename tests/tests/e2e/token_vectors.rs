//! `tests/vectors/oidc-tokens` and `tests/vectors/sts-requests` over HTTP, as far as the real clock lets them come.
//!
//! Both are pinned to a day that is past. A token or request that the vectors accept must therefore pass every check before the one
//! on times and be refused there; one that they refuse must be refused for one of their reasons, or for its time where its fault
//! comes later in the order of checks. `verifier/tests` runs them at their own time.

use std::collections::BTreeMap;

use edge_tests::stack::{Key, Stack, evidence};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::support::{Shared, cases, vector};

static STACK: Shared = Shared::new("pinned-vectors");

/// The reason of a token whose time is past, and those that come before it in K1 to K5.
const EXPIRED: &str = "token_expired";
/// Reasons of faults that the order of CHECKS puts after the times.
const AFTER_EXPIRY: [&str; 3] = ["token_lifetime", "token_not_yet_valid", "claims_invalid"];

#[derive(Deserialize)]
struct TokenCase {
    id: String,
    expect: String,
    #[serde(default)]
    reasons: Vec<String>,
    issuer: String,
    jwks: String,
    token: String,
}

/// The tests' policy with static keys for one issuer; `None` when the verifier finds no usable key in them.
fn apply_keys(stack: &Stack, issuer: &str, jwks: &Value) -> bool {
    let mode = if issuer.contains("oidc.eks.") { "eks-oidc" } else { "gke-oidc" };
    let mut policy = stack.policy();
    let rule = if mode == "eks-oidc" {
        json!({"mode": mode, "issuer": issuer, "namespace": "runners", "service_account": "runner"})
    } else {
        json!({"mode": mode, "project": "acme-prod", "location": "europe-west1-b", "cluster": "runners", "namespace": "runners", "service_account": "runner"})
    };
    policy["oidc_issuers"] = json!([{"mode": mode, "issuer": issuer, "jwks": jwks}]);
    policy["tenants"] = json!([{"id": "acme", "bootstrap_tokens": true, "rules": [rule]}]);
    let answer = stack.admin().try_apply(&policy);
    assert!([200, 422].contains(&answer.status), "{}", answer.text());
    answer.status == 200
}

#[test]
fn every_token_of_the_vectors_comes_as_far_as_its_time() {
    let stack = STACK.lock();
    let mut by_keys: BTreeMap<(String, String), Vec<TokenCase>> = BTreeMap::new();
    for case in cases::<TokenCase>("oidc-tokens") {
        by_keys.entry((case.issuer.clone(), case.jwks.clone())).or_default().push(case);
    }
    let key = Key::generate();
    let mut expired = 0;
    for ((issuer, file), cases) in by_keys {
        let jwks: Value = serde_json::from_slice(&vector("oidc-tokens", &file)).unwrap();
        assert!(apply_keys(&stack, &issuer, &jwks), "{file}");
        let mode = if issuer.contains("oidc.eks.") { "eks-oidc" } else { "gke-oidc" };
        for case in cases {
            let answer = stack.enroll(&key, &evidence::token(mode, &case.token));
            let refusal = if answer.reason().is_empty() { answer.code() } else { answer.reason() };
            let past = refusal == EXPIRED;
            expired += usize::from(past);
            let fits = match case.expect.as_str() {
                "accept" => past,
                "refuse" => {
                    let later = case.reasons.iter().any(|reason| AFTER_EXPIRY.contains(&reason.as_str()));
                    case.reasons.contains(&refusal) || (past && later)
                }
                _ => answer.status == 401,
            };
            assert!(fits, "{}: expected {} {:?}, got {}", case.id, case.expect, case.reasons, answer.text());
        }
    }
    assert!(expired >= 10, "{expired} tokens got past the signature");
}

#[derive(Deserialize)]
struct StsCase {
    id: String,
    expect: String,
    #[serde(default)]
    reasons: Vec<String>,
    region: String,
    method: String,
    url_path: String,
    query: String,
    headers: Value,
    body: String,
}

#[test]
fn every_sts_request_of_the_vectors_comes_as_far_as_its_time_and_none_is_sent() {
    let stack = STACK.lock();
    let csr = String::from_utf8(vector("sts-requests", "csr.pem")).unwrap();
    // The real hosts: nothing that is refused may reach one, and everything is refused.
    let mut policy = stack.policy();
    policy["aws_sts"] = json!({"regions": ["us-east-1", "eu-west-1", "eusc-de-east-1", "cn-north-1", "us-gov-west-1"]});
    stack.admin().apply(&policy);
    for case in cases::<StsCase>("sts-requests") {
        let mut attestation =
            json!({"mode": "aws-sts", "region": case.region, "headers": case.headers, "body": case.body});
        let usual = (case.method.as_str(), case.url_path.as_str(), case.query.as_str()) == ("POST", "/", "");
        if !usual {
            for (name, value) in [("method", &case.method), ("path", &case.url_path), ("query", &case.query)] {
                attestation[name] = json!(value);
            }
        }
        let answer = stack.client().post("/v1/enroll", &json!({"csr": csr, "attestation": attestation}));
        let refusal = if answer.reason().is_empty() { answer.code() } else { answer.reason() };
        let fits = match case.expect.as_str() {
            _ if !usual => refusal == "malformed_request",
            "accept" => refusal == "date_out_of_range",
            "refuse" => case.reasons.contains(&refusal),
            _ => [400, 401].contains(&answer.status),
        };
        assert!(fits, "{}: expected {} {:?}, got {}", case.id, case.expect, case.reasons, answer.text());
        assert!(answer.status < 500, "{}", case.id);
    }
    assert_eq!(stack.sts.request_count(), 0);
}
