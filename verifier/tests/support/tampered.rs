//! Certificates that our CA would never make, signed by its key all the same.

use der::asn1::BitString;
use der::{Decode, Encode, Sequence};
use x509_cert::certificate::Version;
use x509_cert::ext::{Extension, Extensions};
use x509_cert::name::Name;
use x509_cert::serial_number::SerialNumber;
use x509_cert::spki::{AlgorithmIdentifierOwned, SubjectPublicKeyInfoOwned};
use x509_cert::time::Validity;

use super::Key;

/// RFC 5280 section 4.1 with every field open.
#[derive(Clone, Sequence)]
pub struct Tbs {
    #[asn1(context_specific = "0", default = "Default::default")]
    pub version: Version,
    pub serial_number: SerialNumber,
    pub signature: AlgorithmIdentifierOwned,
    pub issuer: Name,
    pub validity: Validity,
    pub subject: Name,
    pub key: SubjectPublicKeyInfoOwned,
    #[asn1(context_specific = "1", tag_mode = "IMPLICIT", optional = "true")]
    pub issuer_unique_id: Option<BitString>,
    #[asn1(context_specific = "2", tag_mode = "IMPLICIT", optional = "true")]
    pub subject_unique_id: Option<BitString>,
    #[asn1(context_specific = "3", tag_mode = "EXPLICIT", optional = "true")]
    pub extensions: Option<Extensions>,
}

/// A certificate taken apart.
#[derive(Clone, Sequence)]
pub struct Open {
    pub tbs: Tbs,
    pub algorithm: AlgorithmIdentifierOwned,
    pub signature: BitString,
}

impl Open {
    pub fn from_der(der: &[u8]) -> Self {
        Decode::from_der(der).unwrap()
    }

    pub fn extension(&mut self, oid: der::asn1::ObjectIdentifier) -> &mut Extension {
        self.tbs.extensions.as_mut().unwrap().iter_mut().find(|extension| extension.extn_id == oid).unwrap()
    }

    pub fn set_extension(&mut self, oid: der::asn1::ObjectIdentifier, value: &impl Encode) {
        self.extension(oid).extn_value = der::asn1::OctetString::new(value.to_der().unwrap()).unwrap();
    }

    /// DER, signed by `key`.
    pub fn sign(mut self, key: &Key) -> Vec<u8> {
        let signature = p256::ecdsa::Signature::from_slice(&key.sign_raw(&self.tbs.to_der().unwrap())).unwrap();
        self.signature = BitString::from_bytes(signature.to_der().as_bytes()).unwrap();
        self.to_der().unwrap()
    }
}
