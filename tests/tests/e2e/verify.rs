//! `/v1/verify` and `edgectl explain`: the appraisal alone, with every check (PROTOCOL, Verify).

use edge_tests::emulators::TokenOptions;
use edge_tests::stack::{ACME_ACCOUNT, ACME_ROLE, EKS_ISSUER, GKE_ISSUER, Key, Stack, evidence};
use serde_json::{Value, json};

use crate::support::{Shared, assert_problem_form, members};

static STACK: Shared = Shared::new("verify");

const FIELDS: [&str; 9] = ["code", "consumed", "decision", "identity", "instance", "mode", "reason", "tenant", "trace"];
const STS: [&str; 16] =
    ["S1", "S2", "S3", "S4", "S5", "S6", "S7", "S8", "S9", "S10", "S11", "S12", "S13", "M1", "K7", "M2"];
const OIDC: [&str; 9] = ["K1", "K2", "K3", "K4", "K5", "K6", "M1", "K7", "M2"];

fn verify(stack: &Stack, key: &Key, attestation: &Value, consume: Option<bool>) -> Value {
    let mut body = json!({"attestation": attestation, "spki_sha256": key.spki_sha256()});
    if let Some(consume) = consume {
        body["consume"] = json!(consume);
    }
    let verdict = stack.service().post("/v1/verify", &body).expect(200).json();
    assert_eq!(members(&verdict), FIELDS);
    verdict
}

/// The outcome of every check: `pass` before `failed`, `skipped` after it.
#[track_caller]
fn assert_trace(verdict: &Value, checks: &[&str], failed: Option<&str>) {
    let trace = verdict["trace"].as_array().unwrap();
    let names: Vec<&str> = trace.iter().map(|entry| entry["check"].as_str().unwrap()).collect();
    assert_eq!(names, checks, "{verdict:#}");
    let mut wanted = "pass";
    for entry in trace {
        assert_eq!(members(entry), ["actual", "check", "expected", "name", "outcome"]);
        let here = if entry["check"].as_str() == failed { "fail" } else { wanted };
        assert_eq!(entry["outcome"], here, "{entry}");
        if here == "fail" {
            wanted = "skipped";
        }
        assert_eq!(entry["expected"].is_null() && entry["actual"].is_null(), here == "skipped", "{entry}");
    }
    assert_eq!(verdict["decision"], if failed.is_some() { "deny" } else { "allow" });
}

#[test]
fn allowed_evidence_names_identity_instance_and_tenant() {
    let stack = STACK.lock();
    let key = Key::generate();
    let runners = stack.admin().runners("acme").items.len();
    let role = stack.sts.add_role_session(ACME_ACCOUNT, ACME_ROLE, "i-0abc");
    let token = stack.admin().mint("acme");
    for (attestation, identity, checks) in [
        (
            stack.sts_request(&role, &key).evidence(),
            format!("arn:aws:iam::{ACME_ACCOUNT}:role/{ACME_ROLE}"),
            STS.as_slice(),
        ),
        (
            evidence::token("gke-oidc", &stack.gke_token("verified")),
            format!("{GKE_ISSUER}#system:serviceaccount:rootpilot:runner"),
            &OIDC,
        ),
        (
            evidence::token("eks-oidc", &stack.eks_token("verified")),
            format!("{EKS_ISSUER}#system:serviceaccount:rootpilot:runner"),
            &OIDC,
        ),
        (
            evidence::token("bootstrap-token", &token.token),
            format!("bootstrap-token:{}", token.id),
            &["B1", "B3", "M2"],
        ),
    ] {
        let explained = verify(&stack, &key, &attestation, Some(false));
        assert_trace(&explained, checks, None);
        assert_eq!(explained["consumed"], false);
        let verdict = verify(&stack, &key, &attestation, None);
        assert_trace(&verdict, checks, None);
        assert_eq!(verdict["consumed"], true);
        for verdict in [&explained, &verdict] {
            assert_eq!(verdict["identity"], identity);
            assert_eq!(verdict["tenant"], "acme");
            assert_eq!(verdict["mode"], attestation["mode"]);
            assert!(verdict["instance"].as_str().is_some_and(|text| !text.is_empty()));
            assert_eq!((&verdict["code"], &verdict["reason"]), (&Value::Null, &Value::Null));
        }
    }
    assert_eq!(stack.admin().runners("acme").items.len(), runners, "no runner is registered");
}

#[test]
fn consumed_evidence_belongs_to_its_key() {
    let stack = STACK.lock();
    let (key, other) = (Key::generate(), Key::generate());
    let once = stack.admin().mint("acme");
    let bootstrap = evidence::token("bootstrap-token", &once.token);
    let gke = evidence::token("gke-oidc", &stack.gke_token("consumed"));
    // The tenant of a refused bootstrap token is not known to be its bearer's; that of a proven and mapped identity is.
    for (attestation, reason, checks, failed, tenant) in [
        (&bootstrap, "bootstrap_token_refused", ["B1", "B3", "M2"].as_slice(), "B3", Value::Null),
        (&gke, "token_reused", &OIDC, "K7", json!("acme")),
    ] {
        // Explaining uses nothing up, however often.
        for key in [&key, &other, &key] {
            assert_eq!(verify(&stack, key, attestation, Some(false))["decision"], "allow");
        }
        assert_eq!(verify(&stack, &key, attestation, Some(true))["consumed"], true);
        assert_eq!(verify(&stack, &key, attestation, Some(true))["decision"], "allow", "the same use again");
        for consume in [false, true] {
            let refused = verify(&stack, &other, attestation, Some(consume));
            assert_trace(&refused, checks, Some(failed));
            assert_eq!((&refused["code"], &refused["reason"]), (&json!("attestation_invalid"), &json!(reason)));
            assert_eq!((&refused["tenant"], &refused["consumed"]), (&tenant, &json!(false)));
        }
        stack.enroll(&other, attestation).assert_problem(401, "attestation_invalid", reason);
        // To its own key it is the same use still, and the control plane's runner may become one of ours.
        stack.enroll(&key, attestation).assert_status(200);
    }
    let item = stack.admin().tokens("acme").items.into_iter().find(|item| item.id == once.id).unwrap();
    assert_eq!(item.uses, 1);
}

#[test]
fn refusals_say_where_with_the_values_compared_and_secrets_out() {
    let stack = STACK.lock();
    let key = Key::generate();
    let role = stack.sts.add_role_session(ACME_ACCOUNT, ACME_ROLE, "i-0abc");
    let late = stack.sts_request(&role, &key).aged(3_600).evidence();
    let verdict = verify(&stack, &key, &late, None);
    assert_trace(&verdict, &STS, Some("S9"));
    assert_eq!(verdict["reason"], "date_out_of_range");
    assert_eq!(verdict["identity"], Value::Null);
    let text = verdict.to_string();
    let signature = late["headers"]["authorization"].as_str().unwrap().rsplit('=').next().unwrap();
    for secret in [signature, role.session_token.as_deref().unwrap(), &role.secret_access_key] {
        assert!(!text.contains(secret), "{text}");
    }

    let elsewhere = TokenOptions { audience: vec!["elsewhere.example.com".to_owned()], ..TokenOptions::default() };
    let token = stack.issuer.token(&elsewhere);
    let verdict = verify(&stack, &key, &evidence::token("gke-oidc", &token), None);
    assert_trace(&verdict, &OIDC, Some("K5"));
    let entry = &verdict["trace"][4];
    assert_eq!(entry["expected"], "edge.example.com");
    assert!(entry["actual"].as_str().unwrap().contains("elsewhere.example.com"));
    assert!(!verdict.to_string().contains(token.rsplit('.').next().unwrap()));

    let unmapped = TokenOptions { service_account: "default".to_owned(), ..TokenOptions::default() };
    let verdict = verify(&stack, &key, &evidence::token("gke-oidc", &stack.issuer.token(&unmapped)), None);
    assert_trace(&verdict, &OIDC, Some("M1"));
    assert_eq!(verdict["code"], "identity_not_mapped");
    assert_eq!(verdict["identity"], format!("{GKE_ISSUER}#system:serviceaccount:rootpilot:default"));
    assert_eq!((&verdict["tenant"], &verdict["consumed"]), (&Value::Null, &json!(false)));
}

/// Each of the checks before the claims, as they fail.
#[test]
fn the_first_checks_of_a_token_say_what_they_wanted_and_what_they_saw() {
    let stack = STACK.lock();
    let key = Key::generate();
    let header = |header: Value| stack.issuer.token(&TokenOptions { header, ..TokenOptions::default() });
    for (token, failed, actual) in [
        ("a.b".to_owned(), "K1", "three"),
        (header(json!({"alg": "PS256"})), "K2", "PS256"),
        (stack.eks_token("other-mode"), "K3", EKS_ISSUER),
        (header(json!({"kid": "of-nobody"})), "K4", "of-nobody"),
    ] {
        let verdict = verify(&stack, &key, &evidence::token("gke-oidc", &token), Some(false));
        assert_trace(&verdict, &OIDC, Some(failed));
        let entry = &verdict["trace"].as_array().unwrap().iter().find(|entry| entry["check"] == failed).unwrap();
        assert!(entry["expected"].is_string() && entry["actual"].as_str().unwrap().contains(actual), "{entry}");
    }
    let good = verify(&stack, &key, &evidence::token("gke-oidc", &stack.gke_token("algorithm")), Some(false));
    assert_eq!(good["trace"][1]["actual"], "RS256");
}

#[test]
fn a_banned_instance_is_denied_and_explaining_leaves_no_audit_event() {
    let stack = STACK.lock();
    let key = Key::generate();
    let token = |pod: &str| evidence::token("gke-oidc", &stack.gke_token(pod));
    let enrolled = stack.enroll(&key, &token("banned-pod")).expect(200).json();
    stack.admin().ban("acme", enrolled["runner_id"].as_str().unwrap(), &json!({}));
    let before = stack.admin().audit("acme");
    let verdict = verify(&stack, &Key::generate(), &token("banned-pod"), Some(false));
    assert_trace(&verdict, &OIDC, Some("M2"));
    assert_eq!(verdict["code"], "runner_banned");
    assert_eq!(stack.admin().audit("acme"), before);
    let verdict = verify(&stack, &Key::generate(), &token("banned-pod"), None);
    assert_eq!(verdict["code"], "runner_banned");
    let events = stack.admin().audit("acme");
    assert_eq!(events.len(), before.len() + 1);
    assert_eq!((&json!(events[0])["type"], &json!(events[0])["outcome"]), (&json!("verify"), &json!("deny")));
}

#[test]
fn the_call_itself_can_be_wrong() {
    let stack = STACK.lock();
    let key = Key::generate();
    let attestation = evidence::token("gke-oidc", &stack.gke_token("call"));
    let (csr, hash) = (json!(key.csr()), json!(key.spki_sha256()));
    let whole = [
        json!({"attestation": attestation}),
        json!({"attestation": attestation, "csr": csr, "spki_sha256": hash}),
        json!({"attestation": attestation, "csr": null, "spki_sha256": null}),
        json!({"attestation": attestation, "spki_sha256": "abc"}),
        json!({"attestation": attestation, "spki_sha256": format!("{}=", key.spki_sha256())}),
        json!({"attestation": attestation, "spki_sha256": hash, "consume": "false"}),
        json!({"attestation": attestation, "spki_sha256": hash, "consume": null}),
        json!({"attestation": attestation, "spki_sha256": hash, "audience": "x"}),
        json!({"attestation": {"mode": "mtls-renewal"}, "spki_sha256": hash}),
        json!({"attestation": {"mode": "mtls-renewal", "certificate": "x", "timestamp": 1, "signature": "x"}, "csr": csr}),
        json!({"spki_sha256": hash}),
    ];
    for body in whole {
        let answer = stack.service().post("/v1/verify", &body);
        assert_eq!(answer.outcome(), (400, "malformed_request".to_owned(), String::new()), "{body}: {}", answer.text());
        assert_problem_form(&answer);
    }
    let bad_csr = json!({"attestation": attestation, "csr": "AAAA"});
    stack.service().post("/v1/verify", &bad_csr).assert_problem(400, "csr_invalid", "");
    let by_csr = json!({"attestation": attestation, "csr": csr, "consume": false});
    assert_eq!(stack.service().post("/v1/verify", &by_csr).expect(200).json()["decision"], "allow");
}

#[test]
fn edgectl_explains_what_the_runner_would_send() {
    let stack = STACK.lock();
    let payload = stack.folder().join("payload.json");
    let explain = |attested: &str| {
        std::fs::write(&payload, attested).unwrap();
        stack.edgectl(&["explain", &payload.display().to_string()])
    };
    let runners = stack.admin().runners("acme").items.len();
    let token = stack.gke_token("explained");
    let host = stack.host("explained").with_projected("gke-oidc", &token);
    let revealed = host.run(&["attest", "--reveal"]).expect(0).stdout;
    let allowed = explain(&revealed).expect(0).json();
    assert_trace(&allowed, &OIDC, None);

    let wrong = host.with("RUNNER_AUDIENCE", "edge.example.org").with("AWS_REGION", "eu-west-1");
    let role = stack.sts.add_role_session(ACME_ACCOUNT, ACME_ROLE, "i-0abc");
    let wrong = wrong.with_aws(&role, "eu-west-1", &stack.sts.url());
    let refused = explain(&wrong.run(&["attest", "--reveal"]).expect(0).stdout).expect(1).json();
    assert_trace(&refused, &STS, Some("S8"));
    let redacted = wrong.run(&["attest"]).expect(0).stdout;
    assert!(explain(&redacted).status != 0);
    assert_eq!(stack.admin().runners("acme").items.len(), runners);
}
