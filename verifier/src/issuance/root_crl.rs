//! The root's CRL (CHECKS I7): which issuing CAs below it are no longer to be trusted.
//!
//! It exists because relying parties that check the whole chain need a list for every CA in it. It is signed on the operator's machine whenever
//! an issuing CA is made or revoked; each list carries on what the one before it said.
//!
//! Out of scope: where lists are kept.

use der::Decode;
use x509_cert::crl::CertificateList;
use x509_cert::ext::pkix::{CrlNumber, CrlReason};

use super::ca::{AuthorityError, ISSUING_LIFETIME};
use super::crl::{CrlDraft, CrlEntry, SignedCrl};
use super::issuing_ca::CaCertificate;
use super::signed::Signed;
use super::{RevocationReason, Serial, pem};
use crate::UnixTime;
use crate::ports::{IssuingKey, SignatureVerifier};

/// What the root's list says.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RootCrl {
    number: u64,
    entries: Vec<CrlEntry>,
}

impl RootCrl {
    /// The list that `root` signed last, PEM.
    pub async fn read(
        text: &str,
        root: &CaCertificate,
        verifier: &impl SignatureVerifier,
    ) -> Result<Self, AuthorityError> {
        let der = pem::decode_one("X509 CRL", text).ok_or(AuthorityError::RootCrl)?;
        let genuine = Signed::from_der(&der)?.is_by(root.key(), verifier).await?;
        let list = CertificateList::from_der(&der)?.tbs_cert_list;
        if !genuine || list.issuer != *root.certificate().tbs_certificate().subject() {
            return Err(AuthorityError::RootCrl);
        }
        let mut number = None;
        for extension in list.crl_extensions.iter().flatten().filter(|extension| extension.extn_id == CRL_NUMBER) {
            number = number_of(&CrlNumber::from_der(extension.extn_value.as_bytes())?);
        }
        let revoked = list.revoked_certificates.unwrap_or_default();
        let entries: Option<Vec<CrlEntry>> = revoked.iter().map(entry).collect();
        Ok(Self { number: number.ok_or(AuthorityError::RootCrl)?, entries: entries.ok_or(AuthorityError::RootCrl)? })
    }

    /// Whether `certificate` is on it.
    pub fn lists(&self, certificate: &CaCertificate) -> bool {
        serial_of(certificate).is_some_and(|serial| self.entries.iter().any(|entry| entry.serial == serial))
    }

    /// Puts an issuing CA below `root` on it, whose key is no longer its owner's alone.
    pub async fn revoke(
        &mut self,
        certificate: &CaCertificate,
        root: &CaCertificate,
        now: UnixTime,
        verifier: &impl SignatureVerifier,
    ) -> Result<(), AuthorityError> {
        let signed = Signed::from_der(certificate.der())?;
        if certificate == root || !certificate.names_issuer(root) || !signed.is_by(root.key(), verifier).await? {
            return Err(AuthorityError::NotBelow { certificate: certificate.subject(), root: root.subject() });
        }
        let serial = serial_of(certificate).ok_or_else(|| AuthorityError::Serial(certificate.subject()))?;
        if !self.lists(certificate) {
            self.entries.push(CrlEntry { serial, revoked_at: now, reason: RevocationReason::CaCompromise });
        }
        Ok(())
    }

    /// The next list, from now until the last issuing CA that can exist now has ended. Its number grows: it is the time, or one more than before.
    pub async fn sign(
        &self,
        root: &CaCertificate,
        root_key: &impl IssuingKey,
        now: UnixTime,
    ) -> Result<SignedCrl, AuthorityError> {
        let draft = CrlDraft {
            number: u64::try_from(now.secs()).unwrap_or_default().max(self.number.saturating_add(1)),
            this_update: now,
            next_update: now.plus(ISSUING_LIFETIME).min(root.not_after()),
            entries: self.entries.clone(),
        };
        Ok(draft.sign(root, root_key).await?)
    }
}

const CRL_NUMBER: der::oid::ObjectIdentifier = <CrlNumber as der::oid::AssociatedOid>::OID;
const CRL_REASON: der::oid::ObjectIdentifier = <CrlReason as der::oid::AssociatedOid>::OID;

fn serial_of(certificate: &CaCertificate) -> Option<Serial> {
    Serial::from_x509(certificate.certificate().tbs_certificate().serial_number())
}

fn number_of(number: &CrlNumber) -> Option<u64> {
    let octets = number.0.as_bytes();
    let mut whole = [0; 8];
    whole.get_mut(8_usize.checked_sub(octets.len())?..)?.copy_from_slice(octets);
    Some(u64::from_be_bytes(whole))
}

/// An entry of a list made here; a list of another make is not carried on.
fn entry(revoked: &x509_cert::crl::RevokedCert) -> Option<CrlEntry> {
    let reasons = revoked.crl_entry_extensions.iter().flatten().filter(|extension| extension.extn_id == CRL_REASON);
    let code = reasons.map(|extension| CrlReason::from_der(extension.extn_value.as_bytes()).ok()).next()??;
    Some(CrlEntry {
        serial: Serial::from_x509(&revoked.serial_number)?,
        revoked_at: UnixTime::from_secs(i64::try_from(revoked.revocation_date.to_unix_duration().as_secs()).ok()?),
        reason: RevocationReason::from_code(code as u8)?,
    })
}
