//! Renewal evidence (CHECKS I4, I8): a certificate as DER, as PEM, or as an edge passes it. Whoever signed it, only one of our profile renews, and
//! it renews the runner that its SPIFFE id names.

use std::borrow::Cow;

use pollster::block_on;
use protocol::attestation::RenewalProof;
use protocol::{MtlsRenewalEvidence, Reason};
use verifier::evidence::mtls_renewal::{
    EdgeClientCertificate, EdgeTlsFields, Expectations, PresentedCertificate, ProvenCertificate, verify,
};
use verifier::issuance::{UnverifiedCsr, VerifiedCsr, spiffe_id};
use verifier::ports::fakes::AnySignature;
use x509_cert::Certificate;
use x509_cert::der::{self, Decode as _};
use x509_cert::ext::pkix::name::GeneralName;
use x509_cert::ext::pkix::{BasicConstraints, ExtendedKeyUsage, SubjectAltName};

use crate::world::{AUDIENCE, NOW, World};

/// A CSR for the next certificate.
pub const CSR: &[u8] = include_bytes!("../../tests/vectors/csr/ok_p256.der");

/// DER; text between colons as of RFC 9440; or text that starts like PEM.
///
/// # Panics
///
/// When a property does not hold.
pub fn check(input: &[u8]) -> bool {
    let text = std::str::from_utf8(input).unwrap_or_default();
    if text.starts_with("-----BEGIN") {
        let Some(proven) = renew(Some(text), None) else { return false };
        let (_, der) = der::pem::decode_vec(input).unwrap();
        return holds(&der, &proven);
    }
    if text.starts_with(':') {
        let fields = EdgeTlsFields { verified: Some("SUCCESS"), revoked: None, rfc9440: Some(text) };
        let Ok(Some(edge)) = EdgeClientCertificate::from_edge(fields) else { return false };
        for (verified, revoked) in [("FAILED:expired", None), ("NONE", None), ("SUCCESS", Some("1"))] {
            let fields = EdgeTlsFields { verified: Some(verified), revoked, rfc9440: Some(text) };
            assert_eq!(EdgeClientCertificate::from_edge(fields), Ok(None));
        }
        return renew(None, Some(&edge)).is_some();
    }
    if PresentedCertificate::from_der(input.to_vec()).is_err() {
        return false;
    }
    assert!(PresentedCertificate::from_der([input, &[0]].concat()).is_err(), "something after it");
    let pem = der::pem::encode_string("CERTIFICATE", der::pem::LineEnding::LF, input).unwrap();
    renew(Some(&pem), None).is_some_and(|proven| holds(input, &proven))
}

fn next() -> VerifiedCsr {
    block_on(UnverifiedCsr::from_der(CSR.to_vec()).unwrap().verify(&AnySignature(true))).unwrap()
}

fn renew(body: Option<&str>, edge: Option<&EdgeClientCertificate>) -> Option<ProvenCertificate> {
    World::with(|world| {
        let expectations =
            Expectations { ca: &world.ca, trust_domain: world.policy.trust_domain(), audience: AUDIENCE, now: NOW };
        let proof = body.map(|certificate| RenewalProof {
            certificate: Cow::Borrowed(certificate),
            timestamp: NOW.secs(),
            signature: Cow::Borrowed("AAAA"),
        });
        let evidence = MtlsRenewalEvidence { proof };
        // Without a good signature nothing is renewed.
        assert!(block_on(verify(&evidence, edge, &next(), &expectations, &AnySignature(false))).is_err());
        match block_on(verify(&evidence, edge, &next(), &expectations, &AnySignature(true))) {
            Ok(proven) => Some(proven),
            Err(denial) => {
                assert!(denial.reason.is_none_or(|reason| reason == Reason::CertificateInvalid), "{denial:?}");
                None
            }
        }
    })
}

/// CHECKS I2, as another reader sees it.
fn holds(der: &[u8], proven: &ProvenCertificate) -> bool {
    let certificate = Certificate::from_der(der).unwrap();
    let tbs = certificate.tbs_certificate();
    let id = spiffe_id("edge.example.com", proven.tenant(), proven.runner_id());
    let (_, names) = tbs.get_extension::<SubjectAltName>().unwrap().unwrap();
    assert!(matches!(names.0.as_slice(), [GeneralName::UniformResourceIdentifier(uri)] if uri.as_str() == id));
    let (_, usage) = tbs.get_extension::<ExtendedKeyUsage>().unwrap().unwrap();
    assert_eq!(usage.0, [der::oid::db::rfc5280::ID_KP_CLIENT_AUTH]);
    let (critical, constraints) = tbs.get_extension::<BasicConstraints>().unwrap().unwrap();
    assert!(critical && !constraints.ca);
    assert_eq!(tbs.serial_number().as_bytes().len(), 16);
    let [from, until] = [tbs.validity().not_before, tbs.validity().not_after]
        .map(|time| i64::try_from(time.to_unix_duration().as_secs()).unwrap());
    assert!(from <= NOW.secs() && NOW.secs() <= until);
    true
}
