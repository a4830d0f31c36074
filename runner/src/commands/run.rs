//! `runner run`: the daemon. See [`crate::renewal`].

use std::sync::Arc;

use super::IdentityJson;
use crate::cli::Output;
use crate::clock::SystemClock;
use crate::config::Config;
use crate::enrolment::Enroller;
use crate::failure::Failure;
use crate::output;
use crate::renewal::Daemon;

/// Runs until a signal ends it, or until only a person can help.
pub async fn run(config: Config, format: Output) -> Result<(), Failure> {
    let clock = Arc::new(SystemClock);
    let state_dir = config.state_dir.clone();
    let enroller = Enroller::open(config, clock.clone())?;
    let on_certificate = Box::new(move |how, identity: &crate::identity::Identity| {
        if format == Output::Json {
            output::json(&IdentityJson::new(Some(how), identity, &state_dir));
        }
    });
    Daemon::new(enroller, clock, on_certificate).run().await
}
