//! The operator's lists: pages, order, and what each item says (PROTOCOL, Routes).

use edge_tests::stack::{Client, Key, evidence};
use serde_json::{Value, json};

use crate::support::{Shared, members, seconds};

static STACK: Shared = Shared::new("lists");

/// Every item of a list, by pages of `limit`.
fn walk(client: &Client, path: &str, limit: usize) -> Vec<Value> {
    let (mut items, mut cursor) = (Vec::new(), None::<String>);
    loop {
        let after = cursor.map(|cursor| format!("&cursor={cursor}")).unwrap_or_default();
        let page = client.get(&format!("{path}?limit={limit}{after}")).expect(200).json();
        assert_eq!(members(&page), ["items", "next"]);
        let here = page["items"].as_array().unwrap();
        assert!(here.len() <= limit);
        items.extend(here.iter().cloned());
        assert!(items.len() < 1_000, "a list without end");
        match page["next"].as_str() {
            Some(next) => {
                assert_eq!(here.len(), limit, "only the last page is short");
                cursor = Some(next.to_owned());
            }
            None => return items,
        }
    }
}

#[test]
fn lists_are_whole_however_they_are_cut() {
    let stack = STACK.lock();
    let admin = stack.admin();
    let mut ids: Vec<String> = Vec::new();
    for number in 0..7 {
        let token = admin.mint_with("globex", &json!({"description": format!("number {number}"), "ttl": "2h"}));
        stack.enroll(&Key::generate(), &evidence::token("bootstrap-token", &token.token)).assert_status(200);
        ids.push(token.id);
    }
    ids.sort();
    for (list, id, expected) in [("tokens", "id", 7), ("runners", "runner_id", 7), ("audit", "id", 14)] {
        let path = format!("/v1/admin/tenants/globex/{list}");
        let whole = walk(&admin.0, &path, 200);
        assert_eq!(whole.len(), expected, "{list}");
        for limit in [1, 2, 7] {
            assert_eq!(walk(&admin.0, &path, limit), whole, "{list} by {limit}");
        }
        let mut names: Vec<String> = whole.iter().map(|item| item[id].to_string()).collect();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), expected, "{list}: every item once");
    }
    let tokens = walk(&admin.0, "/v1/admin/tenants/globex/tokens", 3);
    let mut listed: Vec<&str> = tokens.iter().map(|token| token["id"].as_str().unwrap()).collect();
    listed.sort_unstable();
    assert_eq!(listed, ids);
    for token in &tokens {
        assert_eq!(
            members(token),
            ["created_at", "description", "expires_at", "id", "max_uses", "revoked", "tenant", "uses"]
        );
        assert_eq!(seconds(&token["expires_at"]) - seconds(&token["created_at"]), 7_200);
        assert_eq!((&token["uses"], &token["revoked"]), (&json!(1), &json!(false)));
    }
}

#[test]
fn the_audit_log_is_newest_first_and_names_who_did_what() {
    let stack = STACK.lock();
    let admin = stack.admin();
    let key = Key::generate();
    let token = admin.mint("acme");
    let runner = stack.enroll(&key, &evidence::token("bootstrap-token", &token.token)).expect(200).json();
    let id = runner["runner_id"].as_str().unwrap();
    stack.renew(&key, runner["certificate"].as_str().unwrap(), &key).assert_status(200);
    let banned = admin.ban("acme", id, &json!({"reason": "a drill"}));
    assert_eq!((&banned["state"], members(&banned).contains(&"warning")), (&json!("banned"), true));
    let refused = stack.renew(&key, runner["certificate"].as_str().unwrap(), &Key::generate());
    refused.assert_problem(403, "runner_banned", "");
    admin.unban("acme", id);
    admin.evict("acme", id);
    admin.revoke("acme", &token.id);
    // The newest eight: other tests of this stack were there before.
    let events: Vec<Value> = admin.audit("acme").into_iter().take(8).map(|event| json!(event)).collect();
    let kinds: Vec<&str> = events.iter().map(|event| event["type"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["token_revoke", "evict", "unban", "renew", "ban", "renew", "enroll", "token_mint"]);
    let numbers: Vec<u64> = events.iter().map(|event| event["id"].as_u64().unwrap()).collect();
    assert!(numbers.is_sorted_by(|a, b| a > b), "{numbers:?}");
    for event in &events {
        assert_eq!(
            members(event),
            [
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
                "type"
            ]
        );
        let by_admin = !["enroll", "renew"].contains(&event["type"].as_str().unwrap());
        assert_eq!(event["actor"].is_string(), by_admin, "{event}");
    }
    assert_eq!((&events[3]["outcome"], &events[3]["code"]), (&json!("deny"), &json!("runner_banned")));
    assert_eq!(events[4]["reason"], "a drill");
    admin.0.get(&format!("/v1/admin/tenants/acme/runners/{id}")).assert_problem(404, "not_found", "");
}

#[test]
fn edgectl_lists_what_the_routes_list() {
    let stack = STACK.lock();
    let token = stack.edgectl(&["token", "mint", "acme", "--max-uses", "3"]).expect(0).json();
    let text = token["token"].as_str().unwrap();
    let runner = stack.enroll(&Key::generate(), &evidence::token("bootstrap-token", text)).expect(200).json();
    let listed = stack.edgectl(&["runner", "show", "acme", runner["runner_id"].as_str().unwrap()]).expect(0).json();
    assert_eq!(listed, json!(stack.admin().runner("acme", runner["runner_id"].as_str().unwrap())));
    let tokens = stack.edgectl(&["token", "list", "acme"]).expect(0).stdout;
    assert!(tokens.contains(token["id"].as_str().unwrap()) && !tokens.contains(text), "{tokens}");
    let _ = stack.edgectl(&["token", "revoke", "acme", token["id"].as_str().unwrap()]).expect(0);
    assert!(stack.admin().tokens("acme").items.iter().any(|item| item.revoked && item.id == token["id"]));
    let _ = stack.edgectl(&["runner", "show", "acme", "aaaaaaaaaaaaaaaaaaaaaaaaaa"]).expect(1);
}
