//! The CA that issues, as configured: its certificate, those above it and before it, and the roots.
//!
//! Read and checked once per isolate, so that a wrong secret is found before the first certificate and not by the first TLS handshake.

use der::referenced::OwnedToRef;
use der::{Decode, Encode};
use thiserror::Error;
use x509_cert::certificate::{Certificate, Version};
use x509_cert::ext::pkix::{AuthorityKeyIdentifier, BasicConstraints, KeyUsage, SubjectKeyIdentifier};

use super::signed::Signed;
use super::spki::SpkiError;
use super::{name, pem};
use crate::UnixTime;
use crate::keys::{KeyMaterial, PublicKey};
use crate::ports::{BackendError, SignatureVerifier};

/// Why CA certificates are not usable. Texts name the certificate by its subject.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum CaError {
    /// Broken PEM, or a block that is no certificate.
    #[error("not a series of PEM blocks labelled CERTIFICATE")]
    Pem,
    /// No certificate at all.
    #[error("holds no certificate")]
    Empty,
    /// Not a version 3 certificate in DER.
    #[error("a certificate is not X.509 version 3 in DER")]
    Malformed,
    /// Basic constraints or key usage forbid it to issue.
    #[error("{0} is not a CA that may sign certificates")]
    NotACa(String),
    /// The issuing CA may not sign CRLs.
    #[error("{0} may not sign CRLs")]
    NoCrlSign(String),
    /// An unusable key.
    #[error("{0}: {1}")]
    Key(String, SpkiError),
    /// The issuing CA's key is of another kind.
    #[error("{0} must have a P-256 key")]
    NotP256(String),
    /// No subject key identifier.
    #[error("{0} has no subject key identifier")]
    NoKeyIdentifier(String),
    /// No root or listed CA is its issuer.
    #[error("{0} was issued by none of the CAs and roots given")]
    UnknownIssuer(String),
    /// A CA stands below one whose path length forbids it.
    #[error("{0} is deeper below its root than a path length allows")]
    PathLength(String),
    /// A signature in the chain is wrong.
    #[error("{0} is not signed by its issuer")]
    Signature(String),
    /// The signature could not be checked.
    #[error(transparent)]
    Backend(#[from] BackendError),
}

/// A CA certificate that may sign certificates, with a key this crate can verify by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CaCertificate {
    der: Vec<u8>,
    certificate: Certificate,
    key: PublicKey,
    key_identifier: Vec<u8>,
    authority_key_identifier: Option<Vec<u8>>,
    path_length: Option<u8>,
    signs_crls: bool,
}

impl CaCertificate {
    /// Parses and checks one certificate.
    pub fn from_der(der: Vec<u8>) -> Result<Self, CaError> {
        let certificate = Certificate::from_der(&der).map_err(|_| CaError::Malformed)?;
        let tbs = certificate.tbs_certificate();
        if tbs.version() != Version::V3 {
            return Err(CaError::Malformed);
        }
        let name = name::readable(tbs.subject());
        let (_, constraints) = extension::<BasicConstraints>(&certificate)?.ok_or(CaError::NotACa(name.clone()))?;
        let (_, usage) = extension::<KeyUsage>(&certificate)?.ok_or(CaError::NotACa(name.clone()))?;
        if !constraints.ca || !usage.key_cert_sign() {
            return Err(CaError::NotACa(name));
        }
        let (_, identifier) =
            extension::<SubjectKeyIdentifier>(&certificate)?.ok_or(CaError::NoKeyIdentifier(name.clone()))?;
        let authority = extension::<AuthorityKeyIdentifier>(&certificate)?.and_then(|(_, aki)| aki.key_identifier);
        let key = PublicKey::from_spki(&tbs.subject_public_key_info().owned_to_ref())
            .map_err(|error| CaError::Key(name, error))?;
        Ok(Self {
            key,
            key_identifier: identifier.0.as_bytes().to_vec(),
            authority_key_identifier: authority.map(|identifier| identifier.as_bytes().to_vec()),
            path_length: constraints.path_len_constraint,
            signs_crls: usage.crl_sign(),
            certificate,
            der,
        })
    }

    /// Every certificate of a PEM file, at least one.
    pub fn all_from_pem(text: &str) -> Result<Vec<Self>, CaError> {
        let ders = pem::certificates(text).ok_or(CaError::Pem)?;
        if ders.is_empty() {
            return Err(CaError::Empty);
        }
        ders.into_iter().map(Self::from_der).collect()
    }

    /// DER.
    pub fn der(&self) -> &[u8] {
        &self.der
    }

    /// PEM.
    pub fn to_pem(&self) -> String {
        pem::encode("CERTIFICATE", &self.der).unwrap_or_default()
    }

    /// As `x509-cert` reads it.
    pub const fn certificate(&self) -> &Certificate {
        &self.certificate
    }

    /// Its public key.
    pub const fn key(&self) -> &PublicKey {
        &self.key
    }

    /// Subject key identifier.
    pub fn key_identifier(&self) -> &[u8] {
        &self.key_identifier
    }

    /// Subject in RFC 4514 form.
    pub fn subject(&self) -> String {
        name::readable(self.certificate.tbs_certificate().subject())
    }

    /// First second it is valid.
    pub fn not_before(&self) -> UnixTime {
        UnixTime::from_der(self.certificate.tbs_certificate().validity().not_before.to_date_time())
    }

    /// Last second it is valid.
    pub fn not_after(&self) -> UnixTime {
        UnixTime::from_der(self.certificate.tbs_certificate().validity().not_after.to_date_time())
    }

    /// Whether `self` names `issuer` as its issuer, by name and, where it says so, by key (RFC 5280 sections 4.1.2.4, 4.2.1.1).
    pub(super) fn names_issuer(&self, issuer: &Self) -> bool {
        self.certificate.tbs_certificate().issuer() == issuer.certificate.tbs_certificate().subject()
            && self.authority_key_identifier.as_ref().is_none_or(|identifier| *identifier == issuer.key_identifier)
    }

    fn is_p256(&self) -> bool {
        matches!(self.key.material(), KeyMaterial::P256(_))
    }
}

fn extension<'a, T>(certificate: &'a Certificate) -> Result<Option<(bool, T)>, CaError>
where
    T: Decode<'a, Error = der::Error> + der::oid::AssociatedOid,
{
    certificate.tbs_certificate().get_extension::<T>().map_err(|_| CaError::Malformed)
}

/// The issuing CA with everything around it.
#[derive(Debug, Clone)]
pub struct IssuingCa {
    /// The issuing CA first, then the rest as configured.
    listed: Vec<CaCertificate>,
    issuing: CaCertificate,
    roots: Vec<CaCertificate>,
    chain_pem: String,
    roots_pem: String,
    not_after: UnixTime,
}

impl IssuingCa {
    /// `certificates`: the issuing CA first; then, in any order, intermediates between it and a root, and former issuing CAs whose
    /// certificates are still about (rotation). `roots`: the trust bundle. Both PEM.
    pub fn from_pem(certificates: &str, roots: &str) -> Result<Self, CaError> {
        let listed = CaCertificate::all_from_pem(certificates)?;
        let roots = CaCertificate::all_from_pem(roots)?;
        let issuing = listed.first().ok_or(CaError::Empty)?.clone();
        if !issuing.is_p256() {
            return Err(CaError::NotP256(issuing.subject()));
        }
        if !issuing.signs_crls {
            return Err(CaError::NoCrlSign(issuing.subject()));
        }
        for certificate in &listed {
            path(certificate, &listed, &roots)?;
        }
        let above = path(&issuing, &listed, &roots)?;
        let chain = std::iter::once(&issuing).chain(above.iter().copied());
        let not_after = chain.clone().map(CaCertificate::not_after).min().unwrap_or(issuing.not_after());
        let chain_pem = chain.filter(|certificate| !roots.contains(certificate)).map(CaCertificate::to_pem).collect();
        let roots_pem = roots.iter().map(CaCertificate::to_pem).collect();
        Ok(Self { listed, issuing, roots, chain_pem, roots_pem, not_after })
    }

    /// Checks every signature of the chains: what [`Self::from_pem`] cannot, for want of a back end.
    pub async fn verify_signatures(&self, verifier: &impl SignatureVerifier) -> Result<(), CaError> {
        for certificate in &self.listed {
            if self.roots.contains(certificate) {
                continue;
            }
            let signed = Signed::from_der(&certificate.der).map_err(|_| CaError::Malformed)?;
            let mut genuine = false;
            for issuer in self.listed.iter().chain(&self.roots).filter(|issuer| certificate.names_issuer(issuer)) {
                genuine = genuine || signed.is_by(&issuer.key, verifier).await?;
            }
            if !genuine {
                return Err(CaError::Signature(certificate.subject()));
            }
        }
        Ok(())
    }

    /// The CA whose key signs now.
    pub const fn issuing(&self) -> &CaCertificate {
        &self.issuing
    }

    /// Its public key: what the private key in the secrets must match.
    pub const fn public_key(&self) -> &PublicKey {
        &self.issuing.key
    }

    /// Last second that every certificate from the issuing CA up to the root is valid: no runner's certificate ends later (CHECKS I2).
    pub const fn not_after(&self) -> UnixTime {
        self.not_after
    }

    /// The issuing CA and intermediates below the root, PEM: what follows a leaf.
    pub fn chain_pem(&self) -> &str {
        &self.chain_pem
    }

    /// The trust bundle, PEM, re-encoded: nothing but certificates is ever published.
    pub fn roots_pem(&self) -> &str {
        &self.roots_pem
    }

    /// The issuing CA and the former ones: those whose runner certificates are genuine. A listed CA that issued another listed CA
    /// is a link between, and no issuer of runners.
    pub fn issuers(&self) -> impl Iterator<Item = &CaCertificate> {
        self.listed.iter().filter(|issuer| {
            issuer.is_p256()
                && (*issuer == &self.issuing
                    || !self.listed.iter().any(|other| other != *issuer && other.names_issuer(issuer)))
        })
    }
}

/// The CAs above `certificate`, nearest first, a root last; empty when it is a root itself. Checks path lengths
/// (RFC 5280 section 4.2.1.9).
fn path<'a>(
    certificate: &'a CaCertificate,
    listed: &'a [CaCertificate],
    roots: &'a [CaCertificate],
) -> Result<Vec<&'a CaCertificate>, CaError> {
    let mut above: Vec<&CaCertificate> = Vec::new();
    let mut current = certificate;
    while !roots.contains(current) {
        let next = roots
            .iter()
            .chain(listed)
            .find(|issuer| *issuer != current && !above.contains(issuer) && current.names_issuer(issuer))
            .ok_or_else(|| CaError::UnknownIssuer(current.subject()))?;
        if next.path_length.is_some_and(|longest| usize::from(longest) <= above.len()) {
            return Err(CaError::PathLength(certificate.subject()));
        }
        above.push(next);
        current = next;
    }
    Ok(above)
}

impl IssuingCa {
    /// Subject of the issuing CA, DER: the issuer field of what it signs.
    pub fn issuer_name_der(&self) -> Result<Vec<u8>, CaError> {
        self.issuing.certificate.tbs_certificate().subject().to_der().map_err(|_| CaError::Malformed)
    }
}
