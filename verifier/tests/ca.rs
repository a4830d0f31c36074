//! Our own CAs against OpenSSL's opinion of them, and what is refused as a CA's configuration (CHECKS I2, I7).

mod support;

use der::oid::db::rfc5280;
use pollster::block_on;
use support::tampered::Open;
use support::{Authority, Folder, Key, NOW, Repeatable};
use verifier::issuance::ca::AuthorityError;
use verifier::issuance::{CaCertificate, CaError, IssuingCa, RootCrl, ca};
use verifier::rust_crypto::RustCrypto;
use x509_cert::ext::pkix::{BasicConstraints, KeyUsage, KeyUsages};

fn pem(der: &[u8]) -> String {
    der::pem::encode_string("CERTIFICATE", der::pem::LineEnding::LF, der).unwrap()
}

#[test]
fn openssl_accepts_root_issuing_ca_and_root_crl() {
    let authority = Authority::new("one");
    let folder = Folder::new();
    folder.write("root.pem", authority.root.to_pem());
    folder.write("issuing.pem", authority.issuing.to_pem());
    folder.write("root.crl", &authority.root_crl.pem);
    for at in [NOW, authority.issuing.not_after().plus(-1)] {
        let at = at.secs().to_string();
        let strict = ["verify", "-x509_strict", "-attime", &at, "-CAfile", "root.pem"];
        folder.openssl_ok(&[&strict[..], &["issuing.pem"]].concat());
        folder.openssl_ok(&[&strict[..], &["-crl_check", "-CRLfile", "root.crl", "issuing.pem"]].concat());
    }
    assert_eq!(authority.root.not_after(), NOW.plus(ca::ROOT_LIFETIME));
    assert_eq!(authority.ca.not_after(), NOW.plus(ca::ISSUING_LIFETIME));
    block_on(authority.ca.verify_signatures(&RustCrypto)).unwrap();
}

#[test]
fn an_issuing_ca_ends_with_its_root() {
    let authority = Authority::new("old");
    let key = Key::new("late");
    let make = |now| {
        block_on(ca::issuing(
            "Example Inc",
            &authority.root,
            &authority.root_key,
            &key.public(),
            now,
            &Repeatable("late"),
        ))
    };
    let late = make(authority.root.not_after().plus(-1000)).unwrap();
    assert_eq!(late.not_after(), authority.root.not_after());
    let early = make(authority.root.not_before()).unwrap();
    assert_eq!(early.not_before(), authority.root.not_before());
    for now in [authority.root.not_after().plus(1), authority.root.not_before().plus(-1)] {
        assert!(matches!(make(now), Err(AuthorityError::RootNotValid(_))));
    }
    for organization in [String::new(), "x".repeat(65)] {
        let root = block_on(ca::root(&organization, &key.public(), &key, NOW, &Repeatable("x")));
        assert_eq!(root.unwrap_err(), AuthorityError::Organization);
    }
}

#[test]
fn each_root_list_carries_on_what_the_one_before_said() {
    let (authority, stranger) = (Authority::new("lists"), Authority::new("stranger"));
    let key = Key::new("second");
    let (public, repeatable) = (key.public(), Repeatable("2"));
    let second = ca::issuing("Example Inc", &authority.root, &authority.root_key, &public, NOW, &repeatable);
    let second = block_on(second).unwrap();
    let read = |pem: &str| block_on(RootCrl::read(pem, &authority.root, &RustCrypto));
    let sign = |list: &RootCrl, now| block_on(list.sign(&authority.root, &authority.root_key, now)).unwrap();
    let number = |pem: &str| {
        let folder = Folder::new();
        folder.write("list.pem", pem);
        folder.openssl_ok(&["crl", "-in", "list.pem", "-noout", "-crlnumber"])
    };

    let mut list = read(&authority.root_crl.pem).unwrap();
    assert!(!list.lists(&authority.issuing));
    let mut revoke = |certificate| block_on(list.revoke(certificate, &authority.root, NOW, &RustCrypto));
    assert!(matches!(revoke(&stranger.issuing), Err(AuthorityError::NotBelow { .. })));
    assert!(matches!(revoke(&authority.root), Err(AuthorityError::NotBelow { .. })));
    revoke(&authority.issuing).unwrap();
    revoke(&authority.issuing).unwrap();
    // In the same second, and with a clock that went back: numbers grow all the same.
    let first = sign(&list, NOW);
    let again = sign(&read(&first.pem).unwrap(), NOW.plus(-86_400));
    assert_ne!(number(&authority.root_crl.pem), number(&first.pem));
    assert!(number(&first.pem) < number(&again.pem));
    let list = read(&again.pem).unwrap();
    assert!(list.lists(&authority.issuing) && !list.lists(&second));

    let folder = Folder::new();
    folder.write("root.pem", authority.root.to_pem());
    folder.write("list.pem", &first.pem);
    folder.write("first.pem", authority.issuing.to_pem());
    folder.write("second.pem", second.to_pem());
    let at = NOW.secs().to_string();
    let verify =
        ["verify", "-x509_strict", "-attime", &at, "-CAfile", "root.pem", "-crl_check_all", "-CRLfile", "list.pem"];
    folder.openssl_ok(&[&verify[..], &["second.pem"]].concat());
    let refused = folder.openssl(&[&verify[..], &["first.pem"]].concat());
    assert!(!refused.status.success() && String::from_utf8_lossy(&refused.stderr).contains("certificate revoked"));

    // Nothing else is carried on: another root's list, an altered one, no list at all.
    for bad in [stranger.root_crl.pem.as_str(), &authority.root.to_pem(), "", &first.pem.replace("MII", "MIH")] {
        read(bad).unwrap_err();
    }
}

#[test]
fn two_generations_never_share_a_name() {
    let one = Authority::new("one");
    let key = Key::new("two");
    let two =
        block_on(ca::issuing("Example Inc", &one.root, &one.root_key, &key.public(), NOW, &Repeatable("2"))).unwrap();
    assert_ne!(one.issuing.subject(), two.subject());
}

#[test]
fn what_is_configured_is_checked() {
    let authority = Authority::new("configured");
    let other = Authority::new("other");
    let (issuing, root) = (authority.issuing.to_pem(), authority.root.to_pem());
    let load = |chain: &str, roots: &str| IssuingCa::from_pem(chain, roots).map(|ca| ca.chain_pem().to_owned());

    let commented = format!("subject=CN\n{issuing}\n");
    assert_eq!(load(&commented, &root), Ok(issuing.clone()));
    assert_eq!(load(&issuing, &[other.root.to_pem(), root.clone()].concat()), Ok(issuing.clone()));
    // A root in the list is no part of what follows a leaf.
    assert_eq!(load(&[issuing.clone(), root.clone()].concat(), &root), Ok(issuing.clone()));

    assert_eq!(load("", &root), Err(CaError::Empty));
    assert_eq!(load(&issuing, ""), Err(CaError::Empty));
    assert_eq!(load(&issuing.replace("CERTIFICATE", "PRIVATE KEY"), &root), Err(CaError::Pem));
    assert_eq!(load(&pem(&[0x30, 0]), &root), Err(CaError::Malformed));
    assert!(matches!(load(&issuing, &other.root.to_pem()), Err(CaError::UnknownIssuer(_))));
    assert!(matches!(load(&[issuing.clone(), other.issuing.to_pem()].concat(), &root), Err(CaError::UnknownIssuer(_))));
}

#[test]
fn what_is_no_ca_is_refused() {
    let authority = Authority::new("no ca");
    let tampered = |change: &dyn Fn(&mut Open)| {
        let mut open = Open::from_der(authority.issuing.der());
        change(&mut open);
        let chain = pem(&open.sign(&authority.root_key));
        IssuingCa::from_pem(&chain, &authority.root.to_pem()).map(|_| ())
    };
    tampered(&|_| ()).unwrap();
    let drop_extension =
        |oid| tampered(&|open| open.tbs.extensions.as_mut().unwrap().retain(|extension| extension.extn_id != oid));
    assert!(matches!(drop_extension(rfc5280::ID_CE_BASIC_CONSTRAINTS), Err(CaError::NotACa(_))));
    assert!(matches!(drop_extension(rfc5280::ID_CE_KEY_USAGE), Err(CaError::NotACa(_))));
    assert!(matches!(drop_extension(rfc5280::ID_CE_SUBJECT_KEY_IDENTIFIER), Err(CaError::NoKeyIdentifier(_))));
    let usage = |usage| tampered(&|open| open.set_extension(rfc5280::ID_CE_KEY_USAGE, &KeyUsage(usage)));
    assert!(matches!(usage(KeyUsages::CRLSign.into()), Err(CaError::NotACa(_))));
    assert!(matches!(usage(KeyUsages::KeyCertSign.into()), Err(CaError::NoCrlSign(_))));
    let leaf = BasicConstraints { ca: false, path_len_constraint: None };
    let no_ca = tampered(&|open| open.set_extension(rfc5280::ID_CE_BASIC_CONSTRAINTS, &leaf));
    assert!(matches!(no_ca, Err(CaError::NotACa(_))));
    assert_eq!(tampered(&|open| open.tbs.version = x509_cert::Version::V1), Err(CaError::Malformed));
    let strange_key = tampered(&|open| open.tbs.key.algorithm.oid = rfc5280::ID_CE_KEY_USAGE);
    assert!(matches!(strange_key, Err(CaError::Key(..))));
}

#[test]
fn path_lengths_and_signatures_of_the_chain() {
    let authority = Authority::new("deep");
    // An issuing CA of path length 0 must not have another CA below it.
    let key = Key::new("too deep");
    let below = |above: &CaCertificate, above_key: &Key| {
        block_on(ca::issuing("Example Inc", above, above_key, &key.public(), NOW, &Repeatable("deep"))).unwrap()
    };
    let deep = below(&authority.issuing, &authority.issuing_key);
    let chain = [deep.to_pem(), authority.issuing.to_pem()].concat();
    assert!(matches!(IssuingCa::from_pem(&chain, &authority.root.to_pem()), Err(CaError::PathLength(_))));

    // With room in the path lengths it is a chain of two, and the upper one issues no runners.
    let raise = |certificate: &CaCertificate, signer: &Key| {
        let mut open = Open::from_der(certificate.der());
        let constraints = BasicConstraints { ca: true, path_len_constraint: None };
        open.set_extension(rfc5280::ID_CE_BASIC_CONSTRAINTS, &constraints);
        CaCertificate::from_der(open.sign(signer)).unwrap()
    };
    let root = raise(&authority.root, &authority.root_key);
    let upper = raise(&authority.issuing, &authority.root_key);
    let chain = [deep.to_pem(), upper.to_pem()].concat();
    let ca = IssuingCa::from_pem(&chain, &root.to_pem()).unwrap();
    assert_eq!(ca.chain_pem(), chain);
    assert_eq!(ca.issuers().collect::<Vec<_>>(), [&deep]);
    block_on(ca.verify_signatures(&RustCrypto)).unwrap();

    let forged = CaCertificate::from_der(Open::from_der(authority.issuing.der()).sign(&Key::new("forger"))).unwrap();
    let ca = IssuingCa::from_pem(&forged.to_pem(), &authority.root.to_pem()).unwrap();
    assert!(matches!(block_on(ca.verify_signatures(&RustCrypto)), Err(CaError::Signature(_))));
}
