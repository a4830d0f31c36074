//! `runner status`: what the state directory holds; status 0 when the certificate is live, 69 when there is none.
//!
//! Reads only, needs no address and no mode, and disturbs no running runner: fit for a readiness probe.

use std::path::Path;

use jiff::Timestamp;
use serde::Serialize;

use super::IdentityJson;
use crate::cli::Output;
use crate::failure::{Exit, Failure};
use crate::identity_store::{self, LastFailure};
use crate::output;

/// State of the certificate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Standing {
    /// In date.
    Live,
    /// Ended.
    Expired,
    /// None.
    None,
}

#[derive(Debug, Serialize)]
struct StatusJson<'a> {
    state: Standing,
    seconds_left: u64,
    running: bool,
    state_dir: String,
    faults: Vec<String>,
    last_failure: Option<LastFailure>,
    identity: Option<IdentityJson<'a>>,
}

/// Prints the state.
pub fn status(state_dir: &Path, format: Output) -> Result<Exit, Failure> {
    let state = identity_store::read(state_dir)?;
    let left = state.identity.as_ref().map(|identity| identity.time_left(Timestamp::now()).as_secs_f64());
    let standing = match left {
        None => Standing::None,
        Some(left) if left > 0.0 => Standing::Live,
        Some(_) => Standing::Expired,
    };
    let json = StatusJson {
        state: standing,
        seconds_left: std::time::Duration::from_secs_f64(left.unwrap_or_default()).as_secs(),
        running: identity_store::is_locked(state_dir),
        state_dir: state_dir.display().to_string(),
        faults: state.faults.iter().map(|fault| fault.what.clone()).collect(),
        last_failure: identity_store::last_failure(state_dir),
        identity: state.identity.as_ref().map(|identity| IdentityJson::new(None, identity, state_dir)),
    };
    match format {
        Output::Json => output::json(&json),
        Output::Text => print(&json),
    }
    Ok(if standing == Standing::Live { Exit::Done } else { Exit::Unreachable })
}

fn print(json: &StatusJson<'_>) {
    output::line(&match json.state {
        Standing::Live => {
            let left = jiff::SignedDuration::from_secs(i64::try_from(json.seconds_left).unwrap_or(i64::MAX));
            format!("live for {}", crate::explain::amount(left))
        }
        Standing::Expired => "expired".to_owned(),
        Standing::None => format!("no certificate in {}", json.state_dir),
    });
    if let Some(identity) = &json.identity {
        identity.print();
    }
    output::line(&format!("{:<14} {}", "process", if json.running { "at work" } else { "not at work" }));
    if let Some(failure) = &json.last_failure {
        output::line(&format!("{:<14} {:.0}: {}; {}", "last failure", failure.time, failure.message, failure.then));
        for hint in &failure.hints {
            output::line(&format!("{:<14} {hint}", ""));
        }
    }
    for fault in &json.faults {
        output::line(&format!("{:<14} {fault}", "fault"));
    }
}
