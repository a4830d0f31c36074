//! `mtls-renewal`: proof of possession of the key of the present certificate (PROTOCOL, Renew).
//!
//! No configurable mode: [`crate::enrolment`] uses it while the certificate lives.

use std::borrow::Cow;

use async_trait::async_trait;
use protocol::attestation::{MtlsRenewalEvidence, RenewalProof};
use protocol::{Attestation, Mode};

use super::{Binding, Detail, Evidence, EvidenceSource, Facts, Fingerprint};
use crate::failure::Failure;
use crate::key::{Key, sha256_b64};

/// Source of [`Attestation::MtlsRenewal`].
#[derive(Debug)]
pub struct MtlsRenewal {
    /// Key of the present certificate.
    pub key: Key,
    /// The leaf, PEM.
    pub leaf_pem: String,
    /// The leaf, DER.
    pub leaf_der: Vec<u8>,
}

#[async_trait]
impl EvidenceSource for MtlsRenewal {
    fn mode(&self) -> Mode {
        Mode::MtlsRenewal
    }

    async fn collect(&self, binding: Binding<'_>) -> Result<Evidence, Failure> {
        let timestamp = binding.now.as_second();
        let text = protocol::renewal_text(
            binding.audience,
            timestamp,
            &sha256_b64(&self.leaf_der),
            &sha256_b64(&binding.csr.der),
        );
        let proof = RenewalProof {
            certificate: Cow::Owned(self.leaf_pem.clone()),
            timestamp,
            signature: Cow::Owned(self.key.sign_es256(text.as_bytes())),
        };
        let facts = Facts {
            mode: Mode::MtlsRenewal,
            audience: binding.audience.to_owned(),
            made_at: binding.now,
            fingerprint: None,
            detail: Detail::MtlsRenewal,
        };
        Ok(Evidence { attestation: Attestation::MtlsRenewal(MtlsRenewalEvidence { proof: Some(proof) }), facts })
    }

    async fn fingerprint(&self) -> Option<Fingerprint> {
        None
    }
}
