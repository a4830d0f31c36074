//! SIGTERM and SIGINT end the daemon, SIGHUP makes it renew now.

use tokio::signal::unix::{self, SignalKind};

use crate::failure::Failure;

/// What a signal asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Signal {
    /// End.
    Terminate,
    /// Renew.
    RenewNow,
}

/// The signals of this process.
pub struct Signals {
    term: unix::Signal,
    int: unix::Signal,
    hup: unix::Signal,
}

impl Signals {
    /// Takes over the three signals.
    pub fn new() -> Result<Self, Failure> {
        let listen = |kind| {
            unix::signal(kind).map_err(|error| Failure::configuration(format!("cannot listen for signals: {error}")))
        };
        Ok(Self {
            term: listen(SignalKind::terminate())?,
            int: listen(SignalKind::interrupt())?,
            hup: listen(SignalKind::hangup())?,
        })
    }

    /// The next signal.
    pub async fn next(&mut self) -> Signal {
        tokio::select! {
            biased;
            _ = self.term.recv() => Signal::Terminate,
            _ = self.int.recv() => Signal::Terminate,
            _ = self.hup.recv() => Signal::RenewNow,
        }
    }

    /// The next signal that ends the daemon; others are left for [`Self::next`].
    pub async fn terminated(&mut self) {
        tokio::select! {
            _ = self.term.recv() => {}
            _ = self.int.recv() => {}
        }
    }
}
