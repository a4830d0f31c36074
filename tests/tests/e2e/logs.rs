//! What the verifier writes to its log (CHECKS A3): one JSON line a decision, and nothing secret, whatever is sent.

use edge_tests::emulators::TokenOptions;
use edge_tests::stack::{ACME_ACCOUNT, ACME_ROLE, GKE_ISSUER, Key, evidence};
use serde_json::json;

use crate::support::{Shared, seconds};

static STACK: Shared = Shared::new("logs");

#[test]
fn a_decision_is_one_line_with_what_was_known() {
    let stack = STACK.lock();
    let token = stack.gke_token("logged");
    let answer = stack.enroll(&Key::generate(), &evidence::token("gke-oidc", &token)).expect(200);
    let line = stack.logged(answer.header("x-request-id").unwrap());
    assert_eq!(line["event"], "enroll");
    assert_eq!(line["status"], 200);
    assert_eq!(line["mode"], "gke-oidc");
    assert_eq!(line["tenant"], "acme");
    assert_eq!(line["identity"], format!("{GKE_ISSUER}#system:serviceaccount:rootpilot:runner"));
    assert_eq!(line["runner_id"], answer.json()["runner_id"]);
    assert!((seconds(&line["time"]) - stack.now()).abs() <= 15);

    let foreign = TokenOptions { namespace: "elsewhere".to_owned(), ..TokenOptions::default() };
    let answer = stack.enroll(&Key::generate(), &evidence::token("gke-oidc", &stack.issuer.token(&foreign)));
    let line = stack.logged(answer.header("x-request-id").unwrap());
    assert_eq!((&line["status"], &line["code"]), (&json!(403), &json!("identity_not_mapped")));
    assert_eq!(line["identity"], format!("{GKE_ISSUER}#system:serviceaccount:elsewhere:runner"));

    let answer = stack.enroll(&Key::generate(), &evidence::token("gke-oidc", "x"));
    let id = answer.header("x-request-id").unwrap();
    assert_eq!(stack.logged(id)["reason"], "token_malformed");
    assert_eq!(stack.log().iter().filter(|line| line["request_id"] == id).count(), 1);
}

#[test]
fn nothing_secret_is_written() {
    let stack = STACK.lock();
    let key = Key::generate();
    let role = stack.sts.add_role_session(ACME_ACCOUNT, ACME_ROLE, "i-0abc");
    let minted = stack.admin().mint_with("acme", &json!({"description": "for the log"}));
    let (jwt, request) = (stack.gke_token("secret"), stack.sts_request(&role, &key).evidence());
    let mut secrets = vec![
        minted.token.clone(),
        minted.token.rsplit('_').next().unwrap().to_owned(),
        jwt.rsplit('.').next().unwrap().to_owned(),
        role.session_token.clone().unwrap(),
        role.secret_access_key.clone(),
        request["headers"]["authorization"].as_str().unwrap().rsplit('=').next().unwrap().to_owned(),
        stack.admin_token(),
        stack.service_token(),
        "PRIVATE KEY".to_owned(),
    ];
    for attestation in [
        evidence::token("bootstrap-token", &minted.token),
        evidence::token("bootstrap-token", &format!("{}x", minted.token)),
        evidence::token("gke-oidc", &jwt),
        evidence::token("eks-oidc", &jwt),
        evidence::token("gke-oidc", &format!("{jwt}x")),
        request,
    ] {
        stack.enroll(&key, &attestation);
        stack.enroll(&Key::generate(), &attestation);
        let body = json!({"attestation": attestation, "spki_sha256": key.spki_sha256()});
        stack.service().post("/v1/verify", &body);
    }
    let chain = stack.enroll(&key, &evidence::token("bootstrap-token", &minted.token)).expect(200).json();
    let proof = key.renewal(chain["certificate"].as_str().unwrap(), edge_tests::stack::AUDIENCE, stack.now(), &key);
    secrets.push(proof["signature"].as_str().unwrap().to_owned());
    stack.client().post("/v1/renew", &evidence::request(&key, &proof)).assert_status(200);
    let last = stack.client().post("/v1/renew", &evidence::request(&Key::generate(), &proof));
    stack.logged(last.header("x-request-id").unwrap());
    let log = stack.log_text();
    for secret in secrets {
        assert!(!log.contains(&secret), "{secret} is in the log:\n{log}");
    }
}

#[test]
fn text_of_an_attacker_is_escaped_and_cut() {
    let stack = STACK.lock();
    let long = format!("a\r\n{{\"event\":\"forged\"}}\u{1b}[31m{}", "b".repeat(3_000));
    let claims = json!({
        "sub": format!("system:serviceaccount:rootpilot:{long}"),
        "kubernetes.io": {"serviceaccount": {"name": long}},
    });
    let options = TokenOptions { claims, ..TokenOptions::default() };
    let answer = stack.enroll(&Key::generate(), &evidence::token("gke-oidc", &stack.issuer.token(&options)));
    assert!([401, 403].contains(&answer.status), "{}", answer.text());
    let line = stack.logged(answer.header("x-request-id").unwrap());
    assert!(line.to_string().len() < 2_048, "{line}");
    assert!(!stack.log_text().contains('\u{1b}'));
    assert!(stack.log().iter().all(|line| line["event"] != "forged"));
    assert!(answer.body.len() < 2_048, "{}", answer.text());
}
