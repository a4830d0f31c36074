//! Requests by OpenSSL for every pairing of key and hash that CHECKS I1 allows, and for those next to them.

mod support;

use pollster::block_on;
use support::Folder;
use support::tampered::Open;
use verifier::issuance::{CaError, IssuingCa, UnverifiedCsr};
use verifier::rust_crypto::RustCrypto;

const EC_256: &[&str] = &["-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256"];
const EC_384: &[&str] = &["-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-384"];
const RSA: &[&str] = &["-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:2048"];

/// A request in DER, made by OpenSSL.
fn request(key: &[&str], sign: &[&str]) -> Vec<u8> {
    let folder = Folder::new();
    folder.openssl_ok(&[&["genpkey", "-out", "key.pem"], key].concat());
    let make = ["req", "-new", "-key", "key.pem", "-subj", "/CN=x", "-outform", "DER", "-out", "csr.der"];
    folder.openssl_ok(&[&make[..], sign].concat());
    std::fs::read(folder.path().join("csr.der")).unwrap()
}

fn accepted(der: Vec<u8>) -> bool {
    UnverifiedCsr::from_der(der).and_then(|csr| block_on(csr.verify(&RustCrypto))).is_ok()
}

#[test]
fn each_key_has_its_algorithms() {
    for (key, sign) in [
        (EC_256, &["-sha256"][..]),
        (EC_384, &["-sha384"]),
        (RSA, &["-sha256"]),
        (RSA, &["-sha384"]),
        (RSA, &["-sha512"]),
        (&["-algorithm", "ED25519"], &[]),
    ] {
        assert!(accepted(request(key, sign)), "{key:?} {sign:?}");
    }
    for (key, sign) in [
        (EC_256, &["-sha384"][..]),
        (EC_256, &["-sha512"]),
        (EC_384, &["-sha256"]),
        (RSA, &["-sha224"]),
        (RSA, &["-sha256", "-sigopt", "rsa_padding_mode:pss"]),
        (&["-algorithm", "ED448"], &[]),
        (&["-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:secp256k1"], &["-sha256"]),
        (
            &["-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256", "-pkeyopt", "ec_param_enc:explicit"],
            &["-sha256"],
        ),
        (&["-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:2048", "-pkeyopt", "rsa_keygen_pubexp:3"], &["-sha256"]),
        (&["-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:2040"], &["-sha256"]),
    ] {
        assert!(!accepted(request(key, sign)), "{key:?} {sign:?}");
    }
}

#[test]
fn the_issuing_ca_has_a_p256_key() {
    let authority = support::Authority::new("p384");
    let csr = block_on(UnverifiedCsr::from_der(request(EC_384, &["-sha384"])).unwrap().verify(&RustCrypto)).unwrap();
    let mut open = Open::from_der(authority.issuing.der());
    open.tbs.key = csr.spki().clone();
    let chain =
        der::pem::encode_string("CERTIFICATE", der::pem::LineEnding::LF, &open.sign(&authority.root_key)).unwrap();
    assert!(matches!(IssuingCa::from_pem(&chain, &authority.root.to_pem()), Err(CaError::NotP256(_))));
}

#[test]
fn cas_that_issued_each_other_end_nowhere() {
    let (one, two) = (support::Authority::new("one"), support::Authority::new("two"));
    let crossed = |own: &support::Authority, other: &support::Authority| {
        let mut open = Open::from_der(own.issuing.der());
        open.tbs.issuer = other.issuing.certificate().tbs_certificate().subject().clone();
        open.tbs
            .extensions
            .as_mut()
            .unwrap()
            .retain(|extension| extension.extn_id != der::oid::db::rfc5280::ID_CE_AUTHORITY_KEY_IDENTIFIER);
        let constraints = x509_cert::ext::pkix::BasicConstraints { ca: true, path_len_constraint: None };
        open.set_extension(der::oid::db::rfc5280::ID_CE_BASIC_CONSTRAINTS, &constraints);
        der::pem::encode_string("CERTIFICATE", der::pem::LineEnding::LF, &open.sign(&other.issuing_key)).unwrap()
    };
    let chain = [crossed(&one, &two), crossed(&two, &one)].concat();
    assert!(matches!(IssuingCa::from_pem(&chain, &one.root.to_pem()), Err(CaError::UnknownIssuer(_))));
}
