//! Name, connection, TLS, readiness and clock of the control plane.

use std::path::PathBuf;
use std::sync::Arc;

use jiff::Timestamp;

use super::Check;
use crate::cli::Options;
use crate::clock::SystemClock;
use crate::config::ControlPlaneUrl;
use crate::control_plane::{CallError, ControlPlane, refusal};
use crate::explain;
use crate::failure::Failure;
use crate::output::one_line;

/// A clock that differs by more is a failure: AWS and the verifier look at five minutes.
const SKEW_FAIL: jiff::SignedDuration = jiff::SignedDuration::from_mins(5);
/// A clock that differs by more is worth a word.
const SKEW_WARN: jiff::SignedDuration = jiff::SignedDuration::from_secs(30);

/// The same where the rest of the settings is not complete.
pub async fn examine_address(options: &Options, url: &ControlPlaneUrl, checks: &mut Vec<Check>) {
    let ca_file = options.ca_file.as_ref().filter(|path| !path.is_empty()).map(PathBuf::from);
    match ControlPlane::at(url.clone(), ca_file.as_deref(), Arc::new(SystemClock)) {
        Ok(control_plane) => drop(examine(&control_plane, checks).await),
        Err(failure) => checks.push(Check::fail("control plane", failure)),
    }
}

/// Looks at it, and says whether it can be called.
pub async fn examine(control_plane: &ControlPlane, checks: &mut Vec<Check>) -> bool {
    let url = control_plane.url();
    let health = control_plane.get("/healthz").await;
    let reachable = match health {
        Err(CallError::Network(fault)) => {
            checks.push(Check::fail("control plane", explain::network::fault(&fault, url)));
            false
        }
        Err(error) => {
            checks.push(Check::fail("control plane", unusable(&error, url)));
            false
        }
        Ok((200, _, body)) => {
            checks.push(healthy(&body, url));
            true
        }
        Ok((status, headers, body)) => {
            let error = refusal(status, &headers, &body, Timestamp::now());
            let answers = matches!(error, CallError::Problem { .. });
            checks.push(Check::fail("control plane", unusable(&error, url)));
            answers
        }
    };
    if reachable {
        checks.push(clock(control_plane).await);
    } else {
        checks.push(Check::skipped("clock", "there is no control plane to compare it with"));
    }
    reachable
}

fn healthy(body: &[u8], url: &ControlPlaneUrl) -> Check {
    match serde_json::from_slice::<protocol::admin::Health>(body) {
        Ok(health) => {
            let tls = if url.is_https() { "TLS is trusted" } else { "plain HTTP on this machine" };
            Check::ok("control plane", format!("version {} answers, {tls}", one_line(&health.version)))
        }
        Err(_) => Check::fail("control plane", explain::network::foreign(200, None, None, url)),
    }
}

fn unusable(error: &CallError, url: &ControlPlaneUrl) -> Failure {
    match error {
        CallError::Problem { problem, .. } => {
            let missing = one_line(&problem.detail);
            Failure::unreachable(format!(
                "the control plane answers that it is not ready ({}): {missing}",
                problem.code
            ))
            .hint("its operator has to finish setting it up")
        }
        CallError::Foreign { status, location, retry_after } => {
            explain::network::foreign(*status, location.as_deref(), *retry_after, url)
        }
        CallError::Network(fault) => explain::network::fault(fault, url),
        CallError::Unusable(what) => Failure::unreachable(format!("the answer of {url} cannot be used: {what}")),
    }
}

/// Every problem document carries the verifier's time: a route that does not exist gives one at no cost.
async fn clock(control_plane: &ControlPlane) -> Check {
    let before = Timestamp::now();
    let answer = control_plane.get("/v1/time-of-day").await;
    let after = Timestamp::now();
    let server = match answer {
        Ok((status, headers, body)) => match refusal(status, &headers, &body, after) {
            CallError::Problem { problem, .. } => problem.server_time.parse::<Timestamp>().ok(),
            _ => None,
        },
        Err(_) => None,
    };
    let Some(server) = server else { return Check::skipped("clock", "the control plane did not tell its time") };
    let skew = if server < before {
        before.duration_since(server)
    } else if server > after {
        after.duration_since(server)
    } else {
        jiff::SignedDuration::ZERO
    };
    let says = format!("this machine's clock is {} {}", explain::amount(skew), explain::direction(skew));
    if skew.abs() >= SKEW_FAIL {
        Check::fail("clock", Failure::configuration(says)).hint("set it: timedatectl set-ntp true, chronyc makestep")
    } else if skew.abs() >= SKEW_WARN {
        Check::warn("clock", says).hint("turn time synchronisation on: beyond five minutes evidence is refused")
    } else {
        Check::ok("clock", "agrees with the control plane's")
    }
}
