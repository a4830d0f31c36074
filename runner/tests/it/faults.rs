//! Faults that a runner must explain, closer than tests/vectors/faults.md and against a control plane that says what it is told to: every
//! reason, every odd answer. The rows of that page are tried with the real verifier in `tests/tests/e2e/runner_faults`.

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::support::{Fake, Output, Reply, Runner, TOKEN, TlsListener, as_nobody, projected_token};

fn invalid(reason: &'static str, extra: Value) -> Reply {
    Reply::detailed(401, "attestation_invalid", Some(reason), extra)
}

fn aws(fake: &Fake) -> Runner {
    Runner::bare()
        .env("RUNNER_CONTROL_PLANE_URL", &fake.url)
        .env("RUNNER_ATTESTATION_MODE", "aws-sts")
        .env("AWS_REGION", "eu-north-1")
        .env("AWS_ACCESS_KEY_ID", "AKIAFAULT")
        .env("AWS_SECRET_ACCESS_KEY", "s")
}

fn gke(fake: &Fake, claims: &Value) -> Runner {
    let runner = Runner::bare().env("RUNNER_CONTROL_PLANE_URL", &fake.url).env("RUNNER_ATTESTATION_MODE", "gke-oidc");
    let token = runner.file("token", &projected_token(claims));
    runner.env("RUNNER_GKE_TOKEN_PATH", token.to_str().unwrap())
}

fn bound() -> Value {
    json!({
        "iss": "https://container.googleapis.com/v1/projects/p/locations/l/clusters/c", "aud": ["127.0.0.1"], "exp": 4_000_000_000u64,
        "sub": "system:serviceaccount:ns:name", "kubernetes.io": {"namespace": "ns", "pod": {"name": "p", "uid": "u"}},
    })
}

/// The first line must name the cause; the rest may add the way out.
fn names(output: &Output, status: i32, words: &[&str]) {
    assert_eq!(output.status, status, "{output:?}");
    let errors: Vec<&str> = output.stderr.lines().skip_while(|line| !line.starts_with("error: ")).collect();
    let first = errors.first().unwrap_or_else(|| panic!("no error: {output:?}"));
    for word in words {
        assert!(first.contains(word), "{word} is not in: {first}");
    }
}

fn hints(output: &Output, words: &[&str]) {
    for word in words {
        assert!(
            output.stderr.lines().any(|line| line.starts_with("hint: ") && line.contains(word)),
            "{word}: {output:?}"
        );
    }
}

#[tokio::test]
async fn refusals_of_aws_evidence() {
    let cases: [(Reply, &[&str]); 12] = [
        (
            invalid("region_not_allowed", json!({})),
            &["eu-north-1", "not allowed by the control plane", "not a credential problem"],
        ),
        (
            invalid("host_not_allowed", json!({"detail": "sts.other.example is not sts.eu-north-1.amazonaws.com"})),
            &["sts.eu-north-1.amazonaws.com", "sts.other.example", "not allowed"],
        ),
        (
            invalid("binding_mismatch", json!({"detail": "audience 127.0.0.1 was sent, edge.example.com is wanted"})),
            &["audience of this runner, 127.0.0.1", "edge.example.com"],
        ),
        (
            invalid("sts_refused", json!({"aws_error_code": "InvalidClientTokenId"})),
            &["AWS does not know the access key AKIAFAULT", "deleted", "opt-in region"],
        ),
        (invalid("sts_refused", json!({"aws_error_code": "ExpiredToken"})), &["have expired: renew them", "AKIAFAULT"]),
        (
            invalid("sts_refused", json!({"aws_error_code": "SignatureDoesNotMatch"})),
            &["secret access key does not belong"],
        ),
        (invalid("sts_refused", json!({"aws_error_code": "AccessDenied"})), &["denies sts:GetCallerIdentity"]),
        (invalid("sts_refused", json!({"aws_error_code": "Weird.Code"})), &["Weird.Code"]),
        (invalid("sts_refused", json!({})), &["AWS STS refused"]),
        (invalid("arn_unsupported", json!({"detail": "arn:aws:iam::1:root"})), &["kind", "root"]),
        (
            Reply::detailed(
                403,
                "identity_not_mapped",
                None,
                json!({"detail": "arn:aws:iam::111122223333:role/x belongs to no tenant"}),
            ),
            &["proven", "arn:aws:iam::111122223333:role/x", "no rule", "ask the operator to map it"],
        ),
        (Reply::problem(403, "runner_banned", None), &["banned", "ask the operator"]),
    ];
    for (reply, words) in cases {
        let fake = Fake::start([]).await.then(reply);
        names(&aws(&fake).run(&["enroll"]).await, 77, words);
    }
}

#[tokio::test]
async fn a_slow_or_fast_clock_is_named_with_its_amount() {
    for (minutes, words) in [(20, "20 min slow"), (-130, "2 h 10 min fast")] {
        let server = jiff::Timestamp::now() + jiff::SignedDuration::from_mins(minutes);
        let fake = Fake::start([]).await.then(invalid("date_out_of_range", json!({"server_time": server.to_string()})));
        let output = aws(&fake).run(&["enroll"]).await;
        names(&output, 77, &["the clock of this machine is", words]);
    }
}

#[tokio::test]
async fn refusals_of_projected_tokens() {
    let mut unbound = bound();
    unbound["kubernetes.io"] = json!({"namespace": "ns"});
    let cases: [(&str, Value, Value, &[&str]); 9] = [
        ("claims_invalid", unbound, json!({}), &["not bound to a pod", "projected token is needed"]),
        ("claims_invalid", bound(), json!({"detail": "`sub` is wrong"}), &["claim", "`sub` is wrong"]),
        (
            "audience_mismatch",
            bound(),
            json!({"detail": "edge.example.com is wanted"}),
            &["127.0.0.1", "edge.example.com"],
        ),
        ("issuer_unknown", bound(), json!({}), &["does not know the cluster", "projects/p/locations/l/clusters/c"]),
        ("key_unknown", bound(), json!({}), &["publishes no key"]),
        ("signature_invalid", bound(), json!({}), &["signature"]),
        ("token_lifetime", bound(), json!({"detail": "2h is more than 1h"}), &["lives longer", "2h is more than 1h"]),
        ("token_reused", bound(), json!({}), &["already used", "new token is needed"]),
        ("token_expired", bound(), json!({}), &["expired at 2096-10-02T07:06:40Z", "kubelet has not rotated it"]),
    ];
    for (reason, claims, extra, words) in cases {
        let fake = Fake::start([]).await.then(invalid(reason, extra));
        names(&gke(&fake, &claims).run(&["enroll"]).await, 77, words);
    }
}

#[tokio::test]
async fn on_eks_the_other_mode_is_pointed_out() {
    let fake = Fake::start([]).await.then(invalid("issuer_unknown", json!({})));
    let runner = Runner::bare().env("RUNNER_CONTROL_PLANE_URL", &fake.url).env("RUNNER_ATTESTATION_MODE", "eks-oidc");
    let token = runner.file("token", &projected_token(&bound()));
    let output = runner.env("RUNNER_EKS_TOKEN_PATH", token.to_str().unwrap()).run(&["enroll"]).await;
    names(&output, 77, &["does not know the cluster"]);
    hints(&output, &["aws-sts"]);
}

#[tokio::test]
async fn what_surrounds_a_projected_token_does_no_harm() {
    for wrap in ["{}\n", "{}\r\n", "\u{feff}{}\n", " {} "] {
        let fake = Fake::start([]).await;
        let runner = gke(&fake, &bound());
        let token = projected_token(&bound());
        runner.file("token", &wrap.replace("{}", &token));
        assert_eq!(runner.run(&["enroll"]).await.status, 0);
        assert_eq!(fake.calls()[0].body["attestation"]["token"], token);
    }
}

#[tokio::test]
async fn the_token_is_read_through_the_swapped_link() {
    let fake = Fake::start([]).await;
    let runner = gke(&fake, &bound());
    let volume = runner.dir.path().join("volume");
    let write = |name: &str, token: &str| {
        std::fs::create_dir_all(volume.join(name)).unwrap();
        std::fs::write(volume.join(name).join("token"), token).unwrap();
        let _ = std::fs::remove_file(volume.join("..tmp"));
        std::os::unix::fs::symlink(name, volume.join("..tmp")).unwrap();
        std::fs::rename(volume.join("..tmp"), volume.join("..data")).unwrap();
    };
    write("..1", &projected_token(&bound()));
    std::os::unix::fs::symlink("..data/token", volume.join("token")).unwrap();
    let runner = runner.env("RUNNER_GKE_TOKEN_PATH", volume.join("token").to_str().unwrap());
    assert_eq!(runner.run(&["enroll"]).await.status, 0);
    let second = projected_token(&json!({"aud": "127.0.0.1", "exp": 4_000_000_001u64}));
    write("..2", &second);
    assert_eq!(runner.run(&["enroll"]).await.status, 0);
    assert_eq!(fake.calls()[1].body["attestation"]["token"], second);
}

#[tokio::test]
async fn a_token_for_another_audience_is_seen_before_the_network() {
    let fake = Fake::start([]).await;
    let mut claims = bound();
    claims["aud"] = json!("elsewhere");
    let output = gke(&fake, &claims).run(&["enroll"]).await;
    assert_eq!(output.status, 0, "the control plane decides: {output:?}");
    assert!(output.stderr.contains("token_audience=elsewhere runner_audience=\"127.0.0.1\""), "{output:?}");
}

#[tokio::test]
async fn bootstrap_tokens_are_refused_with_one_text_and_what_is_seen_from_here() {
    let fake = Fake::start([]).await.then(invalid("bootstrap_token_refused", json!({})));
    let used_up = Runner::bootstrap(&fake).run(&["enroll"]).await;
    names(&used_up, 77, &["refuses the bootstrap token", "mint a new one"]);
    let cut = Runner::bootstrap(&fake).env("RUNNER_BOOTSTRAP_TOKEN", &TOKEN[..TOKEN.len() - 1]).run(&["enroll"]).await;
    names(&cut, 77, &["refuses the bootstrap token", "mint a new one"]);
    hints(&cut, &["51 characters instead of 52"]);
    assert_eq!(used_up.stderr.lines().next(), cut.stderr.lines().next(), "the same text");
    let fake = Fake::start([]).await.then(Reply::problem(400, "malformed_request", None));
    let malformed = Runner::bootstrap(&fake).env("RUNNER_BOOTSTRAP_TOKEN", "rpbt_acme").run(&["enroll"]).await;
    names(&malformed, 77, &["refuses the bootstrap token"]);
}

#[tokio::test]
async fn what_may_pass_is_said_to_pass_and_is_69_at_once_or_waited_out() {
    let cases: [(&str, bool, &[&str]); 4] = [
        ("upstream_throttled", true, &["AWS is throttling"]),
        ("upstream_unavailable", true, &["control plane cannot reach AWS STS", "credentials are not at fault"]),
        ("upstream_unavailable", false, &["keys unavailable", "token is not at fault"]),
        ("not_configured", true, &["not configured yet", "operator"]),
    ];
    for (code, is_aws, words) in cases {
        let fake = Fake::start([]).await.then(Reply::retry(code, 503, 60));
        let runner = if is_aws { aws(&fake) } else { gke(&fake, &bound()) };
        let output = runner.run(&["enroll"]).await;
        names(&output, 69, words);
        hints(&output, &["try again after 60 s"]);
        let daemon = runner.start(&["run"]);
        daemon.wait_log("trying again in").await;
        for word in words {
            assert!(daemon.log().contains(word), "{word}: {}", daemon.log());
        }
        assert!(!daemon.log().contains("refused"), "{}", daemon.log());
        daemon.signal(Signal::TERM);
        assert_eq!(daemon.end().await.status, 0);
    }
}

#[tokio::test]
async fn networks_are_told_apart_from_credentials() {
    let at = |url: &str| Runner::bare().env("RUNNER_BOOTSTRAP_TOKEN", TOKEN).env("RUNNER_CONTROL_PLANE_URL", url);
    let output = at("https://no-such-host.invalid").run(&["enroll"]).await;
    names(&output, 69, &["no-such-host.invalid", "not found", "DNS", "not about credentials"]);
    let output = at("http://127.0.0.1:9").run(&["enroll"]).await;
    names(&output, 69, &["nothing listens at 127.0.0.1 port 9"]);

    let fake = Fake::start([]).await.then(Reply::Raw {
        status: 301,
        headers: vec![("location", "https://elsewhere.example/v1/enroll".to_owned())],
        body: String::new(),
    });
    names(&Runner::bootstrap(&fake).run(&["enroll"]).await, 69, &["redirect", "elsewhere.example"]);
    let fake = Fake::start([]).await.then(Reply::Raw { status: 403, headers: vec![], body: "<html>".to_owned() });
    names(&Runner::bootstrap(&fake).run(&["enroll"]).await, 77, &["something in front of the control plane"]);
    let fake = Fake::start([]).await.then(Reply::Raw { status: 404, headers: vec![], body: String::new() });
    names(&Runner::bootstrap(&fake).run(&["enroll"]).await, 69, &["is not a RootPilot control plane"]);
}

/// A TLS server for `localhost` that is no control plane; returns its address and the authority of its certificate.
async fn tls_server() -> (String, String) {
    let (listener, authority) = TlsListener::bind().await;
    let url = listener.url();
    tokio::spawn(async move { axum::serve(listener, axum::Router::new()).await.unwrap() });
    (url, authority)
}

#[tokio::test]
async fn an_untrusted_certificate_is_named_by_its_issuer() {
    let (url, authority) = tls_server().await;
    let runner = Runner::bare().env("RUNNER_BOOTSTRAP_TOKEN", TOKEN).env("RUNNER_CONTROL_PLANE_URL", &url);
    let output = runner.run(&["enroll"]).await;
    names(&output, 69, &["TLS", "not trusted", "Corporate Inspection CA"]);
    hints(&output, &["RUNNER_CA_FILE"]);
    let file = runner.file("ca.pem", &authority);
    let runner = runner.env("RUNNER_CA_FILE", file.to_str().unwrap());
    names(&runner.run(&["enroll"]).await, 69, &["is not a RootPilot control plane: status 404"]);
    let runner = runner.env("RUNNER_CONTROL_PLANE_URL", url.replace("localhost", "127.0.0.1"));
    names(&runner.run(&["enroll"]).await, 69, &["is for another name", "Corporate Inspection CA"]);
    let empty = runner.file("empty.pem", "nothing");
    let output = runner.env("RUNNER_CA_FILE", empty.to_str().unwrap()).run(&["enroll"]).await;
    names(&output, 78, &["RUNNER_CA_FILE", "no certificate"]);
}

#[tokio::test]
async fn a_port_that_speaks_no_tls_is_named() {
    let fake = Fake::start([]).await;
    let runner = Runner::bootstrap(&fake).env("RUNNER_CONTROL_PLANE_URL", fake.url.replace("http:", "https:"));
    let output = runner.run(&["enroll"]).await;
    names(&output, 69, &["127.0.0.1 port", "does not speak TLS"]);
    hints(&output, &["nothing was sent", "RUNNER_CONTROL_PLANE_URL"]);
}

/// What a pipe or a device in the place of a file would do: hang, or never end.
#[tokio::test]
async fn authorities_are_read_from_files_only() {
    let runner = Runner::bare()
        .env("RUNNER_BOOTSTRAP_TOKEN", TOKEN)
        .env("RUNNER_CONTROL_PLANE_URL", "https://localhost:9")
        .env("RUNNER_CA_FILE", "/dev/zero");
    names(&runner.run(&["enroll"]).await, 78, &["RUNNER_CA_FILE", "/dev/zero", "not a regular file"]);
    let large = runner.file("large.pem", &"-\n".repeat(3 << 20));
    let runner = runner.env("RUNNER_CA_FILE", large.to_str().unwrap());
    names(&runner.run(&["enroll"]).await, 78, &["RUNNER_CA_FILE", "larger than"]);
}

/// A proxy answers for itself: its faults are not the control plane's.
#[tokio::test]
async fn a_proxy_is_told_apart_from_the_control_plane() {
    let fake = Fake::start([]).await;
    let behind = |proxy: &str| {
        Runner::bare()
            .env("RUNNER_BOOTSTRAP_TOKEN", TOKEN)
            .env("RUNNER_CONTROL_PLANE_URL", "https://edge.example.invalid")
            .env("HTTPS_PROXY", proxy)
    };
    let output = behind("http://proxy.invalid:3128").run(&["enroll"]).await;
    names(&output, 69, &["the name of the proxy proxy.invalid:3128 was not found (DNS)"]);
    let output = behind("http://me:hunter2@127.0.0.1:9").run(&["enroll"]).await;
    names(&output, 69, &["nothing listens at the proxy 127.0.0.1:9"]);
    hints(&output, &["HTTPS_PROXY", "NO_PROXY=edge.example.invalid"]);
    assert!(!output.stderr.contains("hunter2"), "{output:?}");
    // Answers CONNECT like anything else that it does not know.
    let output = behind(&fake.url).run(&["enroll"]).await;
    names(&output, 69, &["the proxy 127.0.0.1:", "does not connect to edge.example.invalid"]);
    let output = behind("http://127.0.0.1:9").env("NO_PROXY", "edge.example.invalid").run(&["enroll"]).await;
    names(&output, 69, &["the name of the control plane, edge.example.invalid, was not found"]);
    let doctor = behind("http://127.0.0.1:9").run(&["doctor"]).await;
    assert!(doctor.stdout.contains("nothing listens at the proxy 127.0.0.1:9"), "{doctor:?}");
}

#[tokio::test]
async fn a_token_that_ends_with_time_itself_is_no_trouble() {
    let fake = Fake::start([]).await;
    let mut claims = bound();
    claims["exp"] = json!(253_402_207_200u64);
    assert_eq!(gke(&fake, &claims).run(&["enroll"]).await.status, 0);
}

#[tokio::test]
async fn an_unreadable_token_names_permission() {
    let fake = Fake::start([]).await;
    let runner = gke(&fake, &bound());
    let token = runner.dir.path().join("token");
    std::fs::set_permissions(&token, std::os::unix::fs::PermissionsExt::from_mode(0o000)).unwrap();
    // Root reads everything: then as nobody.
    let command = if std::fs::File::open(&token).is_ok() { as_nobody(&runner) } else { runner.command(&["enroll"]) };
    let Output { status, stderr, .. } = Output::of(command).await;
    assert_eq!(status, 78, "{stderr}");
    assert!(stderr.starts_with("RUNNER_ATTESTATION_MODE=gke-oidc: failed to read projected KSA token"), "{stderr}");
    assert!(stderr.contains("permission denied for uid"), "{stderr}");
}
