//! `run`: renewals, refusals, waits and signals.

use rustix::process::Signal;
use serde_json::json;

use crate::support::{Fake, Reply, Runner, projected_token};

#[tokio::test]
async fn it_enrols_renews_with_new_keys_and_ends_cleanly() {
    // Three short lives, so that it renews, then one that outlasts the test.
    let short = || Reply::issue(4_000);
    let fake = Fake::start([short(), short(), short()]).await;
    let runner = Runner::bootstrap(&fake);
    let daemon = runner.start(&["run", "--output", "json"]);
    let calls = fake.wait_calls(4).await;
    daemon.wait_log("renewed").await;
    let mut status = runner.run(&["status", "--output", "json"]).await;
    for _ in 0..100 {
        if status.status == 0 {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
        status = runner.run(&["status", "--output", "json"]).await;
    }
    assert_eq!((status.status, status.json()["running"].as_bool()), (0, Some(true)));
    daemon.signal(Signal::TERM);
    let output = daemon.end().await;
    assert_eq!(output.status, 0, "{output:?}");
    assert_eq!(calls[0].path, "/v1/enroll");
    assert!(calls[1..].iter().all(|call| call.path == "/v1/renew"));
    let mut keys: Vec<&str> = calls.iter().map(|call| call.key.as_str()).collect();
    keys.dedup();
    assert_eq!(keys.len(), calls.len(), "a new key each time");
    let events: Vec<serde_json::Value> =
        output.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(events[0]["how"], "enrolled");
    assert_eq!(events[1]["how"], "renewed");
}

#[tokio::test]
async fn a_live_certificate_is_kept_over_a_restart() {
    let fake = Fake::start([]).await;
    let runner = Runner::bootstrap(&fake);
    assert_eq!(runner.run(&["enroll"]).await.status, 0);
    let daemon = runner.start(&["run"]);
    daemon.wait_log("is live for").await;
    daemon.signal(Signal::HUP);
    let calls = fake.wait_calls(2).await;
    assert_eq!(calls[1].path, "/v1/renew");
    daemon.wait_log("renewed").await;
    daemon.signal(Signal::INT);
    assert_eq!(daemon.end().await.status, 0);
}

#[tokio::test]
async fn it_survives_a_control_plane_that_is_away() {
    let fake = Fake::start([Reply::retry("upstream_throttled", 503, 1), Reply::problem(500, "internal", None)]).await;
    let daemon = Runner::bootstrap(&fake);
    let daemon = daemon.start(&["run"]);
    fake.wait_calls(3).await;
    daemon.wait_log("enrolled").await;
    let log = daemon.log();
    assert!(log.contains("throttling") && !log.contains("refused"), "{log}");
    let calls = fake.calls();
    assert!(calls[1].at - calls[0].at >= std::time::Duration::from_secs(1), "Retry-After");
    assert_eq!(calls[0].csr(), calls[2].csr());
    daemon.signal(Signal::TERM);
    assert_eq!(daemon.end().await.status, 0);
}

#[tokio::test]
async fn a_refusal_without_a_live_certificate_ends_it_with_77() {
    let fake = Fake::start([]).await.then(Reply::problem(403, "identity_not_mapped", None));
    let runner = Runner::bootstrap(&fake);
    let output = runner.start(&["run"]).end().await;
    assert_eq!((output.status, fake.calls().len()), (77, 1), "{output:?}");
}

#[tokio::test]
async fn a_refusal_with_a_live_certificate_keeps_it_to_its_end() {
    let fake = Fake::start([Reply::issue(2500)]).await.then(Reply::problem(403, "runner_banned", None));
    let runner = Runner::bootstrap(&fake);
    let daemon = runner.start(&["run"]);
    daemon.wait_log("keeping the certificate").await;
    assert_eq!(runner.run(&["status"]).await.status, 0, "still live");
    let output = daemon.end().await;
    assert_eq!(output.status, 77, "{output:?}");
    assert!(output.stderr.contains("refused: this runner is banned"), "{output:?}");
    let paths: Vec<String> = fake.calls().into_iter().map(|call| call.path).collect();
    assert_eq!(paths, ["/v1/enroll", "/v1/renew", "/v1/enroll"], "one last attestation when the certificate has ended");
}

#[tokio::test]
async fn codes_that_ask_for_attestation_get_it_at_once_with_the_present_key() {
    for (status, code, reason) in [
        (403, "must_reattest", None),
        (403, "certificate_superseded", None),
        (401, "attestation_invalid", Some("certificate_invalid")),
    ] {
        let fake = Fake::start([Reply::issue(1000), Reply::problem(status, code, reason)]).await;
        let runner = Runner::bootstrap(&fake);
        let daemon = runner.start(&["run"]);
        let calls = fake.wait_calls(3).await;
        daemon.wait_log("attested again").await;
        daemon.signal(Signal::TERM);
        assert_eq!(daemon.end().await.status, 0);
        assert_eq!(calls[2].path, "/v1/enroll", "{code}");
        assert_eq!(calls[2].key, calls[0].key, "{code}: the key of the present certificate");
        assert_ne!(calls[1].key, calls[0].key);
        assert!(!runner.state().join("pending-key.pem").exists());
    }
}

#[tokio::test]
async fn it_attests_when_a_renewal_could_not_reach_further() {
    let fake = Fake::start([Reply::Issue { ttl_ms: 1000, reattest_with_it: true }]).await;
    let runner = Runner::bootstrap(&fake);
    let daemon = runner.start(&["run"]);
    let calls = fake.wait_calls(2).await;
    assert_eq!(calls[1].path, "/v1/enroll");
    assert_eq!(calls[1].key, calls[0].key);
    daemon.signal(Signal::TERM);
    assert_eq!(daemon.end().await.status, 0);
}

#[tokio::test]
async fn used_evidence_is_waited_out_until_the_file_changes() {
    let fake = Fake::start([Reply::problem(401, "attestation_invalid", Some("token_reused"))]).await;
    let runner = Runner::bare().env("RUNNER_CONTROL_PLANE_URL", &fake.url).env("RUNNER_ATTESTATION_MODE", "gke-oidc");
    let claims = |jti: &str| projected_token(&json!({"aud": ["127.0.0.1"], "exp": 4_000_000_000u64, "jti": jti}));
    let token = runner.file("token", &claims("1"));
    let runner = runner.env("RUNNER_GKE_TOKEN_PATH", token.to_str().unwrap());
    let mut daemon = runner.start(&["run"]);
    daemon.wait_log("waiting for new evidence").await;
    assert!(daemon.log().contains("already used by another key"), "{}", daemon.log());
    assert!(daemon.is_running());
    assert_eq!(fake.calls().len(), 1);
    std::fs::write(&token, claims("2")).unwrap();
    fake.wait_calls(2).await;
    daemon.wait_log("enrolled").await;
    daemon.signal(Signal::TERM);
    assert_eq!(daemon.end().await.status, 0);
}

#[tokio::test]
async fn a_token_that_has_expired_on_disk_is_waited_out_without_a_call() {
    let fake = Fake::start([]).await;
    let runner = Runner::bare().env("RUNNER_CONTROL_PLANE_URL", &fake.url).env("RUNNER_ATTESTATION_MODE", "eks-oidc");
    let token = runner.file("token", &projected_token(&json!({"aud": "127.0.0.1", "exp": 1_700_000_000})));
    let runner = runner.env("RUNNER_EKS_TOKEN_PATH", token.to_str().unwrap());
    let output = runner.run(&["enroll"]).await;
    assert_eq!(output.status, 77, "{output:?}");
    assert!(output.stderr.contains("expired at 2023-11-14T22:13:20Z and the kubelet has not rotated it"), "{output:?}");
    let daemon = runner.start(&["run"]);
    daemon.wait_log("waiting for new evidence").await;
    assert!(fake.calls().is_empty());
    std::fs::write(&token, projected_token(&json!({"aud": "127.0.0.1", "exp": 4_000_000_000u64}))).unwrap();
    fake.wait_calls(1).await;
    daemon.wait_log("enrolled").await;
    daemon.signal(Signal::TERM);
    assert_eq!(daemon.end().await.status, 0);
}

#[tokio::test]
async fn expired_aws_credentials_are_waited_out_until_they_change() {
    let refused =
        Reply::detailed(401, "attestation_invalid", Some("sts_refused"), json!({"aws_error_code": "ExpiredToken"}));
    let fake = Fake::start([refused]).await;
    let runner = Runner::bare()
        .env("RUNNER_CONTROL_PLANE_URL", &fake.url)
        .env("RUNNER_ATTESTATION_MODE", "aws-sts")
        .env("AWS_REGION", "eu-west-1")
        .env("AWS_EC2_METADATA_DISABLED", "true");
    let credentials =
        |key: &str| format!("[default]\naws_access_key_id = {key}\naws_secret_access_key = s\naws_session_token = t\n");
    let file = runner.file(".aws/credentials", &credentials("ASIAOLD"));
    let daemon = runner.start(&["run"]);
    daemon.wait_log("waiting for new evidence").await;
    assert!(daemon.log().contains("credentials have expired: renew them (access key ASIAOLD"), "{}", daemon.log());
    std::fs::write(&file, credentials("ASIANEW")).unwrap();
    let calls = fake.wait_calls(2).await;
    assert!(calls[1].body.to_string().contains("ASIANEW"));
    daemon.wait_log("enrolled").await;
    daemon.signal(Signal::TERM);
    assert_eq!(daemon.end().await.status, 0);
}

#[tokio::test]
async fn a_signal_during_a_call_ends_it_and_the_key_is_kept() {
    let fake = Fake::start([Reply::Hang]).await;
    let runner = Runner::bootstrap(&fake);
    let daemon = runner.start(&["run"]);
    fake.wait_calls(1).await;
    daemon.signal(Signal::TERM);
    let ended = daemon.end().await;
    assert_eq!(ended.status, 0);
    assert!(ended.stderr.contains("ended by signal; there is no certificate yet"), "{ended:?}");
    assert!(runner.state().join("pending-key.pem").exists());
    assert_eq!(runner.run(&["enroll"]).await.status, 0);
    let calls = fake.calls();
    assert_eq!(calls[0].csr(), calls[1].csr(), "the same request is repeated");
}

#[tokio::test]
async fn a_crash_during_a_renewal_repeats_the_same_request() {
    let fake = Fake::start([Reply::issue(60_000), Reply::Hang]).await;
    let runner = Runner::bootstrap(&fake);
    assert_eq!(runner.run(&["enroll"]).await.status, 0);
    let daemon = runner.start(&["run"]);
    daemon.wait_log("is live for").await;
    daemon.signal(Signal::HUP);
    fake.wait_calls(2).await;
    daemon.signal(Signal::KILL);
    daemon.end().await;
    let daemon = runner.start(&["run"]);
    daemon.wait_log("is live for").await;
    daemon.signal(Signal::HUP);
    let calls = fake.wait_calls(3).await;
    daemon.wait_log("renewed").await;
    assert_eq!(calls[1].csr(), calls[2].csr());
    assert_eq!(
        calls[1].body["attestation"]["certificate"], calls[2].body["attestation"]["certificate"],
        "the same presented certificate"
    );
    daemon.signal(Signal::TERM);
    assert_eq!(daemon.end().await.status, 0);
}

#[tokio::test]
async fn a_wrong_clock_is_corrected_for_renewals() {
    let far = (jiff::Timestamp::now() + jiff::SignedDuration::from_mins(20)).to_string();
    let refused = Reply::detailed(401, "attestation_invalid", Some("proof_invalid"), json!({"server_time": far}));
    let fake = Fake::start([Reply::issue(60_000), refused]).await;
    let runner = Runner::bootstrap(&fake);
    assert_eq!(runner.run(&["enroll"]).await.status, 0);
    let daemon = runner.start(&["run"]);
    daemon.wait_log("is live for").await;
    daemon.signal(Signal::HUP);
    let calls = fake.wait_calls(3).await;
    daemon.wait_log("renewed").await;
    let stated = |call: &crate::support::Call| call.body["attestation"]["timestamp"].as_i64().unwrap();
    assert!(stated(&calls[2]) - stated(&calls[1]) > 1100);
    assert_eq!(calls[1].csr(), calls[2].csr());
    daemon.signal(Signal::TERM);
    assert_eq!(daemon.end().await.status, 0);
}

#[tokio::test]
async fn systemd_is_told() {
    let fake = Fake::start([]).await;
    let runner = Runner::bootstrap(&fake);
    let path = runner.dir.path().join("notify");
    let socket = tokio::net::UnixDatagram::bind(&path).unwrap();
    let runner = runner.env("NOTIFY_SOCKET", path.to_str().unwrap()).env("WATCHDOG_USEC", "300000");
    let daemon = runner.start(&["run"]);
    let mut told = String::new();
    while !(told.contains("READY=1") && told.matches("WATCHDOG=1").count() > 1) {
        let mut buffer = [0; 4096];
        let length = socket.recv(&mut buffer).await.unwrap();
        told.push_str(std::str::from_utf8(&buffer[..length]).unwrap());
        told.push('\n');
    }
    assert!(told.contains("STATUS=runner abcdefghijklmnopqrstuvwxyz of acme"), "{told}");
    daemon.signal(Signal::TERM);
    assert_eq!(daemon.end().await.status, 0);
}

#[tokio::test]
async fn the_last_failure_is_shown_until_it_is_over() {
    let fake = Fake::start([Reply::retry("upstream_unavailable", 503, 3)]).await;
    let runner = Runner::bootstrap(&fake);
    let daemon = runner.start(&["run"]);
    daemon.wait_log("trying again in").await;
    let status = runner.run(&["status", "--output", "json"]).await.json();
    assert_eq!(status["last_failure"]["class"], "unreachable");
    assert!(status["last_failure"]["then"].as_str().unwrap().starts_with("trying again in"), "{status}");
    daemon.wait_log("enrolled").await;
    assert!(runner.run(&["status", "--output", "json"]).await.json()["last_failure"].is_null());
    daemon.signal(Signal::TERM);
    assert_eq!(daemon.end().await.status, 0);
}

#[tokio::test]
async fn the_same_certificate_again_is_no_new_one() {
    let issue = Reply::Issue { ttl_ms: 6000, reattest_with_it: true };
    let fake = Fake::start([issue, Reply::Again]).await;
    let runner = Runner::bare().env("RUNNER_CONTROL_PLANE_URL", &fake.url).env("RUNNER_ATTESTATION_MODE", "gke-oidc");
    let token = runner.file("token", &projected_token(&json!({"aud": "127.0.0.1", "exp": 4_000_000_000u64})));
    let ran = runner.dir.path().join("ran");
    let runner = runner
        .env("RUNNER_GKE_TOKEN_PATH", token.to_str().unwrap())
        .env("RUNNER_ON_RENEW", format!("echo x >> {}", ran.display()));
    let daemon = runner.start(&["run", "--output", "json"]);
    daemon.wait_log("the same certificate again").await;
    fake.wait_calls(3).await;
    daemon.wait_log("attested again").await;
    crate::support::eventually(|| (std::fs::read_to_string(&ran).unwrap_or_default() == "x\nx\n").then_some(())).await;
    daemon.signal(Signal::TERM);
    let output = daemon.end().await;
    assert_eq!((output.status, output.stdout.lines().count()), (0, 2), "{output:?}");
}

/// The command is run once for a certificate: being told to end must not cost the reload of a server.
#[tokio::test]
async fn a_command_for_the_new_certificate_is_finished_at_the_end() {
    let fake = Fake::start([]).await;
    let runner = Runner::bootstrap(&fake);
    let (begun, done) = (runner.dir.path().join("begun"), runner.dir.path().join("done"));
    let command = format!("touch {}; sleep 1; touch {}", begun.display(), done.display());
    let runner = runner.env("RUNNER_ON_RENEW", command);
    let daemon = runner.start(&["run"]);
    crate::support::eventually(|| begun.exists().then_some(())).await;
    daemon.signal(Signal::TERM);
    let output = daemon.end().await;
    assert_eq!(output.status, 0, "{output:?}");
    assert!(done.exists() && output.stderr.contains("ended by signal"), "{output:?}");
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_command_that_hangs_is_ended_with_all_that_it_started() {
    for args in [&["run"][..], &["enroll"]] {
        let fake = Fake::start([]).await;
        let runner = Runner::bootstrap(&fake);
        let id = runner.dir.path().join("id");
        let runner = runner.env("RUNNER_ON_RENEW", format!("sleep 600 & echo $! > {}; wait", id.display()));
        let daemon = runner.start(args);
        let started = crate::support::eventually(|| {
            std::fs::read_to_string(&id).ok().filter(|text| text.ends_with('\n')).map(|text| text.trim().to_owned())
        })
        .await;
        daemon.signal(Signal::TERM);
        let output = daemon.end().await;
        assert_eq!(output.status, 0, "{output:?}");
        assert!(output.stderr.contains("RUNNER_ON_RENEW was stopped"), "{output:?}");
        // One that has ended and that nobody waits for has no command line any more.
        let alive = || std::fs::read(format!("/proc/{started}/cmdline")).is_ok_and(|line| !line.is_empty());
        crate::support::eventually(|| (!alive()).then_some(())).await;
    }
}

#[tokio::test]
async fn a_state_directory_that_is_gone_ends_nothing_and_is_named() {
    let fake = Fake::start([]).await;
    let runner = Runner::bootstrap(&fake);
    let daemon = runner.start(&["run"]);
    daemon.wait_log("enrolled").await;
    std::fs::remove_dir_all(runner.state()).unwrap();
    daemon.signal(Signal::HUP);
    daemon.wait_log("keeping the certificate").await;
    daemon.wait_log("it makes the directory anew").await;
    assert_eq!(runner.run(&["status"]).await.status, 69);
    daemon.signal(Signal::TERM);
    assert_eq!(daemon.end().await.status, 0);
}

#[tokio::test]
async fn a_storm_of_signals_is_one_renewal_after_the_other() {
    let fake = Fake::start([]).await;
    let runner = Runner::bootstrap(&fake);
    let daemon = runner.start(&["run"]);
    daemon.wait_log("enrolled").await;
    for _ in 0..500 {
        daemon.signal(Signal::HUP);
    }
    daemon.wait_log("renewed").await;
    daemon.signal(Signal::TERM);
    let output = daemon.end().await;
    assert_eq!(output.status, 0, "{output:?}");
    assert!(fake.calls().len() < 500, "{}", fake.calls().len());
    assert_eq!(runner.run(&["status"]).await.status, 0);
}

#[tokio::test]
async fn a_final_failure_that_no_filter_lets_through_is_said_plainly() {
    let fake = Fake::start([]).await.then(Reply::problem(403, "runner_banned", None));
    let runner = Runner::bootstrap(&fake).env("RUNNER_LOG_FORMAT", "json").env("RUST_LOG", "aws_config=debug");
    let output = runner.start(&["run"]).end().await;
    assert_eq!(output.status, 77);
    assert!(output.stderr.starts_with("error: this runner is banned"), "{output:?}");
}

#[tokio::test]
async fn a_final_failure_is_one_more_line_of_json_logs() {
    let fake = Fake::start([]).await.then(Reply::problem(403, "runner_banned", None));
    let runner = Runner::bootstrap(&fake).env("RUNNER_LOG_FORMAT", "json");
    let output = runner.start(&["run"]).end().await;
    assert_eq!(output.status, 77);
    let last: serde_json::Value = serde_json::from_str(output.stderr.lines().last().unwrap()).unwrap();
    assert_eq!((last["code"].as_str(), last["exit_status"].as_u64()), (Some("runner_banned"), Some(77)), "{last}");
}
