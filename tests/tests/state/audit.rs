//! The audit log: every decision with who, what, why and the request id; lists by cursor (PROTOCOL, Routes).

use std::time::Duration;

use edge_tests::process::{ChildProcess, Stream};
use edge_tests::stack::{Answer, Client, Key, Options, Stack, evidence};
use rustix::process::Signal;
use serde_json::{Value, json};

use crate::support::{Held, Shared, actor, all_at_once, enroll_pod, pod};

/// For `edgectl`, which looks every two seconds, on a machine that is busy.
const FOLLOWED: Duration = Duration::from_mins(1);

static STACK: Shared = Shared::new("state-audit");

/// Events with the request id of `answer`.
fn events(stack: &Stack, answer: &Answer) -> Vec<Value> {
    let id = answer.header("x-request-id").expect("every answer has one");
    let all = stack.admin().audit("acme");
    all.into_iter().filter(|event| event.request_id == id).map(|event| json!(event)).collect()
}

/// Fails unless one event of `kind` was written for `answer`, with these members.
#[track_caller]
fn assert_audited(stack: &Stack, answer: &Answer, kind: &str, expected: &Value) {
    let of_kind: Vec<Value> = events(stack, answer).into_iter().filter(|event| event["type"] == kind).collect();
    let [event] = &of_kind[..] else { panic!("{kind}: {of_kind:?} for {}", answer.text()) };
    for (name, value) in expected.as_object().unwrap() {
        assert_eq!(&event[name], value, "{name} of {event}");
    }
    let members: Vec<&str> = event.as_object().unwrap().keys().map(String::as_str).collect();
    for name in [
        "actor",
        "cause",
        "code",
        "id",
        "identity",
        "mode",
        "outcome",
        "reason",
        "request_id",
        "runner_id",
        "time",
        "type",
    ] {
        assert!(members.contains(&name), "{name} is not in {event}");
    }
    assert_eq!(members.len(), 12, "{event}");
}

const POD: &str = "https://container.googleapis.com/v1/projects/acme-prod/locations/europe-west1/clusters/runners\
                   #system:serviceaccount:rootpilot:runner";

#[test]
fn decisions_of_a_runner() {
    let stack = STACK.lock();
    let (key, attestation) = (Key::generate(), pod(&stack, "audited"));
    let answer = stack.enroll(&key, &attestation);
    let held = Held::from(&key, answer.clone());
    let who = json!({"mode": "gke-oidc", "identity": POD, "runner_id": held.runner_id, "actor": null});
    let with = |more: Value| {
        let mut expected = who.clone();
        expected.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        expected
    };
    let allowed = with(json!({"outcome": "allow", "code": null, "reason": null, "cause": null}));
    assert_audited(&stack, &answer, "enroll", &allowed);

    let thief = stack.enroll(&Key::generate(), &attestation);
    let reused = json!({
        "outcome": "deny", "code": "attestation_invalid", "reason": "token_reused", "mode": "gke-oidc", "identity": POD,
    });
    assert_audited(&stack, &thief, "enroll", &reused);

    let sibling = stack.enroll(&Key::generate(), &pod(&stack, "audited"));
    assert_audited(&stack, &sibling, "second_key_for_instance", &json!({"identity": POD}));
    assert_audited(&stack, &sibling, "enroll", &json!({"outcome": "allow"}));

    let next = Key::generate();
    let renewal = held.renew(&stack, &next);
    assert_audited(&stack, &renewal, "renew", &allowed);
    let used = Held::from(&next, renewal);
    used.rotate(&stack);
    let superseded = held.renew(&stack, &Key::generate());
    let denied = with(json!({"outcome": "deny", "code": "certificate_superseded"}));
    assert_audited(&stack, &superseded, "renew", &denied);
    assert_audited(&stack, &superseded, "suspect", &who);
    let again = used.renew(&stack, &Key::generate());
    assert_audited(&stack, &again, "renew", &with(json!({"outcome": "deny", "code": "must_reattest"})));

    // Whose certificate it was is said though it counts no longer.
    stack.admin().evict("acme", &held.runner_id);
    let gone = used.renew(&stack, &Key::generate());
    let invalid = json!({"outcome": "deny", "code": "attestation_invalid", "reason": "certificate_invalid"});
    assert_audited(&stack, &gone, "renew", &with(invalid));
}

#[test]
fn decisions_of_verify() {
    let stack = STACK.lock();
    let (attestation, key) = (pod(&stack, "verified"), Key::generate());
    let ask = |key: &Key, consume: bool| {
        let call = json!({"attestation": attestation, "spki_sha256": key.spki_sha256(), "consume": consume});
        stack.service().post("/v1/verify", &call).expect(200)
    };
    assert!(events(&stack, &ask(&key, false)).is_empty(), "explaining writes nothing");
    let who = actor(&stack.service_token());
    assert_audited(&stack, &ask(&key, true), "verify", &json!({"outcome": "allow", "identity": POD, "actor": who}));
    let refused = json!({"outcome": "deny", "code": "attestation_invalid", "reason": "token_reused", "actor": who});
    assert_audited(&stack, &ask(&Key::generate(), true), "verify", &refused);
}

#[test]
fn actions_of_the_operator() {
    let stack = STACK.lock();
    let admin = stack.admin().0;
    let base = "/v1/admin/tenants/acme";
    let actor = actor(&stack.admin_token());
    let minted = admin.post(&format!("{base}/tokens"), &json!({"description": "for the audit"})).expect(201);
    let token = minted.json();
    let id = token["id"].as_str().unwrap();
    let identity = format!("bootstrap-token:{id}");
    assert_audited(&stack, &minted, "token_mint", &json!({"actor": actor, "outcome": "allow", "identity": identity}));
    let revoked = Client::send(admin.request("DELETE", &format!("{base}/tokens/{id}")));
    assert_audited(
        &stack,
        &revoked,
        "token_revoke",
        &json!({"actor": actor, "outcome": "allow", "identity": identity}),
    );
    let attestation = evidence::token("bootstrap-token", token["token"].as_str().unwrap());
    let refused = stack.enroll(&Key::generate(), &attestation);
    let why = json!({
        "outcome": "deny", "code": "attestation_invalid", "reason": "bootstrap_token_refused", "cause": "revoked",
        "identity": identity, "actor": null,
    });
    assert_audited(&stack, &refused, "enroll", &why);

    let (held, _) = enroll_pod(&stack, "acted-upon");
    let runner = format!("{base}/runners/{}", held.runner_id);
    let who = json!({"actor": actor, "outcome": "allow", "identity": POD, "runner_id": held.runner_id});
    let banned = admin.post(&format!("{runner}/ban"), &json!({"reason": "lost laptop"})).expect(200);
    assert_audited(&stack, &banned, "ban", &who);
    assert_audited(&stack, &banned, "ban", &json!({"reason": "lost laptop"}));
    let refused = held.renew(&stack, &Key::generate());
    let code = json!({"code": "runner_banned", "runner_id": held.runner_id});
    assert_audited(&stack, &refused, "renew", &code);
    assert_audited(&stack, &admin.post(&format!("{runner}/unban"), &json!({})).expect(200), "unban", &who);
    assert_audited(&stack, &admin.post(&format!("{runner}/evict"), &json!({})).expect(204), "evict", &who);
}

#[test]
fn policies_are_in_the_log_of_the_deployment() {
    let stack = STACK.lock();
    let outcome_of = |answer: &Answer| {
        let id = answer.header("x-request-id").unwrap();
        let mut events = stack.admin().policy_audit().into_iter().filter(|event| event.request_id == id);
        let event = json!(events.next().expect("an event"));
        assert!(events.next().is_none(), "one event");
        assert_eq!((&event["type"], &event["actor"]), (&json!("policy_apply"), &json!(actor(&stack.admin_token()))));
        (event["outcome"].clone(), event["code"].clone())
    };
    assert_eq!(outcome_of(&stack.admin().apply(&stack.policy())), (json!("allow"), Value::Null));
    let mut broken = stack.policy();
    broken["tenants"][0]["id"] = json!("No such id");
    let refused = stack.admin().try_apply(&broken);
    refused.assert_problem(422, "policy_invalid", "");
    assert_eq!(outcome_of(&refused), (json!("deny"), json!("policy_invalid")));
    assert!(stack.admin().audit("acme").iter().all(|event| json!(event)["type"] != "policy_apply"));
}

/// All items of a list, page by page.
fn walk(admin: &Client, path: &str, limit: usize) -> Vec<Value> {
    let (mut items, mut cursor) = (Vec::new(), String::new());
    loop {
        let page = admin.get(&format!("{path}?limit={limit}{cursor}")).expect(200).json();
        let of_page = page["items"].as_array().unwrap();
        items.extend(of_page.clone());
        let Some(next) = page["next"].as_str() else { return items };
        assert_eq!(of_page.len(), limit, "only the last page is short");
        cursor = format!("&cursor={next}");
    }
}

#[test]
fn cursors_reach_everything_once() {
    let stack = Stack::start(Options::new("state-cursors"));
    let admin = stack.admin().0;
    for index in 0..7 {
        enroll_pod(&stack, &format!("listed-{index}"));
        stack.admin().mint("acme");
        stack.admin().apply(&stack.policy());
    }
    for (list, count, by) in [
        ("/v1/admin/tenants/acme/runners", 7, "runner_id"),
        ("/v1/admin/tenants/acme/tokens", 7, "id"),
        ("/v1/admin/tenants/acme/audit", 14, "id"),
        ("/v1/admin/audit", 8, "id"),
    ] {
        let whole = admin.get(list).expect(200).json();
        assert_eq!(whole["items"].as_array().unwrap().len(), count, "{list}");
        assert_eq!(whole["next"], Value::Null);
        for limit in [1, 3, 7, 200] {
            assert_eq!(json!(walk(&admin, list, limit)), whole["items"], "{list} by {limit}");
        }
        let mut keys: Vec<String> = walk(&admin, list, 3).iter().map(|item| item[by].to_string()).collect();
        keys.sort_unstable();
        keys.dedup();
        assert_eq!(keys.len(), count);
        for query in [
            "limit=0",
            "limit=201",
            "limit=x",
            "limit=%2B5",
            "limit=+5",
            "cursor=%00",
            "cursor=nonsense!",
            "cursor=%2B5",
        ] {
            admin.get(&format!("{list}?{query}")).assert_problem(400, "malformed_request", "");
        }
    }
    for list in ["/v1/admin/tenants/acme/audit", "/v1/admin/audit"] {
        let ids: Vec<u64> = walk(&admin, list, 5).iter().map(|event| event["id"].as_u64().unwrap()).collect();
        assert!(ids.is_sorted_by(|newer, older| newer > older), "newest first: {ids:?}");
    }
}

#[test]
fn a_page_does_not_move_when_something_happens() {
    let stack = STACK.lock();
    let admin = stack.admin().0;
    for _ in 0..4 {
        stack.admin().mint("acme");
    }
    let log = "/v1/admin/tenants/acme/audit";
    let first = admin.get(&format!("{log}?limit=2")).expect(200).json();
    let last = first["items"][1]["id"].as_u64().unwrap();
    stack.admin().mint("acme");
    let second = admin.get(&format!("{log}?limit=2&cursor={}", first["next"].as_str().unwrap())).expect(200).json();
    assert_eq!(second["items"][0]["id"].as_u64(), Some(last - 1));
}

#[test]
fn edgectl_shows_the_log() {
    let stack = STACK.lock();
    stack.admin().mint("acme");
    let shown = stack.edgectl(&["audit", "acme"]).expect(0);
    assert!(shown.stdout.contains("token_mint"), "{}", shown.stdout);
    let _ = stack.edgectl(&["audit"]).expect(0);
}

/// Far more events than a page holds come between two looks; the verifier goes away and comes back; nothing is missed or said twice.
#[test]
fn edgectl_follows_the_log() {
    let mut stack = Stack::start(Options::new("state-follow"));
    for _ in 0..3 {
        stack.admin().mint("acme");
    }
    let mut follower = stack.start_edgectl(&["audit", "acme", "--follow", "--limit", "2"]);
    let printed = |follower: &ChildProcess| -> Vec<u64> {
        follower
            .stdout()
            .lines()
            .map(|line| serde_json::from_str::<Value>(line).unwrap()["id"].as_u64().unwrap())
            .collect()
    };
    let wait_for = |follower: &mut ChildProcess, id: u64| {
        let line = follower.wait_for_line(Stream::Stdout, "the last event", FOLLOWED, |line| {
            serde_json::from_str::<Value>(line).is_ok_and(|event| event["id"] == id)
        });
        line.unwrap_or_else(|error| panic!("{error}"));
    };
    wait_for(&mut follower, 3);
    assert_eq!(printed(&follower), [2, 3], "the newest two, oldest first");

    let admin = stack.admin();
    let _: Vec<()> = all_at_once(7, |_| (0..70).for_each(|_| _ = admin.mint("acme")));
    wait_for(&mut follower, 493);
    stack.restart();
    stack.admin().mint("acme");
    wait_for(&mut follower, 494);
    assert_eq!(printed(&follower), (2..=494).collect::<Vec<u64>>());

    follower.signal(Signal::INT).unwrap();
    assert!(follower.wait_for_exit(FOLLOWED).unwrap().success(), "{}", follower.stderr());
}
