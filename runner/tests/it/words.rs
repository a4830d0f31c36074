//! What people see: help, status and doctor, pinned as snapshots.

use crate::support::{Fake, Reply, Runner, TOKEN};

/// Takes out what differs from run to run.
fn settled(runner: &Runner, fake: Option<&Fake>, text: &str) -> String {
    let mut text = text.replace(runner.dir.path().to_str().unwrap(), "<dir>");
    if let Some(fake) = fake {
        text = text.replace(&fake.url, "http://127.0.0.1:<port>");
    }
    let mut settled = String::new();
    let mut rest = text.as_str();
    while let Some(at) = rest.find("20") {
        let time = |text: &str| text.get(..20).is_some_and(|text| text.ends_with('Z') && text.as_bytes()[10] == b'T');
        let (before, from) = rest.split_at(at);
        settled.push_str(before);
        let fraction = from.bytes().take_while(|byte| byte.is_ascii_digit() || b"-:.T".contains(byte)).count();
        if time(from) || (fraction > 20 && from.as_bytes().get(fraction) == Some(&b'Z')) {
            settled.push_str("<time>");
            rest = &from[fraction + 1..];
        } else {
            settled.push_str("20");
            rest = &from[2..];
        }
    }
    settled + rest
}

#[tokio::test]
async fn help() {
    let runner = Runner::bare();
    for args in [&["-h"][..], &["--help"], &["enroll", "-h"], &["attest", "--help"]] {
        let output = runner.run(args).await;
        assert_eq!(output.status, 0);
        insta::assert_snapshot!(format!("help {}", args.join(" ")), output.stdout);
    }
    assert_eq!(runner.run(&["--version"]).await.stdout, format!("runner {}\n", env!("CARGO_PKG_VERSION")));
}

#[tokio::test]
async fn manual_pages_and_completions_are_generated() {
    let runner = Runner::bare();
    for shell in ["bash", "zsh", "fish"] {
        let output = runner.run(&["completions", shell]).await;
        assert_eq!(output.status, 0);
        assert!(output.stdout.contains("enroll"), "{output:?}");
    }
    let pages = runner.dir.path().join("man");
    assert_eq!(runner.run(&["man", pages.to_str().unwrap()]).await.status, 0);
    assert!(std::fs::read_to_string(pages.join("runner.1")).unwrap().contains("RUNNER_CONTROL_PLANE_URL"));
    assert!(pages.join("runner-enroll.1").exists());
}

#[tokio::test]
async fn enrolment_and_status() {
    let fake = Fake::start([]).await;
    let runner = Runner::bootstrap(&fake);
    let output = runner.run(&["enroll"]).await;
    insta::assert_snapshot!("enroll", settled(&runner, Some(&fake), &output.stdout));
    let output = runner.run(&["status"]).await;
    let live = output.stdout.lines().next().unwrap().to_owned();
    insta::assert_snapshot!("status", settled(&runner, Some(&fake), &output.stdout.replace(&live, "live for <time>")));
    let empty = Runner::bare();
    insta::assert_snapshot!("status without", settled(&empty, None, &empty.run(&["status"]).await.stdout));
}

#[tokio::test]
async fn status_of_a_runner_that_failed_last_and_of_one_that_is_over() {
    // Refused at its first renewal; its certificate ends a little later.
    let fake = Fake::start([Reply::issue(3_000)]).await.then(Reply::problem(403, "runner_banned", None));
    let runner = Runner::bootstrap(&fake);
    let daemon = runner.start(&["run"]);
    daemon.wait_log("keeping the certificate").await;
    let failing = runner.run(&["status", "--output", "json"]).await;
    assert_eq!(failing.status, 0, "{failing:?}");
    assert_eq!(failing.json()["last_failure"]["class"], "refused", "{failing:?}");
    assert_eq!(daemon.end().await.status, 77);
    let ended = runner.run(&["status"]).await;
    assert_eq!(ended.status, 69, "{ended:?}");
    insta::assert_snapshot!("status expired", settled(&runner, Some(&fake), &ended.stdout));

    std::fs::write(runner.state().join("identity.json"), "{").unwrap();
    let damaged = runner.run(&["status"]).await;
    assert_eq!(damaged.status, 69, "{damaged:?}");
    insta::assert_snapshot!("status damaged", settled(&runner, Some(&fake), &damaged.stdout));
}

/// A full disk below standard output must not look like evidence that was written.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn data_that_is_lost_is_no_success() {
    let fake = Fake::start([]).await;
    let full = || std::fs::File::options().write(true).open("/dev/full").unwrap();
    for args in [&["attest", "--reveal"][..], &["enroll", "--output", "json"], &["doctor"], &["completions", "bash"]] {
        let runner = Runner::bootstrap(&fake);
        let mut child = runner.command(args).stdout(full()).stderr(std::process::Stdio::piped()).spawn().unwrap();
        let mut stderr = String::new();
        tokio::io::AsyncReadExt::read_to_string(&mut child.stderr.take().unwrap(), &mut stderr).await.unwrap();
        assert_eq!(child.wait().await.unwrap().code(), Some(78), "{args:?}: {stderr}");
        assert_eq!(stderr.matches("error: cannot write to standard output").count(), 1, "{args:?}: {stderr}");
    }
}

#[tokio::test]
async fn a_reader_that_has_gone_is_no_failure() {
    let fake = Fake::start([]).await;
    for args in [&["attest"][..], &["enroll"], &["status"], &["doctor"], &["completions", "bash"], &["--help"]] {
        let runner = Runner::bootstrap(&fake);
        assert_eq!(runner.run(&["enroll"]).await.status, 0);
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let mut command = runner.command(args);
        command.stdout(writer.try_clone().unwrap()).stderr(writer);
        assert_eq!(command.status().await.unwrap().code(), Some(0), "{args:?}");
    }
}

#[tokio::test]
async fn errors() {
    let cases = [
        ("no token", Runner::bare()),
        ("no address", Runner::bare().env("RUNNER_BOOTSTRAP_TOKEN", TOKEN)),
        ("no region", Runner::bare().env("RUNNER_ATTESTATION_MODE", "aws-sts").env("AWS_DEFAULT_REGION", "eu-west-1")),
        ("not a mode", Runner::bare().env("RUNNER_ATTESTATION_MODE", "mtls-renewal")),
        ("token file missing", Runner::bare().env("RUNNER_BOOTSTRAP_TOKEN_FILE", "/no/such/file")),
        (
            "audience",
            Runner::bare()
                .env("RUNNER_BOOTSTRAP_TOKEN", TOKEN)
                .env("RUNNER_CONTROL_PLANE_URL", "https://edge.example.com")
                .env("RUNNER_AUDIENCE", "a b"),
        ),
        (
            "log format",
            Runner::bare()
                .env("RUNNER_BOOTSTRAP_TOKEN", TOKEN)
                .env("RUNNER_CONTROL_PLANE_URL", "https://edge.example.com")
                .env("RUNNER_LOG_FORMAT", "xml"),
        ),
    ];
    for (name, runner) in cases {
        let output = runner.run(&["enroll"]).await;
        assert_eq!(output.status, 78);
        insta::assert_snapshot!(format!("error {name}"), settled(&runner, None, &output.stderr));
    }
    let fake = Fake::start([]).await.then(Reply::problem(403, "runner_banned", None));
    let runner = Runner::bootstrap(&fake);
    insta::assert_snapshot!("error banned", settled(&runner, Some(&fake), &runner.run(&["enroll"]).await.stderr));
}

#[tokio::test]
async fn doctor() {
    let bare = Runner::bare();
    let output = bare.run(&["doctor"]).await;
    assert_eq!(output.status, 78);
    insta::assert_snapshot!("doctor bare", settled(&bare, None, &output.stdout));

    let fake = Fake::start([]).await;
    let runner = Runner::bootstrap(&fake);
    let output = runner.run(&["doctor"]).await;
    assert_eq!(output.status, 0, "{output:?}");
    insta::assert_snapshot!("doctor well", settled(&runner, Some(&fake), &output.stdout));
    assert!(fake.calls().is_empty() && !runner.state().exists(), "nothing is enrolled, nothing is made");
}

#[tokio::test]
async fn doctor_rehearses_aws_evidence_that_can_never_enrol() {
    let outcome = async |reason: &'static str| {
        let fake = Fake::start([]).await.then(Reply::problem(401, "attestation_invalid", Some(reason)));
        let runner = Runner::bare()
            .env("RUNNER_CONTROL_PLANE_URL", &fake.url)
            .env("RUNNER_ATTESTATION_MODE", "aws-sts")
            .env("AWS_REGION", "eu-west-1")
            .env("AWS_ACCESS_KEY_ID", "AKIADOCTOR")
            .env("AWS_SECRET_ACCESS_KEY", "s");
        let output = runner.run(&["doctor", "--output", "json"]).await;
        let date = fake.calls()[0].body["attestation"]["headers"]["x-amz-date"].as_str().unwrap().to_owned();
        let hour = jiff::Timestamp::now().strftime("%Y%m%dT%H").to_string();
        assert!(!date.starts_with(&hour), "the evidence is an hour old: {date}");
        let report = output.json();
        let of = |name: &str| {
            let checks = report["checks"].as_array().unwrap();
            checks
                .iter()
                .find(|check| check["name"] == name)
                .map_or("absent", |check| check["outcome"].as_str().unwrap())
                .to_owned()
        };
        (output.status, ["region", "sts host", "audience"].map(of))
    };
    let texts = |region: &str, host: &str, audience: &str| [region, host, audience].map(str::to_owned);
    assert_eq!(outcome("date_out_of_range").await, (0, texts("ok", "ok", "ok")));
    assert_eq!(outcome("region_not_allowed").await, (77, texts("fail", "absent", "absent")));
    assert_eq!(outcome("host_not_allowed").await, (77, texts("ok", "fail", "absent")));
    assert_eq!(outcome("binding_mismatch").await, (77, texts("ok", "ok", "fail")));
}

#[tokio::test]
async fn doctor_looks_at_projected_tokens() {
    let fake = Fake::start([]).await;
    let runner = Runner::bare().env("RUNNER_CONTROL_PLANE_URL", &fake.url).env("RUNNER_ATTESTATION_MODE", "gke-oidc");
    let token = crate::support::projected_token(&serde_json::json!({
        "iss": "https://container.googleapis.com/v1/projects/p/locations/l/clusters/c", "aud": ["elsewhere"],
        "exp": 4_000_000_000u64, "sub": "system:serviceaccount:ns:name",
    }));
    let file = runner.file("token", &token);
    let runner = runner.env("RUNNER_GKE_TOKEN_PATH", file.to_str().unwrap());
    let output = runner.run(&["doctor"]).await;
    assert_eq!(output.status, 0, "{output:?}");
    insta::assert_snapshot!("doctor token", settled(&runner, Some(&fake), &output.stdout));
}
