//! Certificate revocation lists of our CAs (CHECKS I7, RFC 5280 section 5): complete, direct, numbered.
//!
//! Out of scope: which serials are revoked. Those come from the records, until each one's notAfter.

use der::Encode;
use serde::{Deserialize, Serialize};
use x509_cert::crl::{RevokedCert, TbsCertList};
use x509_cert::ext::ToExtension;
use x509_cert::ext::pkix::{CrlNumber, CrlReason};
use x509_cert::name::Name;

use super::builder::{self, SigningError, authority_key_identifier, x509_time};
use super::issuing_ca::CaCertificate;
use super::signed::ecdsa_with_sha256;
use super::{Serial, pem};
use crate::UnixTime;
use crate::ports::IssuingKey;

/// Seconds from thisUpdate to nextUpdate of the issuing CA's list.
pub const LIFETIME: i64 = 24 * 60 * 60;

/// Why a certificate is on the list (RFC 5280 section 5.3.1): the reasons that this system has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RevocationReason {
    /// Two holders of one serial: one of them is a thief.
    KeyCompromise,
    /// The key of an issuing CA was stolen: on the root's list only.
    CaCompromise,
    /// A full attestation replaced it.
    Superseded,
    /// The runner was evicted.
    CessationOfOperation,
    /// The runner was banned.
    PrivilegeWithdrawn,
}

impl RevocationReason {
    /// Code of RFC 5280, for storage.
    pub const fn code(self) -> u8 {
        match self {
            Self::KeyCompromise => 1,
            Self::CaCompromise => 2,
            Self::Superseded => 4,
            Self::CessationOfOperation => 5,
            Self::PrivilegeWithdrawn => 9,
        }
    }

    /// From a stored code.
    pub const fn from_code(code: u8) -> Option<Self> {
        match code {
            1 => Some(Self::KeyCompromise),
            2 => Some(Self::CaCompromise),
            4 => Some(Self::Superseded),
            5 => Some(Self::CessationOfOperation),
            9 => Some(Self::PrivilegeWithdrawn),
            _ => None,
        }
    }

    const fn x509(self) -> CrlReason {
        match self {
            Self::KeyCompromise => CrlReason::KeyCompromise,
            Self::CaCompromise => CrlReason::CaCompromise,
            Self::Superseded => CrlReason::Superseded,
            Self::CessationOfOperation => CrlReason::CessationOfOperation,
            Self::PrivilegeWithdrawn => CrlReason::PrivilegeWithdrawn,
        }
    }
}

/// One revoked certificate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CrlEntry {
    /// Its serial.
    pub serial: Serial,
    /// Since when.
    pub revoked_at: UnixTime,
    /// Why.
    pub reason: RevocationReason,
}

/// A list before it is signed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CrlDraft {
    /// Strictly greater than that of every earlier list of this CA with other content.
    pub number: u64,
    /// thisUpdate.
    pub this_update: UnixTime,
    /// nextUpdate.
    pub next_update: UnixTime,
    /// Any order; of entries with the same serial the earliest counts.
    pub entries: Vec<CrlEntry>,
}

/// A signed list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SignedCrl {
    /// `application/pkix-crl`.
    pub der: Vec<u8>,
    /// PEM.
    pub pem: String,
}

impl CrlDraft {
    /// A list of the issuing CA: from now, for [`LIFETIME`].
    pub const fn new(number: u64, now: UnixTime, entries: Vec<CrlEntry>) -> Self {
        Self { number, this_update: now, next_update: now.plus(LIFETIME), entries }
    }

    /// Signs it with `key`, which must be that of `issuer`.
    pub async fn sign(self, issuer: &CaCertificate, key: &impl IssuingKey) -> Result<SignedCrl, SigningError> {
        let der = builder::sign(&self.into_tbs(issuer)?.to_der()?, key).await?;
        let pem = pem::encode("X509 CRL", &der).ok_or_else(|| SigningError::Encoding("PEM".to_owned()))?;
        Ok(SignedCrl { der, pem })
    }

    fn into_tbs(mut self, issuer: &CaCertificate) -> Result<TbsCertList, SigningError> {
        self.entries.sort_unstable_by_key(|entry| (entry.serial, entry.revoked_at));
        self.entries.dedup_by_key(|entry| entry.serial);
        let issuer_name = issuer.certificate().tbs_certificate().subject().clone();
        let none = Name::default();
        // The builder of x509-cert would name the issuer's own issuer as the authority; this names the issuer (section 5.2.1).
        let authority = authority_key_identifier(issuer.key_identifier())?;
        let revoked = self.entries.iter().map(|entry| revoked(entry, &none)).collect::<Result<Vec<_>, _>>()?;
        Ok(TbsCertList {
            version: x509_cert::Version::V2,
            signature: ecdsa_with_sha256(),
            issuer: issuer_name,
            this_update: x509_time(self.this_update)?,
            next_update: Some(x509_time(self.next_update)?),
            revoked_certificates: (!revoked.is_empty()).then_some(revoked),
            crl_extensions: Some(vec![
                (false, &authority).to_extension(&none, &[])?,
                (false, &CrlNumber::try_from(self.number)?).to_extension(&none, &[])?,
            ]),
        })
    }
}

fn revoked(entry: &CrlEntry, none: &Name) -> Result<RevokedCert, SigningError> {
    Ok(RevokedCert {
        serial_number: entry.serial.to_x509()?,
        revocation_date: x509_time(entry.revoked_at)?,
        crl_entry_extensions: Some(vec![(false, &entry.reason.x509()).to_extension(none, &[])?]),
    })
}
