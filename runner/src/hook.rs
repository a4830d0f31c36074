//! `RUNNER_ON_RENEW`: a command of the operator's after each new certificate.
//!
//! It runs through `/bin/sh -c` where there is a shell, and is split on white space where there is none (distroless images). Its
//! output goes to standard error, it has a minute, and whatever becomes of it never harms the certificate. It has a process group of its
//! own, which is killed whole when the time is over, so that nothing that it started stays behind; what it leaves running when it ends
//! by itself goes on.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::process::{Child, Command};

use crate::identity::Identity;
use crate::identity_store::{CERTIFICATE, KEY, TRUST_BUNDLE};
use crate::renewal::signals::Signals;

const TIMEOUT: Duration = Duration::from_mins(1);

/// What is left of its minute when the runner is told to end.
const GRACE: Duration = Duration::from_secs(5);

/// Runs the command; when a signal asks the runner to end, for [`GRACE`] longer, and returns true.
pub(crate) async fn run_until_terminated(
    command: &str,
    state_dir: &Path,
    identity: &Identity,
    signals: &mut Signals,
) -> bool {
    let mut running = std::pin::pin!(run(command, state_dir, identity));
    tokio::select! {
        biased;
        () = signals.terminated() => {}
        () = &mut running => return false,
    }
    if tokio::time::timeout(GRACE, running).await.is_err() {
        tracing::warn!("RUNNER_ON_RENEW was stopped: the runner ends");
    }
    true
}

/// Runs the command with the paths in its environment.
async fn run(command: &str, state_dir: &Path, identity: &Identity) {
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
        .process_group(0);
    let outcome = async { Group(child.spawn()?).ended().await };
    match tokio::time::timeout(TIMEOUT, outcome).await {
        Ok(Ok(status)) if status.success() => tracing::debug!("RUNNER_ON_RENEW done"),
        Ok(Ok(status)) => {
            tracing::warn!("RUNNER_ON_RENEW failed ({status}); the new certificate is in place all the same");
        }
        Ok(Err(error)) => tracing::warn!("RUNNER_ON_RENEW cannot be run: {error}"),
        Err(_) => tracing::warn!("RUNNER_ON_RENEW was stopped after {} s", TIMEOUT.as_secs()),
    }
}

/// The command and all that it started; killed when dropped before the command has ended.
struct Group(Child);

impl Group {
    async fn ended(mut self) -> std::io::Result<std::process::ExitStatus> {
        self.0.wait().await
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // No id any more: it has ended and was waited for.
        let leader = self.0.id().and_then(|id| Pid::from_raw(id.cast_signed()));
        if let Some(leader) = leader {
            let _ = kill_process_group(leader, Signal::KILL);
        }
    }
}
