//! The service manager's side: readiness, a line of status, the watchdog. Without one, nothing happens.

use sd_notify::NotifyState;

/// Tells that a live certificate is there.
pub fn ready(status: &str) {
    let _ = sd_notify::notify(&[NotifyState::Ready, NotifyState::Status(status)]);
}

/// Tells what goes on.
pub fn status(status: &str) {
    let _ = sd_notify::notify(&[NotifyState::Status(status)]);
}

/// Tells that SIGHUP is being acted on.
pub fn reloading() {
    if let Ok(now) = NotifyState::monotonic_usec_now() {
        let _ = sd_notify::notify(&[NotifyState::Reloading, now]);
    }
}

/// Tells that the end has come.
pub fn stopping() {
    let _ = sd_notify::notify(&[NotifyState::Stopping]);
}

/// Keeps the watchdog content while the event loop turns.
pub fn watchdog() {
    let Some(interval) = sd_notify::watchdog_enabled() else { return };
    tokio::spawn(async move {
        loop {
            let _ = sd_notify::notify(&[NotifyState::Watchdog]);
            tokio::time::sleep(interval / 3).await;
        }
    });
}
