//! `gke-oidc` and `eks-oidc`: the projected ServiceAccount token that the kubelet writes and rotates.
//!
//! The token is read by path for every attempt. Its claims are looked at, unverified, only to say before the network what this
//! machine can know (it has expired on disk) and to explain a refusal. Judging it is the verifier's part.

use std::borrow::Cow;
use std::path::PathBuf;

use async_trait::async_trait;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jiff::Timestamp;
use protocol::{Attestation, Mode};
use serde::Deserialize;

use super::{Binding, Detail, Evidence, EvidenceSource, Facts, Fingerprint};
use crate::config::Platform;
use crate::failure::{Class, Failure, Remedy};
use crate::output::one_line;
use crate::token_file;

/// Leeway that the verifier grants to `exp` (CHECKS K5).
const LEEWAY: jiff::SignedDuration = jiff::SignedDuration::from_secs(30);

/// Source of [`Attestation::GkeOidc`] and [`Attestation::EksOidc`].
#[derive(Debug)]
pub struct KubernetesOidc {
    platform: Platform,
    path: PathBuf,
}

/// What can be read in a token without verifying it.
#[derive(Debug, Clone, Default)]
pub struct TokenFacts {
    /// File it was read from.
    pub path: PathBuf,
    /// Claims; `None` when the text is not a JWT.
    pub claims: Option<Claims>,
}

/// The claims that matter here, unverified.
#[derive(Debug, Clone, Default, Deserialize)]
pub struct Claims {
    /// Issuer.
    #[serde(default)]
    pub iss: Option<String>,
    /// Subject.
    #[serde(default)]
    pub sub: Option<String>,
    /// Audiences.
    #[serde(default)]
    pub aud: Audiences,
    /// End, Unix seconds.
    #[serde(default)]
    pub exp: Option<f64>,
    /// Start, Unix seconds.
    #[serde(default)]
    pub nbf: Option<f64>,
    /// What the API server says about pod and account.
    #[serde(default, rename = "kubernetes.io")]
    pub kubernetes: Option<KubernetesClaims>,
}

/// The `kubernetes.io` claim.
#[derive(Debug, Clone, Default, Deserialize)]
pub struct KubernetesClaims {
    /// The pod that a bound token belongs to.
    #[serde(default)]
    pub pod: Option<serde_json::Value>,
}

/// `aud`: one text or several.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(untagged)]
pub enum Audiences {
    /// Absent, or of another type.
    #[default]
    None,
    /// One.
    One(String),
    /// Several.
    Many(Vec<String>),
}

impl Audiences {
    /// All of them.
    pub fn all(&self) -> Vec<&str> {
        match self {
            Self::None => Vec::new(),
            Self::One(one) => vec![one],
            Self::Many(many) => many.iter().map(String::as_str).collect(),
        }
    }
}

impl std::fmt::Display for Audiences {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.all().as_slice() {
            [] => f.write_str("none"),
            all => f.write_str(&one_line(&all.join(", "))),
        }
    }
}

impl Claims {
    /// Reads the payload of a compact JWS.
    pub fn peek(token: &str) -> Option<Self> {
        let mut parts = token.split('.');
        let (_, payload, _, None) = (parts.next()?, parts.next()?, parts.next()?, parts.next()) else { return None };
        serde_json::from_slice(&URL_SAFE_NO_PAD.decode(payload).ok()?).ok()
    }

    /// End of the token.
    pub fn expires_at(&self) -> Option<Timestamp> {
        self.exp.and_then(seconds)
    }

    /// Whether the token names a pod: a token made with `kubectl create token` does not.
    pub fn is_bound_to_pod(&self) -> bool {
        self.kubernetes.as_ref().is_some_and(|claims| claims.pod.is_some())
    }
}

#[expect(clippy::cast_possible_truncation, reason = "checked by jiff: out of range is None")]
fn seconds(number: f64) -> Option<Timestamp> {
    number.is_finite().then(|| Timestamp::from_second(number as i64).ok()).flatten()
}

impl KubernetesOidc {
    /// A source for the token at `path`.
    pub const fn new(platform: Platform, path: PathBuf) -> Self {
        Self { platform, path }
    }

    /// What this machine can know before the network.
    fn precheck(&self, claims: &Claims, now: Timestamp) -> Result<(), Failure> {
        match claims.expires_at() {
            Some(end) if now.duration_since(end) > LEEWAY => {
                Err(Failure::new(
                    Class::Refused,
                    Remedy::NewEvidence,
                    format!(
                        "the projected token at {} expired at {end} and the kubelet has not rotated it (this machine's clock says {now:.0})",
                        self.path.display()
                    ),
                )
                .hint("look at the pod's volume and the kubelet's log; a token that was copied into place is never rotated")
                .hint("if the clock of this machine is wrong, set it"))
            }
            _ => Ok(()),
        }
    }

    fn warn_of_audience(&self, claims: &Claims, audience: &str) {
        if !claims.aud.all().contains(&audience) {
            tracing::warn!(
                token_audience = %claims.aud,
                runner_audience = audience,
                "the token at {} is for another audience than this runner names; the control plane will refuse one of the two: \
                 set `audience` of the serviceAccountToken volume, or RUNNER_AUDIENCE, to the audience of its policy",
                self.path.display()
            );
        }
    }
}

#[async_trait]
impl EvidenceSource for KubernetesOidc {
    fn mode(&self) -> Mode {
        self.platform.mode()
    }

    async fn collect(&self, binding: Binding<'_>) -> Result<Evidence, Failure> {
        let token = token_file::read(&self.path).map_err(|error| self.platform.token_failure(&self.path, &error))?;
        let claims = Claims::peek(&token);
        if let Some(claims) = &claims {
            self.precheck(claims, binding.now)?;
            self.warn_of_audience(claims, binding.audience);
        }
        let facts = Facts {
            mode: self.mode(),
            audience: binding.audience.to_owned(),
            made_at: binding.now,
            fingerprint: Some(Fingerprint::of(&[token.as_bytes()])),
            detail: Detail::Kubernetes(TokenFacts { path: self.path.clone(), claims }),
        };
        let token = Cow::Owned(token.to_string());
        let attestation = match self.platform {
            Platform::Gke => Attestation::GkeOidc { token },
            Platform::Eks => Attestation::EksOidc { token },
        };
        Ok(Evidence { attestation, facts })
    }

    async fn fingerprint(&self) -> Option<Fingerprint> {
        token_file::read(&self.path).ok().map(|token| Fingerprint::of(&[token.as_bytes()]))
    }
}
