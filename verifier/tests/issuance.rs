//! The certificate and CRL profiles (CHECKS I2, I7) as we, OpenSSL and rustls read them.

mod support;

use std::sync::Arc;

use pollster::block_on;
use protocol::Code;
use rustls::pki_types::{CertificateDer, CertificateRevocationListDer, PrivateKeyDer, ServerName};
use rustls::server::WebPkiClientVerifier;
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::time_provider::TimeProvider;
use rustls::{ClientConfig, ClientConnection, RootCertStore, ServerConfig, ServerConnection};
use support::runner_key::RunnerKey;
use support::tampered::Open;
use support::{Authority, Folder, NOW, TRUST_DOMAIN, allotment};
use verifier::issuance::{
    CrlDraft, CrlEntry, IssuedCertificate, RevocationReason, Serial, SignedCrl, UnverifiedCsr, VerifiedCsr, issue,
};
use verifier::registry::Allotment;
use verifier::rust_crypto::RustCrypto;
use verifier::{Denial, UnixTime};

const CRL_URL: Option<&str> = Some("http://edge.example.com/v1/crl");

/// The same CSR in every run.
fn fixed_csr() -> VerifiedCsr {
    let der = include_bytes!("../../tests/vectors/csr/ok_p256.der").to_vec();
    block_on(UnverifiedCsr::from_der(der).unwrap().verify(&RustCrypto)).unwrap()
}

fn issued(authority: &Authority, csr: &VerifiedCsr) -> IssuedCertificate {
    block_on(issue(&allotment(csr), csr, &authority.ca, TRUST_DOMAIN, CRL_URL, &authority.issuing_key)).unwrap()
}

fn crl(authority: &Authority, entries: Vec<CrlEntry>) -> SignedCrl {
    block_on(CrlDraft::new(42, NOW, entries).sign(&authority.issuing, &authority.issuing_key)).unwrap()
}

fn entry(serial: &str, reason: RevocationReason) -> CrlEntry {
    CrlEntry { serial: Serial::from_hex(serial).unwrap(), revoked_at: NOW.plus(-10), reason }
}

/// Lines without the white space around them, which differs between releases of OpenSSL.
fn lines(text: &str) -> String {
    text.lines().map(str::trim).filter(|line| !line.is_empty()).fold(String::new(), |all, line| all + line + "\n")
}

#[test]
fn text_of_certificate_and_crl() {
    let authority = Authority::new("snapshot");
    let folder = Folder::new();
    folder.write("leaf.pem", issued(&authority, &fixed_csr()).chain_pem);
    let options = "no_pubkey,no_sigdump";
    let text =
        folder.openssl_ok(&["x509", "-noout", "-text", "-nameopt", "RFC2253", "-certopt", options, "-in", "leaf.pem"]);
    insta::assert_snapshot!("certificate", lines(&text));

    let revoked = [
        entry("4a0102030405060708090a0b0c0d0e0f", RevocationReason::PrivilegeWithdrawn),
        entry("00000000000000000000000000000001", RevocationReason::KeyCompromise),
        entry("7fffffffffffffffffffffffffffffff", RevocationReason::CessationOfOperation),
        entry("7fffffffffffffffffffffffffffffff", RevocationReason::Superseded),
    ];
    let list = crl(&authority, revoked.to_vec());
    folder.write("crl.der", &list.der);
    folder.write("crl.pem", &list.pem);
    folder.write("issuing.pem", authority.issuing.to_pem());
    let text =
        folder.openssl_ok(&["crl", "-inform", "DER", "-noout", "-text", "-nameopt", "RFC2253", "-in", "crl.der"]);
    let (text, _signature) =
        text.split_once("    Signature Algorithm: ecdsa-with-SHA256\n    Signature Value").unwrap();
    insta::assert_snapshot!("crl", lines(text));

    let verdict = folder.openssl(&["crl", "-noout", "-in", "crl.pem", "-CAfile", "issuing.pem"]);
    assert!(String::from_utf8_lossy(&verdict.stderr).contains("verify OK"), "{verdict:?}");
}

/// `openssl verify` with CRLs for the whole chain.
fn openssl_verdict(authority: &Authority, chain_pem: &str, crls: &[&SignedCrl], at: UnixTime) -> Result<(), String> {
    let folder = Folder::new();
    folder.write("root.pem", authority.root.to_pem());
    folder.write("chain.pem", chain_pem);
    folder.write("crls.pem", crls.iter().map(|list| list.pem.as_str()).collect::<String>());
    let at = at.secs().to_string();
    let mut args = vec!["verify", "-x509_strict", "-purpose", "sslclient", "-attime", &at, "-CAfile", "root.pem"];
    args.extend(["-crl_check", "-crl_check_all", "-CRLfile", "crls.pem", "-untrusted", "chain.pem", "chain.pem"]);
    let output = folder.openssl(&args);
    let text = String::from_utf8_lossy(&output.stderr).into_owned() + &String::from_utf8_lossy(&output.stdout);
    if output.status.success() { Ok(()) } else { Err(text) }
}

#[test]
fn openssl_checks_the_whole_chain_against_our_crls() {
    let authority = Authority::new("crl check");
    let chain = issued(&authority, &fixed_csr()).chain_pem;
    let clean = crl(&authority, Vec::new());
    let other = crl(&authority, vec![entry("4a0102030405060708090a0b0c0d0e10", RevocationReason::Superseded)]);
    let banned = crl(&authority, vec![entry("4a0102030405060708090a0b0c0d0e0f", RevocationReason::PrivilegeWithdrawn)]);
    let root_crl = &authority.root_crl;
    let verdict = |crls: &[&SignedCrl], at| openssl_verdict(&authority, &chain, crls, at);

    verdict(&[&clean, root_crl], NOW).unwrap();
    verdict(&[&other, root_crl], NOW).unwrap();
    assert!(verdict(&[&banned, root_crl], NOW).unwrap_err().contains("certificate revoked"));
    assert!(verdict(&[&clean], NOW).unwrap_err().contains("unable to get certificate CRL"));
    assert!(verdict(&[&clean, root_crl], NOW.plus(3601)).unwrap_err().contains("certificate has expired"));
    assert!(verdict(&[&clean, root_crl], NOW.plus(-61)).unwrap_err().contains("not yet valid"));

    // A day later the issuing CA's list has ended; the root's has not.
    let mut long = allotment(&fixed_csr());
    long.not_after = NOW.plus(2 * 24 * 3600);
    let csr = fixed_csr();
    let late = block_on(issue(&long, &csr, &authority.ca, TRUST_DOMAIN, CRL_URL, &authority.issuing_key)).unwrap();
    let ended = openssl_verdict(&authority, &late.chain_pem, &[&clean, root_crl], NOW.plus(24 * 3600 + 1));
    assert!(ended.unwrap_err().contains("CRL has expired"));
    openssl_verdict(&authority, &late.chain_pem, &[&clean, root_crl], NOW.plus(24 * 3600 - 1)).unwrap();
}

#[test]
fn times_from_2050_are_generalized() {
    let authority = Authority::new("far");
    let csr = fixed_csr();
    let mut open = Open::from_der(&issued(&authority, &csr).der);
    let year_2050 = UnixTime::from_amz_date("20500101T000000Z").unwrap();
    assert!(matches!(open.tbs.validity.not_after, x509_cert::time::Time::UtcTime(_)));
    let far = block_on(async {
        CrlDraft { number: 1, this_update: year_2050.plus(-1), next_update: year_2050, entries: Vec::new() }
            .sign(&authority.issuing, &authority.issuing_key)
            .await
            .unwrap()
    });
    let has = |needle: &[u8]| far.der.windows(needle.len()).any(|window| window == needle);
    assert!(has(b"\x17\x0d491231235959Z") && has(b"\x18\x0f20500101000000Z"));
    open.tbs.validity.not_after = x509_cert::time::Time::from(year_2050.to_der().unwrap());
    assert!(matches!(open.tbs.validity.not_after, x509_cert::time::Time::GeneralTime(_)));
}

#[track_caller]
fn internal(outcome: Result<IssuedCertificate, Denial>, part: &str) {
    let denial = outcome.expect_err(part);
    assert_eq!(denial.code, Code::Internal);
    assert!(denial.detail.contains(part), "{denial:?}");
}

#[test]
fn only_what_was_allotted_for_this_key_is_signed() {
    let authority = Authority::new("allotment");
    let csr = fixed_csr();
    let good = allotment(&csr);
    let attempt = |allotment: &Allotment, trust_domain| {
        block_on(issue(allotment, &csr, &authority.ca, trust_domain, CRL_URL, &authority.issuing_key))
    };
    attempt(&good, TRUST_DOMAIN).unwrap();
    let other = RunnerKey::generate("EC:P-256").csr();
    internal(attempt(&allotment(&other), TRUST_DOMAIN), "another key");
    internal(attempt(&good, ""), "no trust domain");
    for serial in ["", "4a", &"8".repeat(32), &"0".repeat(32), &"A".repeat(32)] {
        internal(attempt(&Allotment { serial: serial.to_owned(), ..good.clone() }, TRUST_DOMAIN), "serial");
    }
    let end = authority.ca.not_after();
    attempt(&Allotment { not_after: end, ..good.clone() }, TRUST_DOMAIN).unwrap();
    internal(attempt(&Allotment { not_after: end.plus(1), ..good.clone() }, TRUST_DOMAIN), "validity");
    internal(attempt(&Allotment { not_after: good.not_before, ..good.clone() }, TRUST_DOMAIN), "validity");
}

#[test]
fn the_same_allotment_gives_the_same_certificate() {
    let authority = Authority::new("again");
    let csr = fixed_csr();
    assert_eq!(issued(&authority, &csr), issued(&authority, &csr));
}

#[derive(Debug)]
struct FixedTime;

impl TimeProvider for FixedTime {
    fn current_time(&self) -> Option<rustls::pki_types::UnixTime> {
        let since_epoch = std::time::Duration::from_secs(NOW.secs().unsigned_abs());
        Some(rustls::pki_types::UnixTime::since_unix_epoch(since_epoch))
    }
}

fn ders(pem: &str) -> Vec<CertificateDer<'static>> {
    use rustls::pki_types::pem::PemObject;
    CertificateDer::pem_slice_iter(pem.as_bytes()).collect::<Result<_, _>>().unwrap()
}

/// A server that demands a client certificate of this CA and checks CRLs of the whole chain.
fn server(authority: &Authority, crls: &[&SignedCrl]) -> ServerConfig {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut roots = RootCertStore::empty();
    roots.add(ders(&authority.root.to_pem()).remove(0)).unwrap();
    let clients = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider.clone())
        .with_crls(crls.iter().map(|list| CertificateRevocationListDer::from(list.der.clone())))
        .build()
        .unwrap();
    let (certificate, key) = server_certificate(authority);
    ServerConfig::builder_with_details(provider, Arc::new(FixedTime))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_client_cert_verifier(clients)
        .with_single_cert(certificate, key)
        .unwrap()
}

/// A server's certificate below the same root, which our CA would never issue.
fn server_certificate(authority: &Authority) -> (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>) {
    use der::oid::db::rfc5280;
    use x509_cert::ext::pkix::name::GeneralName;
    use x509_cert::ext::pkix::{ExtendedKeyUsage, SubjectAltName};
    let key = RunnerKey::generate("EC:P-256");
    let mut open = Open::from_der(&issued(authority, &key.csr()).der);
    let name = GeneralName::DnsName(der::asn1::Ia5String::new("server.example.com").unwrap());
    open.set_extension(rfc5280::ID_CE_SUBJECT_ALT_NAME, &SubjectAltName(vec![name]));
    open.set_extension(rfc5280::ID_CE_EXT_KEY_USAGE, &ExtendedKeyUsage(vec![rfc5280::ID_KP_SERVER_AUTH]));
    let mut chain = vec![CertificateDer::from(open.sign(&authority.issuing_key))];
    chain.extend(ders(&authority.issuing.to_pem()));
    (chain, PrivateKeyDer::try_from(key.pkcs8).unwrap())
}

/// A whole handshake in memory; the server's error when it refuses.
fn handshake(authority: &Authority, chain_pem: &str, key: &RunnerKey, crls: &[&SignedCrl]) -> Result<(), String> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut roots = RootCertStore::empty();
    roots.add(ders(&authority.root.to_pem()).remove(0)).unwrap();
    let private = provider.key_provider.load_private_key(PrivateKeyDer::try_from(key.pkcs8.clone()).unwrap()).unwrap();
    // Unlike the builder's own way, this does not ask whether key and certificate belong together.
    let resolver = SingleCertAndKey::from(CertifiedKey::new(ders(chain_pem), private));
    let client = ClientConfig::builder_with_details(provider, Arc::new(FixedTime))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_client_cert_resolver(Arc::new(resolver));
    let name = ServerName::try_from("server.example.com").unwrap();
    let mut client = ClientConnection::new(Arc::new(client), name).unwrap();
    let mut server = ServerConnection::new(Arc::new(server(authority, crls))).unwrap();
    for _ in 0..8 {
        let mut wire = Vec::new();
        while client.wants_write() {
            client.write_tls(&mut wire).unwrap();
        }
        let mut incoming = wire.as_slice();
        while !incoming.is_empty() {
            server.read_tls(&mut incoming).unwrap();
            server.process_new_packets().map_err(|error| error.to_string())?;
        }
        let mut wire = Vec::new();
        while server.wants_write() {
            server.write_tls(&mut wire).unwrap();
        }
        let mut incoming = wire.as_slice();
        while !incoming.is_empty() {
            client.read_tls(&mut incoming).unwrap();
            client.process_new_packets().map_err(|error| error.to_string())?;
        }
    }
    if server.is_handshaking() { Err("handshake did not end".to_owned()) } else { Ok(()) }
}

#[test]
fn rustls_as_server_accepts_a_good_certificate_and_refuses_a_revoked_one() {
    let authority = Authority::new("tls");
    let clean = crl(&authority, Vec::new());
    let banned = crl(&authority, vec![entry("4a0102030405060708090a0b0c0d0e0f", RevocationReason::PrivilegeWithdrawn)]);
    for kind in ["EC:P-256", "EC:P-384", "RSA:2048", "ED25519"] {
        let runner = RunnerKey::generate(kind);
        let chain = issued(&authority, &runner.csr()).chain_pem;
        handshake(&authority, &chain, &runner, &[&clean, &authority.root_crl]).expect(kind);
    }
    let runner = RunnerKey::generate("EC:P-256");
    let chain = issued(&authority, &runner.csr()).chain_pem;
    let refused = |crls: &[&SignedCrl]| handshake(&authority, &chain, &runner, crls).unwrap_err();
    assert!(refused(&[&banned, &authority.root_crl]).contains("Revoked"));
    assert!(refused(&[&clean]).contains("UnknownRevocationStatus"));

    let stranger = Authority::new("another tls");
    let foreign = issued(&stranger, &runner.csr()).chain_pem;
    let refused = handshake(&authority, &foreign, &runner, &[&clean, &authority.root_crl]);
    assert!(refused.unwrap_err().contains("UnknownIssuer"));
    let thief = RunnerKey::generate("EC:P-256");
    let stolen = handshake(&authority, &chain, &thief, &[&clean, &authority.root_crl]);
    assert!(stolen.unwrap_err().contains("BadSignature"));
}
