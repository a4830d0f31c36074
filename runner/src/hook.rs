//! `RUNNER_ON_RENEW`: a command of the operator's after each new certificate.
//!
//! It runs through `/bin/sh -c` where there is a shell, and is split on white space where there is none (distroless images). Its
//! output goes to standard error, it has a minute, and whatever becomes of it never harms the certificate.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use tokio::process::Command;

use crate::identity::Identity;
use crate::identity_store::{CERTIFICATE, KEY, TRUST_BUNDLE};

const TIMEOUT: Duration = Duration::from_mins(1);

/// Runs the command with the paths in its environment.
pub async fn run(command: &str, state_dir: &Path, identity: &Identity) {
    let mut child = if Path::new("/bin/sh").exists() {
        let mut shell = Command::new("/bin/sh");
        shell.arg("-c").arg(command);
        shell
    } else {
        let mut words = command.split_whitespace();
        let mut program = Command::new(words.next().unwrap_or_default());
        program.args(words);
        program
    };
    child
        .env_remove("RUNNER_BOOTSTRAP_TOKEN")
        .env("RUNNER_STATE_DIR", state_dir)
        .env("RUNNER_KEY_FILE", state_dir.join(KEY))
        .env("RUNNER_CERTIFICATE_FILE", state_dir.join(CERTIFICATE))
        .env("RUNNER_TRUST_BUNDLE_FILE", state_dir.join(TRUST_BUNDLE))
        .env("RUNNER_ID", &identity.runner_id)
        .env("RUNNER_TENANT", &identity.tenant)
        .env("RUNNER_SPIFFE_ID", &identity.spiffe_id)
        .env("RUNNER_NOT_AFTER", identity.not_after.to_string())
        .stdin(Stdio::null())
        .stdout(std::io::stderr())
        .kill_on_drop(true);
    let outcome = async { child.spawn()?.wait().await };
    match tokio::time::timeout(TIMEOUT, outcome).await {
        Ok(Ok(status)) if status.success() => tracing::debug!("RUNNER_ON_RENEW done"),
        Ok(Ok(status)) => {
            tracing::warn!("RUNNER_ON_RENEW failed ({status}); the new certificate is in place all the same");
        }
        Ok(Err(error)) => tracing::warn!("RUNNER_ON_RENEW cannot be run: {error}"),
        Err(_) => tracing::warn!("RUNNER_ON_RENEW was stopped after {} s", TIMEOUT.as_secs()),
    }
}
