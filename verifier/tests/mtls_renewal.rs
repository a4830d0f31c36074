//! CHECKS I4 and I8 without a record: one refusal per check, and every kind of key accepted.

mod support;

use std::borrow::Cow;

use der::asn1::{BitString, Ia5String};
use der::oid::db::{rfc3280, rfc5280};
use pollster::block_on;
use protocol::attestation::RenewalProof;
use protocol::{Code, MtlsRenewalEvidence, Reason};
use support::runner_key::RunnerKey;
use support::tampered::Open;
use support::{Authority, Key, NOW, RUNNER_ID, Repeatable, TRUST_DOMAIN, allotment};
use verifier::encoding::{b64url, sha256};
use verifier::evidence::mtls_renewal::{EdgeClientCertificate, EdgeTlsFields, Expectations, ProvenCertificate, verify};
use verifier::issuance::{IssuingCa, VerifiedCsr, ca, issue, spiffe_id};
use verifier::registry::CertificateTerms;
use verifier::rust_crypto::RustCrypto;
use verifier::{Denial, UnixTime};
use x509_cert::certificate::Version;
use x509_cert::ext::pkix::name::GeneralName;
use x509_cert::ext::pkix::{BasicConstraints, ExtendedKeyUsage, KeyUsage, KeyUsages, SubjectAltName};

const AUDIENCE: &str = "edge.example.com";

/// A runner with a certificate, about to renew.
#[derive(Clone)]
struct Scene {
    authority: Authority,
    runner: RunnerKey,
    certificate: Vec<u8>,
    next: VerifiedCsr,
    now: UnixTime,
    timestamp: i64,
    audience: &'static str,
    trust_domain: &'static str,
}

impl Scene {
    fn new(kind: &str) -> Self {
        let authority = Authority::new("renewal");
        let runner = RunnerKey::generate(kind);
        let csr = runner.csr();
        let crl_url = Some("http://edge.example.com/v1/crl");
        let issued =
            block_on(issue(&allotment(&csr), &csr, &authority.ca, TRUST_DOMAIN, crl_url, &authority.issuing_key));
        Self {
            certificate: issued.unwrap().der,
            authority,
            next: RunnerKey::generate("EC:P-256").csr(),
            runner,
            now: NOW,
            timestamp: NOW.secs(),
            audience: AUDIENCE,
            trust_domain: TRUST_DOMAIN,
        }
    }

    fn text(&self) -> String {
        let certificate = b64url(&sha256(&self.certificate));
        protocol::renewal_text(AUDIENCE, self.timestamp, &certificate, &b64url(self.next.der_sha256()))
    }

    fn proof(&self) -> RenewalProof<'static> {
        RenewalProof {
            certificate: Cow::Owned(to_pem(&self.certificate)),
            timestamp: self.timestamp,
            signature: Cow::Owned(self.runner.sign(&self.text())),
        }
    }

    fn try_with(
        &self,
        proof: Option<RenewalProof<'_>>,
        edge: Option<&EdgeClientCertificate>,
    ) -> Result<ProvenCertificate, Denial> {
        let expectations = Expectations {
            ca: &self.authority.ca,
            trust_domain: self.trust_domain,
            audience: self.audience,
            now: self.now,
        };
        block_on(verify(&MtlsRenewalEvidence { proof }, edge, &self.next, &expectations, &RustCrypto))
    }

    fn renew(&self) -> Result<ProvenCertificate, Denial> {
        self.try_with(Some(self.proof()), None)
    }

    /// The certificate changed and signed again by the CA's own key.
    fn tamper(mut self, change: impl FnOnce(&mut Open)) -> Self {
        let mut open = Open::from_der(&self.certificate);
        change(&mut open);
        self.certificate = open.sign(&self.authority.issuing_key);
        self
    }
}

fn to_pem(der: &[u8]) -> String {
    der::pem::encode_string("CERTIFICATE", der::pem::LineEnding::LF, der).unwrap()
}

#[track_caller]
fn refused(outcome: Result<ProvenCertificate, Denial>, reason: Reason, part: &str) {
    let denial = outcome.expect_err(part);
    assert_eq!((denial.code, denial.reason), (Code::AttestationInvalid, Some(reason)), "{denial:?}");
    assert!(denial.detail.contains(part), "{:?} lacks {part:?}", denial.detail);
}

#[test]
fn every_kind_of_key_renews() {
    for kind in ["EC:P-256", "EC:P-384", "RSA:2048", "ED25519"] {
        let scene = Scene::new(kind);
        let proven = scene.renew().expect(kind);
        assert_eq!((proven.tenant(), proven.runner_id()), ("acme", RUNNER_ID), "{kind}");
        assert_eq!(proven.spki_sha256(), scene.runner.csr().spki_sha256(), "{kind}");
        let terms = CertificateTerms {
            ttl: 3600,
            reattest_after: 86400,
            bootstrap_reattest_after: None,
            issuer_not_after: scene.authority.ca.not_after(),
            one_key_per_instance: false,
        };
        let command = proven.into_command(&scene.next, None, 7, terms, "r1");
        assert_eq!(command.presented_serial, "4a0102030405060708090a0b0c0d0e0f");
        assert_eq!(command.spki_sha256, verifier::encoding::hex(scene.next.spki_sha256()));
        assert_eq!((command.tenant.as_str(), command.policy_version), ("acme", 7));
    }
}

#[test]
fn the_text_is_that_of_the_protocol() {
    let hash = b64url(&[0; 32]);
    let text = protocol::renewal_text("edge.example.com", 1_790_000_000, &hash, &hash);
    assert_eq!(
        text,
        "rootpilot-renewal-v1\nedge.example.com\n1790000000\n\
         AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA\nAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
    );
}

#[test]
fn timestamp_is_within_five_minutes() {
    let mut scene = Scene::new("EC:P-256");
    for (off, good) in
        [(-300, true), (300, true), (-301, false), (301, false), (i64::MIN / 2, false), (i64::MAX / 2, false)]
    {
        scene.timestamp = NOW.secs() + off;
        if good {
            assert!(scene.renew().is_ok(), "{off}");
        } else {
            refused(scene.renew(), Reason::ProofInvalid, "5 min");
        }
    }
    for extreme in [i64::MIN, i64::MAX] {
        scene.timestamp = extreme;
        refused(scene.renew(), Reason::ProofInvalid, "5 min");
    }
}

#[test]
fn the_signature_covers_audience_timestamp_certificate_and_csr() {
    let scene = Scene::new("EC:P-256");
    let wrong = "signature is not by";
    let lines: Vec<String> = scene.text().lines().map(str::to_owned).collect();
    for line in 0..lines.len() {
        let mut changed = lines.clone();
        changed[line] = if line == 2 { (NOW.secs() + 1).to_string() } else { "x".to_owned() };
        let signature = Cow::Owned(scene.runner.sign(&changed.join("\n")));
        refused(scene.try_with(Some(RenewalProof { signature, ..scene.proof() }), None), Reason::ProofInvalid, wrong);
    }
    let mut elsewhere = Scene::new("EC:P-256");
    elsewhere.audience = "other.example.com";
    refused(elsewhere.renew(), Reason::ProofInvalid, wrong);
    elsewhere.audience = "";
    refused(elsewhere.renew(), Reason::ProofInvalid, "no audience");
}

#[test]
fn a_proof_for_one_csr_is_none_for_another() {
    let mut scene = Scene::new("EC:P-256");
    let proof = scene.proof();
    scene.next = RunnerKey::generate("EC:P-256").csr();
    refused(scene.try_with(Some(proof), None), Reason::ProofInvalid, "signature is not by");
}

#[test]
fn only_the_certificates_key_proves() {
    for kind in ["EC:P-256", "RSA:2048", "ED25519"] {
        let mut scene = Scene::new("EC:P-256");
        scene.runner = RunnerKey::generate(kind);
        refused(scene.renew(), Reason::ProofInvalid, "signature is not by");
    }
    let scene = Scene::new("EC:P-256");
    for signature in ["", "AA", "AA==", "!", &"A".repeat(86), &"A".repeat(4000)] {
        let outcome = scene.try_with(Some(RenewalProof { signature: signature.into(), ..scene.proof() }), None);
        refused(outcome, Reason::ProofInvalid, "signature");
    }
}

#[test]
fn a_swapped_certificate_is_refused() {
    let scene = Scene::new("EC:P-256");
    let other = Scene::new("EC:P-256");
    let proof = RenewalProof { certificate: to_pem(&other.certificate).into(), ..scene.proof() };
    refused(scene.try_with(Some(proof), None), Reason::ProofInvalid, "signature is not by");
}

#[test]
fn only_our_issuing_ca_counts() {
    let mut scene = Scene::new("EC:P-256");
    scene.authority = Authority::new("somebody else");
    refused(scene.renew(), Reason::CertificateInvalid, "not issued by this verifier");

    // The name is right, the key is not.
    let mut scene = Scene::new("EC:P-256");
    scene.certificate = Open::from_der(&scene.certificate).sign(&Key::new("another key"));
    refused(scene.renew(), Reason::CertificateInvalid, "not issued by this verifier");

    // Signed by the root itself, which issues no runners.
    let mut scene = Scene::new("EC:P-256");
    let mut open = Open::from_der(&scene.certificate);
    open.tbs.issuer = scene.authority.root.certificate().tbs_certificate().subject().clone();
    scene.certificate = open.sign(&scene.authority.root_key);
    refused(scene.renew(), Reason::CertificateInvalid, "not issued by this verifier");

    // Signed by an earlier runner's certificate.
    let mut scene = Scene::new("EC:P-256");
    let mut open = Open::from_der(&scene.certificate);
    open.tbs.issuer = open.tbs.subject.clone();
    scene.certificate = open.sign(&Key::new("runner"));
    refused(scene.renew(), Reason::CertificateInvalid, "not issued by this verifier");
}

#[test]
fn dates() {
    let mut scene = Scene::new("EC:P-256");
    for (off, part) in [(-61, Some("not valid before")), (-60, None), (3600, None), (3601, Some("ended at"))] {
        scene.now = NOW.plus(off);
        scene.timestamp = scene.now.secs();
        match part {
            None => assert!(scene.renew().is_ok(), "{off}"),
            Some(part) => refused(scene.renew(), Reason::CertificateInvalid, part),
        }
    }
}

#[test]
fn an_ended_issuer_ends_its_certificates() {
    let far = NOW.plus(ca::ISSUING_LIFETIME + 10);
    let mut scene = Scene::new("EC:P-256").tamper(|open| {
        open.tbs.validity.not_after = far.plus(1000).to_der().unwrap().into();
    });
    scene.now = far;
    scene.timestamp = far.secs();
    refused(scene.renew(), Reason::CertificateInvalid, "issuer is not valid now");
}

/// Dates of the issuer count to the second, whatever the certificate claims for itself.
#[test]
fn a_certificate_is_in_date_with_its_issuer_only() {
    let mut scene = Scene::new("EC:P-256").tamper(|open| {
        open.tbs.validity.not_before = NOW.plus(-ca::ISSUING_LIFETIME).to_der().unwrap().into();
        open.tbs.validity.not_after = NOW.plus(2 * ca::ISSUING_LIFETIME).to_der().unwrap().into();
    });
    let issuer = &scene.authority.issuing;
    let (first, last) = (issuer.not_before(), issuer.not_after());
    for (now, valid) in [(first.plus(-1), false), (first, true), (last, true), (last.plus(1), false)] {
        scene.now = now;
        scene.timestamp = now.secs();
        match scene.renew() {
            Ok(_) => assert!(valid, "{now:?}"),
            refusal => {
                assert!(!valid, "{now:?}");
                refused(refusal, Reason::CertificateInvalid, "issuer is not valid now");
            }
        }
    }
}

#[test]
fn another_trust_domain_is_refused() {
    let mut scene = Scene::new("EC:P-256");
    scene.trust_domain = "other.example.com";
    refused(scene.renew(), Reason::CertificateInvalid, "SPIFFE id");
    scene.trust_domain = "";
    refused(scene.renew(), Reason::CertificateInvalid, "SPIFFE id");
}

/// A change to an otherwise good certificate, and the part of the detail that shows which check saw it; a refused SPIFFE id speaks of the
/// subject, too.
type Change = (&'static str, &'static str, fn(&mut Open));

const OTHER_SHAPES: &[Change] = &[
    ("version 1", "version or algorithm", |open| open.tbs.version = Version::V1),
    ("issuer unique id", "version or algorithm", |open| {
        open.tbs.issuer_unique_id = Some(BitString::from_bytes(&[1]).unwrap());
    }),
    ("subject unique id", "version or algorithm", |open| {
        open.tbs.subject_unique_id = Some(BitString::from_bytes(&[1]).unwrap());
    }),
    ("inner algorithm", "version or algorithm", |open| {
        open.tbs.signature.oid = der::oid::db::rfc5912::ECDSA_WITH_SHA_384;
    }),
    ("no subject", ": subject", |open| open.tbs.subject = x509_cert::name::Name::default()),
    ("CN before O", ": subject", |open| {
        open.tbs.subject = format!("O=acme,CN={RUNNER_ID}").parse().unwrap();
    }),
    ("two O", ": subject", |open| {
        open.tbs.subject = format!("CN={RUNNER_ID},O=acme,O=acme").parse().unwrap();
    }),
    ("one RDN", ": subject", |open| open.tbs.subject = format!("CN={RUNNER_ID}+O=acme").parse().unwrap()),
    ("a third RDN", ": subject", |open| {
        open.tbs.subject = format!("OU=x,CN={RUNNER_ID},O=acme").parse().unwrap();
    }),
    // Long enough to come behind in the set, where only its length tells.
    ("more beside O", ": subject", |open| {
        open.tbs.subject = format!("CN={RUNNER_ID},O=acme+OU={}", "x".repeat(40)).parse().unwrap();
    }),
    ("more beside CN", ": subject", |open| {
        open.tbs.subject = format!("CN={RUNNER_ID}+OU={},O=acme", "x".repeat(40)).parse().unwrap();
    }),
    ("another tenant", "SPIFFE id", |open| open.tbs.subject = format!("CN={RUNNER_ID},O=globex").parse().unwrap()),
    ("another runner", "SPIFFE id", |open| {
        open.tbs.subject = format!("CN={},O=acme", "a".repeat(26)).parse().unwrap();
    }),
    ("SAN with a second name", "SPIFFE id", |open| {
        let uri = GeneralName::UniformResourceIdentifier(Ia5String::new(&id()).unwrap());
        let dns = GeneralName::DnsName(Ia5String::new("edge.example.com").unwrap());
        open.set_extension(rfc5280::ID_CE_SUBJECT_ALT_NAME, &SubjectAltName(vec![uri, dns]));
    }),
    ("SAN as DNS name", "SPIFFE id", |open| {
        let dns = GeneralName::DnsName(Ia5String::new(&id()).unwrap());
        open.set_extension(rfc5280::ID_CE_SUBJECT_ALT_NAME, &SubjectAltName(vec![dns]));
    }),
    ("critical SAN", "SPIFFE id", |open| open.extension(rfc5280::ID_CE_SUBJECT_ALT_NAME).critical = true),
    ("a CA", "it is a CA", |open| {
        let constraints = BasicConstraints { ca: true, path_len_constraint: None };
        open.set_extension(rfc5280::ID_CE_BASIC_CONSTRAINTS, &constraints);
    }),
    ("path length without CA", "it is a CA", |open| {
        let constraints = BasicConstraints { ca: false, path_len_constraint: Some(0) };
        open.set_extension(rfc5280::ID_CE_BASIC_CONSTRAINTS, &constraints);
    }),
    ("basic constraints not critical", "it is a CA", |open| {
        open.extension(rfc5280::ID_CE_BASIC_CONSTRAINTS).critical = false;
    }),
    ("server only", "clientAuth", |open| {
        open.set_extension(rfc5280::ID_CE_EXT_KEY_USAGE, &ExtendedKeyUsage(vec![rfc5280::ID_KP_SERVER_AUTH]));
    }),
    ("server as well", "clientAuth", |open| {
        let both = ExtendedKeyUsage(vec![rfc5280::ID_KP_CLIENT_AUTH, rfc5280::ID_KP_SERVER_AUTH]);
        open.set_extension(rfc5280::ID_CE_EXT_KEY_USAGE, &both);
    }),
    ("any purpose", "clientAuth", |open| {
        let any = ExtendedKeyUsage(vec![rfc5280::ANY_EXTENDED_KEY_USAGE]);
        open.set_extension(rfc5280::ID_CE_EXT_KEY_USAGE, &any);
    }),
    ("signs certificates", "digitalSignature", |open| {
        let usage = KeyUsage(KeyUsages::DigitalSignature | KeyUsages::KeyCertSign);
        open.set_extension(rfc5280::ID_CE_KEY_USAGE, &usage);
    }),
    ("another authority", "authority key identifier", |open| {
        let authority = open.extension(rfc5280::ID_CE_AUTHORITY_KEY_IDENTIFIER);
        let mut octets = authority.extn_value.as_bytes().to_vec();
        *octets.last_mut().unwrap() ^= 1;
        authority.extn_value = der::asn1::OctetString::new(octets).unwrap();
    }),
    ("broken CRL distribution point", "CRL distribution point", |open| {
        open.set_extension(rfc5280::ID_CE_CRL_DISTRIBUTION_POINTS, &true);
    }),
    ("broken subject key identifier", "subject key identifier", |open| {
        open.set_extension(rfc5280::ID_CE_SUBJECT_KEY_IDENTIFIER, &true);
    }),
    ("an extension of another kind", "unknown or repeated", |open| {
        open.extension(rfc5280::ID_CE_CRL_DISTRIBUTION_POINTS).extn_id = rfc5280::ID_CE_NAME_CONSTRAINTS;
    }),
    ("the same extension twice", "unknown or repeated", |open| {
        let twice = open.extension(rfc5280::ID_CE_SUBJECT_ALT_NAME).clone();
        open.tbs.extensions.as_mut().unwrap().push(twice);
    }),
    ("no extensions", "no extension", |open| open.tbs.extensions = None),
    ("serial zero", "serial", |open| {
        open.tbs.serial_number = x509_cert::serial_number::SerialNumber::new(&[0]).unwrap();
    }),
    ("serial of 17 octets", "serial", |open| {
        open.tbs.serial_number = x509_cert::serial_number::SerialNumber::new(&[0x71; 17]).unwrap();
    }),
    ("a key we do not take", "public key", |open| {
        open.tbs.key.algorithm.oid = rfc3280::EMAIL_ADDRESS;
    }),
];

/// Names that no runner of ours can have, in a certificate that agrees with itself and is signed by our CA.
#[test]
fn names_that_could_not_be_ours_are_refused_whatever_the_spiffe_id_says() {
    let base = Scene::new("EC:P-256");
    let capitals = RUNNER_ID.to_uppercase();
    let (short, long) = (&RUNNER_ID[1..], format!("{RUNNER_ID}a"));
    let outside = format!("{}1", &RUNNER_ID[1..]);
    let endless = "a".repeat(64);
    let named = |tenant: &str, runner_id: &str| {
        base.clone().tamper(|open| {
            open.tbs.subject = format!("CN={runner_id},O={tenant}").parse().unwrap();
            let uri = Ia5String::new(&spiffe_id(TRUST_DOMAIN, tenant, runner_id)).unwrap();
            let names = SubjectAltName(vec![GeneralName::UniformResourceIdentifier(uri)]);
            open.set_extension(rfc5280::ID_CE_SUBJECT_ALT_NAME, &names);
        })
    };
    for (tenant, runner_id) in [
        ("Acme", RUNNER_ID),
        ("acme/runner/x", RUNNER_ID),
        ("acme-", RUNNER_ID),
        (&endless, RUNNER_ID),
        ("acme", short),
        ("acme", &long),
        ("acme", &outside),
        ("acme", &capitals),
    ] {
        refused(named(tenant, runner_id).renew(), Reason::CertificateInvalid, ": subject");
    }
    assert!(named("acme", RUNNER_ID).renew().is_ok(), "the tool itself breaks certificates");
}

fn id() -> String {
    format!("spiffe://edge.example.com/tenant/acme/runner/{RUNNER_ID}")
}

#[test]
fn a_certificate_of_another_shape_is_refused_though_our_ca_signed_it() {
    let base = Scene::new("EC:P-256");
    for (name, part, change) in OTHER_SHAPES {
        let scene = base.clone().tamper(change);
        let outcome = scene.renew();
        assert!(outcome.is_err(), "{name}");
        refused(outcome, Reason::CertificateInvalid, part);
    }
    for oid in [
        rfc5280::ID_CE_BASIC_CONSTRAINTS,
        rfc5280::ID_CE_KEY_USAGE,
        rfc5280::ID_CE_EXT_KEY_USAGE,
        rfc5280::ID_CE_SUBJECT_ALT_NAME,
        rfc5280::ID_CE_SUBJECT_KEY_IDENTIFIER,
        rfc5280::ID_CE_AUTHORITY_KEY_IDENTIFIER,
    ] {
        let scene = base
            .clone()
            .tamper(|open| open.tbs.extensions.as_mut().unwrap().retain(|extension| extension.extn_id != oid));
        refused(scene.renew(), Reason::CertificateInvalid, "no extension");
    }
    let unchanged = base.clone().tamper(|_| ());
    assert!(unchanged.renew().is_ok(), "the tool itself breaks certificates");
    let without_crl = base.clone().tamper(|open| {
        open.tbs.extensions.as_mut().unwrap().retain(|one| one.extn_id != rfc5280::ID_CE_CRL_DISTRIBUTION_POINTS);
    });
    assert!(without_crl.renew().is_ok());
}

#[test]
fn text_that_is_no_certificate() {
    let scene = Scene::new("EC:P-256");
    let good = scene.proof().certificate.into_owned();
    for bad in [
        String::new(),
        "-----BEGIN CERTIFICATE-----".to_owned(),
        [good.clone(), good.clone()].concat(),
        good.replace("CERTIFICATE", "TRUSTED CERTIFICATE"),
        b64url(&scene.certificate),
        to_pem(&[scene.certificate.as_slice(), &[0]].concat()),
        to_pem(&[]),
        "x".repeat(16 * 1024),
    ] {
        let outcome = scene.try_with(Some(RenewalProof { certificate: bad.into(), ..scene.proof() }), None);
        refused(outcome, Reason::CertificateInvalid, "certificate: not");
    }
    let long = Cow::Owned("x".repeat(16 * 1024 + 1));
    let denial = scene.try_with(Some(RenewalProof { certificate: long, ..scene.proof() }), None).unwrap_err();
    assert_eq!(denial.code, Code::MalformedRequest);
}

#[test]
fn every_cut_and_a_flipped_bit_in_every_octet_are_refused() {
    let scene = Scene::new("EC:P-256");
    let attempt = |der: &[u8]| scene.try_with(None, edge(&rfc9440(der)).as_ref());
    attempt(&scene.certificate).unwrap();
    for index in 0..scene.certificate.len() {
        assert!(attempt(&scene.certificate[..index]).is_err(), "cut at {index}");
        let mut flipped = scene.certificate.clone();
        flipped[index] ^= 1 << (index % 8);
        assert!(attempt(&flipped).is_err(), "octet {index}");
    }
}

/// RFC 9440 text of a certificate.
fn rfc9440(der: &[u8]) -> String {
    use base64::Engine as _;
    format!(":{}:", base64::engine::general_purpose::STANDARD.encode(der))
}

fn edge(text: &str) -> Option<EdgeClientCertificate> {
    EdgeClientCertificate::from_edge(EdgeTlsFields { verified: Some("SUCCESS"), revoked: None, rfc9440: Some(text) })
        .unwrap()
}

#[test]
fn the_edge_speaks_only_when_it_verified() {
    let scene = Scene::new("EC:P-256");
    let text = rfc9440(&scene.certificate);
    let fields = EdgeTlsFields { verified: Some("SUCCESS"), revoked: Some("0"), rfc9440: Some(&text) };
    assert!(EdgeClientCertificate::from_edge(fields).unwrap().is_some());
    for none in [
        EdgeTlsFields { verified: None, ..fields },
        EdgeTlsFields { verified: Some("NONE"), ..fields },
        EdgeTlsFields { verified: Some("FAILED:self signed certificate"), ..fields },
        EdgeTlsFields { verified: Some("success"), ..fields },
        EdgeTlsFields { revoked: Some("1"), ..fields },
        EdgeTlsFields { revoked: Some("true"), ..fields },
        EdgeTlsFields { rfc9440: None, ..fields },
        EdgeTlsFields { rfc9440: Some(""), ..fields },
    ] {
        assert_eq!(EdgeClientCertificate::from_edge(none), Ok(None), "{none:?}");
    }
    for bad in ["AAAA", ":AAAA", "AAAA:", ":AA!A:", ":A:", " :AAAA:", &format!(":{}:", "A".repeat(24 * 1024))] {
        let denial = EdgeClientCertificate::from_edge(EdgeTlsFields { rfc9440: Some(bad), ..fields }).unwrap_err();
        assert_eq!(denial.reason, Some(Reason::CertificateInvalid), "{bad}");
    }
    // As large as a certificate may be, then one octet more.
    let of = |octets: usize| {
        let text = rfc9440(&vec![0; octets]);
        EdgeClientCertificate::from_edge(EdgeTlsFields { rfc9440: Some(&text), ..fields })
    };
    assert!(of(16 * 1024).unwrap().is_some());
    assert_eq!(of(16 * 1024 + 1).unwrap_err().reason, Some(Reason::CertificateInvalid));
}

#[test]
fn an_edge_certificate_alone_is_enough_and_passes_every_check() {
    let scene = Scene::new("EC:P-256");
    let proven = scene.try_with(None, edge(&rfc9440(&scene.certificate)).as_ref()).unwrap();
    assert_eq!(proven.serial().to_hex(), "4a0102030405060708090a0b0c0d0e0f");
    refused(scene.try_with(None, None), Reason::CertificateInvalid, "no client certificate");
    refused(scene.try_with(None, edge(":AAAA:").as_ref()), Reason::CertificateInvalid, "not the DER");

    let stranger = Open::from_der(&scene.certificate).sign(&Key::new("another key"));
    refused(scene.try_with(None, edge(&rfc9440(&stranger)).as_ref()), Reason::CertificateInvalid, "not issued");
    let mut late = Scene::new("EC:P-256");
    late.now = NOW.plus(4000);
    refused(late.try_with(None, edge(&rfc9440(&late.certificate)).as_ref()), Reason::CertificateInvalid, "ended at");
}

#[test]
fn body_and_edge_must_agree() {
    let scene = Scene::new("EC:P-256");
    let same = edge(&rfc9440(&scene.certificate));
    assert!(scene.try_with(Some(scene.proof()), same.as_ref()).is_ok());
    let other = edge(&rfc9440(&Scene::new("EC:P-256").certificate));
    refused(scene.try_with(Some(scene.proof()), other.as_ref()), Reason::CertificateInvalid, "TLS connection");
    let bad_proof = RenewalProof { signature: "AAAA".into(), ..scene.proof() };
    refused(scene.try_with(Some(bad_proof), same.as_ref()), Reason::ProofInvalid, "signature is not by");
}

#[test]
fn after_a_rotation_old_certificates_live_until_they_end() {
    let mut scene = Scene::new("EC:P-256");
    let old = &scene.authority;
    let new_key = Key::new("the next issuing CA");
    let next = block_on(ca::issuing(
        "Example Inc",
        &old.root,
        &old.root_key,
        &new_key.public(),
        NOW,
        &Repeatable("next issuing"),
    ))
    .unwrap();
    let both = [next.to_pem(), old.issuing.to_pem()].concat();
    let rotated = IssuingCa::from_pem(&both, &old.root.to_pem()).unwrap();
    block_on(rotated.verify_signatures(&RustCrypto)).unwrap();
    assert_eq!(*rotated.public_key(), new_key.public());
    assert_eq!(rotated.chain_pem(), next.to_pem());
    let alone = IssuingCa::from_pem(&next.to_pem(), &old.root.to_pem()).unwrap();

    scene.authority.ca = rotated;
    assert!(scene.renew().is_ok());
    scene.authority.ca = alone;
    refused(scene.renew(), Reason::CertificateInvalid, "not issued by this verifier");
}
