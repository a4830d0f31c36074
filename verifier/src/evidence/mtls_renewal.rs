//! `mtls-renewal`: a certificate that this verifier issued, and proof that the caller holds its key (CHECKS I4, I8; PROTOCOL, Renew).
//!
//! ```text
//! octets ──► PresentedCertificate ──► GenuineCertificate ──► ProvenCertificate ──► RenewCommand
//!    (parse)                  (ours, in date,         (signature over the renewal text,
//!                              our profile)            or the edge's TLS handshake)
//! ```
//!
//! The certificate comes in the body or from the edge that terminated mutual TLS; what is asked of it is the same. Request headers that claim a
//! client certificate are never read.
//!
//! Out of scope: whether the serial is known, current, retired or revoked: that is the record's, in the tenant's object.

use base64::Engine as _;
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use der::oid::db::{rfc4519, rfc5280};
use der::referenced::OwnedToRef;
use der::{Decode, Encode};
use protocol::attestation::RenewalProof;
use protocol::{Code, MtlsRenewalEvidence, Reason, limits, renewal_text};
use x509_cert::attr::AttributeTypeAndValue;
use x509_cert::certificate::{Certificate, Version};
use x509_cert::ext::Extension;
use x509_cert::ext::pkix::name::GeneralName;
use x509_cert::ext::pkix::{
    AuthorityKeyIdentifier, BasicConstraints, CrlDistributionPoints, ExtendedKeyUsage, KeyUsage, KeyUsages,
    SubjectAltName, SubjectKeyIdentifier,
};

use super::bootstrap_token::is_tenant_id;
use crate::appraisal::Rule;
use crate::checks::Check;
use crate::encoding::{b64url, from_b64url, hex, sha256, shown};
use crate::issuance::signed::{Signed, ecdsa_with_sha256};
use crate::issuance::{CaCertificate, IssuingCa, Serial, VerifiedCsr, pem, spiffe_id};
use crate::keys::PublicKey;
use crate::ports::SignatureVerifier;
use crate::registry::{CertificateTerms, RenewCommand};
use crate::{Denial, UnixTime};

/// Seconds that the proof's timestamp may be off, either way.
pub const TIMESTAMP_TOLERANCE: u64 = 300;

/// What a renewal is held against.
#[derive(Debug, Clone, Copy)]
pub struct Expectations<'a> {
    /// Our CAs, present and former.
    pub ca: &'a IssuingCa,
    /// The policy's trust domain.
    pub trust_domain: &'a str,
    /// The policy's audience.
    pub audience: &'a str,
    /// The verifier's clock.
    pub now: UnixTime,
}

/// Verifies renewal evidence for `csr`: the whole of CHECKS I4 and I8 that needs no record.
///
/// With an edge certificate the TLS handshake is the proof; a body that is there as well must carry the same certificate and a valid proof.
pub async fn verify(
    evidence: &MtlsRenewalEvidence<'_>,
    edge: Option<&EdgeClientCertificate>,
    csr: &VerifiedCsr,
    expectations: &Expectations<'_>,
    verifier: &impl SignatureVerifier,
) -> Result<ProvenCertificate, Denial> {
    let body = evidence.proof.as_ref().map(|proof| PresentedCertificate::from_pem(&proof.certificate)).transpose()?;
    let presented = match (edge, body) {
        (Some(edge), Some(body)) if edge.der != body.der => {
            return Err(certificate_invalid("the certificate in the body is not the one of the TLS connection"));
        }
        (_, Some(body)) => body,
        (Some(edge), None) => PresentedCertificate::from_der(edge.der.clone())?,
        (None, None) => {
            return Err(certificate_invalid(
                "no client certificate came with the TLS connection: send certificate, timestamp and signature",
            ));
        }
    };
    let genuine = presented.verify(expectations, verifier).await?;
    match &evidence.proof {
        Some(proof) => genuine.prove(proof, csr, expectations, verifier).await,
        None => Ok(ProvenCertificate(genuine.0)),
    }
}

/// The fields of the edge's TLS report that count, as text; absent ones are `None`.
#[derive(Debug, Clone, Copy, Default)]
pub struct EdgeTlsFields<'a> {
    /// `certVerified`.
    pub verified: Option<&'a str>,
    /// `certRevoked`.
    pub revoked: Option<&'a str>,
    /// `certRFC9440`.
    pub rfc9440: Option<&'a str>,
}

/// A client certificate whose key the edge saw used in the TLS handshake (CHECKS I8).
///
/// The edge vouches for possession only: its verdict says that *some* CA of the zone matched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EdgeClientCertificate {
    der: Vec<u8>,
}

impl EdgeClientCertificate {
    /// `None` unless the edge verified the certificate, does not call it revoked, and passed it whole: the other fields are filled
    /// in even when verification failed.
    pub fn from_edge(fields: EdgeTlsFields<'_>) -> Result<Option<Self>, Denial> {
        let revoked = !matches!(fields.revoked, None | Some("" | "0" | "false"));
        let (Some("SUCCESS"), false, Some(text)) = (fields.verified, revoked, fields.rfc9440) else {
            return Ok(None);
        };
        if text.is_empty() {
            return Ok(None);
        }
        let der = byte_sequence(text)
            .filter(|der| der.len() <= limits::CERTIFICATE)
            .ok_or_else(|| certificate_invalid("the edge passed a certificate that is not an RFC 9440 value"))?;
        Ok(Some(Self { der }))
    }
}

/// Byte sequence of RFC 8941 section 3.3.5: base64 between colons, padding not required.
fn byte_sequence(text: &str) -> Option<Vec<u8>> {
    const B64: GeneralPurpose = GeneralPurpose::new(
        &STANDARD,
        GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
    );
    B64.decode(text.strip_prefix(':')?.strip_suffix(':')?).ok()
}

/// A certificate as presented: parsed, its claims not yet to be believed.
#[derive(Debug, Clone)]
pub struct PresentedCertificate {
    der: Vec<u8>,
    certificate: Certificate,
}

impl PresentedCertificate {
    /// From one PEM block.
    pub fn from_pem(text: &str) -> Result<Self, Denial> {
        if text.len() > limits::CERTIFICATE {
            return Err(Denial::malformed("attestation.certificate is longer than 16 KiB"));
        }
        let der = pem::decode_one("CERTIFICATE", text)
            .ok_or_else(|| certificate_invalid("not one PEM block labelled CERTIFICATE"))?;
        Self::from_der(der)
    }

    /// From DER; nothing may follow it.
    pub fn from_der(der: Vec<u8>) -> Result<Self, Denial> {
        let certificate =
            Certificate::from_der(&der).map_err(|_| certificate_invalid("not the DER of one X.509 certificate"))?;
        Ok(Self { der, certificate })
    }

    /// Checks that one of our issuing CAs signed it, that it is in date, and that it has the one shape we give certificates. Only then are
    /// the names in it worth reading.
    pub async fn verify(
        self,
        expectations: &Expectations<'_>,
        verifier: &impl SignatureVerifier,
    ) -> Result<GenuineCertificate, Denial> {
        let issuer = self.issuer(expectations, verifier).await?;
        let claims = Claims::read(&self, issuer, expectations.trust_domain)?;
        let now = expectations.now;
        if now < issuer.not_before() || now > issuer.not_after() {
            return Err(certificate_invalid("its issuer is not valid now"));
        }
        if now < claims.not_before {
            let from = claims.not_before.to_rfc3339();
            return Err(certificate_invalid(&["not valid before ", &from, ", it is ", &now.to_rfc3339()].concat()));
        }
        if now > claims.not_after {
            let until = claims.not_after.to_rfc3339();
            return Err(certificate_invalid(&["ended at ", &until, ", it is ", &now.to_rfc3339()].concat()));
        }
        Ok(GenuineCertificate(claims))
    }

    /// The issuing CA whose signature it carries. Names and key identifiers only select; the signature decides.
    async fn issuer<'a>(
        &self,
        expectations: &Expectations<'a>,
        verifier: &impl SignatureVerifier,
    ) -> Result<&'a CaCertificate, Denial> {
        let signed =
            Signed::from_der(&self.der).map_err(|_| certificate_invalid("not the DER of one X.509 certificate"))?;
        let named = self.certificate.tbs_certificate().issuer();
        for issuer in expectations.ca.issuers() {
            if issuer.certificate().tbs_certificate().subject() != named {
                continue;
            }
            match signed.is_by(issuer.key(), verifier).await {
                Ok(true) => return Ok(issuer),
                Ok(false) => {}
                Err(error) => return Err(Denial::new(Code::Internal, error.to_string())),
            }
        }
        Err(certificate_invalid("not issued by this verifier"))
    }
}

/// A certificate that is ours and in date. That its presenter holds the key is not proven.
#[derive(Debug, Clone)]
pub struct GenuineCertificate(Claims);

impl GenuineCertificate {
    /// Checks the proof of possession: a fresh signature by this certificate's key over this very CSR, for this audience.
    pub async fn prove(
        self,
        proof: &RenewalProof<'_>,
        csr: &VerifiedCsr,
        expectations: &Expectations<'_>,
        verifier: &impl SignatureVerifier,
    ) -> Result<ProvenCertificate, Denial> {
        let claims = self.0;
        let now = expectations.now;
        if now.secs().abs_diff(proof.timestamp) > TIMESTAMP_TOLERANCE {
            let detail = format!("timestamp {} is more than 5 min away from {}", proof.timestamp, now.secs());
            return Err(proof_invalid(&detail));
        }
        if expectations.audience.is_empty() {
            return Err(proof_invalid("this verifier has no audience"));
        }
        let signature =
            from_b64url(&proof.signature).ok_or_else(|| proof_invalid("signature is not base64url without padding"))?;
        let text = renewal_text(
            expectations.audience,
            proof.timestamp,
            &b64url(&claims.certificate_sha256),
            &b64url(csr.der_sha256()),
        );
        match verifier.verify(&claims.key, claims.key.algorithm(), text.as_bytes(), &signature).await {
            Ok(true) => Ok(ProvenCertificate(claims)),
            Ok(false) => Err(proof_invalid(
                "the signature is not by the certificate's key over this audience, timestamp, certificate and csr",
            )),
            Err(error) => Err(Denial::new(Code::Internal, error.to_string())),
        }
    }
}

/// A certificate of ours whose key the caller holds: the right to ask for its successor.
#[derive(Debug, Clone)]
pub struct ProvenCertificate(Claims);

impl ProvenCertificate {
    /// Tenant named by the certificate.
    pub fn tenant(&self) -> &str {
        &self.0.tenant
    }

    /// Runner named by the certificate.
    pub fn runner_id(&self) -> &str {
        &self.0.runner_id
    }

    /// Its serial.
    pub const fn serial(&self) -> Serial {
        self.0.serial
    }

    /// SHA-256 of its SubjectPublicKeyInfo.
    pub const fn spki_sha256(&self) -> &[u8; 32] {
        &self.0.spki_sha256
    }

    /// The call to the tenant's object: rules of the tenant as they are now, `None` when the policy no longer has it.
    pub fn into_command(
        self,
        csr: &VerifiedCsr,
        rules: Option<Vec<Rule>>,
        policy_version: u64,
        terms: CertificateTerms,
        request_id: &str,
    ) -> RenewCommand {
        RenewCommand {
            presented_serial: self.0.serial.to_hex(),
            presented_spki_sha256: hex(&self.0.spki_sha256),
            tenant: self.0.tenant,
            runner_id: self.0.runner_id,
            spki_sha256: hex(csr.spki_sha256()),
            rules,
            policy_version,
            terms,
            request_id: request_id.to_owned(),
        }
    }
}

/// What a certificate says, read only from one that has our profile.
#[derive(Debug, Clone)]
struct Claims {
    tenant: String,
    runner_id: String,
    serial: Serial,
    not_before: UnixTime,
    not_after: UnixTime,
    key: PublicKey,
    spki_sha256: [u8; 32],
    certificate_sha256: [u8; 32],
}

impl Claims {
    /// Every line of CHECKS I2, in reverse.
    fn read(presented: &PresentedCertificate, issuer: &CaCertificate, trust_domain: &str) -> Result<Self, Denial> {
        let certificate = &presented.certificate;
        let tbs = certificate.tbs_certificate();
        let plain = tbs.version() == Version::V3
            && tbs.issuer_unique_id().is_none()
            && tbs.subject_unique_id().is_none()
            && *tbs.signature() == ecdsa_with_sha256()
            && *certificate.signature_algorithm() == ecdsa_with_sha256();
        if !plain {
            return Err(not_ours("version or algorithm"));
        }
        let (tenant, runner_id) = subject_names(certificate).ok_or_else(|| not_ours("subject"))?;
        let spiffe_id = spiffe_id(trust_domain, &tenant, &runner_id);
        check_extensions(tbs.extensions().map_or(&[], Vec::as_slice), issuer, &spiffe_id)?;
        let spki = tbs.subject_public_key_info();
        Ok(Self {
            serial: Serial::from_x509(tbs.serial_number()).ok_or_else(|| not_ours("serial"))?,
            not_before: UnixTime::from_der(tbs.validity().not_before.to_date_time()),
            not_after: UnixTime::from_der(tbs.validity().not_after.to_date_time()),
            key: PublicKey::from_spki(&spki.owned_to_ref()).map_err(|_| not_ours("public key"))?,
            spki_sha256: sha256(&spki.to_der().map_err(|_| not_ours("public key"))?),
            certificate_sha256: sha256(&presented.der),
            tenant,
            runner_id,
        })
    }
}

/// O and CN, when the subject is exactly these two in this order and each could be ours.
fn subject_names(certificate: &Certificate) -> Option<(String, String)> {
    let subject = certificate.tbs_certificate().subject();
    let mut rdns = subject.iter_rdn();
    let (first, second, none) = (rdns.next()?, rdns.next()?, rdns.next());
    if none.is_some() || first.len() != 1 || second.len() != 1 {
        return None;
    }
    let text = |attribute: &AttributeTypeAndValue, oid| {
        if attribute.oid == oid { attribute.value.decode_as::<String>().ok() } else { None }
    };
    let tenant = text(first.iter().next()?, rfc4519::ORGANIZATION_NAME)?;
    let runner_id = text(second.iter().next()?, rfc4519::COMMON_NAME)?;
    (is_tenant_id(&tenant) && is_runner_id(&runner_id)).then_some((tenant, runner_id))
}

/// 26 characters of lower-case base32 (PROTOCOL, Runner id).
fn is_runner_id(text: &str) -> bool {
    text.len() == 26 && text.bytes().all(|byte| matches!(byte, b'a'..=b'z' | b'2'..=b'7'))
}

/// Each extension of the profile once, critical where the profile says so, and no other. The CRL distribution point may be any: the policy
/// changes it.
fn check_extensions(extensions: &[Extension], issuer: &CaCertificate, spiffe_id: &str) -> Result<(), Denial> {
    let mut required = vec![
        rfc5280::ID_CE_BASIC_CONSTRAINTS,
        rfc5280::ID_CE_KEY_USAGE,
        rfc5280::ID_CE_EXT_KEY_USAGE,
        rfc5280::ID_CE_SUBJECT_ALT_NAME,
        rfc5280::ID_CE_SUBJECT_KEY_IDENTIFIER,
        rfc5280::ID_CE_AUTHORITY_KEY_IDENTIFIER,
    ];
    let mut optional = vec![rfc5280::ID_CE_CRL_DISTRIBUTION_POINTS];
    for extension in extensions {
        let before = (required.len(), optional.len());
        required.retain(|oid| *oid != extension.extn_id);
        optional.retain(|oid| *oid != extension.extn_id);
        if before == (required.len(), optional.len()) {
            return Err(not_ours(&["unknown or repeated extension ", &extension.extn_id.to_string()].concat()));
        }
        check_extension(extension, issuer, spiffe_id)?;
    }
    match required.first() {
        Some(missing) => Err(not_ours(&["no extension ", &missing.to_string()].concat())),
        None => Ok(()),
    }
}

fn check_extension(extension: &Extension, issuer: &CaCertificate, spiffe_id: &str) -> Result<(), Denial> {
    let value = extension.extn_value.as_bytes();
    let (critical, fits, what) = match extension.extn_id {
        rfc5280::ID_CE_BASIC_CONSTRAINTS => {
            let end_entity = BasicConstraints { ca: false, path_len_constraint: None };
            (true, BasicConstraints::from_der(value) == Ok(end_entity), "it is a CA")
        }
        rfc5280::ID_CE_KEY_USAGE => {
            let usage = KeyUsage(KeyUsages::DigitalSignature.into());
            (true, KeyUsage::from_der(value) == Ok(usage), "key usage is not digitalSignature alone")
        }
        rfc5280::ID_CE_EXT_KEY_USAGE => {
            let usage = ExtendedKeyUsage(vec![rfc5280::ID_KP_CLIENT_AUTH]);
            (false, ExtendedKeyUsage::from_der(value) == Ok(usage), "extended key usage is not clientAuth alone")
        }
        rfc5280::ID_CE_SUBJECT_ALT_NAME => {
            let fits = SubjectAltName::from_der(value).is_ok_and(|names| is_only_uri(&names, spiffe_id));
            (false, fits, "its SPIFFE id is not that of its subject in this trust domain")
        }
        rfc5280::ID_CE_AUTHORITY_KEY_IDENTIFIER => {
            let fits = AuthorityKeyIdentifier::from_der(value).is_ok_and(|authority| {
                authority.key_identifier.is_some_and(|id| id.as_bytes() == issuer.key_identifier())
            });
            (false, fits, "its authority key identifier is not the issuer's")
        }
        rfc5280::ID_CE_SUBJECT_KEY_IDENTIFIER => {
            (false, SubjectKeyIdentifier::from_der(value).is_ok(), "subject key identifier")
        }
        _ => (false, CrlDistributionPoints::from_der(value).is_ok(), "CRL distribution point"),
    };
    if extension.critical != critical || !fits {
        return Err(not_ours(what));
    }
    Ok(())
}

fn is_only_uri(names: &SubjectAltName, uri: &str) -> bool {
    matches!(names.0.as_slice(), [GeneralName::UniformResourceIdentifier(name)] if name.as_str() == uri)
}

fn not_ours(what: &str) -> Denial {
    certificate_invalid(&["not a runner's certificate of this verifier: ", &shown(what)].concat())
}

fn certificate_invalid(why: &str) -> Denial {
    refused(Reason::CertificateInvalid, &["certificate: ", why].concat())
}

fn proof_invalid(why: &str) -> Denial {
    refused(Reason::ProofInvalid, &["proof of possession: ", why].concat())
}

fn refused(reason: Reason, detail: &str) -> Denial {
    Denial::evidence(Check::I4, reason, detail)
}
