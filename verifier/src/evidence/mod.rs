//! Parse and verify: from the octets of a request to an identity that has been proven.

pub mod aws_sts;
pub mod bootstrap_token;
pub mod identity;
pub mod kubernetes_oidc;
pub mod mtls_renewal;

pub use identity::{
    AwsPrincipal, BootstrapClaim, EvidenceUse, KubernetesPrincipal, Principal, PrincipalKind, VerifiedEvidence,
    VerifiedIdentity,
};
