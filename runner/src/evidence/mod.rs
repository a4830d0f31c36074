//! Evidence: one file for each mode, of the same name as the verifier's, behind one trait.
//!
//! A source gathers its material afresh for every attempt, and knows facts about it that explain a refusal later ([`Facts`]). It
//! never talks to the control plane.

pub mod aws_credentials;
pub mod aws_sts;
pub mod bootstrap_token;
pub mod kubernetes_oidc;
pub mod mtls_renewal;

use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;
use protocol::{Attestation, Mode};

use crate::config::{Config, Method};
use crate::failure::Failure;
use crate::key::{Csr, Key};

/// What the evidence has to be bound to.
#[derive(Debug, Clone, Copy)]
pub struct Binding<'a> {
    /// Audience of the control plane.
    pub audience: &'a str,
    /// The key to be certified.
    pub key: &'a Key,
    /// Its CSR.
    pub csr: &'a Csr,
    /// The time to state.
    pub now: Timestamp,
}

/// Evidence, and what this machine knows about it.
#[derive(Debug, Clone)]
pub struct Evidence {
    /// As it travels.
    pub attestation: Attestation<'static>,
    /// For explaining a refusal.
    pub facts: Facts,
}

/// Hash of the material that the evidence is made of: when it changes, a refusal for used or expired evidence may be over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fingerprint(String);

impl Fingerprint {
    fn of(parts: &[&[u8]]) -> Self {
        use sha2::Digest as _;
        let mut hash = sha2::Sha256::new();
        for part in parts {
            hash.update((part.len() as u64).to_be_bytes());
            hash.update(part);
        }
        Self(base64::Engine::encode(&base64::engine::general_purpose::URL_SAFE_NO_PAD, hash.finalize()))
    }
}

/// What is known locally about evidence; nothing secret.
#[derive(Debug, Clone)]
pub struct Facts {
    /// Its mode.
    pub mode: Mode,
    /// Audience that it names.
    pub audience: String,
    /// Time that it states.
    pub made_at: Timestamp,
    /// Of which material.
    pub fingerprint: Option<Fingerprint>,
    /// By mode.
    pub detail: Detail,
}

/// The part of [`Facts`] that differs by mode.
#[derive(Debug, Clone)]
pub enum Detail {
    /// `bootstrap-token`.
    BootstrapToken(bootstrap_token::TokenFacts),
    /// `aws-sts`.
    AwsSts(aws_sts::StsFacts),
    /// `gke-oidc`, `eks-oidc`.
    Kubernetes(kubernetes_oidc::TokenFacts),
    /// `mtls-renewal`.
    MtlsRenewal,
}

/// Gathers evidence of one mode.
#[async_trait]
pub trait EvidenceSource: Send + Sync {
    /// The mode.
    fn mode(&self) -> Mode;

    /// Gathers evidence bound to a key. Fails with a sentence of its own where the machine can know that it is of no use.
    async fn collect(&self, binding: Binding<'_>) -> Result<Evidence, Failure>;

    /// The material as it is now; `None` while there is none.
    async fn fingerprint(&self) -> Option<Fingerprint>;

    /// How often it is worth looking at the material for a change.
    fn pause(&self) -> Duration {
        Duration::from_secs(5)
    }
}

/// The source of the configured mode.
pub fn source(config: &Config) -> Box<dyn EvidenceSource> {
    match &config.method {
        Method::BootstrapToken(origin) => Box::new(bootstrap_token::BootstrapToken::new(origin.clone())),
        Method::AwsSts { region } => Box::new(aws_sts::AwsSts::new(region.clone())),
        Method::Kubernetes { platform, path } => {
            Box::new(kubernetes_oidc::KubernetesOidc::new(*platform, path.clone()))
        }
    }
}
