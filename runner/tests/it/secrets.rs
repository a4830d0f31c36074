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

/// Variables are easily mixed up, and a path or an address is shown where it cannot be used.
#[tokio::test]
async fn a_token_in_the_wrong_place_is_not_shown() {
    let fake = Fake::start([]).await;
    let jwt = projected_token(&json!({"aud": "127.0.0.1"})).replace("c2ln", "c2lnbmF0dXJl");
    let gke = || Runner::bootstrap(&fake).env("RUNNER_ATTESTATION_MODE", "gke-oidc");
    for runner in [
        Runner::bootstrap(&fake).env("RUNNER_BOOTSTRAP_TOKEN", "").env("RUNNER_BOOTSTRAP_TOKEN_FILE", TOKEN),
        Runner::bootstrap(&fake).env("RUNNER_CONTROL_PLANE_URL", TOKEN),
        Runner::bootstrap(&fake).env("RUNNER_CONTROL_PLANE_URL", format!("https://e.example/?token={TOKEN}")),
        Runner::bootstrap(&fake).env("RUNNER_ATTESTATION_MODE", TOKEN),
        Runner::bootstrap(&fake).env("RUNNER_AUDIENCE", TOKEN.to_owned() + " "),
        gke().env("RUNNER_GKE_TOKEN_PATH", &jwt),
    ] {
        for args in [&["enroll"][..], &["doctor"], &["enroll", TOKEN]] {
            let output = runner.run(args).await;
            assert_eq!(output.status, 78, "{output:?}");
            let shown = output.stdout + &output.stderr;
            assert!(!shown.contains(TOKEN.rsplit('_').next().unwrap()) && !shown.contains("c2lnbmF0dXJl"), "{shown}");
        }
    }
    let mixed = Runner::bare().env("RUNNER_BOOTSTRAP_TOKEN_FILE", TOKEN).run(&["enroll"]).await;
    assert!(mixed.stderr.contains("a token itself goes into RUNNER_BOOTSTRAP_TOKEN"), "{mixed:?}");
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

/// How often each secret is in the memory of a daemon that has enrolled, renewed and now waits. Only root may look.
#[cfg(target_os = "linux")]
async fn left_in_memory(
    runner: &Runner,
    secrets: impl FnOnce() -> Vec<(&'static str, Vec<u8>)>,
) -> Vec<(&'static str, usize)> {
    let daemon = runner.start(&["run"]);
    daemon.wait_log("enrolled").await;
    let secrets = secrets();
    daemon.signal(Signal::HUP);
    daemon.wait_log("renewed").await;
    let memory = memory_of(daemon.id());
    daemon.signal(Signal::TERM);
    assert_eq!(daemon.end().await.status, 0);
    assert_eq!(memory.is_ok(), rustix::process::geteuid().is_root(), "{:?}", memory.err());
    let memory = memory.unwrap_or_default();
    let count = |secret: &[u8]| memory.windows(secret.len()).filter(|window| *window == secret).count();
    secrets.into_iter().map(|(name, secret)| (name, count(&secret))).collect()
}

/// A fake with and without TLS, and a runner for it whose secrets are in files.
#[cfg(target_os = "linux")]
async fn with_and_without_tls() -> [(Fake, Runner); 2] {
    let plain = Fake::start([]).await;
    let runner = Runner::bare().env("RUNNER_CONTROL_PLANE_URL", &plain.url);
    let (tls, authority) = Fake::start_tls([]).await;
    let trusting = Runner::bare().env("RUNNER_CONTROL_PLANE_URL", &tls.url);
    let file = trusting.file("authority.pem", &authority);
    [(plain, runner), (tls, trusting.env("RUNNER_CA_FILE", file.to_str().unwrap()))]
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_token_that_was_sent_is_wiped_from_memory() {
    for (_fake, runner) in with_and_without_tls().await {
        let file = runner.file("bootstrap", TOKEN);
        let runner = runner.env("RUNNER_BOOTSTRAP_TOKEN_FILE", file.to_str().unwrap());
        let secret = TOKEN.rsplit('_').next().unwrap().as_bytes().to_vec();
        let left = left_in_memory(&runner, || vec![("token", secret)]).await;
        assert!(left.iter().all(|(_, count)| *count == 0), "{left:?}");
    }
}

/// Also one that is as long as the protocol lets it be: nothing that grew while it was read is left.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_projected_token_that_was_sent_is_wiped_from_memory() {
    for padding in [10, 11_000] {
        for (_fake, runner) in with_and_without_tls().await {
            let signature: String = (0..86).map(|_| fastrand::alphanumeric()).collect();
            let claims =
                json!({"aud": ["127.0.0.1", "localhost"], "exp": 4_000_000_000u64, "padding": "x".repeat(padding)});
            let token = projected_token(&claims).replace("c2ln", &signature);
            let file = runner.file("token", &token);
            let runner =
                runner.env("RUNNER_ATTESTATION_MODE", "gke-oidc").env("RUNNER_GKE_TOKEN_PATH", file.to_str().unwrap());
            let left = left_in_memory(&runner, || vec![("signature", signature.into_bytes())]).await;
            assert!(left.iter().all(|(_, count)| *count == 0), "{left:?}");
        }
    }
}

/// The evidence is wiped when it was sent. What the SDK's signer leaves is out of reach (docs/threat-model.md): the text that it signed,
/// with one copy of the session token, and, as often as its place was not used again, the secret access key, which is therefore not
/// counted.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn aws_evidence_that_was_sent_is_wiped_from_memory() {
    for (_fake, runner) in with_and_without_tls().await {
        let session: String = (0..400).map(|_| fastrand::alphanumeric()).collect();
        let credentials = format!(
            "[default]\naws_access_key_id = ASIAMEMORY\naws_secret_access_key = s\naws_session_token = {session}\n"
        );
        runner.file(".aws/credentials", &credentials);
        let runner = runner.env("RUNNER_ATTESTATION_MODE", "aws-sts").env("AWS_REGION", "eu-west-1");
        let left = left_in_memory(&runner, || vec![("session token", session.into_bytes())]).await;
        assert!(left.iter().all(|(_, count)| *count <= 1), "{left:?}");
    }
}

/// The key of the present certificate has to be there; a former one in none of the forms that it ever had.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_key_that_was_replaced_is_wiped_from_memory() {
    use p256::pkcs8::DecodePrivateKey as _;
    let fake = Fake::start([]).await;
    let runner = Runner::bootstrap(&fake);
    let forms = |runner: &Runner| {
        let pem = std::fs::read_to_string(runner.state().join("key.pem")).unwrap();
        let number = p256::ecdsa::SigningKey::from_pkcs8_pem(&pem).unwrap().to_bytes().to_vec();
        let limbs = number.iter().rev().copied().collect();
        vec![("PEM", pem.lines().nth(2).unwrap().as_bytes().to_vec()), ("DER", number), ("limbs", limbs)]
    };
    let left = left_in_memory(&runner, || forms(&runner)).await;
    assert!(left.iter().all(|(_, count)| *count == 0), "{left:?}");
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
