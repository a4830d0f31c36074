//! Public keys in the one form both signature back ends take, checked before either sees them.
//!
//! Accepted (CHECKS I1, K4): RSA of 2048 to 4096 bits with an odd modulus and e = 65537, points on P-256 and P-384, Ed25519.

use std::any::Any;
use std::cell::OnceCell;
use std::fmt;
use std::rc::Rc;

use p256::elliptic_curve::point::AffineCoordinates;
use thiserror::Error;

/// RSA public exponent; no other is accepted.
pub const RSA_EXPONENT: u32 = 65_537;

/// A public key whose parameters have been checked.
#[derive(Clone)]
pub struct PublicKey {
    inner: Inner,
    /// See [`Self::keep`].
    kept: OnceCell<Rc<dyn Any>>,
}

/// Checked parameters, for the back ends.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Inner {
    Rsa(Vec<u8>),
    P256([u8; 65]),
    P384([u8; 97]),
    Ed25519([u8; 32]),
}

impl From<Inner> for PublicKey {
    fn from(inner: Inner) -> Self {
        Self { inner, kept: OnceCell::new() }
    }
}

impl PartialEq for PublicKey {
    fn eq(&self, other: &Self) -> bool {
        self.inner == other.inner
    }
}

impl Eq for PublicKey {}

impl fmt::Debug for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}

/// View of a [`PublicKey`] for a signature back end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyMaterial<'a> {
    /// Modulus, big-endian without leading zeros; the exponent is [`RSA_EXPONENT`].
    Rsa {
        /// Modulus.
        modulus: &'a [u8],
    },
    /// Uncompressed SEC 1 point: 4, x, y.
    P256(&'a [u8; 65]),
    /// Uncompressed SEC 1 point: 4, x, y.
    P384(&'a [u8; 97]),
    /// RFC 8032 public key.
    Ed25519(&'a [u8; 32]),
}

/// Signature algorithms, each with one hash (RFC 7518, RFC 8037). ECDSA signatures are r‖s (P1363) at this border.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SignatureAlgorithm {
    /// RSASSA-PKCS1-v1_5 with SHA-256.
    Rs256,
    /// RSASSA-PKCS1-v1_5 with SHA-384: CSRs only.
    Rs384,
    /// RSASSA-PKCS1-v1_5 with SHA-512: CSRs only.
    Rs512,
    /// ECDSA on P-256 with SHA-256.
    Es256,
    /// ECDSA on P-384 with SHA-384.
    Es384,
    /// Ed25519.
    EdDsa,
}

/// The name in JOSE's registry.
impl fmt::Display for SignatureAlgorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Rs256 => "RS256",
            Self::Rs384 => "RS384",
            Self::Rs512 => "RS512",
            Self::Es256 => "ES256",
            Self::Es384 => "ES384",
            Self::EdDsa => "EdDSA",
        })
    }
}

/// A key that is not accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum KeyError {
    /// Modulus outside 2048 … 4096 bits.
    #[error("RSA modulus must have 2048 to 4096 bits")]
    RsaSize,
    /// Exponent other than 65537.
    #[error("RSA exponent must be 65537")]
    RsaExponent,
    /// Even modulus, or one with leading zeros.
    #[error("RSA modulus is not a valid one")]
    RsaModulus,
    /// Not an uncompressed point of the curve.
    #[error("EC point is not on its curve")]
    Point,
    /// Not 32 octets.
    #[error("Ed25519 key must have 32 octets")]
    Ed25519,
    /// A point of small order, for which anyone can make signatures, or a second spelling of a point.
    #[error("Ed25519 key is a weak or non-canonical point")]
    Ed25519Weak,
}

impl PublicKey {
    /// RSA from big-endian modulus and exponent without leading zeros.
    pub fn rsa(modulus: &[u8], exponent: &[u8]) -> Result<Self, KeyError> {
        let (Some(first), Some(last)) = (modulus.first(), modulus.last()) else { return Err(KeyError::RsaSize) };
        let bits = modulus.len().saturating_mul(8).saturating_sub(first.leading_zeros() as usize);
        if *first == 0 {
            return Err(KeyError::RsaModulus);
        }
        if !(2048..=4096).contains(&bits) {
            return Err(KeyError::RsaSize);
        }
        if last & 1 == 0 {
            return Err(KeyError::RsaModulus);
        }
        if exponent != [1, 0, 1] {
            return Err(KeyError::RsaExponent);
        }
        Ok(Inner::Rsa(modulus.to_vec()).into())
    }

    /// P-256 from an uncompressed SEC 1 point.
    pub fn p256(point: &[u8]) -> Result<Self, KeyError> {
        let point: [u8; 65] = point.try_into().map_err(|_| KeyError::Point)?;
        if is_on_curve::<p256::AffinePoint>(&point) { Ok(Inner::P256(point).into()) } else { Err(KeyError::Point) }
    }

    /// P-384 from an uncompressed SEC 1 point.
    pub fn p384(point: &[u8]) -> Result<Self, KeyError> {
        let point: [u8; 97] = point.try_into().map_err(|_| KeyError::Point)?;
        if is_on_curve::<p384::AffinePoint>(&point) { Ok(Inner::P384(point).into()) } else { Err(KeyError::Point) }
    }

    /// Ed25519 from its 32 octets.
    pub fn ed25519(key: &[u8]) -> Result<Self, KeyError> {
        let key: [u8; 32] = key.try_into().map_err(|_| KeyError::Ed25519)?;
        if small_order_or_non_canonical(&key) {
            return Err(KeyError::Ed25519Weak);
        }
        Ok(Inner::Ed25519(key).into())
    }

    /// Keeps what a back end made of the key for as long as the key and its copies live, so that an imported key of a set ends with its set
    /// (CHECKS K8). What was kept first stays.
    pub fn keep<T: Any>(&self, made: T) {
        let _ = self.kept.set(Rc::new(made));
    }

    /// What was kept, where it is a `T`.
    pub fn kept<T: Any>(&self) -> Option<&T> {
        self.kept.get()?.downcast_ref()
    }

    /// The parameters, for a back end.
    pub fn material(&self) -> KeyMaterial<'_> {
        match &self.inner {
            Inner::Rsa(modulus) => KeyMaterial::Rsa { modulus },
            Inner::P256(point) => KeyMaterial::P256(point),
            Inner::P384(point) => KeyMaterial::P384(point),
            Inner::Ed25519(key) => KeyMaterial::Ed25519(key),
        }
    }

    /// The one algorithm of JWS, renewals and our CSRs for this kind of key.
    pub fn algorithm(&self) -> SignatureAlgorithm {
        match &self.inner {
            Inner::Rsa(_) => SignatureAlgorithm::Rs256,
            Inner::P256(_) => SignatureAlgorithm::Es256,
            Inner::P384(_) => SignatureAlgorithm::Es384,
            Inner::Ed25519(_) => SignatureAlgorithm::EdDsa,
        }
    }
}

/// Whether an uncompressed SEC 1 point is on its curve. The curve's own reader takes compressed points too, at the price of a square root.
fn is_on_curve<P>(point: &[u8]) -> bool
where
    P: AffineCoordinates,
    P::FieldRepr: for<'a> TryFrom<&'a [u8]>,
{
    let Some((4, coordinates)) = point.split_first() else { return false };
    let (x, y) = coordinates.split_at(coordinates.len() / 2);
    match (x.try_into(), y.try_into()) {
        (Ok(x), Ok(y)) => P::from_coordinates(&x, &y).is_some().into(),
        _ => false,
    }
}

/// Whether an Ed25519 key is one of the eight points of small order, or has y ≥ p (RFC 8032 section 5.1.3): the back ends differ on these.
fn small_order_or_non_canonical(key: &[u8; 32]) -> bool {
    /// y = 2^255 − 19, little-endian.
    const P: [u8; 32] = {
        let mut p = [0xff; 32];
        p[0] = 0xed;
        p[31] = 0x7f;
        p
    };
    /// y of the points of order 8 (with both signs of x); those of order 1, 2 and 4 have y = 1, −1 and 0.
    const ORDER_8: [[u8; 32]; 2] = [
        [
            0x26, 0xe8, 0x95, 0x8f, 0xc2, 0xb2, 0x27, 0xb0, 0x45, 0xc3, 0xf4, 0x89, 0xf2, 0xef, 0x98, 0xf0, 0xd5, 0xdf,
            0xac, 0x05, 0xd3, 0xc6, 0x33, 0x39, 0xb1, 0x38, 0x02, 0x88, 0x6d, 0x53, 0xfc, 0x05,
        ],
        [
            0xc7, 0x17, 0x6a, 0x70, 0x3d, 0x4d, 0xd8, 0x4f, 0xba, 0x3c, 0x0b, 0x76, 0x0d, 0x10, 0x67, 0x0f, 0x2a, 0x20,
            0x53, 0xfa, 0x2c, 0x39, 0xcc, 0xc6, 0x4e, 0xc7, 0xfd, 0x77, 0x92, 0xac, 0x03, 0x7a,
        ],
    ];
    let mut y = *key;
    if let Some(last) = y.last_mut() {
        *last &= 0x7f;
    }
    let only_first = |first: u8| y.iter().skip(1).all(|octet| *octet == 0) && y.first() == Some(&first);
    let minus_one = {
        let mut p = P;
        p[0] = 0xec;
        p
    };
    y.iter().rev().ge(P.iter().rev()) || only_first(0) || only_first(1) || y == minus_one || ORDER_8.contains(&y)
}

#[cfg(test)]
mod tests {
    use super::*;
    use p256::elliptic_curve::sec1::ToSec1Point as _;

    use crate::encoding::hex;

    /// CHECKS I1, K4: each bound from both sides.
    #[test]
    fn rsa_bounds() {
        let modulus = |bits: usize| {
            let mut modulus = vec![0xff; bits.div_ceil(8)];
            modulus[0] >>= (8 - bits % 8) % 8;
            modulus
        };
        let e = [1, 0, 1];
        assert!(PublicKey::rsa(&modulus(2048), &e).is_ok());
        assert!(PublicKey::rsa(&modulus(4096), &e).is_ok());
        for bits in [512, 2047, 4097, 8192, 16_384] {
            assert_eq!(PublicKey::rsa(&modulus(bits), &e), Err(KeyError::RsaSize), "{bits}");
        }
        for exponent in [&[][..], &[1], &[3], &[0, 1, 0, 1], &[1, 0, 0], &[1, 0, 1, 0], &[2, 0, 1]] {
            assert_eq!(PublicKey::rsa(&modulus(2048), exponent), Err(KeyError::RsaExponent));
        }
        let mut even = modulus(2048);
        even[255] = 0xfe;
        assert_eq!(PublicKey::rsa(&even, &e), Err(KeyError::RsaModulus));
        let padded = [&[0][..], &modulus(2048)].concat();
        assert_eq!(PublicKey::rsa(&padded, &e), Err(KeyError::RsaModulus));
    }

    #[test]
    fn points_must_be_on_their_curve_and_uncompressed() {
        let generator = p256::PublicKey::from_affine(p256::AffinePoint::GENERATOR).unwrap();
        let point = generator.to_sec1_point(false);
        assert!(PublicKey::p256(point.as_bytes()).is_ok());
        assert_eq!(PublicKey::p384(point.as_bytes()), Err(KeyError::Point));
        assert_eq!(PublicKey::p256(generator.to_sec1_point(true).as_bytes()), Err(KeyError::Point));
        assert_eq!(PublicKey::p256(&[0]), Err(KeyError::Point));
        assert_eq!(PublicKey::p256(&[]), Err(KeyError::Point));
        for flip in 0..65 {
            let mut wrong = point.as_bytes().to_vec();
            wrong[flip] ^= 1;
            assert_eq!(PublicKey::p256(&wrong), Err(KeyError::Point), "{flip}");
        }
        let mut hybrid = point.as_bytes().to_vec();
        for tag in [6, 7] {
            hybrid[0] = tag;
            assert_eq!(PublicKey::p256(&hybrid), Err(KeyError::Point));
        }
        let p384 = p384::PublicKey::from_affine(p384::AffinePoint::GENERATOR).unwrap().to_sec1_point(false);
        assert!(PublicKey::p384(p384.as_bytes()).is_ok());
        assert_eq!(PublicKey::p256(p384.as_bytes()), Err(KeyError::Point));
    }

    #[test]
    fn weak_ed25519_keys_are_refused() {
        let weak = |first: u8, middle: u8, last: u8| {
            let mut key = [middle; 32];
            key[0] = first;
            key[31] = last;
            key
        };
        for key in [
            weak(0, 0, 0),
            weak(1, 0, 0),
            weak(1, 0, 0x80),
            weak(0xec, 0xff, 0x7f),
            weak(0xed, 0xff, 0x7f),
            weak(0xee, 0xff, 0xff),
            weak(0xff, 0xff, 0xff),
        ] {
            assert_eq!(PublicKey::ed25519(&key), Err(KeyError::Ed25519Weak), "{}", hex(&key));
        }
        assert_eq!(PublicKey::ed25519(&[5; 31]), Err(KeyError::Ed25519));
        assert!(PublicKey::ed25519(&weak(2, 0, 0)).is_ok());
        assert!(PublicKey::ed25519(&weak(0xeb, 0xff, 0x7f)).is_ok());
    }

    /// The table above against the curve itself: exactly the eight points of the torsion subgroup.
    #[test]
    fn small_order_table_is_the_torsion_subgroup() {
        for point in curve25519_dalek::constants::EIGHT_TORSION {
            assert!(small_order_or_non_canonical(point.compress().as_bytes()));
        }
        assert!(!small_order_or_non_canonical(curve25519_dalek::constants::ED25519_BASEPOINT_COMPRESSED.as_bytes()));
    }

    #[test]
    fn what_a_back_end_made_lives_as_long_as_the_key() {
        let made = Rc::new("imported");
        let key = PublicKey::ed25519(&[9; 32]).unwrap();
        assert_eq!(key.kept::<Rc<&str>>(), None);
        key.keep(Rc::clone(&made));
        key.keep(Rc::new("later"));
        let copy = key.clone();
        assert_eq!((key.kept(), copy.kept(), copy.kept::<u8>()), (Some(&made), Some(&made), None));
        assert_eq!(key, PublicKey::ed25519(&[9; 32]).unwrap());
        drop((key, copy));
        assert_eq!(Rc::strong_count(&made), 1);
    }
}
