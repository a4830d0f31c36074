//! JWK sets (RFC 7517): which keys of a set can verify a token (CHECKS K4).
//!
//! The set itself must be well formed; each key stands for itself, so that an unusable one never spoils its neighbours. Usable are RSA
//! keys of 2048 to 4096 bits with e = 65537 for RS256, and points on P-256 for ES256.

use std::borrow::Cow;
use std::fmt;

use serde::de::{self, IgnoredAny, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;
use thiserror::Error;

use crate::encoding::from_b64url;
use crate::keys::{PublicKey, SignatureAlgorithm};

/// Keys in a set, usable or not (CHECKS K8).
pub const MAX_KEYS: usize = 100;
/// Keys of one set tried for one token (CHECKS K4).
pub const MAX_TRIED: usize = 4;

/// A key that can verify tokens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Jwk {
    kid: Option<Box<str>>,
    key: PublicKey,
}

impl Jwk {
    /// Key id.
    pub fn kid(&self) -> Option<&str> {
        self.kid.as_deref()
    }

    /// The key; its [`PublicKey::algorithm`] is the only one it verifies.
    pub const fn key(&self) -> &PublicKey {
        &self.key
    }
}

/// The usable keys of a JWK set: at least one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JwkSet {
    keys: Vec<Jwk>,
}

/// A text that is no JWK set, or one that can verify nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum JwkSetError {
    /// Not one JSON object with an array `keys`.
    #[error("not a JWK set: a JSON object with an array `keys` is needed")]
    NotASet,
    /// More than [`MAX_KEYS`].
    #[error("a JWK set may hold at most {MAX_KEYS} keys")]
    TooManyKeys,
    /// Nothing that can verify RS256 or ES256.
    #[error(
        "the JWK set holds no usable key: RSA of 2048 to 4096 bits with e = 65537, or P-256, for signatures, without private members"
    )]
    NoUsableKey,
}

/// No key of a set fits a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum SelectError {
    /// No `kid` in the token, several keys in the set.
    #[error("the token names no `kid`, and the issuer has more than one key")]
    KidRequired,
    /// No key with that `kid`.
    #[error("the issuer has no key with this `kid`")]
    UnknownKid,
    /// The key with that `kid` is for another algorithm.
    #[error("the key with this `kid` is for another algorithm")]
    AlgorithmMismatch,
}

impl JwkSet {
    /// Reads a JWK set and keeps the keys that can verify tokens.
    pub fn parse(text: &[u8]) -> Result<Self, JwkSetError> {
        let text = std::str::from_utf8(text).map_err(|_| JwkSetError::NotASet)?;
        if !is_object(text) {
            return Err(JwkSetError::NotASet);
        }
        let raw: RawSet<'_> = serde_json::from_str(text).map_err(|_| JwkSetError::NotASet)?;
        let RawKeys::Some(entries) = raw.keys else { return Err(JwkSetError::TooManyKeys) };
        let keys: Vec<Jwk> = entries.into_iter().filter_map(|entry| usable(entry.get())).collect();
        if keys.is_empty() { Err(JwkSetError::NoUsableKey) } else { Ok(Self { keys }) }
    }

    /// The usable keys, in the order of the set.
    pub fn keys(&self) -> &[Jwk] {
        &self.keys
    }

    /// Whether a token with this `kid` finds a key here (whatever its algorithm).
    pub fn has(&self, kid: Option<&str>) -> bool {
        self.matching(kid).next().is_some()
    }

    /// Whether there is a key to try for a token: one with its `kid`, by equality, or without a `kid` the only key of the set.
    pub fn check(&self, kid: Option<&str>, algorithm: SignatureAlgorithm) -> Result<(), SelectError> {
        match (self.has(kid), kid) {
            (false, None) => Err(SelectError::KidRequired),
            (false, Some(_)) => Err(SelectError::UnknownKid),
            (true, _) if self.candidates(kid, algorithm).next().is_none() => Err(SelectError::AlgorithmMismatch),
            (true, _) => Ok(()),
        }
    }

    /// The keys to try for a token that passed [`Self::check`], at most [`MAX_TRIED`].
    pub fn candidates(&self, kid: Option<&str>, algorithm: SignatureAlgorithm) -> impl Iterator<Item = &PublicKey> {
        self.matching(kid).map(Jwk::key).filter(move |key| key.algorithm() == algorithm).take(MAX_TRIED)
    }

    fn matching<'s>(&'s self, kid: Option<&str>) -> impl Iterator<Item = &'s Jwk> {
        let single = self.keys.len() == 1;
        self.keys.iter().filter(move |key| match kid {
            Some(kid) => key.kid() == Some(kid),
            None => single,
        })
    }
}

#[derive(Deserialize)]
struct RawSet<'a> {
    #[serde(borrow)]
    keys: RawKeys<'a>,
}

/// Each key as its text, so that a bad one is bad alone.
enum RawKeys<'a> {
    Some(Vec<&'a RawValue>),
    TooMany,
}

impl<'de: 'a, 'a> Deserialize<'de> for RawKeys<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct KeysVisitor;
        impl<'de> Visitor<'de> for KeysVisitor {
            type Value = RawKeys<'de>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an array of keys")
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
                let mut keys = Vec::new();
                while keys.len() < MAX_KEYS {
                    let Some(key) = seq.next_element()? else { return Ok(RawKeys::Some(keys)) };
                    keys.push(key);
                }
                let mut more = false;
                while seq.next_element::<IgnoredAny>()?.is_some() {
                    more = true;
                }
                Ok(if more { RawKeys::TooMany } else { RawKeys::Some(keys) })
            }
        }
        deserializer.deserialize_seq(KeysVisitor)
    }
}

/// Members that decide whether a key is usable; every other member is ignored (RFC 7517 section 4).
#[derive(Deserialize)]
struct RawJwk<'a> {
    #[serde(borrow)]
    kty: Text<'a>,
    #[serde(borrow, default)]
    kid: Option<Text<'a>>,
    #[serde(borrow, default)]
    alg: Option<Text<'a>>,
    #[serde(borrow, default, rename = "use")]
    usage: Option<Text<'a>>,
    #[serde(borrow, default)]
    key_ops: Option<Vec<Text<'a>>>,
    #[serde(borrow, default)]
    n: Option<Text<'a>>,
    #[serde(borrow, default)]
    e: Option<Text<'a>>,
    #[serde(borrow, default)]
    crv: Option<Text<'a>>,
    #[serde(borrow, default)]
    x: Option<Text<'a>>,
    #[serde(borrow, default)]
    y: Option<Text<'a>>,
    #[serde(default)]
    d: Absent,
    #[serde(default)]
    p: Absent,
    #[serde(default)]
    q: Absent,
    #[serde(default)]
    dp: Absent,
    #[serde(default)]
    dq: Absent,
    #[serde(default)]
    qi: Absent,
    #[serde(default)]
    oth: Absent,
    #[serde(default)]
    k: Absent,
}

/// Borrows where the JSON text has no escapes.
#[derive(Deserialize)]
#[serde(transparent)]
struct Text<'a>(#[serde(borrow)] Cow<'a, str>);

/// A private or symmetric member: its presence, with any value, makes the key unusable.
#[derive(Default)]
struct Absent;

impl<'de> Deserialize<'de> for Absent {
    fn deserialize<D: Deserializer<'de>>(_: D) -> Result<Self, D::Error> {
        Err(de::Error::custom("private member"))
    }
}

/// CHECKS K4 for one key of a set.
fn usable(text: &str) -> Option<Jwk> {
    if !is_object(text) {
        return None;
    }
    let raw: RawJwk<'_> = serde_json::from_str(text).ok()?;
    let RawJwk { d: Absent, p: Absent, q: Absent, dp: Absent, dq: Absent, qi: Absent, oth: Absent, k: Absent, .. } =
        raw;
    let for_signatures = raw.usage.is_none_or(|usage| usage.0 == "sig")
        && raw.key_ops.is_none_or(|operations| operations.iter().any(|operation| operation.0 == "verify"));
    if !for_signatures {
        return None;
    }
    let (key, algorithm) = match &*raw.kty.0 {
        "RSA" => (PublicKey::rsa(&octets(&raw.n?.0)?, &octets(&raw.e?.0)?).ok()?, "RS256"),
        "EC" if raw.crv.is_some_and(|curve| curve.0 == "P-256") => {
            let (x, y) = (octets(&raw.x?.0)?, octets(&raw.y?.0)?);
            // RFC 7518 section 6.2.1.2: full width, so that x and y cannot trade octets. A point of 65 octets leaves 32 to y.
            if x.len() != 32 {
                return None;
            }
            (PublicKey::p256(&[&[4], &*x, &*y].concat()).ok()?, "ES256")
        }
        _ => return None,
    };
    let fits = raw.alg.is_none_or(|alg| alg.0 == algorithm);
    fits.then(|| Jwk { kid: raw.kid.map(|kid| kid.0.into()), key })
}

/// serde would also take an array of the members' values for a struct.
fn is_object(text: &str) -> bool {
    text.trim_ascii_start().starts_with('{')
}

/// base64url; exact padding is let pass, since some issuers write it and it names the same octets.
fn octets(text: &str) -> Option<Vec<u8>> {
    let bare = text.trim_end_matches('=');
    let padding = text.len().checked_sub(bare.len())?;
    if padding > 0 && (padding > 2 || !text.len().is_multiple_of(4)) {
        return None;
    }
    from_b64url(bare)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::encoding::b64url;

    const N: &str = "j1JU_1oe2MejnoJRitw6ThvIDHys72jvlXgE3FCinBxzTSGB0Q8HZTsi3ZbyRoDJCuQgichBxNiw3RspVT_oHymIGeZYQl2xqzPj9V7sJsl8SQKTPjyFkQ-P15pNDsNWG58dSwEtup7K1Hlw7OGXgg7iITdxB4hur7u5ZWERVMi5ESOscaoWBqZRebyv-1XvZBmzp4Qlkm8uoEoYhYulFHOoeUa0DTWxvnpV0XhzMC7LZqQbuHE0tSW21eTdZWDftW_p57HsvM0T9uW_qHt2Es17LJomN6IdusnjC9UDXsj-iVUQKf3_sHKyKROsVqXLVa6vVtj2YojgKJfr7DLGIw";
    const X: &str = "X4j0UE15VFlmBkEwIBYNfQjGgvxVI55U1LF5AKcU72c";
    const Y: &str = "SC_bsdEXI9-4elYecYnYiukEnUOvkESAewPtHWWbsZs";

    fn rsa(more: &str) -> String {
        format!(r#"{{"kty":"RSA","n":"{N}","e":"AQAB"{more}}}"#)
    }

    fn ec(more: &str) -> String {
        format!(r#"{{"kty":"EC","crv":"P-256","x":"{X}","y":"{Y}"{more}}}"#)
    }

    /// The right point, cut at the wrong place.
    fn trading_octets(width: usize) -> String {
        let point = [octets(X).unwrap(), octets(Y).unwrap()].concat();
        let (x, y) = point.split_at(width);
        ec("").replace(X, &b64url(x)).replace(Y, &b64url(y))
    }

    fn set(keys: &[String]) -> Result<JwkSet, JwkSetError> {
        JwkSet::parse(format!(r#"{{"keys":[{}]}}"#, keys.join(",")).as_bytes())
    }

    #[test]
    fn usable_forms() {
        for key in [
            rsa(""),
            rsa(r#","alg":"RS256","use":"sig","kid":"a""#),
            rsa(r#","key_ops":["sign","verify"],"x5c":["AAAA"],"x5u":"https://evil.example/","other":{"a":[1]}"#),
            rsa(r#","kid":"""#),
            ec(""),
            ec(r#","alg":"ES256""#),
        ] {
            assert_eq!(set(std::slice::from_ref(&key)).unwrap().keys().len(), 1, "{key}");
        }
    }

    /// CHECKS K4: each of these is unusable, and a good key beside it stays usable.
    #[test]
    fn one_bad_key_never_spoils_the_set() {
        let private = ["d", "p", "q", "dp", "dq", "qi", "oth", "k"];
        let mut bad: Vec<String> = private.iter().map(|member| rsa(&format!(r#","{member}":"AQAB""#))).collect();
        bad.extend(private.iter().map(|member| rsa(&format!(r#","{member}":null"#))));
        bad.extend([
            rsa(r#","use":"enc""#),
            rsa(r#","use":"SIG""#),
            rsa(r#","use":5"#),
            rsa(r#","key_ops":["encrypt"]"#),
            rsa(r#","key_ops":[]"#),
            rsa(r#","alg":"RS384""#),
            rsa(r#","alg":"PS256""#),
            rsa(r#","alg":"HS256""#),
            rsa(r#","alg":"ES256""#),
            rsa(r#","alg":"rs256""#),
            rsa(r#","kid":5"#),
            rsa(r#","kty":"RSA""#),
            ec(r#","alg":"RS256""#),
            ec(r#","d":"AQAB""#),
            rsa("").replace("AQAB", "Aw"),
            rsa("").replace("AQAB", "AAEAAQ"),
            rsa("").replace("AQAB", "AQAB\\n"),
            rsa("").replace(N, &N[..340]),
            rsa("").replace(N, ""),
            rsa("").replace(r#""e":"AQAB""#, r#""x":"AQAB""#),
            rsa("").replace("RSA", "rsa"),
            rsa("").replace(N, &format!("AA{N}")),
            rsa("").replace("LGIw", "LGIx"),
            ec("").replace("P-256", "P-384"),
            ec("").replace("P-256", "secp256k1"),
            ec("").replace(X, Y),
            ec("").replace(X, &X[..42]),
            ec("").replace(X, &format!("AA{X}")),
            ec("").replace(Y, &Y[..42]),
            trading_octets(31),
            trading_octets(33),
            r#"{"kty":"oct","k":"AAAA","kid":"a"}"#.to_owned(),
            r#"{"kty":"OKP","crv":"Ed25519","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}"#.to_owned(),
            r#"{"kty":"AKP","alg":"ML-DSA-65","pub":"AAAA"}"#.to_owned(),
            r#"{"kty":5}"#.to_owned(),
            "{}".to_owned(),
            "[]".to_owned(),
            format!(r#"["RSA",null,null,null,null,"{N}","AQAB"]"#),
            "null".to_owned(),
            "5".to_owned(),
            r#""RSA""#.to_owned(),
        ]);
        for key in bad {
            assert_eq!(set(std::slice::from_ref(&key)), Err(JwkSetError::NoUsableKey), "{key}");
            let beside = set(&[key.clone(), rsa(r#","kid":"good""#), key.clone()]).unwrap();
            assert_eq!(beside.keys().len(), 1, "{key}");
        }
    }

    #[test]
    fn texts_that_are_no_set() {
        for bad in [
            "",
            "[]",
            "[[]]",
            "null",
            "{}",
            r#"{"keys":null}"#,
            r#"{"keys":{}}"#,
            r#"{"keys":[],"keys":[]}"#,
            r#"{"Keys":[]}"#,
            "<html><title>503</title></html>",
            r#"{"keys":[]} x"#,
            "\u{feff}{\"keys\":[]}",
            r#"{"keys":[{]}"#,
        ] {
            assert_eq!(JwkSet::parse(bad.as_bytes()), Err(JwkSetError::NotASet), "{bad}");
        }
        assert_eq!(JwkSet::parse(br#"{"keys":[]}"#), Err(JwkSetError::NoUsableKey));
        assert_eq!(JwkSet::parse(b"{\"keys\":[],\"\xff\":1}"), Err(JwkSetError::NotASet));
    }

    #[test]
    fn size_and_depth_are_bounded() {
        assert_eq!(set(&vec![rsa(""); 100]).unwrap().keys().len(), 100);
        assert_eq!(set(&vec![rsa(""); 101]), Err(JwkSetError::TooManyKeys));
        assert_eq!(set(&vec!["{}".to_owned(); 5_000]), Err(JwkSetError::TooManyKeys));
        for (open, close) in [("[", "]"), (r#"{"a":"#, "}")] {
            let deep = [&open.repeat(20_000), "1", &close.repeat(20_000)].concat();
            assert_eq!(JwkSet::parse(deep.as_bytes()), Err(JwkSetError::NotASet));
            let _ = JwkSet::parse(format!(r#"{{"keys":[{deep}]}}"#).as_bytes());
            let _ = JwkSet::parse(format!(r#"{{"keys":[{}],"x":{deep}}}"#, rsa("")).as_bytes());
            let _ = set(&[rsa(&format!(r#","other":{deep}"#))]);
        }
    }

    /// Pinned: exact padding is let pass (`jwk_padded` of the vectors), nothing else.
    #[test]
    fn padding() {
        assert!(set(&[rsa("").replace(N, &format!("{N}=="))]).is_ok());
        for tail in ["=", "===", "= =", "==\\n"] {
            assert!(set(&[rsa("").replace(N, &format!("{N}{tail}"))]).is_err(), "{tail}");
        }
        // Of 43 characters, one is exact; as many as fill another four are not.
        assert!(set(&[ec("").replace(X, &format!("{X}="))]).is_ok());
        for tail in ["==", "===", "=====", "========="] {
            assert!(set(&[ec("").replace(X, &format!("{X}{tail}"))]).is_err(), "{tail}");
        }
    }

    #[test]
    fn selection_by_kid() {
        use SignatureAlgorithm::{Es256, Rs256};
        let keys = set(&[rsa(r#","kid":"a""#), ec(r#","kid":"b""#), ec(r#","kid":"a""#), rsa("")]).unwrap();
        assert_eq!((keys.check(Some("a"), Rs256), keys.candidates(Some("a"), Rs256).count()), (Ok(()), 1));
        assert_eq!((keys.check(Some("a"), Es256), keys.candidates(Some("a"), Es256).count()), (Ok(()), 1));
        assert_eq!(keys.check(Some("b"), Rs256), Err(SelectError::AlgorithmMismatch));
        assert_eq!(keys.check(None, Rs256), Err(SelectError::KidRequired));
        for kid in ["", "A", "a ", "../a", "a\0", "' OR 1=1"] {
            assert_eq!(keys.check(Some(kid), Rs256), Err(SelectError::UnknownKid), "{kid}");
            assert_eq!(keys.candidates(Some(kid), Rs256).count(), 0);
        }
        let duplicates = set(&vec![rsa(r#","kid":"a""#); 9]).unwrap();
        assert_eq!(duplicates.candidates(Some("a"), Rs256).count(), 4);

        let single = set(&[rsa("")]).unwrap();
        assert_eq!(single.check(None, Rs256), Ok(()));
        assert_eq!(single.check(None, Es256), Err(SelectError::AlgorithmMismatch));
        assert_eq!(single.check(Some("a"), Rs256), Err(SelectError::UnknownKid));
        assert_eq!(set(&[rsa(r#","kid":"a""#)]).unwrap().check(None, Rs256), Ok(()));
    }
}
