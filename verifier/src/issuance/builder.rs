//! Certificates are encoded here and signed by a key that lives elsewhere.

use der::asn1::{AnyRef, BitStringRef, OctetString};
use der::{Decode as _, Encode as _, Sequence};
use thiserror::Error;
use x509_cert::attr::AttributeTypeAndValue;
use x509_cert::certificate::Version;
use x509_cert::ext::pkix::{AuthorityKeyIdentifier, SubjectKeyIdentifier};
use x509_cert::ext::{Extension, Extensions};
use x509_cert::name::{Name, RelativeDistinguishedName};
use x509_cert::serial_number::SerialNumber;
use x509_cert::spki::{AlgorithmIdentifierOwned, SubjectPublicKeyInfoOwned};
use x509_cert::time::{Time, Validity};

use super::serial::Serial;
use super::signed::{Signed, ecdsa_to_der, ecdsa_with_sha256};
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

/// Everything of a certificate but its signature.
pub(super) struct Draft {
    pub serial: Serial,
    pub not_before: UnixTime,
    pub not_after: UnixTime,
    pub issuer: Name,
    pub subject: Name,
    pub subject_key: SubjectPublicKeyInfoOwned,
    /// Whole: nothing is added.
    pub extensions: Vec<Extension>,
}

/// Version 3, without the unique identifiers (RFC 5280 section 4.1.2).
#[derive(Sequence)]
struct TbsCertificate {
    #[asn1(context_specific = "0")]
    version: Version,
    serial_number: SerialNumber,
    signature: AlgorithmIdentifierOwned,
    issuer: Name,
    validity: Validity,
    subject: Name,
    subject_public_key_info: SubjectPublicKeyInfoOwned,
    #[asn1(context_specific = "3")]
    extensions: Extensions,
}

impl Draft {
    /// The certificate, DER.
    pub async fn sign(self, key: &impl IssuingKey) -> Result<Vec<u8>, SigningError> {
        let content = TbsCertificate {
            version: Version::V3,
            serial_number: self.serial.to_x509()?,
            signature: ecdsa_with_sha256(),
            issuer: self.issuer,
            validity: Validity::new(x509_time(self.not_before)?, x509_time(self.not_after)?),
            subject: self.subject,
            subject_public_key_info: self.subject_key,
            extensions: self.extensions,
        };
        sign(&content.to_der()?, key).await
    }
}

/// The signed form of `content`, the DER of what a certificate or a CRL says.
pub(super) async fn sign(content: &[u8], key: &impl IssuingKey) -> Result<Vec<u8>, SigningError> {
    let signature = ecdsa_to_der(&key.sign(content).await?)?;
    let algorithm = ecdsa_with_sha256();
    let signed = Signed {
        content: AnyRef::from_der(content)?,
        algorithm: der::referenced::OwnedToRef::owned_to_ref(&algorithm),
        signature: BitStringRef::from_bytes(&signature)?,
    };
    Ok(signed.to_der()?)
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
