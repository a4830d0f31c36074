//! The state directory, and the certificate in it. Nothing is changed.

use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::Path;

use jiff::Timestamp;

use super::Check;
use crate::config::Config;
use crate::failure::Failure;
use crate::identity_store;
use crate::output::one_line;

/// Looks at rights, contents and lock; with complete settings also whether the contents belong to them.
pub fn examine(dir: &Path, config: Option<&Config>, checks: &mut Vec<Check>) {
    checks.push(rights(dir));
    let state = match config {
        Some(config) => identity_store::read_for(dir, config.control_plane.as_str(), config.method.mode()),
        None => identity_store::read(dir),
    };
    match state {
        Err(failure) => checks.push(Check::fail("state", failure)),
        Ok(state) => {
            checks.extend(state.faults.iter().map(|fault| {
                Check::warn("state", fault.what.clone()).hint("`run` and `enroll` move it aside and go on without it")
            }));
            checks.push(certificate(state.identity.as_ref(), identity_store::is_locked(dir)));
        }
    }
}

fn rights(dir: &Path) -> Check {
    const NAME: &str = "state directory";
    let shown = dir.display();
    let uid = rustix::process::geteuid().as_raw();
    let meta = match std::fs::metadata(dir) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return missing(dir),
        Err(error) => return Check::fail(NAME, Failure::configuration(format!("{shown}: {error}"))),
        Ok(meta) => meta,
    };
    if !meta.is_dir() {
        return Check::fail(NAME, Failure::configuration(format!("{shown} is not a directory")));
    }
    if !writable(dir) {
        let failure = Failure::configuration(format!("{shown} cannot be written by uid {uid}"));
        return Check::fail(NAME, failure.hint("change its owner, or RUNNER_STATE_DIR"));
    }
    let mode = meta.permissions().mode() & 0o777;
    if mode & 0o022 != 0 {
        return Check::warn(NAME, format!("{shown} has mode {mode:o}: others may replace what is in it"))
            .hint(format!("chmod 700 {shown}"));
    }
    if meta.uid() != uid {
        return Check::warn(NAME, format!("{shown} belongs to uid {}, this is uid {uid}", meta.uid()));
    }
    Check::ok(NAME, format!("{shown} is ours, mode {mode:o}"))
}

fn missing(dir: &Path) -> Check {
    if std::fs::symlink_metadata(dir).is_ok() {
        let failure = Failure::configuration(format!("{} is a link that leads nowhere", dir.display()));
        return Check::fail(
            "state directory",
            failure.hint("make the directory that it leads to, or change RUNNER_STATE_DIR"),
        );
    }
    let existing = dir.ancestors().find(|ancestor| ancestor.exists());
    match existing {
        Some(ancestor) if writable(ancestor) => {
            Check::ok("state directory", format!("{} does not exist yet and can be made", dir.display()))
        }
        _ => Check::fail(
            "state directory",
            Failure::configuration(format!(
                "{} does not exist, and uid {} cannot make it",
                dir.display(),
                rustix::process::geteuid().as_raw()
            ))
            .hint("make it for the user that the runner runs as, or set RUNNER_STATE_DIR"),
        ),
    }
}

fn writable(dir: &Path) -> bool {
    rustix::fs::access(dir, rustix::fs::Access::WRITE_OK | rustix::fs::Access::EXEC_OK).is_ok()
}

fn certificate(identity: Option<&crate::identity::Identity>, running: bool) -> Check {
    let at_work = if running { "a runner is at work" } else { "no runner is at work" };
    let Some(identity) = identity else { return Check::ok("certificate", format!("none yet; {at_work}")) };
    let left = identity.time_left(Timestamp::now());
    if left.is_zero() {
        return Check::warn("certificate", format!("ended at {}; {at_work}", identity.not_after))
            .hint("`run` and `enroll` attest again with the same key");
    }
    Check::ok(
        "certificate",
        format!("of runner {} is live until {}; {at_work}", one_line(&identity.runner_id), identity.not_after),
    )
}
