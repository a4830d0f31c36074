//! Our own CAs against OpenSSL's opinion of them (CHECKS I2, I7).

mod support;

use support::{Authority, Folder, NOW};

#[test]
fn openssl_accepts_root_issuing_ca_and_root_crl() {
    let authority = Authority::new("one");
    let folder = Folder::new();
    folder.write("root.pem", authority.root.to_pem());
    folder.write("issuing.pem", authority.issuing.to_pem());
    folder.write("root.crl", &authority.root_crl.pem);
    let at = NOW.secs().to_string();
    folder.openssl_ok(&["verify", "-x509_strict", "-attime", &at, "-CAfile", "root.pem", "issuing.pem"]);
    folder.openssl_ok(&[
        "verify",
        "-x509_strict",
        "-crl_check",
        "-CRLfile",
        "root.crl",
        "-attime",
        &at,
        "-CAfile",
        "root.pem",
        "issuing.pem",
    ]);
}
