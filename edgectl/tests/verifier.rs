//! The binary against a small verifier of the documented shape: what is sent, what is shown, how it ends.

use std::net::SocketAddr;
use std::process::Output;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::Bytes;
use axum::extract::{Path, Query, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::{delete, get, post};
use serde_json::{Value, json};

const EXAMPLE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/policies/example.toml");
const RISKY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/policies/risky.toml");
const BROKEN: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/policies/broken.toml");

/// What the fake holds and has been asked.
#[derive(Default)]
struct Fake {
    policy: Option<Value>,
    version: u32,
    asked: Vec<String>,
    bodies: Vec<Value>,
    /// Events of the audit log, oldest first.
    events: u64,
}

type Shared = Arc<Mutex<Fake>>;

struct Verifier {
    address: SocketAddr,
    fake: Shared,
}

impl Verifier {
    async fn start() -> Self {
        let fake = Shared::default();
        let router = Router::new()
            .route("/v1/admin/policy", get(policy).put(apply))
            .route("/v1/admin/tenants/{tenant}/tokens", get(tokens).post(mint))
            .route("/v1/admin/tenants/{tenant}/tokens/{id}", delete(revoke))
            .route("/v1/admin/tenants/{tenant}/runners/{id}", get(runner))
            .route("/v1/admin/tenants/{tenant}/runners/{id}/ban", post(ban))
            .route("/v1/admin/tenants/{tenant}/runners/{id}/evict", post(evict))
            .route("/v1/admin/tenants/{tenant}/audit", get(audit))
            .route("/v1/verify", post(verify))
            .fallback(|| async { (StatusCode::OK, "<html>hello</html>") })
            .with_state(Arc::clone(&fake));
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move { axum::serve(listener, router).await });
        Self { address, fake }
    }

    fn command(&self, arguments: &[&str]) -> tokio::process::Command {
        let mut command = tokio::process::Command::new(env!("CARGO_BIN_EXE_edgectl"));
        command
            .args(arguments)
            .env("EDGECTL_URL", format!("http://{}", self.address))
            .env("EDGECTL_TOKEN", "admin")
            .env("EDGECTL_SERVICE_TOKEN", "service")
            .env_remove("EDGECTL_TOKEN_FILE")
            .env_remove("EDGECTL_SERVICE_TOKEN_FILE")
            .kill_on_drop(true);
        command
    }

    async fn edgectl(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().await.unwrap()
    }

    fn asked(&self) -> Vec<String> {
        std::mem::take(&mut self.fake.lock().unwrap().asked)
    }
}

fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

fn problem(code: protocol::Code, detail: &str) -> Response {
    let body = json!({
        "type": "about:blank", "title": code.title(), "status": code.status(), "code": code, "reason": null,
        "detail": detail, "request_id": "req-1", "retryable": code.retryable(), "server_time": "2026-11-30T01:06:00Z",
    });
    let status = StatusCode::from_u16(code.status()).unwrap();
    (status, [("content-type", protocol::error::PROBLEM_JSON)], body.to_string()).into_response()
}

fn is_admin(headers: &HeaderMap) -> bool {
    headers.get("authorization").is_some_and(|value| value == "Bearer admin")
}

async fn policy(State(fake): State<Shared>, headers: HeaderMap) -> Response {
    if !is_admin(&headers) {
        return problem(protocol::Code::Unauthorized, "This route needs a bearer token.");
    }
    let fake = fake.lock().unwrap();
    match &fake.policy {
        None => problem(protocol::Code::NotFound, "No policy has been applied yet."),
        Some(policy) => ([("etag", format!("\"{}\"", fake.version))], axum::Json(policy.clone())).into_response(),
    }
}

async fn apply(State(fake): State<Shared>, headers: HeaderMap, body: Bytes) -> Response {
    let mut fake = fake.lock().unwrap();
    let given = headers.get("if-match").map(|value| value.to_str().unwrap().to_owned());
    fake.asked.push(format!("PUT {given:?}"));
    match (&fake.policy, given) {
        (Some(_), None) => return problem(protocol::Code::EtagRequired, "If-Match is required."),
        (Some(_), Some(version)) if version != format!("\"{}\"", fake.version) => {
            return problem(protocol::Code::EtagMismatch, "The policy in force is another version.");
        }
        _ => {}
    }
    let policy: Value = serde_json::from_slice(&body).unwrap();
    fake.policy = Some(policy.clone());
    fake.version += 1;
    ([("etag", format!("\"{}\"", fake.version))], axum::Json(policy)).into_response()
}

async fn tokens(
    State(fake): State<Shared>,
    Path(tenant): Path<String>,
    Query(query): Query<Vec<(String, String)>>,
) -> Response {
    let value = |name: &str| query.iter().find(|(key, _)| key == name).map(|(_, value)| value.clone());
    let start: usize = value("cursor").map_or(0, |cursor| cursor.parse().unwrap());
    let limit: usize = value("limit").unwrap().parse().unwrap();
    fake.lock().unwrap().asked.push(format!("tokens {tenant} {start} {limit}"));
    let end = (start + limit).min(250);
    let items: Vec<Value> = (start..end)
        .map(|n| {
            json!({
                "id": format!("t{n}"), "tenant": tenant, "description": "d\u{1b}[2J", "created_at": "2026-11-30T00:00:00Z",
                "expires_at": "2026-11-30T01:00:00Z", "max_uses": 1, "uses": 0, "revoked": false,
            })
        })
        .collect();
    let next = (end < 250).then(|| end.to_string());
    axum::Json(json!({ "items": items, "next": next })).into_response()
}

async fn mint(State(fake): State<Shared>, Path(tenant): Path<String>, body: Bytes) -> Response {
    fake.lock().unwrap().bodies.push(serde_json::from_slice(&body).unwrap());
    if tenant != "acme" {
        return problem(protocol::Code::NotFound, "No such tenant.");
    }
    let body = json!({
        "id": "aaaaaaaaaaaaaaaa", "token": "rpbt_acme_aaaaaaaaaaaaaaaa_secret", "tenant": tenant,
        "expires_at": "2026-11-30T02:00:00Z", "max_uses": 1,
    });
    (StatusCode::CREATED, axum::Json(body)).into_response()
}

async fn revoke(State(fake): State<Shared>, Path((tenant, id)): Path<(String, String)>) -> StatusCode {
    fake.lock().unwrap().asked.push(format!("revoke {tenant} {id}"));
    StatusCode::NO_CONTENT
}

fn runner_item(state: &str) -> Value {
    json!({
        "runner_id": "r1", "tenant": "acme", "mode": "aws-sts", "identity": "arn:aws:iam::111122223333:role/runner",
        "instance": "AROAEXAMPLE:i-0", "state": state, "serial": "00", "not_after": "2026-11-30T02:00:00Z",
        "attested_at": "2026-11-30T01:00:00Z", "last_seen": "2026-11-30T01:00:00Z",
    })
}

async fn runner() -> Response {
    axum::Json(runner_item("active")).into_response()
}

async fn ban(State(fake): State<Shared>, body: Bytes) -> Response {
    fake.lock().unwrap().bodies.push(serde_json::from_slice(&body).unwrap());
    let mut answer = runner_item("banned");
    answer["warning"] = json!("the principal can choose its session name");
    axum::Json(answer).into_response()
}

async fn evict() -> StatusCode {
    StatusCode::NO_CONTENT
}

/// Every look at the log adds an event.
async fn audit(State(fake): State<Shared>) -> Response {
    let mut fake = fake.lock().unwrap();
    fake.events += 1;
    let items: Vec<Value> = (1..=fake.events)
        .rev()
        .map(|id| {
            json!({
                "id": id, "time": "2026-11-30T01:00:00Z", "type": "enroll", "outcome": "deny", "code": "attestation_invalid",
                "reason": "bootstrap_token_refused", "cause": "expired", "mode": "bootstrap-token", "identity": null,
                "runner_id": null, "actor": null, "request_id": format!("req-{id}"),
            })
        })
        .collect();
    axum::Json(json!({ "items": items, "next": null })).into_response()
}

async fn verify(State(fake): State<Shared>, headers: HeaderMap, body: Bytes) -> Response {
    if headers.get("authorization").is_none_or(|value| value != "Bearer service") {
        return problem(protocol::Code::Forbidden, "This route is for service tokens.");
    }
    fake.lock().unwrap().bodies.push(serde_json::from_slice(&body).unwrap());
    axum::Json(json!({
        "decision": "deny", "code": "attestation_invalid", "reason": "audience_mismatch", "mode": "gke-oidc", "identity": null,
        "instance": null, "tenant": null, "consumed": false,
        "trace": [
            { "check": "K1", "name": "token form", "outcome": "pass", "expected": "three parts", "actual": "three parts" },
            { "check": "K5", "name": "audience and times", "outcome": "fail", "expected": "edge.example.com", "actual": "other" },
            { "check": "K6", "name": "service account", "outcome": "skipped", "expected": null, "actual": null },
        ],
    }))
    .into_response()
}

#[tokio::test]
async fn a_policy_is_applied_over_the_version_that_was_seen() {
    let verifier = Verifier::start().await;
    let none = verifier.edgectl(&["policy", "show"]).await;
    assert_eq!((none.status.code(), stdout(&none)), (Some(1), String::new()));
    let first = verifier.edgectl(&["policy", "apply", EXAMPLE]).await;
    assert!(first.status.success(), "{first:?}");
    let same = verifier.edgectl(&["policy", "apply", EXAMPLE, "--output", "json"]).await;
    let same: Value = serde_json::from_str(&stdout(&same)).unwrap();
    assert_eq!(same, json!({ "changed": false, "etag": "\"1\"", "warnings": [] }));
    let second = verifier.edgectl(&["policy", "apply", RISKY]).await;
    assert!(stderr(&second).contains("warning: aws_sts.endpoints.us-east-1"), "{second:?}");
    assert_eq!(verifier.asked(), ["PUT None", "PUT Some(\"\\\"1\\\"\")"]);
    let stale = verifier.edgectl(&["policy", "apply", EXAMPLE, "--if-match", "\"1\""]).await;
    assert_eq!(stale.status.code(), Some(1));
    assert!(stderr(&stale).contains("etag_mismatch") && stderr(&stale).contains("edgectl policy diff"), "{stale:?}");
}

#[tokio::test]
async fn a_broken_policy_is_never_sent() {
    let verifier = Verifier::start().await;
    let refused = verifier.edgectl(&["policy", "apply", BROKEN]).await;
    assert_eq!(refused.status.code(), Some(1));
    assert!(stderr(&refused).contains("tenants[0].rules[0].role: "), "{refused:?}");
    assert!(verifier.asked().is_empty());
}

#[tokio::test]
async fn what_is_shown_can_be_applied_and_compared() {
    let verifier = Verifier::start().await;
    verifier.edgectl(&["policy", "apply", EXAMPLE]).await;
    let shown = verifier.edgectl(&["policy", "show"]).await;
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("policy.toml");
    std::fs::write(&file, &shown.stdout).unwrap();
    let file = file.to_str().unwrap();
    assert_eq!(verifier.edgectl(&["policy", "diff", file]).await.status.code(), Some(0));
    let changed = stdout(&shown).replace("rootpilot-runner", "other-runner");
    std::fs::write(file, changed).unwrap();
    let diff = verifier.edgectl(&["policy", "diff", file]).await;
    assert_eq!(diff.status.code(), Some(1));
    assert!(stdout(&diff).contains("-role = \"rootpilot-runner\"\n+role = \"other-runner\""), "{diff:?}");
    let diff = verifier.edgectl(&["policy", "diff", file, "-o", "json"]).await;
    let diff: Value = serde_json::from_str(&stdout(&diff)).unwrap();
    let patch = json!([{ "op": "replace", "path": "/tenants/0/rules/0/role", "value": "other-runner" }]);
    assert_eq!(diff, json!({ "differs": true, "patch": patch }));
}

#[tokio::test]
async fn a_minted_token_is_alone_on_standard_output() {
    let verifier = Verifier::start().await;
    let minted = verifier.edgectl(&["token", "mint", "acme", "--ttl", "2h"]).await;
    assert_eq!(stdout(&minted), "rpbt_acme_aaaaaaaaaaaaaaaa_secret\n");
    assert!(!stderr(&minted).contains("secret"), "{minted:?}");
    assert_eq!(verifier.fake.lock().unwrap().bodies, [json!({ "ttl": "2h" })]);
    let unknown = verifier.edgectl(&["token", "mint", "no/such tenant?"]).await;
    assert_eq!(unknown.status.code(), Some(1));
    assert!(stderr(&unknown).contains("No such tenant.\nhint: "), "{unknown:?}");
    verifier.edgectl(&["token", "revoke", "acme", "t1"]).await;
    assert_eq!(verifier.asked(), ["revoke acme t1"]);
}

#[tokio::test]
async fn lists_follow_their_cursors() {
    let verifier = Verifier::start().await;
    let few = verifier.edgectl(&["token", "list", "acme", "--limit", "2"]).await;
    assert_eq!(stdout(&few).lines().count(), 3);
    assert!(stdout(&few).contains("d\\u{1b}[2J") && stderr(&few).contains("--all"), "{few:?}");
    assert_eq!(verifier.asked(), ["tokens acme 0 2"]);
    let all = verifier.edgectl(&["token", "list", "acme", "--all", "--output", "json"]).await;
    let all: Value = serde_json::from_str(&stdout(&all)).unwrap();
    assert_eq!((all["items"].as_array().unwrap().len(), &all["next"]), (250, &Value::Null));
    assert_eq!(verifier.asked(), ["tokens acme 0 200", "tokens acme 200 200"]);
    verifier.edgectl(&["token", "list", "acme", "--limit", "210"]).await;
    assert_eq!(verifier.asked(), ["tokens acme 0 200", "tokens acme 200 10"]);
}

#[tokio::test]
async fn a_ban_says_where_it_cannot_hold() {
    let verifier = Verifier::start().await;
    let banned = verifier.edgectl(&["runner", "ban", "acme", "r1", "--scope", "runner", "--reason", "lost"]).await;
    assert!(stdout(&banned).contains("banned") && stderr(&banned).contains("warning: the principal"), "{banned:?}");
    assert_eq!(verifier.fake.lock().unwrap().bodies, [json!({ "reason": "lost", "scope": "runner" })]);
    let evicted = verifier.edgectl(&["runner", "evict", "acme", "r1", "--output", "json"]).await;
    assert_eq!(serde_json::from_str::<Value>(&stdout(&evicted)).unwrap()["evicted"], true);
}

#[tokio::test]
async fn following_prints_each_event_once_oldest_first() {
    use tokio::io::{AsyncBufReadExt as _, BufReader};
    let verifier = Verifier::start().await;
    let mut command = verifier.command(&["audit", "acme", "--follow", "--output", "json"]);
    let mut child = command.stdout(std::process::Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    for id in 1..=3 {
        let event: Value = serde_json::from_str(&lines.next_line().await.unwrap().unwrap()).unwrap();
        assert_eq!(event["id"], id);
    }
    child.kill().await.unwrap();
}

#[tokio::test]
async fn an_explanation_names_the_check_that_refused() {
    let verifier = Verifier::start().await;
    let directory = tempfile::tempdir().unwrap();
    let payload = directory.path().join("payload.json");
    let evidence = json!({ "csr": "C", "attestation": { "mode": "gke-oidc", "token": "a.b.c" } });
    std::fs::write(&payload, evidence.to_string()).unwrap();
    let explained = verifier.edgectl(&["explain", payload.to_str().unwrap()]).await;
    assert_eq!(explained.status.code(), Some(1));
    insta::assert_snapshot!(stdout(&explained), @r"
    Decision  deny
    Code      attestation_invalid
    Reason    audience_mismatch
    Mode      gke-oidc

          CHECK                      EXPECTED          ACTUAL
    ok    K1     token form          three parts       three parts
    FAIL  K5     audience and times  edge.example.com  other
    -     K6     service account     -                 -
    ");
    let mut sent = evidence;
    sent["consume"] = json!(false);
    assert_eq!(verifier.fake.lock().unwrap().bodies, [sent]);
}

#[tokio::test]
async fn refusals_have_their_exit_status() {
    let verifier = Verifier::start().await;
    let refused = verifier.command(&["policy", "show"]).env("EDGECTL_TOKEN", "wrong").output().await.unwrap();
    assert_eq!(refused.status.code(), Some(77));
    assert!(stderr(&refused).contains("request id: req-1"), "{refused:?}");
    let stranger = verifier.edgectl(&["audit"]).await;
    assert_eq!(stranger.status.code(), Some(69));
    assert!(stderr(&stranger).contains("not the verifier's"), "{stranger:?}");
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let closed = listener.local_addr().unwrap();
    drop(listener);
    let nobody = verifier.command(&["policy", "show", "--url", &format!("http://{closed}")]).output().await.unwrap();
    assert_eq!(nobody.status.code(), Some(69));
    let nobody = verifier
        .command(&["policy", "show", "-o", "json", "--url", &format!("http://{closed}")])
        .output()
        .await
        .unwrap();
    let error: Value = serde_json::from_str(&stderr(&nobody)).unwrap();
    assert_eq!(error["error"]["exit_status"], 69);
}
