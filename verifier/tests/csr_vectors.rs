//! `tests/vectors/csr` (CHECKS I1, I2): what is refused, and that nothing but the key of what is accepted reaches a certificate.

mod support;

use std::fs;
use std::path::PathBuf;

use der::{Decode, Encode};
use pollster::block_on;
use serde_json::Value;
use support::{Authority, Folder, NOW, RUNNER_ID, TRUST_DOMAIN, allotment};
use verifier::Denial;
use verifier::encoding::b64url;
use verifier::issuance::{UnverifiedCsr, VerifiedCsr, issue};
use verifier::rust_crypto::RustCrypto;
use x509_cert::Certificate;
use x509_cert::ext::pkix::name::GeneralName;
use x509_cert::ext::pkix::{BasicConstraints, ExtendedKeyUsage, SubjectAltName};

/// The choices where `expect` is `either`. Requested extensions and subjects do not matter, since nothing of them is taken; what
/// is not the DER of RFC 2986 or the PEM of RFC 7468 is refused.
const EITHER: &[(&str, bool)] = &[
    ("ext_ca_true.der", true),
    ("ext_eku_server_codesign_any.der", true),
    ("ext_san_dns_other_tenant.der", true),
    ("ext_san_all_kinds.der", true),
    ("ext_name_constraints_critical.der", true),
    ("ext_unknown_critical.der", true),
    ("ext_duplicate_bc.der", true),
    ("ext_extreq_set_two_values.der", true),
    ("ext_extreq_empty_set.der", true),
    ("attr_tag_missing.der", false),
    ("subj_cn_other_tenant.der", true),
    ("subj_cn_invalid_utf8.der", true),
    ("pem_new_header.pem", false),
    ("pem_leading_text.pem", false),
    ("pem_urlsafe_base64.pem", false),
];

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../tests/vectors/csr")
}

/// As it would stand in the `csr` field.
fn text(file: &str) -> String {
    let content = fs::read(folder().join(file)).unwrap();
    let is_pem = PathBuf::from(file).extension().is_some_and(|extension| extension == "pem");
    if is_pem { String::from_utf8(content).unwrap() } else { b64url(&content) }
}

fn verified(file: &str) -> Result<VerifiedCsr, Denial> {
    block_on(UnverifiedCsr::parse(&text(file))?.verify(&RustCrypto))
}

#[test]
fn every_vector() {
    let index: Vec<Value> = serde_json::from_slice(&fs::read(folder().join("index.json")).unwrap()).unwrap();
    let authority = Authority::new("vectors");
    let mut pinned: Vec<&str> = Vec::new();
    for case in &index {
        let file = case["file"].as_str().unwrap();
        let outcome = verified(file);
        let accepted = match case["expect"].as_str().unwrap() {
            "accept" => true,
            "refuse" => false,
            "either" => {
                let (name, accepted) = EITHER.iter().find(|(name, _)| *name == file).expect(file);
                pinned.push(name);
                *accepted
            }
            other => panic!("{file}: {other}"),
        };
        assert_eq!(outcome.is_ok(), accepted, "{file}: {outcome:?}");
        match outcome {
            Ok(csr) => certificate_has_only_the_key(file, &csr, &authority),
            Err(denial) => {
                let allowed = case["reasons"].as_array().map_or(vec!["csr_invalid"], |reasons| {
                    reasons.iter().map(|reason| reason.as_str().unwrap()).collect()
                });
                assert!(allowed.contains(&denial.code.as_str()), "{file}: {denial:?}");
            }
        }
    }
    assert_eq!(pinned.len(), EITHER.len());
    assert_eq!(index.len(), 47);
}

fn certificate_has_only_the_key(file: &str, csr: &VerifiedCsr, authority: &Authority) {
    let crl_url = Some("http://edge.example.com/v1/crl");
    let issued = block_on(issue(&allotment(csr), csr, &authority.ca, TRUST_DOMAIN, crl_url, &authority.issuing_key))
        .expect(file);
    let certificate = Certificate::from_der(&issued.der).unwrap();
    let tbs = certificate.tbs_certificate();
    assert_eq!(tbs.subject().to_string(), format!("CN={RUNNER_ID},O=acme"), "{file}");
    assert_eq!(tbs.subject_public_key_info().to_der().unwrap(), csr.spki_der(), "{file}");
    let id = format!("spiffe://edge.example.com/tenant/acme/runner/{RUNNER_ID}");
    let (_, names) = tbs.get_extension::<SubjectAltName>().unwrap().unwrap();
    assert!(
        matches!(names.0.as_slice(), [GeneralName::UniformResourceIdentifier(uri)] if uri.as_str() == id),
        "{file}: {names:?}"
    );
    let constraints = tbs.get_extension::<BasicConstraints>().unwrap().unwrap();
    assert_eq!(constraints, (true, BasicConstraints { ca: false, path_len_constraint: None }), "{file}");
    let (_, usage) = tbs.get_extension::<ExtendedKeyUsage>().unwrap().unwrap();
    assert_eq!(usage.0, [der::oid::db::rfc5280::ID_KP_CLIENT_AUTH], "{file}");
    assert_eq!(tbs.extensions().unwrap().len(), 7, "{file}");

    let folder = Folder::new();
    folder.write("root.pem", authority.root.to_pem());
    folder.write("chain.pem", &issued.chain_pem);
    folder.openssl_ok(&[
        "verify",
        "-x509_strict",
        "-purpose",
        "sslclient",
        "-attime",
        &NOW.secs().to_string(),
        "-CAfile",
        "root.pem",
        "-untrusted",
        "chain.pem",
        "chain.pem",
    ]);
}

#[test]
fn the_key_is_the_octets_received() {
    for file in ["ok_p256.der", "ok_p384.der", "ok_rsa2048.der", "ok_rsa4096.der", "ext_san_all_kinds.der"] {
        let der = fs::read(folder().join(file)).unwrap();
        let csr = verified(file).unwrap();
        assert!(der.windows(csr.spki_der().len()).any(|window| window == csr.spki_der()), "{file}");
        assert_eq!(*csr.der_sha256(), verifier::encoding::sha256(&der), "{file}");
        assert_eq!(*csr.spki_sha256(), verifier::encoding::sha256(csr.spki_der()), "{file}");
    }
}

#[test]
fn every_cut_and_every_flipped_bit_is_refused() {
    let der = fs::read(folder().join("ok_p256.der")).unwrap();
    for end in 0..der.len() {
        assert!(UnverifiedCsr::from_der(der[..end].to_vec()).is_err(), "cut at {end}");
    }
    for bit in 0..der.len() * 8 {
        let mut flipped = der.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        let outcome = UnverifiedCsr::from_der(flipped).and_then(|csr| block_on(csr.verify(&RustCrypto)));
        assert!(outcome.is_err(), "bit {bit}");
    }
}

#[test]
fn a_long_text_is_malformed_before_it_is_parsed() {
    let padded = text("pem_crlf.pem") + &" ".repeat(8 * 1024);
    assert_eq!(UnverifiedCsr::parse(&padded).unwrap_err().code, protocol::Code::MalformedRequest);
}
