//! Secrets: in no log, no argument, no core dump, and open to no other process of the same user.

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::support::{Fake, Reply, Runner, TOKEN, as_nobody, projected_token};

/// Everything logged at the highest level, whatever becomes of the calls.
async fn logs_nothing(runner: Runner, fake: &Fake, secrets: &[&str]) {
    let runner = runner.env("RUST_LOG", "trace").env("RUNNER_LOG_FORMAT", "json");
    let daemon = runner.start(&["run"]);
    daemon.wait_log("enrolled").await;
    daemon.signal(Signal::HUP);
    daemon.wait_log("renewed").await;
    daemon.signal(Signal::TERM);
    let output = daemon.end().await;
    assert!(fake.calls().len() >= 2);
    for secret in secrets.iter().chain(&["PRIVATE KEY"]) {
        for line in output.stderr.lines().chain(output.stdout.lines()) {
            assert!(!line.contains(secret), "{secret} is in {line}");
        }
    }
    for line in output.stderr.lines() {
        serde_json::from_str::<Value>(line).unwrap_or_else(|error| panic!("{error}: {line}"));
    }
}

#[tokio::test]
async fn they_are_in_no_log() {
    let fake = Fake::start([]).await;
    logs_nothing(Runner::bootstrap(&fake), &fake, &[TOKEN, TOKEN.rsplit('_').next().unwrap()]).await;

    let fake = Fake::start([]).await;
    let token = projected_token(&json!({"aud": ["127.0.0.1"], "exp": 4_000_000_000u64}));
    let runner = Runner::bare().env("RUNNER_CONTROL_PLANE_URL", &fake.url).env("RUNNER_ATTESTATION_MODE", "gke-oidc");
    let file = runner.file("token", &token);
    let runner = runner.env("RUNNER_GKE_TOKEN_PATH", file.to_str().unwrap());
    logs_nothing(runner, &fake, &[&token, token.rsplit('.').next().unwrap()]).await;

    let fake = Fake::start([]).await;
    let runner = Runner::bare()
        .env("RUNNER_CONTROL_PLANE_URL", &fake.url)
        .env("RUNNER_ATTESTATION_MODE", "aws-sts")
        .env("AWS_REGION", "eu-west-1")
        .env("AWS_ACCESS_KEY_ID", "ASIALOGGED")
        .env("AWS_SECRET_ACCESS_KEY", "the-secret-access-key")
        .env("AWS_SESSION_TOKEN", "the-session-token");
    logs_nothing(runner, &fake, &["the-secret-access-key", "the-session-token", "Signature="]).await;
}

#[tokio::test]
async fn no_argument_takes_one() {
    let fake = Fake::start([]).await;
    let runner = Runner::bootstrap(&fake);
    let output = runner.run(&["enroll", "--bootstrap-token", TOKEN]).await;
    assert_eq!((output.status, fake.calls().len()), (78, 0), "{output:?}");
    assert!(output.stderr.contains("--bootstrap-token-file"), "{output:?}");
}

/// What belongs to a process that may be dumped belongs to its user; of one that may not, to root.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn no_core_is_dumped_and_no_debugger_attaches() {
    use std::os::unix::fs::MetadataExt as _;
    let fake = Fake::start([Reply::Hang]).await;
    let runner = Runner::bootstrap(&fake);
    let is_root = rustix::process::geteuid().is_root();
    let mut command = if is_root { as_nobody(&runner) } else { runner.command(&["enroll"]) };
    if is_root {
        let state = runner.state();
        std::fs::create_dir(&state).unwrap();
        std::os::unix::fs::chown(&state, Some(65_534), Some(65_534)).unwrap();
    }
    let mut child = command.kill_on_drop(true).spawn().unwrap();
    fake.wait_calls(1).await;
    let of_the_process = std::path::Path::new("/proc").join(child.id().unwrap().to_string());
    let user = if is_root { 65_534 } else { rustix::process::geteuid().as_raw() };
    assert_ne!(std::fs::metadata(of_the_process.join("environ")).unwrap().uid(), user);
    let limits = std::fs::read_to_string(of_the_process.join("limits")).unwrap();
    let core = limits.lines().find(|line| line.starts_with("Max core file size")).unwrap();
    assert_eq!(core.split_whitespace().filter(|word| *word == "0").count(), 2, "{core}");
    child.kill().await.unwrap();
}

/// Only root may look into such a process, and must not find the token there once it has done its work.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_token_that_was_sent_is_wiped_from_memory() {
    let fake = Fake::start([]).await;
    let runner = Runner::bare().env("RUNNER_CONTROL_PLANE_URL", &fake.url);
    let file = runner.file("bootstrap", TOKEN);
    let runner = runner.env("RUNNER_BOOTSTRAP_TOKEN_FILE", file.to_str().unwrap());
    let daemon = runner.start(&["run"]);
    daemon.wait_log("enrolled").await;
    let memory = memory_of(daemon.id());
    daemon.signal(Signal::TERM);
    assert_eq!(daemon.end().await.status, 0);
    assert_eq!(memory.is_ok(), rustix::process::geteuid().is_root(), "{:?}", memory.err());
    let (secret, memory) = (TOKEN.rsplit('_').next().unwrap().as_bytes(), memory.unwrap_or_default());
    assert_eq!(memory.windows(secret.len()).filter(|window| *window == secret).count(), 0);
}

/// Everything that a process can write to.
#[cfg(target_os = "linux")]
fn memory_of(id: u32) -> std::io::Result<Vec<u8>> {
    use std::os::unix::fs::FileExt as _;
    let maps = std::fs::read_to_string(format!("/proc/{id}/maps"))?;
    let memory = std::fs::File::open(format!("/proc/{id}/mem"))?;
    let mut all = Vec::new();
    for map in maps.lines().filter(|map| map.contains(" rw")) {
        let (start, end) = map.split_whitespace().next().and_then(|range| range.split_once('-')).unwrap();
        let [start, end] = [start, end].map(|address| u64::from_str_radix(address, 16).unwrap());
        let mut part = vec![0; usize::try_from(end - start).unwrap()];
        // Parts of the kernel's own cannot be read.
        if memory.read_exact_at(&mut part, start).is_ok() {
            all.append(&mut part);
        }
    }
    Ok(all)
}
