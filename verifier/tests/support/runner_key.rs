//! Keys of every kind a runner may have, made by OpenSSL, signing as JWS do.

use jsonwebtoken::{Algorithm, EncodingKey};
use pollster::block_on;
use verifier::issuance::{UnverifiedCsr, VerifiedCsr};
use verifier::rust_crypto::RustCrypto;

use super::Folder;

/// A runner's key pair and a CSR for it.
#[derive(Clone)]
pub struct RunnerKey {
    algorithm: Algorithm,
    encoding: EncodingKey,
    pub csr_der: Vec<u8>,
    /// PKCS#8, DER.
    pub pkcs8: Vec<u8>,
}

impl RunnerKey {
    /// `EC:P-256`, `EC:P-384`, `RSA:2048`, `ED25519`.
    pub fn generate(kind: &str) -> Self {
        let folder = Folder::new();
        let mut generate = vec!["genpkey", "-outform", "DER", "-out", "key.der", "-algorithm"];
        let parameter = kind.split_once(':').map(|(family, value)| match family {
            "EC" => format!("ec_paramgen_curve:{value}"),
            _ => format!("rsa_keygen_bits:{value}"),
        });
        generate.push(kind.split(':').next().unwrap());
        if let Some(parameter) = &parameter {
            generate.extend(["-pkeyopt", parameter]);
        }
        folder.openssl_ok(&generate);
        folder.openssl_ok(&[
            "pkcs8",
            "-topk8",
            "-nocrypt",
            "-in",
            "key.der",
            "-inform",
            "DER",
            "-outform",
            "DER",
            "-out",
            "pkcs8.der",
        ]);
        let digest = if kind == "EC:P-384" { "-sha384" } else { "-sha256" };
        folder.openssl_ok(&[
            "req", "-new", "-key", "key.der", "-keyform", "DER", "-subj", "/CN=x", digest, "-outform", "DER", "-out",
            "csr.der",
        ]);
        let read = |name: &str| std::fs::read(folder.path().join(name)).unwrap();
        let (algorithm, encoding) = match kind {
            "EC:P-256" => (Algorithm::ES256, EncodingKey::from_ec_der(&read("pkcs8.der"))),
            "EC:P-384" => (Algorithm::ES384, EncodingKey::from_ec_der(&read("pkcs8.der"))),
            "ED25519" => (Algorithm::EdDSA, EncodingKey::from_ed_der(&read("pkcs8.der"))),
            _ => {
                folder.openssl_ok(&[
                    "rsa",
                    "-in",
                    "key.der",
                    "-inform",
                    "DER",
                    "-traditional",
                    "-outform",
                    "DER",
                    "-out",
                    "rsa.der",
                ]);
                (Algorithm::RS256, EncodingKey::from_rsa_der(&read("rsa.der")))
            }
        };
        Self { algorithm, encoding, csr_der: read("csr.der"), pkcs8: read("pkcs8.der") }
    }

    pub fn csr(&self) -> VerifiedCsr {
        block_on(UnverifiedCsr::from_der(self.csr_der.clone()).unwrap().verify(&RustCrypto)).unwrap()
    }

    /// base64url, as RFC 7518 and RFC 8037 have it.
    pub fn sign(&self, text: &str) -> String {
        jsonwebtoken::crypto::sign(text.as_bytes(), &self.encoding, self.algorithm).unwrap()
    }
}
