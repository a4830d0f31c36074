//! Sentences of PROTOCOL's admin routes and Serials that are about the whole: what an answer has, what a page holds, who is still seen.

use edge_tests::stack::{Client, Key, evidence};
use serde_json::{Value, json};

use crate::support::{Held, Shared, all_at_once, enroll_pod, enroll_token, pod};

static STACK: Shared = Shared::new("state-contract");

#[track_caller]
fn assert_members(value: &Value, expected: &[&str]) {
    let mut members: Vec<&str> = value.as_object().expect("an object").keys().map(String::as_str).collect();
    members.sort_unstable();
    assert_eq!(members, expected, "{value}");
}

const RUNNER: [&str; 10] =
    ["attested_at", "identity", "instance", "last_seen", "mode", "not_after", "runner_id", "serial", "state", "tenant"];

#[test]
fn answers_have_their_members() {
    let stack = STACK.lock();
    let admin = stack.admin().0;
    let minted = admin.post("/v1/admin/tenants/acme/tokens", &json!({"ttl": "2h", "max_uses": 2, "description": "x"}));
    let minted = minted.expect(201).json();
    assert_members(&minted, &["expires_at", "id", "max_uses", "tenant", "token"]);
    assert_eq!((&minted["tenant"], &minted["max_uses"]), (&json!("acme"), &json!(2)));
    let token = minted["token"].as_str().unwrap();
    assert!(token.starts_with(&format!("rpbt_acme_{}_", minted["id"].as_str().unwrap())));
    let listed = admin.get("/v1/admin/tenants/acme/tokens?limit=200").expect(200);
    assert!(!listed.text().contains(token), "it is shown once");

    let (held, _) = enroll_pod(&stack, "members");
    let runner = format!("/v1/admin/tenants/acme/runners/{}", held.runner_id);
    let shown = admin.get(&runner).expect(200).json();
    assert_members(&shown, &RUNNER);
    let listed = admin.get("/v1/admin/tenants/acme/runners?limit=200").expect(200).json();
    assert!(listed["items"].as_array().unwrap().contains(&shown));
    let banned = admin.post(&format!("{runner}/ban"), &json!({})).expect(200).json();
    let mut with_warning = [&RUNNER[..], &["warning"]].concat();
    with_warning.sort_unstable();
    assert_members(&banned, &with_warning);
    assert_members(&admin.post(&format!("{runner}/unban"), &json!({})).expect(200).json(), &RUNNER);
    let evicted = admin.post(&format!("{runner}/evict"), &json!({})).expect(204);
    assert!(evicted.body.is_empty());
    let revoked = Client::send(
        admin.request("DELETE", &format!("/v1/admin/tenants/acme/tokens/{}", minted["id"].as_str().unwrap())),
    );
    assert!(revoked.expect(204).body.is_empty());
}

#[test]
fn a_page_has_fifty_unless_asked() {
    let stack = STACK.lock();
    let mut policy = stack.policy();
    policy["tenants"].as_array_mut().unwrap().push(json!({"id": "umbrella", "bootstrap_tokens": true}));
    stack.admin().apply(&policy);
    let _: Vec<()> = all_at_once(6, |_| (0..10).for_each(|_| _ = stack.admin().mint("umbrella")));
    let list = "/v1/admin/tenants/umbrella/tokens";
    let page = stack.admin().0.get(list).expect(200).json();
    assert_members(&page, &["items", "next"]);
    assert_eq!(page["items"].as_array().unwrap().len(), 50);
    let next = page["next"].as_str().expect("there are more");
    let rest = stack.admin().0.get(&format!("{list}?cursor={next}&of_no_account=1")).expect(200).json();
    assert_eq!((rest["items"].as_array().unwrap().len(), &rest["next"]), (10, &Value::Null));
}

#[test]
fn runners_of_a_tenant_that_left_can_be_seen_and_banned() {
    let stack = STACK.lock();
    let (held, used) = enroll_token(&stack, "globex");
    let mut without = stack.policy();
    without["tenants"].as_array_mut().unwrap().remove(1);
    stack.admin().apply(&without);
    assert_eq!(json!(stack.admin().runner("globex", &held.runner_id).state), "active");
    assert_eq!(stack.admin().ban("globex", &held.runner_id, &json!({"reason": "left"}))["state"], "banned");
    stack.admin().assert_on_crl(&[held.serial()]);
    stack.admin().apply(&stack.policy());
    held.renew(&stack, &Key::generate()).assert_problem(403, "runner_banned", "");
    stack.enroll(&held.key, &used).assert_problem(403, "runner_banned", "");
    assert_eq!(stack.admin().unban("globex", &held.runner_id)["state"], "expired");
    stack.admin().evict("globex", &held.runner_id);
}

#[test]
fn one_key_per_instance_where_the_policy_says_so() {
    let stack = STACK.lock();
    let mut strict = stack.policy();
    strict["one_key_per_instance"] = json!(true);
    stack.admin().apply(&strict);
    let (held, _) = enroll_pod(&stack, "one-key");
    stack.enroll(&Key::generate(), &pod(&stack, "one-key")).assert_problem(403, "identity_in_use", "");
    let again = Held::from(&held.key, stack.enroll(&held.key, &pod(&stack, "one-key")));
    assert_eq!(again.runner_id, held.runner_id);
    stack.enroll(&Key::generate(), &pod(&stack, "another-key")).assert_status(200);
    // Runners of one token are of one instance, and as many as it says.
    let token = evidence::token("bootstrap-token", &stack.admin().mint_with("acme", &json!({"max_uses": 2})).token);
    for _ in 0..2 {
        stack.enroll(&Key::generate(), &token).assert_status(200);
    }
    // When the first is out, the instance is free.
    stack.admin().evict("acme", &held.runner_id);
    stack.enroll(&Key::generate(), &pod(&stack, "one-key")).assert_status(200);
    stack.admin().apply(&stack.policy());
    stack.enroll(&Key::generate(), &pod(&stack, "one-key")).assert_status(200);
}
