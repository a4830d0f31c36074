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

#[cfg(test)]
mod tests {
    use std::borrow::Cow;

    use protocol::attestation::RenewalProof;
    use protocol::{AwsStsEvidence, Code, MtlsRenewalEvidence};

    use super::*;

    fn text(length: usize) -> Cow<'static, str> {
        "x".repeat(length).into()
    }

    fn headers(of: impl IntoIterator<Item = (usize, usize)>) -> Attestation<'static> {
        let headers = of.into_iter().map(|(name, value)| (text(name), text(value))).collect();
        Attestation::AwsSts(AwsStsEvidence { region: text(0), headers, body: text(0) })
    }

    fn renewal(certificate: usize, signature: usize) -> Attestation<'static> {
        let proof = RenewalProof { certificate: text(certificate), timestamp: 0, signature: text(signature) };
        Attestation::MtlsRenewal(MtlsRenewalEvidence { proof: Some(proof) })
    }

    /// PROTOCOL, Limits: each from both sides, to the octet.
    #[test]
    fn every_field_has_its_limit() {
        const KIB: usize = 1024;
        let all_of_24_kib = [(KIB, 3 * KIB); 6];
        for (within, above) in [
            (
                Attestation::BootstrapToken { token: text(16 * KIB) },
                Attestation::BootstrapToken { token: text(16 * KIB + 1) },
            ),
            (Attestation::GkeOidc { token: text(16 * KIB) }, Attestation::GkeOidc { token: text(16 * KIB + 1) }),
            (Attestation::EksOidc { token: text(16 * KIB) }, Attestation::EksOidc { token: text(16 * KIB + 1) }),
            (renewal(16 * KIB, 1), renewal(16 * KIB + 1, 1)),
            (renewal(1, 4 * KIB), renewal(1, 4 * KIB + 1)),
            (headers([(1, 1); 16]), headers([(1, 1); 17])),
            (headers([(4 * KIB, 0)]), headers([(4 * KIB + 1, 0)])),
            (headers([(0, 4 * KIB)]), headers([(0, 4 * KIB + 1)])),
            (headers(all_of_24_kib), headers(all_of_24_kib.into_iter().chain([(0, 1)]))),
            (headers(all_of_24_kib), headers(all_of_24_kib.into_iter().chain([(1, 0)]))),
        ] {
            assert_eq!(check_limits(&within), Ok(()));
            assert_eq!(check_limits(&above).unwrap_err().code, Code::MalformedRequest);
        }
        assert_eq!(check_limits(&Attestation::MtlsRenewal(MtlsRenewalEvidence { proof: None })), Ok(()));
    }

    /// The session token of AWS is long; only it, whatever its case.
    #[test]
    fn one_header_may_be_16_kib() {
        let of = |name: &'static str, length: usize| {
            let headers = vec![(name.into(), text(length))];
            check_limits(&Attestation::AwsSts(AwsStsEvidence { region: text(0), headers, body: text(0) })).is_ok()
        };
        for name in ["x-amz-security-token", "X-Amz-Security-Token"] {
            assert!(of(name, 16 * 1024) && !of(name, 16 * 1024 + 1), "{name}");
        }
        assert!(!of("x-amz-security-tokens", 16 * 1024));
    }
}
