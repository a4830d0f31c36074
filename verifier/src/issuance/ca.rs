//! Certificate authorities made here: a root, an issuing CA below it; and a new issuing CA below a root that exists.
//!
//! Names carry the beginning of the key identifier: two generations of a CA must never share a name, or a client would hold the CRL of one
//! against the signature of the other.
//!
//! Out of scope: making and keeping private keys; the root's CRL ([`super::root_crl`]).

use der::oid::db::rfc4519;
use thiserror::Error;
use x509_cert::ext::pkix::{BasicConstraints, KeyUsage, KeyUsages};
use x509_cert::ext::{Extension, ToExtension};
use x509_cert::name::Name;
use x509_cert::spki::SubjectPublicKeyInfoOwned;

use super::builder::{Draft, SigningError, authority_key_identifier, name, subject_key_identifier};
use super::issuing_ca::{CaCertificate, CaError};
use super::serial::Serial;
use super::spki::p256_spki;
use crate::UnixTime;
use crate::encoding::hex;
use crate::keys::PublicKey;
use crate::ports::{BackendError, Entropy, IssuingKey};

/// Life of a root: ten years.
pub const ROOT_LIFETIME: i64 = 3653 * DAY;
/// Life of an issuing CA: three years.
pub const ISSUING_LIFETIME: i64 = 1096 * DAY;
const DAY: i64 = 24 * 60 * 60;
/// Clocks may be this many seconds apart.
const BACKDATED: i64 = 300;
/// `ub-organization-name` of RFC 5280 appendix A.1, characters.
const ORGANIZATION_MAX: usize = 64;

/// A CA could not be made.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum AuthorityError {
    /// Only P-256 keys are used.
    #[error("the key is not P-256")]
    NotP256,
    /// Empty, or longer than X.509 allows.
    #[error("an organization has 1 to 64 characters")]
    Organization,
    /// The root has ended, or does not exist yet.
    #[error("{0} is not valid now")]
    RootNotValid(String),
    /// Only CAs that the root signed are on its list.
    #[error("{certificate} was not issued by {root}")]
    NotBelow {
        /// The CA in question.
        certificate: String,
        /// The root.
        root: String,
    },
    /// Not 16 octets.
    #[error("the serial number of {0} is not one that was made here")]
    Serial(String),
    /// Not a list of this root.
    #[error("the root's CRL is not one that this root signed and this program made")]
    RootCrl,
    /// Encoding or signing.
    #[error(transparent)]
    Signing(#[from] SigningError),
    /// What was made does not pass our own checks.
    #[error(transparent)]
    Ca(#[from] CaError),
    /// No randomness.
    #[error(transparent)]
    Entropy(#[from] BackendError),
}

impl From<der::Error> for AuthorityError {
    fn from(error: der::Error) -> Self {
        Self::Signing(error.into())
    }
}

/// A self-signed root with path length 1, valid for [`ROOT_LIFETIME`] from now. `key` must be the private half of `public_key`.
pub async fn root(
    organization: &str,
    public_key: &PublicKey,
    key: &impl IssuingKey,
    now: UnixTime,
    entropy: &impl Entropy,
) -> Result<CaCertificate, AuthorityError> {
    let spki = p256_spki(public_key).ok_or(AuthorityError::NotP256)?;
    let subject = ca_name(organization, "Root CA", &spki)?;
    let identifier = subject_key_identifier(&spki)?;
    let draft = Draft {
        serial: Serial::random(entropy)?,
        not_before: now.plus(-BACKDATED),
        not_after: now.plus(ROOT_LIFETIME),
        issuer: subject.clone(),
        extensions: ca_extensions(&subject, &spki, identifier.0.as_bytes(), 1)?,
        subject,
        subject_key: spki,
    };
    Ok(CaCertificate::from_der(draft.sign(key).await?)?)
}

/// An issuing CA below `root` with path length 0, valid for [`ISSUING_LIFETIME`] from now or as long as the root. `root_key` must be the
/// private half of the root's key. Making another one later is a rotation: list it first and the old one after it.
pub async fn issuing(
    organization: &str,
    root: &CaCertificate,
    root_key: &impl IssuingKey,
    public_key: &PublicKey,
    now: UnixTime,
    entropy: &impl Entropy,
) -> Result<CaCertificate, AuthorityError> {
    if now > root.not_after() || now < root.not_before() {
        return Err(AuthorityError::RootNotValid(root.subject()));
    }
    let spki = p256_spki(public_key).ok_or(AuthorityError::NotP256)?;
    let subject = ca_name(organization, "Issuing CA", &spki)?;
    let issuer = root.certificate().tbs_certificate();
    let draft = Draft {
        serial: Serial::random(entropy)?,
        not_before: now.plus(-BACKDATED).max(root.not_before()),
        not_after: now.plus(ISSUING_LIFETIME).min(root.not_after()),
        issuer: issuer.subject().clone(),
        extensions: ca_extensions(&subject, &spki, root.key_identifier(), 0)?,
        subject,
        subject_key: spki,
    };
    Ok(CaCertificate::from_der(draft.sign(root_key).await?)?)
}

/// O = organization, CN = kind and the first 8 hex digits of the key identifier.
fn ca_name(organization: &str, kind: &str, key: &SubjectPublicKeyInfoOwned) -> Result<Name, AuthorityError> {
    if !(1..=ORGANIZATION_MAX).contains(&organization.chars().count()) {
        return Err(AuthorityError::Organization);
    }
    let mut generation = hex(subject_key_identifier(key)?.0.as_bytes());
    generation.truncate(8);
    let common_name = ["RootPilot Edge ", kind, " ", &generation].concat();
    Ok(name(&[(rfc4519::ORGANIZATION_NAME, organization), (rfc4519::COMMON_NAME, &common_name)])?)
}

fn ca_extensions(
    subject: &Name,
    key: &SubjectPublicKeyInfoOwned,
    issuer_key_identifier: &[u8],
    path_length: u8,
) -> der::Result<Vec<Extension>> {
    Ok(vec![
        (true, &BasicConstraints { ca: true, path_len_constraint: Some(path_length) }).to_extension(subject, &[])?,
        (true, &KeyUsage(KeyUsages::KeyCertSign | KeyUsages::CRLSign)).to_extension(subject, &[])?,
        (false, &subject_key_identifier(key)?).to_extension(subject, &[])?,
        (false, &authority_key_identifier(issuer_key_identifier)?).to_extension(subject, &[])?,
    ])
}
