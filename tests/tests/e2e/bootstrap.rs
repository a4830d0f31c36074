//! Bootstrap tokens: one use, and refusals that tell nothing (CHECKS B; PROTOCOL, Errors).

use edge_tests::stack::{Answer, Key, evidence};
use serde_json::{Value, json};

use crate::support::{Shared, assert_problem_form};

static STACK: Shared = Shared::new("bootstrap");

/// An answer without what differs from call to call.
fn face(answer: &Answer) -> (u16, Vec<(String, String)>, Value) {
    let mut body = answer.json();
    for name in ["request_id", "server_time"] {
        body.as_object_mut().unwrap().remove(name);
    }
    let mut headers: Vec<(String, String)> = answer
        .headers
        .iter()
        .filter(|(name, _)| !["x-request-id", "date"].contains(&name.as_str()))
        .map(|(name, value)| (name.to_string(), value.to_str().unwrap().to_owned()))
        .collect();
    headers.sort();
    (answer.status, headers, body)
}

/// The token with the last character of its secret changed to another of the alphabet.
fn with_wrong_secret(token: &str) -> String {
    let last = if token.ends_with('a') { 'q' } else { 'a' };
    format!("{}{last}", &token[..token.len() - 1])
}

#[test]
fn refusals_of_one_tenant_look_alike_and_the_audit_log_tells_them_apart() {
    let stack = STACK.lock();
    let (admin, client) = (stack.admin(), stack.client());
    let enroll = |token: &str| {
        client.post("/v1/enroll", &evidence::request(&Key::generate(), &evidence::token("bootstrap-token", token)))
    };

    let used_up = admin.mint("acme").token;
    enroll(&used_up).assert_status(200);
    let revoked = admin.mint("acme");
    admin.revoke("acme", &revoked.id);
    let expired = admin.mint_with("acme", &json!({"ttl": "1s"}));
    let good = admin.mint("acme").token;
    let (head, tail) = used_up.rsplit_once('_').unwrap();
    let (prefix, _) = head.rsplit_once('_').unwrap();
    let unknown = format!("{prefix}_{}_{tail}", "a".repeat(16));
    std::thread::sleep(std::time::Duration::from_millis(2_100));

    let refusals = [
        ("unknown", unknown.as_str()),
        ("wrong_secret", &with_wrong_secret(&good)),
        ("expired", &expired.token),
        ("used_up", &used_up),
        ("revoked", &revoked.token),
    ]
    .map(|(cause, token)| (cause, enroll(token)));
    let (_, first) = &refusals[0];
    first.assert_problem(401, "attestation_invalid", "bootstrap_token_refused");
    assert_problem_form(first);
    let events = admin.audit("acme");
    for (cause, refusal) in &refusals {
        assert_eq!(face(refusal), face(first), "{cause}");
        let id = refusal.header("x-request-id").unwrap();
        let event = json!(events.iter().find(|event| event.request_id == id).expect("an audit event"));
        assert_eq!(event["cause"], *cause);
        assert_eq!((&event["outcome"], &event["type"]), (&json!("deny"), &json!("enroll")));
    }
    enroll(&good).assert_status(200);
}

#[test]
fn other_refusals_have_the_same_code_and_reach_no_record() {
    let stack = STACK.lock();
    let (admin, client) = (stack.admin(), stack.client());
    let good = admin.mint("acme").token;
    let elsewhere = good.replace("_acme_", "_nobody_");
    let forbidden = good.replace("_acme_", "_initech_");
    for token in
        ["", "rpbt_", "acme", "rpbt_acme_x_y", &elsewhere, &forbidden, &good.to_uppercase(), &format!("{good} ")]
    {
        let body = evidence::request(&Key::generate(), &evidence::token("bootstrap-token", token));
        client.post("/v1/enroll", &body).assert_problem(401, "attestation_invalid", "bootstrap_token_refused");
    }
    admin.0.get("/v1/admin/tenants/nobody/runners").assert_problem(404, "not_found", "");
    admin.0.post("/v1/admin/tenants/initech/tokens", &json!({})).assert_problem(403, "forbidden", "");
}

#[test]
fn many_at_once_get_as_many_certificates_as_the_token_has_uses() {
    let stack = STACK.lock();
    let token = stack.admin().mint_with("acme", &json!({"max_uses": 5}));
    let statuses: Vec<u16> = std::thread::scope(|scope| {
        let calls: Vec<_> = (0..20)
            .map(|_| {
                scope.spawn(|| stack.enroll(&Key::generate(), &evidence::token("bootstrap-token", &token.token)).status)
            })
            .collect();
        calls.into_iter().map(|call| call.join().unwrap()).collect()
    });
    assert_eq!(statuses.iter().filter(|status| **status == 200).count(), 5, "{statuses:?}");
    assert_eq!(statuses.iter().filter(|status| **status == 401).count(), 15, "{statuses:?}");
    let item = stack.admin().tokens("acme").items.into_iter().find(|item| item.id == token.id).unwrap();
    assert_eq!((item.uses, item.max_uses), (5, 5));
}

#[test]
fn a_token_is_not_used_up_by_a_request_that_fails_elsewhere() {
    let stack = STACK.lock();
    let token = stack.admin().mint("acme");
    let attestation = evidence::token("bootstrap-token", &token.token);
    let broken = json!({"csr": "AAAA", "attestation": attestation});
    stack.client().post("/v1/enroll", &broken).assert_problem(400, "csr_invalid", "");
    stack.enroll(&Key::generate(), &attestation).assert_status(200);
}
