//! The one certificate profile of runners (CHECKS I2, RFC 5280 section 4, SPIFFE X509-SVID).
//!
//! | field | value |
//! |---|---|
//! | version, signature | v3, ecdsa-with-SHA256 |
//! | serial, validity, subject | as allotted: O = tenant, CN = runner id |
//! | public key | the CSR's, and nothing else of it |
//! | basic constraints | critical, not a CA |
//! | key usage, extended key usage | critical `digitalSignature`; `clientAuth` |
//! | subject alternative name | the SPIFFE id, one URI |
//! | key identifiers | subject's and authority's |
//! | CRL distribution point | when the policy has `crl_url` |

use der::asn1::Ia5String;
use der::oid::db::{rfc4519, rfc5280};
use protocol::Code;
use x509_cert::ext::pkix::crl::dp::DistributionPoint;
use x509_cert::ext::pkix::name::{DistributionPointName, GeneralName};
use x509_cert::ext::pkix::{
    BasicConstraints, CrlDistributionPoints, ExtendedKeyUsage, KeyUsage, KeyUsages, SubjectAltName,
};
use x509_cert::ext::{Extension, ToExtension};
use x509_cert::name::Name;

use super::builder::{Draft, SigningError, authority_key_identifier, name, subject_key_identifier};
use super::csr::VerifiedCsr;
use super::issuing_ca::IssuingCa;
use super::{Serial, pem};
use crate::encoding::hex;
use crate::ports::IssuingKey;
use crate::registry::Allotment;
use crate::{Denial, UnixTime};

/// A runner's certificate, signed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IssuedCertificate {
    /// Leaf, DER.
    pub der: Vec<u8>,
    /// Leaf and intermediates, PEM.
    pub chain_pem: String,
    /// The id in its subject alternative name.
    pub spiffe_id: String,
    /// First second it is valid.
    pub not_before: UnixTime,
    /// Last second it is valid.
    pub not_after: UnixTime,
}

/// `spiffe://<trust_domain>/tenant/<tenant>/runner/<runner_id>`.
pub fn spiffe_id(trust_domain: &str, tenant: &str, runner_id: &str) -> String {
    ["spiffe://", trust_domain, "/tenant/", tenant, "/runner/", runner_id].concat()
}

/// Signs what was allotted. Refuses an allotment for another key than the CSR's, or one that outlives the CA: faults of ours, never
/// of the caller's.
pub async fn issue(
    allotment: &Allotment,
    csr: &VerifiedCsr,
    ca: &IssuingCa,
    trust_domain: &str,
    crl_url: Option<&str>,
    key: &impl IssuingKey,
) -> Result<IssuedCertificate, Denial> {
    let internal = |why: &str| Denial::new(Code::Internal, ["issuance: ", why].concat());
    if allotment.spki_sha256 != hex(csr.spki_sha256()) {
        return Err(internal("the allotment is for another key"));
    }
    if trust_domain.is_empty() {
        return Err(internal("no trust domain"));
    }
    if allotment.not_after > ca.not_after() || allotment.not_after <= allotment.not_before {
        return Err(internal("the allotted validity is not within the issuing CA's"));
    }
    let serial = Serial::from_hex(&allotment.serial).ok_or_else(|| internal("the allotted serial is malformed"))?;
    let spiffe_id = spiffe_id(trust_domain, &allotment.tenant, &allotment.runner_id);
    let leaf = async {
        let subject = subject(&allotment.tenant, &allotment.runner_id)?;
        let issuer = ca.issuing().certificate().tbs_certificate();
        let draft = Draft {
            serial,
            not_before: allotment.not_before,
            not_after: allotment.not_after,
            issuer: issuer.subject().clone(),
            extensions: extensions(csr, ca, &spiffe_id, crl_url, &subject)?,
            subject,
            subject_key: csr.spki().clone(),
        };
        draft.sign(key).await
    };
    let der = leaf.await.map_err(|error: SigningError| internal(&error.to_string()))?;
    let leaf_pem = pem::encode("CERTIFICATE", &der).ok_or_else(|| internal("PEM"))?;
    Ok(IssuedCertificate {
        der,
        chain_pem: [&leaf_pem, ca.chain_pem()].concat(),
        spiffe_id,
        not_before: allotment.not_before,
        not_after: allotment.not_after,
    })
}

fn subject(tenant: &str, runner_id: &str) -> der::Result<Name> {
    name(&[(rfc4519::ORGANIZATION_NAME, tenant), (rfc4519::COMMON_NAME, runner_id)])
}

fn extensions(
    csr: &VerifiedCsr,
    ca: &IssuingCa,
    spiffe_id: &str,
    crl_url: Option<&str>,
    subject: &Name,
) -> der::Result<Vec<Extension>> {
    let mut extensions = vec![
        (true, &BasicConstraints { ca: false, path_len_constraint: None }).to_extension(subject, &[])?,
        (true, &KeyUsage(KeyUsages::DigitalSignature.into())).to_extension(subject, &[])?,
        (false, &ExtendedKeyUsage(vec![rfc5280::ID_KP_CLIENT_AUTH])).to_extension(subject, &[])?,
        (false, &subject_key_identifier(csr.spki())?).to_extension(subject, &[])?,
        (false, &authority_key_identifier(ca.issuing().key_identifier())?).to_extension(subject, &[])?,
        (false, &SubjectAltName(vec![uri(spiffe_id)?])).to_extension(subject, &[])?,
    ];
    if let Some(url) = crl_url {
        let point = DistributionPoint {
            distribution_point: Some(DistributionPointName::FullName(vec![uri(url)?])),
            reasons: None,
            crl_issuer: None,
        };
        extensions.push((false, &CrlDistributionPoints(vec![point])).to_extension(subject, &[])?);
    }
    Ok(extensions)
}

fn uri(text: &str) -> der::Result<GeneralName> {
    Ok(GeneralName::UniformResourceIdentifier(Ia5String::new(text)?))
}
