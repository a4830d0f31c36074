//! CSRs (CHECKS I1): DER, or the text of the `csr` field. What is accepted is exactly one request, its key is of an accepted kind, and both
//! forms of its text mean the same.

use pollster::block_on;
use verifier::encoding::{b64url, sha256};
use verifier::issuance::{UnverifiedCsr, VerifiedCsr};
use verifier::keys::KeyMaterial;
use verifier::ports::fakes::AnySignature;
use x509_cert::der::{self, Decode as _, Encode as _};
use x509_cert::request::CertReq;

/// DER, or text that starts like PEM.
///
/// # Panics
///
/// When a property does not hold.
pub fn check(input: &[u8]) -> bool {
    if input.starts_with(b"-----BEGIN") {
        let Ok(text) = std::str::from_utf8(input) else { return false };
        let Ok(parsed) = UnverifiedCsr::parse(text) else { return false };
        let Some(csr) = verified(parsed) else { return false };
        let (_, der) = der::pem::decode_vec(input).unwrap();
        assert_eq!(*csr.der_sha256(), sha256(&der));
        return true;
    }
    let Ok(parsed) = UnverifiedCsr::from_der(input.to_vec()) else { return false };
    let Some(csr) = verified(parsed) else { return false };
    assert!(UnverifiedCsr::from_der([input, &[0]].concat()).is_err(), "something after it");
    assert_eq!(UnverifiedCsr::parse(&b64url(input)).ok().and_then(verified).as_ref(), Some(&csr));
    let pem = der::pem::encode_string("CERTIFICATE REQUEST", der::pem::LineEnding::LF, input).unwrap();
    if pem.len() <= protocol::limits::CSR {
        assert_eq!(UnverifiedCsr::parse(&pem).ok().and_then(verified).as_ref(), Some(&csr));
    }
    // The key is the octets of the request, whoever reads it.
    assert_eq!(*csr.der_sha256(), sha256(input));
    assert_eq!(*csr.spki_sha256(), sha256(csr.spki_der()));
    if let Ok(request) = CertReq::from_der(input) {
        assert_eq!(request.info.public_key.to_der().unwrap(), csr.spki_der());
    }
    if let KeyMaterial::Rsa { modulus } = csr.key().material() {
        assert!((256..=512).contains(&modulus.len()) && modulus[0] != 0);
    }
    true
}

/// `None` where the algorithm of the signature is not one for the key.
fn verified(csr: UnverifiedCsr) -> Option<VerifiedCsr> {
    block_on(csr.verify(&AnySignature(true))).ok()
}
