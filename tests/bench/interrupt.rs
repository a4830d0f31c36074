//! Ctrl-C and SIGTERM: noticed at the next step, so that everything started is ended and removed on the way out.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use anyhow::{Result, bail};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

static ASKED: OnceLock<Arc<AtomicBool>> = OnceLock::new();

/// From here on signals do not end this process, but [`check`] does. Nor does a second one: `timeout` and shells send the same signal twice,
/// and what was started would stay behind.
pub fn heed() -> Result<()> {
    let asked = ASKED.get_or_init(Arc::default);
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        signal_hook::flag::register(signal, Arc::clone(asked))?;
    }
    Ok(())
}

/// An error once a signal came.
pub fn check() -> Result<()> {
    if ASKED.get().is_some_and(|asked| asked.load(Ordering::Relaxed)) {
        bail!("interrupted");
    }
    Ok(())
}
