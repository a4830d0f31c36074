//! Policies applied under load: one or the other, never half of each, never a broken one (PROTOCOL, Policy).

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use edge_tests::emulators::TokenOptions;
use edge_tests::stack::{Client, Key, Stack, evidence};
use serde_json::{Value, json};

use crate::support::{Shared, all_at_once};

static STACK: Shared = Shared::new("state-policy");
/// Audience of the second policy.
const ELSEWHERE: &str = "elsewhere.example.com";

/// Another audience, and the pods of acme are globex's.
fn second(stack: &Stack) -> Value {
    let mut policy = stack.policy();
    policy["audience"] = json!(ELSEWHERE);
    let rule = policy["tenants"][0]["rules"].as_array_mut().unwrap().remove(2);
    policy["tenants"][1]["rules"].as_array_mut().unwrap().push(rule);
    policy
}

/// A question to `/v1/verify` that uses nothing up.
fn question(stack: &Stack, audience: &str) -> Value {
    let token = stack.issuer.token(&TokenOptions { audience: vec![audience.to_owned()], ..TokenOptions::default() });
    let attestation = evidence::token("gke-oidc", &token);
    json!({"attestation": attestation, "spki_sha256": Key::generate().spki_sha256(), "consume": false})
}

/// Tenant where it is allowed, reason where it is not.
fn verdict(service: &Client, question: &Value) -> Value {
    let answer = service.post("/v1/verify", question).expect(200).json();
    if answer["decision"] == "allow" { answer["tenant"].clone() } else { answer["reason"].clone() }
}

#[test]
fn under_load_a_policy_is_in_force_at_once_and_never_half() {
    let stack = STACK.lock();
    let policies = [stack.policy(), second(&stack)];
    let questions = [question(&stack, "edge.example.com"), question(&stack, ELSEWHERE)];
    let (service, admin) = (stack.service(), stack.admin());
    let (done, asked) = (AtomicBool::new(false), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        let load: Vec<_> = (0..4)
            .map(|caller| {
                let (question, service) = (&questions[caller % 2], service.clone());
                let allowed = ["acme", "globex"][caller % 2];
                let (done, asked) = (&done, &asked);
                scope.spawn(move || {
                    while !done.load(Ordering::Relaxed) {
                        let verdict = verdict(&service, question);
                        assert!(verdict == allowed || verdict == "audience_mismatch", "{allowed}: {verdict}");
                        asked.fetch_add(1, Ordering::Relaxed);
                    }
                })
            })
            .collect();
        let changes = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            for change in 1..=12 {
                let now = change % 2;
                admin.apply(&policies[now]);
                assert_eq!(verdict(&service, &questions[now]), ["acme", "globex"][now]);
                assert_eq!(verdict(&service, &questions[1 - now]), "audience_mismatch");
            }
        }));
        done.store(true, Ordering::Relaxed);
        for caller in load {
            caller.join().expect("no caller saw half a policy");
        }
        changes.expect("every change was in force");
    });
    println!("12 policies in force while {} questions were answered", asked.into_inner());
}

#[test]
fn of_writers_at_once_one_wins() {
    let stack = STACK.lock();
    let admin = stack.admin().0;
    let etag = admin.get("/v1/admin/policy").expect(200).header("etag").unwrap().to_owned();
    let policies: Vec<Value> = (0..10)
        .map(|index| {
            let mut policy = stack.policy();
            policy["certificates"]["reattest_after"] = json!(format!("{}h", 24 + index));
            policy
        })
        .collect();
    let answers = all_at_once(policies.len(), |index| {
        Client::send(admin.request("PUT", "/v1/admin/policy").header("if-match", &etag).json(&policies[index]))
    });
    let won: Vec<usize> = (0..answers.len()).filter(|index| answers[*index].status == 200).collect();
    let [winner] = won[..] else { panic!("{won:?}") };
    for (index, answer) in answers.iter().enumerate().filter(|(index, _)| *index != winner) {
        println!("{index}");
        answer.assert_problem(412, "etag_mismatch", "");
    }
    let present = admin.get("/v1/admin/policy").expect(200);
    assert_eq!(present.json()["certificates"]["reattest_after"], policies[winner]["certificates"]["reattest_after"]);
    assert_eq!(present.header("etag"), answers[winner].header("etag"));
}

#[test]
fn a_broken_policy_never_replaces_a_good_one() {
    let stack = STACK.lock();
    let (admin, service) = (stack.admin(), stack.service());
    let before = admin.0.get("/v1/admin/policy").expect(200);
    let question = question(&stack, "edge.example.com");
    let good = stack.policy();
    let mut overlapping = good.clone();
    let rule = overlapping["tenants"][0]["rules"][2].clone();
    overlapping["tenants"][1]["rules"].as_array_mut().unwrap().push(rule);
    let with = |path: &str, value: Value| {
        let mut policy = good.clone();
        *policy.pointer_mut(path).expect("the policy has it") = value;
        policy
    };
    for broken in [
        overlapping,
        with("/audience", json!("")),
        with("/certificates/ttl", json!("1s")),
        with("/tenants/0/rules/0/account", json!("1")),
        with("/tenants/1/id", json!("acme")),
        with("/aws_sts/endpoints", json!({"eu-west-1": "http://sts.example.com"})),
    ] {
        admin.try_apply(&broken).assert_problem(422, "policy_invalid", "");
        let now = admin.0.get("/v1/admin/policy").expect(200);
        assert_eq!((now.header("etag"), &now.body), (before.header("etag"), &before.body));
        assert_eq!(verdict(&service, &question), "acme");
    }
    let empty = Client::send(admin.0.request("PUT", "/v1/admin/policy").json(&json!({})));
    assert_eq!(empty.status / 100, 4, "{}", empty.text());
    assert_eq!(verdict(&service, &question), "acme");
}
