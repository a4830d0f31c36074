//! The daemon: when to renew, when to attest, when to wait and when to give up.
//!
//! | failure ([`Remedy`]) | with a live certificate | without |
//! |---|---|---|
//! | `Retry` | back off with jitter, `Retry-After` honoured | the same |
//! | `NewEvidence` | wait until the evidence changes | the same |
//! | `Attest` | attest by the configured mode at once | the same |
//! | `Person` | keep it, say so, look again every five minutes | end with the failure's exit status |
//!
//! A good certificate is never given up before it ends. Waits are cut into short sleeps that look at both clocks
//! ([`crate::clock`]), so that suspend and clock jumps are noticed. Invariant: nothing is awaited between an answer and its commit, so
//! a signal cannot come between them.

pub(crate) mod signals;

use std::sync::Arc;
use std::time::Duration;

use backon::{BackoffBuilder as _, ExponentialBackoff, ExponentialBuilder};

use crate::clock::{Clock, Moment};
use crate::enrolment::{Attempted, Enroller, How};
use crate::evidence::Fingerprint;
use crate::failure::{Class, Failure, Remedy};
use crate::identity::Identity;
use crate::identity_store::LastFailure;
use crate::{hook, service};
use signals::{Signal, Signals};

/// How often a refusal is tried again while a certificate lives.
const REFUSED_PAUSE: Duration = Duration::from_mins(5);
/// Longest sleep between two looks at the clocks.
const LONGEST_SLEEP: Duration = Duration::from_secs(10);
/// No certificate is acted on sooner.
const SHORTEST: Duration = Duration::from_millis(250);
/// A clock that moved by more is spoken of.
const JUMP: jiff::SignedDuration = jiff::SignedDuration::from_secs(60);

/// What is tried next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// Renew the present certificate.
    Renew,
    /// Attest by the configured mode.
    Attest,
}

/// A span that began at a moment.
#[derive(Debug, Clone, Copy)]
struct Span {
    from: Moment,
    length: Duration,
}

impl Span {
    const fn new(from: Moment, length: Duration) -> Self {
        Self { from, length }
    }

    /// Time left by the clock that says less is left.
    fn left(&self, now: &Moment) -> Duration {
        self.length.saturating_sub(now.since(&self.from))
    }

    /// Over by the clock that cannot jump.
    fn surely_over(&self, now: &Moment) -> bool {
        now.uptime.saturating_sub(self.from.uptime) >= self.length
    }
}

/// Why the daemon waits.
#[derive(Debug)]
struct Wait {
    next: Next,
    until: Span,
    watch: Watch,
}

/// What ends a wait early, beside a signal.
#[derive(Debug)]
enum Watch {
    /// Nothing.
    Nothing,
    /// Evidence of other material than this.
    Evidence(Option<Fingerprint>),
}

/// Called for the certificate that is there at the start, and after each new one.
pub type OnCertificate = Box<dyn Fn(How, &Identity) + Send>;

/// The daemon.
pub struct Daemon {
    enroller: Enroller,
    clock: Arc<dyn Clock>,
    on_certificate: OnCertificate,
    /// Serial number of the present certificate.
    serial: Option<String>,
    /// Life of the present certificate.
    life: Option<Span>,
    backoff: ExponentialBackoff,
    /// Last message, so that its hints are given once.
    last_message: String,
    is_ready: bool,
}

fn backoff() -> ExponentialBackoff {
    ExponentialBuilder::default()
        .with_jitter()
        .with_min_delay(Duration::from_secs(1))
        .with_max_delay(Duration::from_mins(1))
        .without_max_times()
        .build()
}

impl Daemon {
    /// A daemon around an enroller.
    pub fn new(enroller: Enroller, clock: Arc<dyn Clock>, on_certificate: OnCertificate) -> Self {
        Self {
            enroller,
            clock,
            on_certificate,
            serial: None,
            life: None,
            backoff: backoff(),
            last_message: String::new(),
            is_ready: false,
        }
    }

    /// Runs until SIGTERM or SIGINT, or until only a person can help.
    pub async fn run(mut self) -> Result<(), Failure> {
        let mut signals = Signals::new()?;
        service::watchdog();
        let mut wait = self.first();
        loop {
            match self.wait(&wait, &mut signals).await {
                Some(Signal::Terminate) => break,
                Some(Signal::RenewNow) => {
                    tracing::info!("SIGHUP: renewing now");
                    service::reloading();
                    self.is_ready = false;
                }
                None => {}
            }
            let next = self.still(wait.next);
            let outcome = tokio::select! {
                biased;
                () = signals.terminated() => break,
                outcome = self.attempt(next) => outcome,
            };
            let before = self.serial.clone();
            wait = match outcome {
                Ok(how) => self.succeeded(how),
                Err(attempted) => self.failed(next, attempted)?,
            };
            if self.serial != before && self.run_hook(&mut signals).await {
                break;
            }
        }
        service::stopping();
        let place = self.enroller.config().state_dir.display();
        if self.enroller.identity().is_some() {
            tracing::info!("ended by signal; the certificate stays in {place}");
        } else {
            tracing::info!("ended by signal; there is no certificate yet");
        }
        Ok(())
    }

    /// Where things stand at the start.
    fn first(&mut self) -> Wait {
        let now = self.clock.now();
        let at_once = |next| Wait { next, until: Span::new(now, Duration::ZERO), watch: Watch::Nothing };
        let Some(identity) = self.enroller.identity().cloned() else { return at_once(Next::Attest) };
        let left = identity.time_left(now.wall);
        if left.is_zero() {
            tracing::info!("the certificate ended at {}: attesting again", identity.not_after);
            return at_once(Next::Attest);
        }
        self.life = Some(Span::new(now, left));
        self.serial = Some(identity.serial.clone());
        self.tell_ready(&identity);
        (self.on_certificate)(How::Kept, &identity);
        let next = next_for(&identity);
        let Some(age) = identity.age(now.wall) else {
            tracing::warn!("the clock of this machine was set back since the certificate arrived: renewing now");
            return at_once(next);
        };
        tracing::info!("certificate of runner {} is live for {}", identity.runner_id, in_words(left));
        let delay = delay_for(&identity).saturating_sub(age);
        Wait { next, until: Span::new(now, delay), watch: Watch::Nothing }
    }

    /// A certificate that has surely ended cannot be renewed.
    fn still(&self, next: Next) -> Next {
        let now = self.clock.now();
        match (next, &self.life) {
            (Next::Renew, Some(life)) if !life.surely_over(&now) => Next::Renew,
            _ => Next::Attest,
        }
    }

    fn is_live(&self) -> bool {
        let now = self.clock.now();
        self.life.as_ref().is_some_and(|life| !life.surely_over(&now))
    }

    async fn attempt(&mut self, next: Next) -> Result<How, Attempted> {
        match next {
            Next::Renew => self.enroller.renew().await,
            Next::Attest => self.enroller.attest().await,
        }
    }

    fn succeeded(&mut self, how: How) -> Wait {
        self.backoff = backoff();
        self.last_message.clear();
        let now = self.clock.now();
        let Some(identity) = self.enroller.identity().cloned() else {
            return Wait { next: Next::Attest, until: Span::new(now, Duration::ZERO), watch: Watch::Nothing };
        };
        let is_same = self.serial.replace(identity.serial.clone()).is_some_and(|serial| serial == identity.serial);
        self.life = Some(Span::new(now, identity.lifetime()));
        let skew = identity.clock_skew();
        if skew.abs() >= JUMP {
            let (amount, direction) = (crate::explain::amount(skew), crate::explain::direction(skew));
            tracing::warn!("the clock of this machine is {amount} {direction} against the control plane's");
        }
        if is_same {
            tracing::info!(
                "the control plane gave the same certificate again: new evidence is needed for a longer one"
            );
        } else {
            let what = match how {
                How::Kept => "kept",
                How::Enrolled => "enrolled",
                How::Reattested => "attested again",
                How::Renewed => "renewed",
            };
            let Identity { runner_id, tenant, serial, not_after, .. } = &identity;
            tracing::info!(%runner_id, %tenant, %serial, %not_after, "{what}");
            (self.on_certificate)(how, &identity);
        }
        self.tell_ready(&identity);
        let delay = delay_for(&identity);
        if is_same {
            // The evidence that was just used up may be replaced before the certificate ends.
            let watch = Watch::Evidence(self.enroller.last_fingerprint().cloned());
            return Wait { next: Next::Attest, until: Span::new(now, delay), watch };
        }
        Wait { next: next_for(&identity), until: Span::new(now, delay), watch: Watch::Nothing }
    }

    /// Runs the command for a new certificate; true when a signal ended the daemon meanwhile. Then it has a little time left: it will
    /// not be run for this certificate again.
    async fn run_hook(&self, signals: &mut Signals) -> bool {
        let config = self.enroller.config();
        let (Some(command), Some(identity)) = (&config.on_renew, self.enroller.identity()) else { return false };
        hook::run_until_terminated(command, &config.state_dir, identity, signals).await
    }

    /// The table at the top of this module.
    fn failed(&mut self, tried: Next, attempted: Attempted) -> Result<Wait, Failure> {
        let Attempted { failure, fingerprint } = attempted;
        let now = self.clock.now();
        let wait = |next, delay| Wait { next, until: Span::new(now, delay), watch: Watch::Nothing };
        match failure.remedy {
            Remedy::Attest => {
                self.report(&failure, "attesting by the configured mode now");
                Ok(wait(Next::Attest, Duration::ZERO))
            }
            Remedy::Retry { after } => {
                let delay = retry_delay(&mut self.backoff, after);
                let shown = if delay < Duration::from_mins(2) { format!("{delay:.1?}") } else { in_words(delay) };
                self.report(&failure, &format!("trying again in {shown}"));
                Ok(wait(tried, delay))
            }
            Remedy::NewEvidence => {
                self.report(&failure, "waiting for new evidence");
                Ok(Wait { watch: Watch::Evidence(fingerprint), ..wait(tried, REFUSED_PAUSE) })
            }
            Remedy::Person if self.is_live() => {
                let left = self.life.as_ref().map(|life| life.left(&now)).unwrap_or_default();
                let (left_text, pause) = (in_words(left), in_words(REFUSED_PAUSE));
                let then = format!("keeping the certificate, which lives for {left_text}, and trying again in {pause}");
                self.report(&failure, &then);
                Ok(wait(tried, REFUSED_PAUSE.min(left.max(Duration::from_millis(100)))))
            }
            Remedy::Person => {
                self.note(&failure, "ended: only a person can help");
                Err(failure)
            }
        }
    }

    /// Says what happened and what follows; hints once for the same message.
    fn report(&mut self, failure: &Failure, then: &str) {
        let status = format!("{}; {then}", failure.message);
        let problem = failure.problem.as_deref();
        let code = problem.map(|problem| problem.code.as_str());
        let reason = problem.and_then(|problem| problem.reason).map(protocol::Reason::as_str);
        let message = &failure.message;
        match failure.class {
            Class::Refused => tracing::error!(class = "refused", code, reason, "refused: {message}; {then}"),
            Class::Unreachable => tracing::warn!(class = "unreachable", code, reason, "{message}; {then}"),
            Class::Configuration => tracing::error!(class = "configuration", "{message}; {then}"),
        }
        if self.last_message != *message {
            for hint in &failure.hints {
                tracing::warn!("hint: {hint}");
            }
            self.last_message.clone_from(message);
        }
        self.note(failure, then);
        if self.is_live() && !self.is_ready {
            service::ready(&status);
            self.is_ready = true;
        } else {
            service::status(&status);
        }
    }

    /// Keeps it for `runner status`.
    fn note(&self, failure: &Failure, then: &str) {
        let Failure { class, message, hints, .. } = failure.clone();
        let time = self.clock.now().wall;
        self.enroller.note_failure(&LastFailure { time, class, message, hints, then: then.to_owned() });
    }

    fn tell_ready(&mut self, identity: &Identity) {
        let status =
            format!("runner {} of {}, certificate until {}", identity.runner_id, identity.tenant, identity.not_after);
        if self.is_ready {
            service::status(&status);
        } else {
            service::ready(&status);
            self.is_ready = true;
        }
    }

    /// Sleeps in short pieces until the time has come, the evidence changed, or a signal arrived.
    async fn wait(&self, wait: &Wait, signals: &mut Signals) -> Option<Signal> {
        let mut seen = self.clock.now();
        loop {
            let now = self.clock.now();
            let jump = now.jump_since(&seen);
            if jump.abs() >= JUMP {
                let (amount, to) = (crate::explain::amount(jump), if jump.is_negative() { "back" } else { "ahead" });
                tracing::info!("the clock of this machine went {amount} {to}");
            }
            seen = now;
            let left = wait.until.left(&now);
            if left.is_zero() {
                return None;
            }
            let longest =
                if matches!(wait.watch, Watch::Nothing) { LONGEST_SLEEP } else { self.enroller.evidence_pause() };
            tokio::select! {
                biased;
                signal = signals.next() => return Some(signal),
                () = tokio::time::sleep(left.min(longest)) => {}
            }
            let Watch::Evidence(used) = &wait.watch else { continue };
            tokio::select! {
                biased;
                signal = signals.next() => return Some(signal),
                present = self.enroller.fingerprint() => if present.is_some() && present != *used {
                    tracing::info!("the evidence has changed: trying again");
                    return None;
                },
            }
        }
    }
}

/// When to act on a certificate: at half of its life ±10 %, never at once and never at its very end.
fn delay_for(identity: &Identity) -> Duration {
    let life = identity.lifetime();
    jittered(identity.renewal_delay()).clamp(life.mul_f64(0.1), life.mul_f64(0.95)).max(SHORTEST)
}

fn next_for(identity: &Identity) -> Next {
    if identity.must_attest_instead_of_renewing() { Next::Attest } else { Next::Renew }
}

fn in_words(duration: Duration) -> String {
    crate::explain::amount(jiff::SignedDuration::try_from(duration).unwrap_or(jiff::SignedDuration::MAX))
}

/// ±10 %, so that a fleet that started together does not renew together.
fn jittered(delay: Duration) -> Duration {
    delay.mul_f64(0.9 + 0.2 * fastrand::f64())
}

/// Growing with each failure, and not before the time that the other side named.
fn retry_delay(backoff: &mut ExponentialBackoff, after: Option<Duration>) -> Duration {
    backoff.next().unwrap_or(REFUSED_PAUSE).max(after.map(spread).unwrap_or_default())
}

/// Not before the time that the other side named, and not all at that time.
fn spread(after: Duration) -> Duration {
    after + after.min(Duration::from_secs(30)).mul_f64(0.2 * fastrand::f64())
}

#[cfg(test)]
mod tests;
