//! Faults inside the verifier, put in from outside (`tests/js/faults.mjs`): nobody hangs, nothing is half written, nothing internal is
//! said. And what calls leave in a tenant's storage.

use std::time::{Duration, Instant};

use edge_tests::emulators::{Fault, TokenOptions};
use edge_tests::stack::{ACME_ACCOUNT, ACME_ROLE, Answer, Client, Key, Options, Stack, evidence, places};
use serde_json::{Value, json};

use crate::support::{assert_problem_form, assert_retryable};

/// A stack with the faults in it; tenants globex and initech may mint tokens.
fn faulty(name: &str) -> Stack {
    let entry = Some(places::root().join("tests/js/faults.mjs"));
    let stack = Stack::start(Options { entry, ..Options::new(name) });
    let mut policy = stack.policy();
    policy["tenants"][2]["bootstrap_tokens"] = json!(true);
    stack.admin().apply(&policy);
    stack
}

/// A request that traps in the worker.
fn trap(client: &Client) -> Answer {
    Client::send(client.request("GET", "/healthz").header("x-fault", "trap"))
}

/// A 500 that says nothing but what to look for.
#[track_caller]
fn assert_internal(stack: &Stack, answer: &Answer) {
    answer.assert_problem(500, "internal", "");
    assert_problem_form(answer);
    for word in ["unreachable", "RuntimeError", "wasm", "trap"] {
        assert!(!answer.text().contains(word), "{}", answer.text());
    }
    let line = stack.logged(answer.header("x-request-id").unwrap());
    assert_eq!(line["event"], "fault");
    assert!(line["cause"].as_str().unwrap().contains("unreachable"), "{line}");
}

#[test]
fn an_object_that_traps_is_rolled_back_and_refuses_at_once() {
    let mut stack = faulty("faults-trap");
    let (key, token) = (Key::generate(), stack.admin().mint("globex"));
    let attestation = evidence::token("bootstrap-token", &token.token);
    let asked = Instant::now();
    assert_retryable(&stack.enroll(&key, &attestation), "upstream_unavailable");
    // Long before the limit for objects that hang.
    assert!(asked.elapsed() < Duration::from_secs(8), "{:?}", asked.elapsed());
    assert!(stack.log_text().contains("unreachable"), "the log tells the trap");

    // The object and everyone else go on, with nothing of it written.
    assert_eq!(stack.admin().tokens("globex").items[0].uses, 0);
    assert!(stack.admin().runners("globex").items.is_empty());
    assert!(stack.admin().audit("globex").iter().all(|event| json!(event)["type"] != "enroll"));
    let (other, acme) = (Key::generate(), stack.admin().mint("acme"));
    stack.enroll(&other, &evidence::token("bootstrap-token", &acme.token)).assert_status(200);
    assert_retryable(&stack.enroll(&key, &attestation), "upstream_unavailable");

    stack.restart_with(|options| options.entry = None);
    stack.enroll(&key, &attestation).assert_status(200);
    assert_eq!(stack.admin().tokens("globex").items[0].uses, 1);
}

#[test]
fn an_object_that_hangs_does_not_hang_its_caller() {
    let stack = faulty("faults-hang");
    let token = stack.admin().mint("initech");
    let (key, attestation) = (Key::generate(), evidence::token("bootstrap-token", &token.token));
    let answer = stack.enroll(&key, &attestation);
    assert_retryable(&answer, "upstream_unavailable");
    assert!(answer.json()["detail"].as_str().unwrap().contains("in time"), "{}", answer.text());
    stack.client().get("/healthz").assert_status(200);
    assert_eq!(stack.admin().tokens("initech").items[0].uses, 0);
}

#[test]
fn a_trap_in_the_worker_is_a_500_and_the_next_request_is_served() {
    let stack = faulty("faults-worker");
    for _ in 0..3 {
        assert_internal(&stack, &trap(&stack.client()));
        stack.client().get("/healthz").assert_status(200);
    }
    let token = stack.issuer.token(&TokenOptions::default());
    stack.enroll(&Key::generate(), &evidence::token("gke-oidc", &token)).assert_status(200);
}

#[test]
fn a_trap_ends_the_other_requests_of_the_isolate_too() {
    let stack = faulty("faults-bystander");
    let role = stack.sts.add_role_session(ACME_ACCOUNT, ACME_ROLE, "i-0abc");
    let key = Key::generate();
    let attestation = stack.sts_request(&role, &key).evidence();
    stack.sts.set_fault(Fault::Hang);
    let bystander = std::thread::scope(|scope| {
        let call = scope.spawn(|| stack.enroll(&key, &attestation));
        // It waits for STS when STS has been asked.
        while stack.sts.requests().is_empty() {
            std::thread::sleep(Duration::from_millis(10));
        }
        assert_internal(&stack, &trap(&stack.client()));
        call.join().expect("the call does not panic")
    });
    assert_internal(&stack, &bystander);
    stack.sts.clear_faults();
    stack.enroll(&key, &stack.sts_request(&role, &key).evidence()).assert_status(200);
}

#[test]
fn a_step_of_an_instance_that_was_given_up_does_not_cost_the_next_one() {
    let stack = faulty("faults-between");
    let client = stack.client();
    let call = client.request("GET", "/healthz").header("x-fault", "between");
    let answer = Client::send(call.header("cf-connecting-ip", "192.0.2.1")).expect(200);
    assert_eq!(answer.json(), json!([503, 200]));
    // A decision, which is logged, after whatever there was to log.
    stack.logged(client.post("/v1/enroll", &json!({})).header("x-request-id").unwrap());
    let traps = stack.log().into_iter().filter(|line| line["event"] == "trap");
    assert_eq!(traps.count(), 1);
}

/// As from a worker of before there were versions: no trap, which would cost others their answers.
#[test]
fn a_call_that_is_no_octets_is_a_fault() {
    let stack = faulty("faults-text");
    let call = stack.client().request("GET", "/healthz").header("x-fault", "text");
    assert_eq!(Client::send(call).expect(200).json(), json!("the object failed; its log says why"));
    // A decision, which is logged, after whatever there was to log.
    stack.logged(stack.client().post("/v1/enroll", &json!({})).header("x-request-id").unwrap());
    let events: Vec<_> = stack.log().into_iter().map(|line| line["event"].clone()).collect();
    assert_eq!(events.iter().filter(|event| *event == "object_fault").count(), 1, "{events:?}");
    assert!(!events.iter().any(|event| event == "trap"), "{events:?}");
}

/// What the storage of `tenant` held after each of its calls: number of tables, and whether an alarm is set.
fn storage(stack: &Stack, tenant: &str) -> Vec<(u64, bool)> {
    let lines = stack.log().into_iter().filter(|line| line["event"] == "storage" && line["tenant"] == tenant);
    lines.map(|line| (line["tables"].as_u64().unwrap(), line["alarm"].as_bool().unwrap())).collect()
}

#[test]
fn a_look_at_a_tenant_creates_nothing() {
    let stack = faulty("faults-untouched");
    let (key, admin) = (Key::generate(), stack.admin());
    let body = json!({
        "attestation": evidence::token("gke-oidc", &stack.gke_token("look")),
        "spki_sha256": key.spki_sha256(),
        "consume": false,
    });
    assert_eq!(stack.service().post("/v1/verify", &body).expect(200).json()["decision"], "allow");
    assert!(admin.tokens("acme").items.is_empty());
    assert!(admin.runners("acme").items.is_empty());
    admin.0.get("/v1/admin/tenants/acme/runners/0123456789abcdef0123456789abcdef").assert_status(404);
    assert!(admin.audit("acme").is_empty());
    let minted = admin.mint("acme");
    stack.enroll(&key, &evidence::token("bootstrap-token", &minted.token)).assert_status(200);
    // Logged after what its call left in the storage.
    let last = admin.0.get("/v1/admin/tenants/acme/audit");
    stack.logged(last.header("x-request-id").unwrap());
    let held = storage(&stack, "acme");
    assert_eq!(held[..5], [(0, false); 5], "{held:?}");
    assert!(held[5..].iter().all(|(tables, alarm)| *tables > 5 && *alarm), "{held:?}");
    assert_eq!(held.len(), 8, "{held:?}");
}

#[test]
fn nothing_but_fetch_and_decide_can_be_called() {
    let stack = faulty("faults-surface");
    let surface = Client::send(stack.client().request("GET", "/").header("x-fault", "surface")).expect(200).json();
    let expected = json!({
        "exports": ["Policy", "Revocation", "Tenant", "default"],
        "default": ["fetch"],
        "Tenant": ["alarm", "constructor", "decide"],
        "Policy": ["constructor", "decide"],
        "Revocation": ["constructor", "decide"],
    });
    assert_eq!(surface, expected);
}

/// Decisions are data points where there is a dataset, tenant or none, and nothing of an identity is in them.
#[test]
fn decisions_are_data_points_where_there_is_a_dataset() {
    let stack = faulty("faults-dataset");
    let enroll = |how: Option<&str>, attestation: &Value| {
        let request = stack.client().request("POST", "/v1/enroll");
        let request = how.into_iter().fold(request, |request, how| request.header("x-dataset", how));
        Client::send(request.json(&evidence::request(&Key::generate(), attestation)))
    };
    let pod = |name: &str| evidence::token("gke-oidc", &stack.gke_token(name));
    let malformed = evidence::token("gke-oidc", "x");
    enroll(Some("works"), &pod("counted")).assert_status(200);
    enroll(Some("works"), &malformed).assert_status(401);
    enroll(None, &pod("not-counted")).assert_status(200);
    enroll(Some("fails"), &pod("not-counted-either")).assert_status(200);
    let last = enroll(None, &malformed);
    stack.logged(last.header("x-request-id").unwrap());
    let points: Vec<Value> = stack.log().into_iter().filter(|line| line["event"] == "data_point").collect();
    let expected = [
        json!({"indexes": ["acme"], "blobs": ["enroll", "gke-oidc", "", ""], "doubles": [200.0, 1.0]}),
        json!({
            "indexes": [""], "blobs": ["enroll", "gke-oidc", "attestation_invalid", "token_malformed"], "doubles": [401.0, 1.0],
        }),
    ];
    assert_eq!(points.len(), expected.len(), "{points:?}");
    for (point, expected) in points.iter().zip(&expected) {
        for name in ["indexes", "blobs"] {
            assert_eq!(point[name], expected[name]);
        }
        let doubles = |point: &Value| -> Vec<f64> {
            point["doubles"].as_array().unwrap().iter().map(|n| n.as_f64().unwrap()).collect()
        };
        assert_eq!(doubles(point), doubles(expected));
    }
}
