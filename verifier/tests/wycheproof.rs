//! The native signature back end against Project Wycheproof (CHECKS K4, I1). The same suites run against WebCrypto in wasm.

use pollster::block_on;
use verifier::keys::KeyError;
use verifier::rust_crypto::RustCrypto;
use verifier::suites::{self, Report};

/// No vector answered wrongly, and none silently left out.
fn check(report: &Report, asked: usize, accepted: usize) {
    assert_eq!(report.wrong, [""; 0]);
    assert_eq!((report.asked, report.accepted), (asked, accepted));
}

#[test]
fn rsa_pkcs1() {
    let report = block_on(suites::rsa_pkcs1(&RustCrypto)).unwrap();
    check(&report, 2325, 63);
    // By our own checks: the whole 8192-bit set, and the few keys with e = 3.
    let refused = |error| report.keys_refused.iter().filter(|(_, refused)| *refused == error).count();
    assert_eq!((refused(KeyError::RsaSize), refused(KeyError::RsaExponent)), (258, 5));
    assert_eq!(report.keys_refused.len(), 263);
    // DigestInfo without NULL: refused, as WebCrypto does.
    assert_eq!(report.discretionary.len(), 9);
    assert!(report.discretionary.iter().all(|(name, accepted)| name.contains("Missing NULL") && !accepted));
}

#[test]
fn ecdsa_p1363() {
    let report = block_on(suites::ecdsa_p1363(&RustCrypto)).unwrap();
    check(&report, 542, 366);
    assert_eq!(report.keys_refused, []);
    assert_eq!(report.discretionary, []);
}

#[test]
fn ecdsa_der() {
    let report = block_on(suites::ecdsa_der(&RustCrypto)).unwrap();
    check(&report, 988, 368);
    assert_eq!(report.keys_refused, []);
    assert_eq!(report.discretionary, []);
}

#[test]
fn ed25519() {
    let report = block_on(suites::ed25519(&RustCrypto)).unwrap();
    check(&report, 151, 88);
    assert_eq!(report.keys_refused, []);
    assert_eq!(report.discretionary, []);
}
