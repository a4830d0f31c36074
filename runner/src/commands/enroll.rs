//! `runner enroll`: one certificate, then the end.
//!
//! What may pass is tried again a few times within a bounded time; a refusal ends it at once with status 77.

use std::sync::Arc;
use std::time::{Duration, Instant};

use backon::{BackoffBuilder as _, ExponentialBuilder};

use super::IdentityJson;
use crate::cli::Output;
use crate::clock::SystemClock;
use crate::config::Config;
use crate::enrolment::{Enroller, How};
use crate::failure::{Class, Failure, Remedy};
use crate::renewal::signals::Signals;
use crate::{hook, output};

/// Retries after the first attempt.
const RETRIES: usize = 3;
/// No attempt begins later than this.
const PATIENCE: Duration = Duration::from_secs(30);

/// Enrols and prints the identity.
pub async fn enroll(config: Config, format: Output) -> Result<(), Failure> {
    let mut enroller = Enroller::open(config, Arc::new(SystemClock))?;
    let how = with_retries(&mut enroller).await?;
    let state_dir = enroller.config().state_dir.clone();
    if let Some(identity) = enroller.identity() {
        let json = IdentityJson::new(Some(how), identity, &state_dir);
        match format {
            Output::Text => json.print(),
            Output::Json => output::json(&json),
        }
        if let Some(command) = &enroller.config().on_renew {
            // Its own group: the terminal's Ctrl-C reaches the runner alone.
            hook::run_until_terminated(command, &state_dir, identity, &mut Signals::new()?).await;
        }
    }
    Ok(())
}

async fn with_retries(enroller: &mut Enroller) -> Result<How, Failure> {
    let begin = Instant::now();
    let mut delays = ExponentialBuilder::default()
        .with_jitter()
        .with_min_delay(Duration::from_millis(500))
        .with_max_delay(Duration::from_secs(5))
        .with_max_times(RETRIES)
        .build();
    loop {
        let failure = match enroller.attest().await {
            Ok(how) => return Ok(how),
            Err(attempted) => attempted.failure,
        };
        let (Class::Unreachable, Remedy::Retry { after }) = (failure.class, failure.remedy) else {
            return Err(failure);
        };
        let Some(delay) = delays.next() else { return Err(failure) };
        let delay = delay.max(after.unwrap_or_default());
        if begin.elapsed() + delay > PATIENCE {
            return Err(failure);
        }
        tracing::warn!("{}; trying again in {delay:.1?}", failure.message);
        tokio::time::sleep(delay).await;
    }
}
