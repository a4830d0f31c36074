//! One attempt to get a certificate, by attestation or by renewal: key, evidence, call, check, store.
//!
//! Shared by `enroll` (once) and `run` (again and again). When to try is [`crate::renewal`]'s part.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use protocol::{Attestation, EnrollRequest, Reason};
use zeroize::Zeroize as _;

use crate::clock::{Clock, Moment};
use crate::config::Config;
use crate::control_plane::{Answer, CallError, ControlPlane, Route};
use crate::evidence::mtls_renewal::MtlsRenewal;
use crate::evidence::{self, Binding, Evidence, EvidenceSource, Facts, Fingerprint};
use crate::explain::{self, Context};
use crate::failure::{Failure, Remedy};
use crate::identity::Identity;
use crate::identity_store::{IdentityStore, LastFailure, State};
use crate::key::{Key, KeyError};

/// How a certificate was got.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum How {
    /// It was there and is live.
    Kept,
    /// First attestation in this state directory.
    Enrolled,
    /// Attestation with the key of the present certificate.
    Reattested,
    /// Renewal.
    Renewed,
}

/// An attempt that gave no certificate, and the material that it was made of.
#[derive(Debug)]
pub struct Attempted {
    /// What went wrong.
    pub failure: Failure,
    /// What has to change before [`Remedy::NewEvidence`] is over.
    pub fingerprint: Option<Fingerprint>,
}

impl From<Failure> for Attempted {
    fn from(failure: Failure) -> Self {
        Self { failure, fingerprint: None }
    }
}

impl From<KeyError> for Attempted {
    fn from(error: KeyError) -> Self {
        Failure::configuration(format!("cannot make a key: {error}")).into()
    }
}

/// A state directory, a source of evidence, and a control plane.
pub struct Enroller {
    config: Config,
    control_plane: ControlPlane,
    source: Box<dyn EvidenceSource>,
    store: IdentityStore,
    state: State,
    /// When the present certificate arrived, if in this process.
    received: Option<Moment>,
    last_fingerprint: Option<Fingerprint>,
    clock: Arc<dyn Clock>,
}

impl Enroller {
    /// Locks the state directory and reads it. No network.
    pub fn open(config: Config, clock: Arc<dyn Clock>) -> Result<Self, Failure> {
        let control_plane = ControlPlane::new(&config, Arc::clone(&clock))?;
        let source = evidence::source(&config);
        let mut store = IdentityStore::open(&config.state_dir)?;
        let state = store.load(config.control_plane.as_str(), config.method.mode())?;
        Ok(Self { config, control_plane, source, store, state, received: None, last_fingerprint: None, clock })
    }

    /// The present certificate, live or not.
    pub const fn identity(&self) -> Option<&Identity> {
        self.state.identity.as_ref()
    }

    /// The settings.
    pub const fn config(&self) -> &Config {
        &self.config
    }

    /// The material of evidence as it is now.
    pub async fn fingerprint(&self) -> Option<Fingerprint> {
        self.source.fingerprint().await
    }

    /// The material of the last evidence that was sent.
    pub const fn last_fingerprint(&self) -> Option<&Fingerprint> {
        self.last_fingerprint.as_ref()
    }

    /// Keeps what went wrong for `runner status`.
    pub fn note_failure(&self, failure: &LastFailure) {
        self.store.note_failure(failure);
    }

    /// How often to look at it for a change.
    pub fn evidence_pause(&self) -> Duration {
        self.source.pause()
    }

    /// Attests by the configured mode, with the key of the present certificate where there is one (PROTOCOL, Enroll).
    pub async fn attest(&mut self) -> Result<How, Attempted> {
        let how = if self.state.identity.is_some() { How::Reattested } else { How::Enrolled };
        let key = match &self.state.key {
            Some(key) => key.clone(),
            None => self.pending_key()?,
        };
        let csr = key.csr()?;
        let now = self.clock.now().wall;
        let binding = Binding { audience: &self.config.audience, key: &key, csr: &csr, now };
        let evidence = match self.source.collect(binding).await {
            Ok(evidence) => evidence,
            Err(failure) => return Err(Attempted { failure, fingerprint: self.source.fingerprint().await }),
        };
        self.exchange(Route::Enroll, &key, &csr.pem, evidence).await.map_err(|(mut attempted, _)| {
            // Only a renewal can be sent back to attestation.
            if attempted.failure.remedy == Remedy::Attest {
                attempted.failure.remedy = Remedy::Person;
            }
            attempted
        })?;
        Ok(how)
    }

    /// Renews the present certificate with a new key, which is kept until it is certified.
    pub async fn renew(&mut self) -> Result<How, Attempted> {
        let identity = self.state.identity.as_ref().zip(self.state.key.clone());
        let Some((identity, present)) = identity else {
            return Err(Failure::configuration("there is no certificate to renew").into());
        };
        let leaf = identity.leaf().map_err(|error| Failure::configuration(error.to_string()))?;
        let stated = self.server_time();
        let key = self.pending_key()?;
        let csr = key.csr()?;
        let source = MtlsRenewal { key: present, leaf_pem: leaf.pem, leaf_der: leaf.der };
        let mut now = stated;
        for corrected in [false, true] {
            let binding = Binding { audience: &self.config.audience, key: &key, csr: &csr, now };
            let evidence = source.collect(binding).await?;
            match self.exchange(Route::Renew, &key, &csr.pem, evidence).await {
                Ok(()) => return Ok(How::Renewed),
                Err((_, Some(server_time))) if !corrected => {
                    tracing::warn!(
                        "the clock of this machine is wrong: renewing by the control plane's clock, {server_time}"
                    );
                    now = server_time;
                }
                Err((attempted, _)) => return Err(attempted),
            }
        }
        unreachable!("the second attempt returns")
    }

    /// Sends, checks, stores. Beside a refusal for a wrong clock, the right time.
    async fn exchange(
        &mut self,
        route: Route,
        key: &Key,
        csr: &str,
        evidence: Evidence,
    ) -> Result<(), (Attempted, Option<Timestamp>)> {
        let Evidence { attestation, facts } = evidence;
        self.last_fingerprint.clone_from(&facts.fingerprint);
        let mut request = EnrollRequest { csr: Cow::Borrowed(csr), attestation };
        let outcome = self.control_plane.request(route, &request).await;
        wipe(&mut request.attestation);
        let outcome = outcome.and_then(|answer| {
            let url = self.config.control_plane.as_str();
            Identity::from_answer(&answer, key, url, self.config.method.mode())
                .map(|identity| (identity, answer))
                .map_err(|error| CallError::Unusable(error.to_string()))
        });
        match outcome {
            Ok((identity, answer)) => self.accept(identity, key, &answer).map_err(|failure| (failure.into(), None)),
            Err(error) => Err(self.explain(&error, &facts)),
        }
    }

    fn accept(&mut self, identity: Identity, key: &Key, answer: &Answer) -> Result<(), Failure> {
        self.store.commit(&identity, key)?;
        self.state = State { identity: Some(identity), key: Some(key.clone()), ..State::default() };
        self.received = Some(answer.received);
        Ok(())
    }

    fn explain(&self, error: &CallError, facts: &Facts) -> (Attempted, Option<Timestamp>) {
        let context = Context { url: self.control_plane.url(), facts, now: self.clock.now().wall };
        let right_time = match error {
            CallError::Problem { problem, .. } if problem.reason == Some(Reason::ProofInvalid) => problem
                .server_time
                .parse::<Timestamp>()
                .ok()
                .filter(|server| server.duration_since(facts.made_at).abs().as_secs() >= 60),
            _ => None,
        };
        let failure = explain::call(error, context);
        (Attempted { failure, fingerprint: facts.fingerprint.clone() }, right_time)
    }

    /// The key of an unanswered request, or a new one, on disk before it is used.
    fn pending_key(&mut self) -> Result<Key, Attempted> {
        if let Some(key) = &self.state.pending {
            return Ok(key.clone());
        }
        let key = Key::generate()?;
        self.store.store_pending(&key)?;
        self.state.pending = Some(key.clone());
        Ok(key)
    }

    /// The control plane's time, as far as it is known.
    fn server_time(&self) -> Timestamp {
        let now = self.clock.now();
        match (&self.state.identity, &self.received) {
            (Some(identity), Some(received)) => identity.server_time_at(received, &now),
            _ => now.wall,
        }
    }
}

/// Overwrites what is secret in evidence that was sent.
fn wipe(attestation: &mut Attestation<'_>) {
    let wipe = |text: &mut Cow<'_, str>| {
        if let Cow::Owned(text) = text {
            text.zeroize();
        }
    };
    match attestation {
        Attestation::BootstrapToken { token } | Attestation::GkeOidc { token } | Attestation::EksOidc { token } => {
            wipe(token);
        }
        Attestation::AwsSts(evidence) => evidence.headers.iter_mut().for_each(|(_, value)| wipe(value)),
        Attestation::MtlsRenewal(_) => {}
    }
}
