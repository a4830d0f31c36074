//! `enroll`, `attest`, `status`: exit statuses, files, output.

use serde_json::json;

use crate::support::{Fake, Reply, Runner, TOKEN, mode_of};

#[tokio::test]
async fn a_certificate_is_stored_and_shown() {
    let fake = Fake::start([]).await;
    let runner = Runner::bootstrap(&fake);
    let output = runner.run(&["enroll", "--output", "json"]).await;
    assert_eq!(output.status, 0, "{output:?}");
    let json = output.json();
    assert_eq!(json["how"], "enrolled");
    assert_eq!(json["tenant"], "acme");
    assert_eq!(json["mode"], "bootstrap-token");
    let state = runner.state();
    assert_eq!(mode_of(&state), 0o700);
    assert_eq!(mode_of(&state.join("key.pem")), 0o600);
    assert_eq!(mode_of(&state.join("certificate.pem")), 0o644);
    assert!(std::fs::read_to_string(state.join("trust-bundle.pem")).unwrap().starts_with("-----BEGIN CERTIFICATE"));
    assert!(!state.join("pending-key.pem").exists());
    let call = &fake.calls()[0];
    assert_eq!(call.path, "/v1/enroll");
    assert_eq!(call.body["attestation"], json!({"mode": "bootstrap-token", "token": TOKEN}));

    let status = runner.run(&["status", "--output", "json"]).await;
    assert_eq!(status.status, 0);
    assert_eq!(status.json()["state"], "live");
    assert_eq!(status.json()["running"], false);
    assert_eq!(status.json()["identity"]["serial"], json["serial"]);
}

#[tokio::test]
async fn a_second_enrolment_attests_with_the_same_key() {
    let fake = Fake::start([]).await;
    let runner = Runner::bootstrap(&fake);
    assert_eq!(runner.run(&["enroll"]).await.status, 0);
    let output = runner.run(&["enroll", "--output", "json"]).await;
    assert_eq!(output.json()["how"], "reattested");
    let calls = fake.calls();
    assert_eq!(calls[0].key, calls[1].key);
}

#[tokio::test]
async fn status_without_a_certificate_is_69() {
    let output = Runner::bare().run(&["status", "--output", "json"]).await;
    assert_eq!(output.status, 69);
    assert_eq!(output.json()["state"], "none");
    let fake = Fake::start([Reply::issue(300)]).await;
    let runner = Runner::bootstrap(&fake);
    assert_eq!(runner.run(&["enroll"]).await.status, 0);
    tokio::time::sleep(std::time::Duration::from_millis(400)).await;
    let output = runner.run(&["status", "--output", "json"]).await;
    assert_eq!((output.status, output.json()["state"].as_str()), (69, Some("expired")));
}

#[tokio::test]
async fn any_refusal_is_77_at_once() {
    for (status, code, reason) in [
        (400, "malformed_request", None),
        (400, "csr_invalid", None),
        (401, "attestation_invalid", Some("bootstrap_token_refused")),
        (401, "attestation_invalid", Some("token_reused")),
        (401, "attestation_invalid", Some("token_expired")),
        (401, "attestation_invalid", Some("certificate_invalid")),
        (403, "identity_not_mapped", None),
        (403, "runner_banned", None),
        (403, "must_reattest", None),
        (403, "identity_in_use", None),
    ] {
        let fake = Fake::start([]).await.then(Reply::problem(status, code, reason));
        let output = Runner::bootstrap(&fake).run(&["enroll", "--output", "json"]).await;
        assert_eq!(output.status, 77, "{code}: {output:?}");
        assert_eq!(fake.calls().len(), 1, "{code}");
        assert_eq!(output.json()["error"]["class"], "refused");
        assert_eq!(output.json()["error"]["code"], code);
        assert_eq!(output.json()["error"]["request_id"], "req-1");
        assert!(output.stderr.starts_with("error: "), "{output:?}");
    }
}

#[tokio::test]
async fn what_may_pass_is_tried_again_within_bounds() {
    let fake = Fake::start([Reply::retry("upstream_unavailable", 503, 0), Reply::problem(500, "internal", None)]).await;
    let output = Runner::bootstrap(&fake).run(&["enroll"]).await;
    assert_eq!(output.status, 0, "{output:?}");
    let calls = fake.calls();
    assert_eq!(calls.len(), 3);
    assert!(calls.iter().all(|call| call.csr() == calls[0].csr()), "the same request is repeated");

    let fake = Fake::start([]).await.then(Reply::retry("not_configured", 503, 1));
    let output = Runner::bootstrap(&fake).run(&["enroll"]).await;
    assert_eq!(output.status, 69, "{output:?}");
    assert!(fake.calls().len() > 1);
    assert!(output.stderr.contains("not configured yet"), "{output:?}");
}

#[tokio::test]
async fn retry_after_is_honoured_and_too_long_a_one_ends_it() {
    let fake = Fake::start([Reply::retry("rate_limited", 429, 2)]).await;
    assert_eq!(Runner::bootstrap(&fake).run(&["enroll"]).await.status, 0);
    let calls = fake.calls();
    assert!(calls[1].at - calls[0].at >= std::time::Duration::from_secs(2));
    let fake = Fake::start([]).await.then(Reply::retry("rate_limited", 429, 600));
    let output = Runner::bootstrap(&fake).run(&["enroll"]).await;
    assert_eq!((output.status, fake.calls().len()), (69, 1));
}

#[tokio::test]
async fn a_lost_answer_is_repaired_by_the_same_request() {
    let fake = Fake::start([Reply::LoseAnswer]).await;
    let output = Runner::bootstrap(&fake).run(&["enroll"]).await;
    assert_eq!(output.status, 0, "{output:?}");
    let calls = fake.calls();
    assert_eq!(calls.len(), 2);
    assert_eq!(calls[0].csr(), calls[1].csr());
}

#[tokio::test]
async fn answers_that_cannot_be_used_are_not_stored() {
    let other_key = Fake::start([]).await;
    let elsewhere = Runner::bootstrap(&other_key);
    assert_eq!(elsewhere.run(&["enroll"]).await.status, 0);
    let stolen = std::fs::read_to_string(elsewhere.state().join("certificate.pem")).unwrap();
    let body = json!({
        "runner_id": "r", "tenant": "t", "spiffe_id": "s", "certificate": stolen, "trust_bundle": "",
        "not_before": "2024-01-01T00:00:00Z", "not_after": "2099-01-01T00:00:00Z", "renew_after": "2024-01-01T00:00:00Z",
        "reattest_before": null, "server_time": "2024-01-01T00:00:00Z",
    });
    for (body, words) in [
        (body.to_string(), "another key"),
        ("{}".to_owned(), "not the documented answer"),
        ("x".repeat(300_000), "larger"),
    ] {
        let fake = Fake::start([]).await.then(Reply::Raw { status: 200, headers: vec![], body });
        let runner = Runner::bootstrap(&fake);
        let output = runner.run(&["enroll"]).await;
        assert_eq!(output.status, 69, "{output:?}");
        assert!(output.stderr.contains(words), "{output:?}");
        assert!(!runner.state().join("certificate.pem").exists());
    }
}

#[tokio::test]
async fn a_certificate_that_no_server_would_take_is_not_stored() {
    type Change = fn(&mut serde_json::Value);
    let cases: [(Change, &str); 6] = [
        (|answer| answer["trust_bundle"] = json!(""), "does not lead to the trust bundle"),
        (|answer| answer["trust_bundle"] = answer["certificate"].clone(), "does not lead to the trust bundle"),
        (|answer| answer["not_after"] = json!("2099-06-01T00:00:00Z"), "ends at 2099-01-01T00:00:00Z, before"),
        (
            |answer| {
                answer["server_time"] = json!("2100-01-01T00:00:00Z");
                answer["not_after"] = json!("2100-01-01T01:00:00Z");
            },
            "ends at 2099-01-01T00:00:00Z, before",
        ),
        (|answer| answer["not_after"] = answer["server_time"].clone(), "has already ended"),
        (|answer| answer["tenant"] = json!("acme\nX=1"), "`tenant` is not visible ASCII"),
    ];
    for (change, words) in cases {
        let fake = Fake::start([Reply::issue(3_600_000)]).await.then(Reply::Changed(change));
        let runner = Runner::bootstrap(&fake);
        assert_eq!(runner.run(&["enroll"]).await.status, 0);
        let before = std::fs::read(runner.state().join("identity.json")).unwrap();
        let output = runner.run(&["enroll"]).await;
        assert_eq!(output.status, 69, "{output:?}");
        assert!(output.stderr.contains(words), "{words}: {output:?}");
        assert_eq!(std::fs::read(runner.state().join("identity.json")).unwrap(), before, "the good one stays");
    }
}

#[tokio::test]
async fn attest_prints_the_evidence_and_sends_nothing() {
    let fake = Fake::start([]).await;
    let runner = Runner::bootstrap(&fake);
    let output = runner.run(&["attest"]).await;
    assert_eq!(output.status, 0);
    assert!(!output.stdout.contains(TOKEN));
    assert!(output.stderr.contains("not kept"), "{output:?}");
    let revealed = runner.run(&["attest", "--reveal", "--output", "json"]).await.json();
    assert_eq!(revealed["attestation"]["token"], TOKEN);
    assert!(fake.calls().is_empty() && !runner.state().exists());

    assert_eq!(runner.run(&["enroll"]).await.status, 0);
    let again = runner.run(&["attest", "--reveal"]).await.json();
    assert_eq!(again, fake.calls()[0].body, "the very evidence that would be sent");
}

#[tokio::test]
async fn aws_evidence_has_exactly_the_signed_headers() {
    let runner = Runner::bare()
        .env("RUNNER_ATTESTATION_MODE", "aws-sts")
        .env("RUNNER_CONTROL_PLANE_URL", "https://Edge.Example.com:8443")
        .env("AWS_REGION", "cn-north-1")
        .env("AWS_ACCESS_KEY_ID", "AKIAEXAMPLE")
        .env("AWS_SECRET_ACCESS_KEY", "secret")
        .env("AWS_SESSION_TOKEN", "session");
    let output = runner.run(&["attest", "--reveal"]).await;
    assert_eq!(output.status, 0, "{output:?}");
    let evidence = &output.json()["attestation"];
    let names: Vec<&str> = evidence["headers"].as_object().unwrap().keys().map(String::as_str).collect();
    assert_eq!(
        names,
        ["authorization", "content-type", "host", "x-amz-date", "x-amz-security-token", "x-rootpilot-binding"]
    );
    assert_eq!(evidence["headers"]["host"], "sts.cn-north-1.amazonaws.com.cn");
    assert_eq!(evidence["body"], "Action=GetCallerIdentity&Version=2011-06-15");
    let authorization = evidence["headers"]["authorization"].as_str().unwrap();
    assert!(
        authorization.contains("SignedHeaders=content-type;host;x-amz-date;x-amz-security-token;x-rootpilot-binding,"),
        "{authorization}"
    );
    assert!(evidence["headers"]["x-rootpilot-binding"].as_str().unwrap().starts_with("v1;edge.example.com;"));
    let redacted = runner.run(&["attest"]).await.stdout;
    let signature = authorization.rsplit_once("Signature=").unwrap().1;
    assert!(!redacted.contains(signature) && !redacted.contains("\"session\"") && redacted.contains("AKIAEXAMPLE"));
}

#[tokio::test]
async fn the_sdk_decides_the_sts_host() {
    let base = || {
        Runner::bare()
            .env("RUNNER_ATTESTATION_MODE", "aws-sts")
            .env("RUNNER_CONTROL_PLANE_URL", "https://edge.example.com")
            .env("AWS_ACCESS_KEY_ID", "AKIAEXAMPLE")
            .env("AWS_SECRET_ACCESS_KEY", "secret")
    };
    let host = async |runner: Runner| {
        let output = runner.run(&["attest"]).await;
        assert_eq!(output.status, 0, "{output:?}");
        output.json()["attestation"]["headers"]["host"].as_str().unwrap().to_owned()
    };
    assert_eq!(host(base().env("AWS_REGION", "eu-west-1")).await, "sts.eu-west-1.amazonaws.com");
    assert_eq!(host(base().env("AWS_REGION", "us-east-1")).await, "sts.us-east-1.amazonaws.com");
    assert_eq!(host(base().env("AWS_REGION", "us-gov-west-1")).await, "sts.us-gov-west-1.amazonaws.com");
    assert_eq!(host(base().env("AWS_REGION", "eusc-de-east-1")).await, "sts.eusc-de-east-1.amazonaws.eu");
    assert_eq!(
        host(base().env("AWS_REGION", "us-east-2").env("AWS_USE_FIPS_ENDPOINT", "true")).await,
        "sts-fips.us-east-2.amazonaws.com"
    );
    let local = base().env("AWS_REGION", "eu-west-1").env("AWS_ENDPOINT_URL_STS", "http://127.0.0.1:4566");
    assert_eq!(host(local).await, "127.0.0.1:4566");
    let ignored = base()
        .env("AWS_REGION", "eu-west-1")
        .env("AWS_ENDPOINT_URL_STS", "http://127.0.0.1:4566")
        .env("AWS_IGNORE_CONFIGURED_ENDPOINT_URLS", "true");
    assert_eq!(host(ignored).await, "sts.eu-west-1.amazonaws.com");
    let path = base()
        .env("AWS_REGION", "eu-west-1")
        .env("AWS_ENDPOINT_URL_STS", "http://127.0.0.1:4566/sts")
        .run(&["attest"])
        .await;
    assert_eq!(path.status, 78);
    assert!(path.stderr.contains("AWS_ENDPOINT_URL_STS must name a host only"), "{path:?}");
}

#[tokio::test]
async fn the_new_certificate_hook_sees_the_paths() {
    let fake = Fake::start([]).await;
    let runner = Runner::bootstrap(&fake);
    let seen = runner.dir.path().join("seen");
    let command = format!(
        "echo data; printf '%s|%s|%s|%s' \"$RUNNER_KEY_FILE\" \"$RUNNER_TENANT\" \"$RUNNER_SPIFFE_ID\" \"$RUNNER_BOOTSTRAP_TOKEN\" > {}",
        seen.display()
    );
    let runner = runner.env("RUNNER_ON_RENEW", command);
    let output = runner.run(&["enroll", "--output", "json"]).await;
    assert_eq!(output.status, 0);
    output.json();
    let key = runner.state().join("key.pem");
    assert_eq!(
        std::fs::read_to_string(seen).unwrap(),
        format!("{}|acme|spiffe://test/tenant/acme/runner/abcdefghijklmnopqrstuvwxyz|", key.display())
    );
    // What it leaves running on purpose goes on.
    let left = runner.dir.path().join("left");
    let starts = format!("(sleep 1; touch {}) &", left.display());
    assert_eq!(Runner::bootstrap(&fake).env("RUNNER_ON_RENEW", starts).run(&["enroll"]).await.status, 0);
    crate::support::eventually(|| left.exists().then_some(())).await;
    let failing = Runner::bootstrap(&fake).env("RUNNER_ON_RENEW", "exit 3").run(&["enroll"]).await;
    assert_eq!(failing.status, 0);
    assert!(failing.stderr.contains("RUNNER_ON_RENEW failed"), "{failing:?}");
}
