//! The policy over HTTP: conditional writes, every problem at once, in force at once (PROTOCOL, Policy).

use edge_tests::stack::{Client, Key, Options, Stack, evidence};
use serde_json::{Value, json};

use crate::support::{Shared, assert_problem_form, members};

static STACK: Shared = Shared::new("policy");

fn put(stack: &Stack, policy: &Value, if_match: Option<&str>) -> edge_tests::stack::Answer {
    let request = stack.admin().0.request("PUT", "/v1/admin/policy").json(policy);
    Client::send(if_match.into_iter().fold(request, |request, etag| request.header("if-match", etag)))
}

#[test]
fn writes_are_conditional_once_there_is_a_policy() {
    let stack = Stack::start(Options { apply_policy: false, ..Options::new("first-policy") });
    let policy = stack.policy();
    put(&stack, &policy, Some("\"1-0000000000000000\"")).assert_problem(412, "etag_mismatch", "");
    let first = put(&stack, &policy, None).expect(200);
    let etag = first.header("etag").expect("an entity tag").to_owned();
    assert_eq!(first.json(), stack.admin().policy());

    put(&stack, &policy, None).assert_problem(428, "etag_required", "");
    for wrong in ["\"1-0000000000000000\"", "x", &format!("W/{etag}")] {
        put(&stack, &policy, Some(wrong)).assert_problem(412, "etag_mismatch", "");
    }
    let second = put(&stack, &policy, Some(&etag)).expect(200);
    let newer = second.header("etag").unwrap();
    assert_ne!(newer, etag);
    let stale = put(&stack, &policy, Some(&etag));
    stale.assert_problem(412, "etag_mismatch", "");
    assert_problem_form(&stale);
    assert_eq!(stack.admin().0.get("/v1/admin/policy").expect(200).header("etag"), Some(newer));
    let events = stack.admin().policy_audit();
    assert!(events.iter().all(|event| json!(event)["type"] == "policy_apply"));
    assert_eq!(events.iter().filter(|event| json!(event)["outcome"] == "allow").count(), 2);
    assert!(events.iter().all(|event| event.actor.as_ref().is_some_and(|actor| actor.len() == 8)));
}

#[test]
fn every_problem_is_reported_at_once_and_nothing_is_changed() {
    let stack = STACK.lock();
    let before = stack.admin().policy();
    let mut policy = stack.policy();
    policy["audience"] = json!("sts.amazonaws.com");
    policy["certificates"]["ttl"] = json!("1m");
    policy["aws_sts"]["regions"] = json!(["eu-west-1", "us-east-1", "mars-1"]);
    policy["oidc_issuers"][0]["jwks_uri"] = json!("http://jwks.example.com/keys");
    policy["tenants"][0]["rules"][0]["role"] = json!("path/role");
    policy["tenants"][1]["rules"][0] = json!({"mode": "aws-sts", "account": "1111", "role": "*"});
    policy["tenants"][2]["id"] = json!("Initech");
    let answer = stack.admin().try_apply(&policy);
    answer.assert_problem(422, "policy_invalid", "");
    assert_problem_form(&answer);
    let errors = answer.json()["errors"].as_array().expect("a list").clone();
    let paths: Vec<&str> = errors.iter().map(|error| error["path"].as_str().unwrap()).collect();
    for path in [
        "audience",
        "certificates.ttl",
        "aws_sts.regions[2]",
        "oidc_issuers[0].jwks_uri",
        "tenants[0].rules[0].role",
        "tenants[1].rules[0].account",
        "tenants[1].rules[0].role",
        "tenants[2].id",
    ] {
        assert!(paths.contains(&path), "{path} is not in {paths:?}");
    }
    for error in &errors {
        assert_eq!(members(error), ["message", "path"]);
        assert!(!error["message"].as_str().unwrap().is_empty());
    }
    assert_eq!(stack.admin().policy(), before);
}

#[test]
fn what_is_no_policy_document_is_malformed() {
    let stack = STACK.lock();
    let good = stack.policy();
    for policy in [json!(null), json!([]), json!("policy"), json!(1)] {
        stack.admin().try_apply(&policy).assert_problem(400, "malformed_request", "");
    }
    // Faults of shape inside it are problems of the policy, each with its place.
    let mut wrong = good.clone();
    wrong["tenants"][0]["rules"][0]["accounts"] = json!(["111122223333"]);
    wrong["certificates"] = json!([]);
    let answer = stack.admin().try_apply(&wrong);
    answer.assert_problem(422, "policy_invalid", "");
    for path in ["tenants[0].rules[0].accounts", "certificates"] {
        assert!(
            answer.json()["errors"].as_array().unwrap().iter().any(|error| error["path"] == path),
            "{}",
            answer.text()
        );
    }
    let etag = stack.admin().0.get("/v1/admin/policy").header("etag").unwrap().to_owned();
    let send = |content_type: &str, body: String| {
        let request = stack.admin().0.request("PUT", "/v1/admin/policy").header("if-match", &etag);
        Client::send(request.header("content-type", content_type).body(body))
    };
    send("application/toml", good.to_string()).assert_problem(415, "unsupported_media_type", "");
    send("application/json", " ".repeat(65_537)).assert_problem(413, "payload_too_large", "");
    let twice = good.to_string().replacen("\"audience\":", "\"audience\":\"a\",\"audience\":", 1);
    send("application/json", twice).assert_problem(400, "malformed_request", "");
}

#[test]
fn a_policy_is_in_force_for_the_next_call() {
    let stack = STACK.lock();
    let token = stack.admin().mint("globex");
    let enroll = || stack.enroll(&Key::generate(), &evidence::token("bootstrap-token", &token.token));
    let mut policy = stack.policy();
    policy["tenants"].as_array_mut().unwrap().remove(1);
    stack.admin().apply(&policy);
    enroll().assert_problem(401, "attestation_invalid", "bootstrap_token_refused");
    // A tenant that left can still be looked at, but gets no tokens.
    assert_eq!(stack.admin().runners("globex").items.len(), 0);
    stack.admin().0.post("/v1/admin/tenants/globex/tokens", &json!({})).assert_problem(404, "not_found", "");
    stack.admin().apply(&stack.policy());
    enroll().assert_status(200);
}

#[test]
fn edgectl_applies_shows_and_refuses_as_the_routes_do() {
    let stack = STACK.lock();
    let file = stack.folder().join("policy.json");
    let path = file.display().to_string();
    std::fs::write(&file, stack.policy().to_string()).unwrap();
    let _ = stack.edgectl(&["policy", "apply", &path]).expect(0);
    assert_eq!(stack.edgectl(&["policy", "show"]).expect(0).json(), stack.admin().policy());
    let mut broken = stack.policy();
    broken["audience"] = json!("");
    std::fs::write(&file, broken.to_string()).unwrap();
    let refused = stack.edgectl(&["policy", "apply", &path]).expect(1);
    assert!(format!("{}{}", refused.stdout, refused.stderr).contains("audience"));
}
