//! PROTOCOL, Runner: the texts to the letter, status 78, no network, before the address is looked at.

use crate::support::{Fake, Runner, TOKEN};

/// Runs `run` and `enroll` and expects the first line of standard error and status 78.
async fn fails_fast(runner: &Runner, text: &str) -> String {
    let mut stderr = String::new();
    for args in [&["run"][..], &["enroll"], &[], &["attest"]] {
        let output = runner.run(args).await;
        assert_eq!(output.status, 78, "{args:?}: {output:?}");
        assert_eq!(output.stderr.lines().next(), Some(text), "{args:?}");
        assert_eq!(output.stdout, "", "{args:?}");
        stderr = output.stderr;
    }
    stderr
}

#[tokio::test]
async fn bootstrap_token_is_required_in_the_default_mode() {
    let text = "RUNNER_ATTESTATION_MODE=bootstrap-token requires RUNNER_BOOTSTRAP_TOKEN";
    fails_fast(&Runner::bare(), text).await;
    fails_fast(&Runner::bare().env("RUNNER_ATTESTATION_MODE", ""), text).await;
    fails_fast(&Runner::bare().env("RUNNER_BOOTSTRAP_TOKEN", "").env("RUNNER_CONTROL_PLANE_URL", "not a url"), text)
        .await;
    fails_fast(&Runner::bare().env("RUNNER_BOOTSTRAP_TOKEN_FILE", ""), text).await;
}

#[tokio::test]
async fn region_is_required_and_never_guessed() {
    let text = "RUNNER_ATTESTATION_MODE=aws-sts requires AWS_REGION";
    let runner = Runner::bare().env("RUNNER_ATTESTATION_MODE", "aws-sts");
    fails_fast(&runner, text).await;
    let runner = runner.env("AWS_DEFAULT_REGION", "eu-west-1").env("AWS_REGION", "");
    let stderr = fails_fast(&runner, text).await;
    assert!(stderr.contains("AWS_DEFAULT_REGION=eu-west-1 is set but is not used"), "{stderr}");
}

#[tokio::test]
async fn projected_tokens_are_missing_or_empty() {
    for (mode, variable, default, missing) in [
        (
            "gke-oidc",
            "RUNNER_GKE_TOKEN_PATH",
            "/var/run/secrets/tokens/gke-oidc/token",
            "RUNNER_ATTESTATION_MODE=gke-oidc: failed to read projected KSA token at <path> (is the Workload Identity token volume mounted?)",
        ),
        (
            "eks-oidc",
            "RUNNER_EKS_TOKEN_PATH",
            "/var/run/secrets/tokens/eks-oidc/token",
            "RUNNER_ATTESTATION_MODE=eks-oidc: failed to read projected ServiceAccount token at <path> (is the token volume mounted? On EKS, aws-sts needs none)",
        ),
    ] {
        let runner = Runner::bare().env("RUNNER_ATTESTATION_MODE", mode);
        fails_fast(&runner, &missing.replace("<path>", default)).await;
        let file = runner.file("token", "\u{feff}\r\n");
        let runner = runner.env(variable, file.to_str().unwrap());
        let path = file.display();
        fails_fast(&runner, &format!("RUNNER_ATTESTATION_MODE={mode}: projected token at {path} is empty")).await;
        let directory = runner.dir.path().to_str().unwrap().to_owned();
        let runner = runner.env(variable, &directory);
        let stderr = fails_fast(&runner, &missing.replace("<path>", &directory)).await;
        assert!(stderr.contains("it is a directory"), "{stderr}");
    }
}

#[tokio::test]
async fn unknown_modes_are_named() {
    let text = |mode: &str| {
        format!("RUNNER_ATTESTATION_MODE={mode} is not one of bootstrap-token, aws-sts, gke-oidc, eks-oidc")
    };
    let runner = Runner::bare().env("RUNNER_ATTESTATION_MODE", "mtls-renewal");
    let stderr = fails_fast(&runner, &text("mtls-renewal")).await;
    assert!(stderr.contains("not a configurable mode"), "{stderr}");
    let stderr = fails_fast(&Runner::bare().env("RUNNER_ATTESTATION_MODE", "AWS_STS"), &text("AWS_STS")).await;
    assert!(stderr.contains("did you mean aws-sts?"), "{stderr}");
    fails_fast(&Runner::bare().env("RUNNER_ATTESTATION_MODE", " aws-sts"), &text(" aws-sts")).await;
}

#[tokio::test]
async fn nothing_is_colour_or_prefix_even_when_colour_is_forced() {
    let runner = Runner::bare().env("CLICOLOR_FORCE", "1");
    let stderr = runner.run(&["run"]).await.stderr;
    assert!(
        stderr.starts_with("RUNNER_ATTESTATION_MODE=bootstrap-token requires RUNNER_BOOTSTRAP_TOKEN\n"),
        "{stderr:?}"
    );
}

#[tokio::test]
async fn settings_of_the_log_come_after_it() {
    for (name, value) in [("RUST_LOG", "runner=loud"), ("RUNNER_LOG_FORMAT", "xml")] {
        fails_fast(
            &Runner::bare().env(name, value),
            "RUNNER_ATTESTATION_MODE=bootstrap-token requires RUNNER_BOOTSTRAP_TOKEN",
        )
        .await;
    }
    // A filter that cannot be read is no reason to stay down.
    let fake = Fake::start([]).await;
    let output = Runner::bootstrap(&fake).env("RUST_LOG", "runner=loud").run(&["enroll"]).await;
    assert_eq!(output.status, 0, "{output:?}");
    assert!(output.stderr.contains("RUST_LOG=runner=loud is not used"), "{output:?}");
}

#[tokio::test]
async fn no_network_and_no_state_before_it() {
    let fake = Fake::start([]).await;
    let runner = Runner::bare().env("RUNNER_CONTROL_PLANE_URL", &fake.url);
    assert_eq!(runner.run(&["run"]).await.status, 78);
    assert!(fake.calls().is_empty());
    assert!(!runner.state().exists());
}

#[tokio::test]
async fn the_address_must_be_https_or_loopback() {
    let address = async |url: &str| {
        let output = Runner::bare()
            .env("RUNNER_BOOTSTRAP_TOKEN", TOKEN)
            .env("RUNNER_CONTROL_PLANE_URL", url)
            .run(&["enroll"])
            .await;
        assert_eq!(output.status, 78, "{url}: {output:?}");
        output.stderr
    };
    assert!(address("").await.contains("RUNNER_CONTROL_PLANE_URL is not set"));
    assert!(address("http://edge.example.com").await.contains("https is required"));
    assert!(address("http://127.0.0.1.example.com").await.contains("https is required"));
    assert!(address("ftp://edge.example.com").await.contains("https is required"));
    assert!(address("edge.example.com").await.contains("is not a URL"));
    assert!(!address("https://me:hunter2@edge.example.com").await.contains("hunter2"));
    assert!(address("https://edge.example.com/?a=b").await.contains("query"));
}

#[tokio::test]
async fn an_address_that_cannot_be_read_keeps_its_password() {
    let runner = Runner::bare().env("RUNNER_BOOTSTRAP_TOKEN", TOKEN);
    let output = runner.env("RUNNER_CONTROL_PLANE_URL", "https://me:hunter2@edge example.com").run(&["enroll"]).await;
    assert_eq!(output.status, 78, "{output:?}");
    assert!(output.stderr.contains("is not a URL") && !output.stderr.contains("hunter2"), "{output:?}");
}

/// Line ends of the file that a variable came from are what nobody sees.
#[tokio::test]
async fn white_space_in_a_variable_is_shown() {
    let base =
        || Runner::bare().env("RUNNER_BOOTSTRAP_TOKEN", TOKEN).env("RUNNER_CONTROL_PLANE_URL", "https://e.example");
    let cases = [
        (
            base().env("RUNNER_ATTESTATION_MODE", "aws-sts").env("AWS_REGION", "eu-west-1\r"),
            "AWS_REGION=\"eu-west-1\\r\"",
        ),
        (base().env("RUNNER_ATTESTATION_MODE", "aws-sts").env("AWS_REGION", "eu-west-1 "), "AWS_REGION=\"eu-west-1 \""),
        (base().env("RUNNER_AUDIENCE", "e.example\n"), "RUNNER_AUDIENCE=\"e.example\\n\""),
        (base().env("RUNNER_LOG_FORMAT", " json"), "RUNNER_LOG_FORMAT=\" json\""),
    ];
    for (runner, shown) in cases {
        let output = runner.run(&["enroll"]).await;
        assert_eq!(output.status, 78, "{output:?}");
        assert!(output.stderr.starts_with(&format!("error: {shown}")), "{shown}: {output:?}");
        assert!(output.stderr.contains("hint: there is white space around it"), "{output:?}");
    }
}

#[tokio::test]
async fn a_variable_that_is_no_text_is_named() {
    use std::os::unix::ffi::OsStrExt as _;
    let no_text = std::ffi::OsStr::from_bytes(b"\xff");
    let runner = Runner::bare().env("RUNNER_CONTROL_PLANE_URL", "https://e.example");
    for (mode, name) in [
        ("bootstrap-token", "RUNNER_ATTESTATION_MODE"),
        ("bootstrap-token", "RUNNER_CONTROL_PLANE_URL"),
        ("bootstrap-token", "RUNNER_AUDIENCE"),
        ("bootstrap-token", "RUNNER_LOG_FORMAT"),
        ("aws-sts", "AWS_REGION"),
    ] {
        let mut command = runner.command(&["enroll"]);
        command.env("RUNNER_BOOTSTRAP_TOKEN", TOKEN).env("RUNNER_ATTESTATION_MODE", mode).env(name, no_text);
        let output = crate::support::Output::of(command).await;
        assert_eq!(output.status, 78, "{name}: {output:?}");
        assert!(output.stderr.lines().next().unwrap().contains(name), "{name}: {output:?}");
    }
    // The order of the contract holds for it too.
    let mut command = runner.command(&["enroll"]);
    command.env("RUNNER_AUDIENCE", no_text);
    let output = crate::support::Output::of(command).await;
    let text = "RUNNER_ATTESTATION_MODE=bootstrap-token requires RUNNER_BOOTSTRAP_TOKEN";
    assert_eq!(output.stderr.lines().next(), Some(text), "{output:?}");
}

#[tokio::test]
async fn a_wrong_command_line_is_configuration() {
    let output = Runner::bare().run(&["enrol"]).await;
    assert_eq!(output.status, 78);
    assert!(output.stderr.contains("enroll"), "{output:?}");
}
