//! What an operator asks for in vain: refused with its code, and on the record all the same (PROTOCOL, Routes; CHECKS B1).

use edge_tests::stack::{Answer, Client, Stack, evidence};
use edge_tests::stack::{Key, Options};
use serde_json::{Value, json};

use crate::storage;
use crate::support::{Held, Shared, actor, enroll_pod, pod, state};

static STACK: Shared = Shared::new("state-refused-calls");

/// Has the form of a runner id, and is none.
const NOBODY: &str = "aaaaaaaaaaaaaaaaaaaaaaaaaa";
/// Has the form of a token id, and is none.
const NO_TOKEN: &str = "bbbbbbbbbbbbbbbb";

/// The one event that `log` has of the call so answered.
#[track_caller]
fn event(stack: &Stack, log: &str, answer: &Answer) -> Value {
    let id = answer.header("x-request-id").expect("every answer has one");
    let page = stack.admin().0.get(&format!("{log}?limit=200")).expect(200).json();
    let of_call: Vec<&Value> =
        page["items"].as_array().unwrap().iter().filter(|event| event["request_id"] == id).collect();
    let [event] = of_call[..] else { panic!("{of_call:?} for {}", answer.text()) };
    event.clone()
}

/// Fails unless the call was refused so, and the tenant's log says so in one event of `kind` that names the operator and `named`.
#[track_caller]
fn assert_on_record(stack: &Stack, tenant: &str, answer: &Answer, refusal: (u16, &str), kind: &str, named: &Value) {
    let (status, code) = refusal;
    answer.assert_problem(status, code, "");
    let event = event(stack, &format!("/v1/admin/tenants/{tenant}/audit"), answer);
    let mut expected = json!({
        "id": event["id"], "time": event["time"], "request_id": event["request_id"], "type": kind, "outcome": "deny", "code": code,
        "actor": actor(&stack.admin_token()), "reason": null, "cause": null, "mode": null, "identity": null, "runner_id": null,
    });
    expected.as_object_mut().unwrap().extend(named.as_object().unwrap().clone());
    assert_eq!(event, expected);
}

fn path(tenant: &str, rest: &str) -> String {
    format!("/v1/admin/tenants/{tenant}/{rest}")
}

#[test]
fn mints_that_are_refused() {
    let stack = STACK.lock();
    let admin = stack.admin().0;
    let nothing = json!({});
    let mint = |tenant: &str, body: &Value| admin.post(&path(tenant, "tokens"), body);
    // The policy says no; nobody has used initech before.
    assert_on_record(&stack, "initech", &mint("initech", &nothing), (403, "forbidden"), "token_mint", &nothing);
    let bad = (400, "malformed_request");
    for body in [json!({"ttl": "31d"}), json!({"max_uses": 0}), json!({"role": "x"}), json!([]), json!({"ttl": 3600})] {
        assert_on_record(&stack, "acme", &mint("acme", &body), bad, "token_mint", &nothing);
    }
    assert_on_record(&stack, "initech", &mint("initech", &json!({"ttl": "x"})), bad, "token_mint", &nothing);
    let tokens = path("acme", "tokens");
    for body in [&b"{"[..], b"", b"\xff{}", br#"{"ttl":"1h","ttl":"2h"}"#] {
        assert_on_record(&stack, "acme", &admin.post_bytes(&tokens, body), bad, "token_mint", &nothing);
    }
    let large = admin.post_bytes(&tokens, vec![b' '; 65_537]);
    assert_on_record(&stack, "acme", &large, (413, "payload_too_large"), "token_mint", &nothing);
    let text = Client::send(admin.request("POST", &tokens).body("{}"));
    assert_on_record(&stack, "acme", &text, (415, "unsupported_media_type"), "token_mint", &nothing);

    // A tenant that left the policy keeps its log.
    let mut without = stack.policy();
    without["tenants"].as_array_mut().unwrap().remove(1);
    stack.admin().apply(&without);
    assert_on_record(&stack, "globex", &mint("globex", &nothing), (404, "not_found"), "token_mint", &nothing);
    stack.admin().apply(&stack.policy());
}

#[test]
fn tokens_and_runners_that_there_are_none_of() {
    let stack = STACK.lock();
    let admin = stack.admin().0;
    let unknown = (404, "not_found");
    let revoke = |id: &str| Client::send(admin.request("DELETE", &path("acme", &format!("tokens/{id}"))));
    let named = json!({"mode": "bootstrap-token", "identity": format!("bootstrap-token:{NO_TOKEN}")});
    assert_on_record(&stack, "acme", &revoke(NO_TOKEN), unknown, "token_revoke", &named);
    assert_on_record(&stack, "acme", &revoke("x"), unknown, "token_revoke", &json!({}));
    let (evicted, _) = enroll_pod(&stack, "refused-evicted");
    stack.admin().evict("acme", &evicted.runner_id);
    let (elsewhere, _) = crate::support::enroll_token(&stack, "globex");
    for kind in ["ban", "unban", "evict"] {
        let order = |id: &str| admin.post(&path("acme", &format!("runners/{id}/{kind}")), &json!({}));
        for id in [NOBODY, &evicted.runner_id, &elsewhere.runner_id] {
            assert_on_record(&stack, "acme", &order(id), unknown, kind, &json!({"runner_id": id}));
        }
        // What cannot be an id is named by the worker's log only, where it is escaped and cut.
        for id in ["x", &NOBODY.to_uppercase(), "%00", "%27%3B--", &"a".repeat(8_000), NO_TOKEN, "__proto__"] {
            assert_on_record(&stack, "acme", &order(id), unknown, kind, &json!({}));
        }
    }
    assert_eq!(json!(stack.admin().runner("globex", &elsewhere.runner_id).state), "active");
}

#[test]
fn bans_that_are_refused() {
    let stack = STACK.lock();
    let admin = stack.admin().0;
    let (held, _) = enroll_pod(&stack, "refused-ban");
    let ban = path("acme", &format!("runners/{}/ban", held.runner_id));
    let named = json!({"runner_id": held.runner_id});
    for body in [json!({"reason": "x".repeat(513)}), json!({"scope": "tenant"}), json!({"until": "1h"}), json!(null)] {
        let answer = admin.post(&ban, &body);
        assert_on_record(&stack, "acme", &answer, (400, "malformed_request"), "ban", &named);
    }
    let deep = [vec![b'['; 20_000], vec![b']'; 20_000]].concat();
    assert_on_record(&stack, "acme", &admin.post_bytes(&ban, deep), (400, "malformed_request"), "ban", &named);
    assert_eq!(state(&stack, &held.runner_id), "active");
    held.rotate(&stack);
}

/// The worker's log has them, with who and what.
#[test]
fn a_tenant_that_no_policy_named_gets_no_object_by_a_refusal() {
    let stack = STACK.lock();
    let admin = stack.admin().0;
    let objects = storage::count(&stack);
    assert!(objects > 0);
    for tenant in ["nobody", "Acme", "acme%00", &"a".repeat(64)] {
        for (kind, code, answer) in [
            ("admin_tokens", "not_found", admin.post(&path(tenant, "tokens"), &json!({}))),
            ("admin_tokens", "malformed_request", admin.post(&path(tenant, "tokens"), &json!({"ttl": 1}))),
            (
                "admin_tokens",
                "not_found",
                Client::send(admin.request("DELETE", &path(tenant, &format!("tokens/{NO_TOKEN}")))),
            ),
            ("admin_ban", "not_found", admin.post(&path(tenant, &format!("runners/{NOBODY}/ban")), &json!({}))),
            ("admin_ban", "malformed_request", admin.post(&path(tenant, &format!("runners/{NOBODY}/ban")), &json!([]))),
            ("admin_unban", "not_found", admin.post(&path(tenant, &format!("runners/{NOBODY}/unban")), &json!({}))),
            ("admin_evict", "not_found", admin.post(&path(tenant, &format!("runners/{NOBODY}/evict")), &json!({}))),
        ] {
            assert_eq!(answer.code(), code, "{kind}");
            let line = stack.logged(answer.header("x-request-id").unwrap());
            assert_eq!((&line["event"], &line["code"], &line["tenant"]), (&json!(kind), &json!(code), &json!(tenant)));
            assert_eq!(line["actor"], actor(&stack.admin_token()));
            match kind {
                "admin_tokens" => assert!(line["runner_id"].is_null()),
                _ => assert_eq!(line["runner_id"], NOBODY),
            }
        }
    }
    assert_eq!(storage::count(&stack), objects, "no object was made");
}

#[test]
fn policies_that_are_refused() {
    let stack = STACK.lock();
    let admin = stack.admin().0;
    let before = admin.get("/v1/admin/policy").expect(200);
    let put = |body: Vec<u8>, content_type: &str, if_match: Option<&str>| {
        let request = admin.request("PUT", "/v1/admin/policy").header("content-type", content_type).body(body);
        Client::send(if_match.into_iter().fold(request, |request, tag| request.header("if-match", tag)))
    };
    let (good, json) = (stack.policy().to_string().into_bytes(), "application/json");
    for (answer, status, code) in [
        (put(b"{".to_vec(), json, Some("*")), 400, "malformed_request"),
        (put(vec![b' '; 65_537], json, Some("*")), 413, "payload_too_large"),
        (put(good.clone(), "application/toml", Some("*")), 415, "unsupported_media_type"),
        (put(b"{}".to_vec(), json, Some("*")), 422, "policy_invalid"),
        (put(good.clone(), json, Some("\"1\"")), 412, "etag_mismatch"),
        (put(good, json, None), 428, "etag_required"),
    ] {
        answer.assert_problem(status, code, "");
        let event = event(&stack, "/v1/admin/audit", &answer);
        assert_eq!((&event["type"], &event["outcome"]), (&json!("policy_apply"), &json!("deny")));
        assert_eq!((&event["code"], &event["actor"]), (&json!(code), &json!(actor(&stack.admin_token()))));
    }
    let after = admin.get("/v1/admin/policy").expect(200);
    assert_eq!((after.header("etag"), &after.body), (before.header("etag"), &before.body));
}

/// Who may not call is not on a tenant's record: nobody knows who it was. The worker's log has the line.
#[test]
fn callers_without_the_right_token_reach_no_record() {
    let stack = STACK.lock();
    let (held, _) = enroll_pod(&stack, "refused-bearer");
    let ban = path("acme", &format!("runners/{}/ban", held.runner_id));
    let newest = || stack.admin().audit("acme")[0].id;
    let before = newest();
    for (client, code) in [
        (stack.client(), "unauthorized"),
        (stack.client().with_bearer("x"), "unauthorized"),
        (stack.service(), "forbidden"),
    ] {
        let answer = client.post(&ban, &json!({}));
        assert_eq!(answer.code(), code);
        let line = stack.logged(answer.header("x-request-id").unwrap());
        assert_eq!((&line["event"], &line["code"], &line["actor"]), (&json!("admin_ban"), &json!(code), &Value::Null));
    }
    assert_eq!(newest(), before);
    assert_eq!(state(&stack, &held.runner_id), "active");
}

/// The verifier's own storage is away: nothing is refused for good that is not on the record.
#[test]
fn a_refusal_that_cannot_be_recorded_is_no_refusal() {
    let mut stack = Stack::start(Options::new("state-unrecorded"));
    let key = Key::generate();
    let held = Held::from(&key, stack.enroll(&key, &pod(&stack, "unrecorded")));
    stack.stop();
    let set = |version: &str| {
        storage::object(&stack, storage::WITH_RUNNERS, |sql| {
            sql.execute("UPDATE meta SET value = ? WHERE name = 'schema'", [version]).unwrap()
        })
    };
    assert_eq!(set("99"), 1);
    stack.restart();
    let admin = stack.admin().0;
    for answer in [
        admin.post(&path("acme", "tokens"), &json!({"ttl": "x"})),
        admin.post(&path("acme", &format!("runners/{NOBODY}/ban")), &json!([])),
        admin.post(&path("acme", &format!("runners/{NOBODY}/ban")), &json!({})),
    ] {
        answer.assert_problem(503, "upstream_unavailable", "");
    }
    let token = evidence::token("bootstrap-token", &stack.admin().mint("globex").token);
    stack.enroll(&Key::generate(), &token).assert_status(200);
    assert_eq!(held.renew(&stack, &Key::generate()).status, 503);
}
