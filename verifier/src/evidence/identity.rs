//! What evidence proved. Only the modules of this room can make these types, so holding one is the proof.

use protocol::{Mode, Reason};
use serde::{Deserialize, Serialize};

use crate::UnixTime;

/// Outcome of the verify step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum VerifiedEvidence {
    /// `aws-sts`, `gke-oidc`, `eks-oidc`: an identity that the policy's rules are matched against.
    Identity(VerifiedIdentity),
    /// `bootstrap-token`: a claim that only the tenant's object can settle (CHECKS B1).
    Bootstrap(BootstrapClaim),
}

/// An identity proven by evidence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VerifiedIdentity {
    principal: Principal,
    evidence: EvidenceUse,
}

impl VerifiedIdentity {
    /// For the modules of this room only: every check of the mode has passed.
    pub(in crate::evidence) const fn new(principal: Principal, evidence: EvidenceUse) -> Self {
        Self { principal, evidence }
    }

    /// An identity that nothing proved.
    #[cfg(test)]
    pub(crate) const fn for_tests(principal: Principal, evidence: EvidenceUse) -> Self {
        Self::new(principal, evidence)
    }

    /// Who.
    pub const fn principal(&self) -> &Principal {
        &self.principal
    }

    /// Which use of which evidence, for replay.
    pub const fn evidence(&self) -> &EvidenceUse {
        &self.evidence
    }
}

/// Who was proven: what rules match against, and what the registry records.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Principal {
    /// `aws-sts`.
    Aws(AwsPrincipal),
    /// `gke-oidc`, `eks-oidc`.
    Kubernetes(KubernetesPrincipal),
    /// `bootstrap-token`: the token itself.
    Bootstrap {
        /// Public part of the token.
        token_id: String,
    },
}

/// Kinds of IAM principal that are accepted (CHECKS S12).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PrincipalKind {
    /// An assumed role.
    Role,
    /// An IAM user.
    User,
}

/// CHECKS S13.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AwsPrincipal {
    /// `aws`, `aws-cn`, `aws-us-gov`, `aws-eusc`.
    pub partition: String,
    /// 12 digits.
    pub account: String,
    /// Role or user.
    pub kind: PrincipalKind,
    /// Role name (STS drops the path), or path and name of a user.
    pub name: String,
    /// Session name of an assumed role: the caller's choice.
    pub session: Option<String>,
    /// `AROA…` or `AIDA…`: the part of `UserId` before the colon.
    pub unique_id: String,
    /// STS `UserId`, whole.
    pub user_id: String,
}

/// CHECKS K3, K6.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KubernetesPrincipal {
    /// `gke-oidc` or `eks-oidc`.
    pub mode: Mode,
    /// `iss`, exactly.
    pub issuer: String,
    /// Namespace.
    pub namespace: String,
    /// ServiceAccount name.
    pub service_account: String,
    /// Pod name, for display.
    pub pod_name: String,
    /// Pod uid.
    pub pod_uid: String,
}

impl Principal {
    /// Mode of the evidence that proves such a principal.
    pub const fn mode(&self) -> Mode {
        match self {
            Self::Aws(_) => Mode::AwsSts,
            Self::Kubernetes(principal) => principal.mode,
            Self::Bootstrap { .. } => Mode::BootstrapToken,
        }
    }

    /// Canonical identity text (PROTOCOL, Identity text).
    pub fn identity(&self) -> String {
        match self {
            Self::Aws(p) => {
                let kind = match p.kind {
                    PrincipalKind::Role => "role",
                    PrincipalKind::User => "user",
                };
                format!("arn:{}:iam::{}:{kind}/{}", p.partition, p.account, p.name)
            }
            Self::Kubernetes(p) => {
                format!("{}#system:serviceaccount:{}:{}", p.issuer, p.namespace, p.service_account)
            }
            Self::Bootstrap { token_id } => format!("bootstrap-token:{token_id}"),
        }
    }

    /// What stands behind the runner (PROTOCOL, Identity text).
    pub fn instance(&self) -> String {
        match self {
            Self::Aws(p) => p.user_id.clone(),
            Self::Kubernetes(p) => p.pod_uid.clone(),
            Self::Bootstrap { .. } => self.identity(),
        }
    }
}

/// A use of evidence, remembered so that it counts for one key only (CHECKS K7; PROTOCOL, Serials).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EvidenceUse {
    /// SHA-256 of (issuer, `jti` or signing input), or of the SigV4 Signature; lower-case hex, domain-separated by mode.
    pub digest: String,
    /// How long the use must be remembered.
    pub until: UnixTime,
    /// Reason of the refusal when another key brings it.
    pub reason: Reason,
}

/// A bootstrap token as presented: grammar checked, nothing else.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BootstrapClaim {
    /// Tenant named by the token.
    pub tenant: String,
    /// Public part.
    pub id: String,
    /// SHA-256 of the whole token, lower-case hex.
    pub secret_sha256: String,
}
