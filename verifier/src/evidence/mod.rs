//! Parse and verify: from the octets of a request to an identity that has been proven.

pub mod aws_sts;
pub mod bootstrap_token;
pub mod identity;
pub mod kubernetes_oidc;
pub mod mtls_renewal;

use protocol::{Attestation, limits};

pub use identity::{
    AwsPrincipal, BootstrapClaim, EvidenceUse, KubernetesPrincipal, Principal, PrincipalKind, VerifiedEvidence,
    VerifiedIdentity,
};

use crate::appraisal::Policy;
use crate::jose::KeySources;
use crate::ports::Ports;
use crate::trace::Trace;
use crate::{Denial, UnixTime};

/// Field limits (PROTOCOL, Limits): before the CSR and before any check of the evidence.
pub fn check_limits(attestation: &Attestation<'_>) -> Result<(), Denial> {
    match attestation {
        Attestation::AwsSts(evidence) => aws_sts::check_limits(evidence),
        Attestation::BootstrapToken { token } | Attestation::GkeOidc { token } | Attestation::EksOidc { token } => {
            within("token", token, limits::JWT)
        }
        Attestation::MtlsRenewal(evidence) => evidence.proof.as_ref().map_or(Ok(()), |proof| {
            within("certificate", &proof.certificate, limits::CERTIFICATE)?;
            within("signature", &proof.signature, limits::HEADER)
        }),
    }
}

fn within(field: &str, text: &str, limit: usize) -> Result<(), Denial> {
    if text.len() > limit {
        return Err(Denial::malformed(format!("`attestation.{field}` is longer than {limit} octets")));
    }
    Ok(())
}

/// The checks of the evidence's own mode, in the order of CHECKS.md without K7 and B3, which are the tenant object's.
pub async fn verify(
    attestation: &Attestation<'_>,
    policy: &Policy,
    spki_sha256: &[u8; 32],
    now: UnixTime,
    ports: &impl Ports,
    trace: &mut Trace,
) -> Result<VerifiedEvidence, Denial> {
    let audience = policy.audience();
    match attestation {
        Attestation::BootstrapToken { token } => bootstrap_token::parse(token).map(VerifiedEvidence::Bootstrap),
        Attestation::AwsSts(evidence) => {
            aws_sts::CheckedRequest::check(evidence, policy.aws_sts(), audience, spki_sha256, now, trace)?
                .call(ports, trace)
                .await
                .map(VerifiedEvidence::Identity)
        }
        Attestation::GkeOidc { token } | Attestation::EksOidc { token } => {
            let keys = KeySources { cache: ports.jwks_cache(), store: ports, http: ports };
            let ports = kubernetes_oidc::Ports { keys, signatures: ports };
            kubernetes_oidc::verify(token, attestation.mode(), policy.oidc(), audience, now, &ports, trace)
                .await
                .map(VerifiedEvidence::Identity)
        }
        Attestation::MtlsRenewal(_) => Err(Denial::malformed("`mtls-renewal` proves no new identity")),
    }
}
