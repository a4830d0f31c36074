//! Certificates are encoded by `x509-cert`, signed by a key that lives elsewhere.

use der::asn1::{BitString, OctetString};
use der::{Document, Encode};
use signature::Keypair;
use thiserror::Error;
use x509_cert::attr::AttributeTypeAndValue;
use x509_cert::builder::profile::BuilderProfile;
use x509_cert::builder::{Builder, CertificateBuilder};
use x509_cert::ext::Extension;
use x509_cert::ext::pkix::{AuthorityKeyIdentifier, SubjectKeyIdentifier};
use x509_cert::name::{Name, RelativeDistinguishedName};
use x509_cert::spki::{
    self, AlgorithmIdentifierOwned, DynSignatureAlgorithmIdentifier, EncodePublicKey, SubjectPublicKeyInfoOwned,
    SubjectPublicKeyInfoRef,
};
use x509_cert::time::{Time, Validity};

use super::serial::Serial;
use super::signed::{ecdsa_to_der, ecdsa_with_sha256};
use super::spki::key_identifier;
use crate::UnixTime;
use crate::ports::{BackendError, IssuingKey};

/// A certificate or CRL could not be made: a fault of ours or of the back end, never of the request.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum SigningError {
    /// The content cannot be written as DER.
    #[error("encoding: {0}")]
    Encoding(String),
    /// The signing key did not answer.
    #[error(transparent)]
    Backend(#[from] BackendError),
}

impl From<der::Error> for SigningError {
    fn from(error: der::Error) -> Self {
        Self::Encoding(error.to_string())
    }
}

impl From<x509_cert::builder::Error> for SigningError {
    fn from(error: x509_cert::builder::Error) -> Self {
        Self::Encoding(error.to_string())
    }
}

/// Everything of a certificate but its signature.
pub(super) struct Draft {
    pub serial: Serial,
    pub not_before: UnixTime,
    pub not_after: UnixTime,
    pub issuer: Name,
    pub subject: Name,
    pub subject_key: SubjectPublicKeyInfoOwned,
    /// Whole: the builder adds none.
    pub extensions: Vec<Extension>,
    /// The issuer's own SubjectPublicKeyInfo.
    pub issuer_key: SubjectPublicKeyInfoOwned,
}

impl Draft {
    /// The certificate, DER.
    pub async fn sign(self, key: &impl IssuingKey) -> Result<Vec<u8>, SigningError> {
        let validity = Validity::new(x509_time(self.not_before)?, x509_time(self.not_after)?);
        let profile = Fixed { issuer: self.issuer, subject: self.subject, extensions: self.extensions };
        let signer = Elsewhere(self.issuer_key);
        let mut builder = CertificateBuilder::new(profile, self.serial.to_x509()?, validity, self.subject_key)?;
        let message = Builder::finalize(&mut builder, &signer)?;
        let signature = BitString::from_bytes(&ecdsa_to_der(&key.sign(&message).await?)?)?;
        Ok(Builder::assemble(builder, signature, &signer)?.to_der()?)
    }
}

/// UTCTime before 2050, GeneralizedTime from then on (RFC 5280 section 4.1.2.5).
pub(super) fn x509_time(time: UnixTime) -> Result<Time, SigningError> {
    time.to_der().map(Time::from).ok_or_else(|| SigningError::Encoding("time out of range".to_owned()))
}

/// A name of one attribute per RDN, in this order, each a UTF8String.
pub(super) fn name(attributes: &[(der::asn1::ObjectIdentifier, &str)]) -> der::Result<Name> {
    let rdns = attributes
        .iter()
        .map(|(oid, value)| {
            let value = der::Any::encode_from(&der::asn1::Utf8StringRef::new(value)?)?;
            RelativeDistinguishedName::try_from(vec![AttributeTypeAndValue { oid: *oid, value }])
        })
        .collect::<der::Result<Vec<_>>>()?;
    der::Decode::from_der(&rdns.to_der()?)
}

/// SKI of `key`.
pub(super) fn subject_key_identifier(key: &SubjectPublicKeyInfoOwned) -> der::Result<SubjectKeyIdentifier> {
    Ok(SubjectKeyIdentifier(OctetString::new(key_identifier(&key.subject_public_key))?))
}

/// AKI that names a key by its identifier alone.
pub(super) fn authority_key_identifier(identifier: &[u8]) -> der::Result<AuthorityKeyIdentifier> {
    Ok(AuthorityKeyIdentifier { key_identifier: Some(OctetString::new(identifier)?), ..Default::default() })
}

/// Hands the builder what has been decided already.
struct Fixed {
    issuer: Name,
    subject: Name,
    extensions: Vec<Extension>,
}

impl BuilderProfile for Fixed {
    fn get_issuer(&self, _subject: &Name) -> Name {
        self.issuer.clone()
    }

    fn get_subject(&self) -> Name {
        self.subject.clone()
    }

    fn build_extensions(
        &self,
        _subject_key: SubjectPublicKeyInfoRef<'_>,
        _issuer_key: SubjectPublicKeyInfoRef<'_>,
        _tbs: &x509_cert::TbsCertificate,
    ) -> x509_cert::builder::Result<Vec<Extension>> {
        Ok(self.extensions.clone())
    }
}

/// Stands in for the signing key: the builder asks it only for its algorithm and public half.
struct Elsewhere(SubjectPublicKeyInfoOwned);

#[derive(Clone)]
struct ElsewhereKey(SubjectPublicKeyInfoOwned);

impl Keypair for Elsewhere {
    type VerifyingKey = ElsewhereKey;

    fn verifying_key(&self) -> ElsewhereKey {
        ElsewhereKey(self.0.clone())
    }
}

impl EncodePublicKey for ElsewhereKey {
    fn to_public_key_der(&self) -> spki::Result<Document> {
        Document::try_from(&self.0)
    }
}

impl DynSignatureAlgorithmIdentifier for Elsewhere {
    fn signature_algorithm_identifier(&self) -> spki::Result<AlgorithmIdentifierOwned> {
        Ok(ecdsa_with_sha256())
    }
}
