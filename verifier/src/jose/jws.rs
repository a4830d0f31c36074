//! Compact JWS (RFC 7515 section 7.1): form, header and payload of a token, nothing believed yet (CHECKS K1, K2).
//!
//! Only `alg` and `kid` of the header are used. A header that could change what is verified or how (`crit`, `b64`, `zip`) is refused; one
//! that brings or points to a key (`jwk`, `jku`, `x5c`, `x5u`) is never looked at. Out of scope: the JSON serialization, JWE, claims.

use protocol::limits;
use serde::de::MapAccess;
use thiserror::Error;

use super::json::{Anything, Claim, FromJson, Value, members, read_object};
use crate::encoding::{from_b64url, shown};
use crate::keys::SignatureAlgorithm;

/// A token's parts. The signature has not been verified.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Jws<'t> {
    algorithm: SignatureAlgorithm,
    kid: Option<Box<str>>,
    payload: Vec<u8>,
    signature: Vec<u8>,
    signing_input: &'t str,
}

/// Why a text is no token that could be verified.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum JwsError {
    /// Larger than 16 KiB.
    #[error("the token is larger than {} octets", limits::JWT)]
    TooLarge,
    /// Not three non-empty parts.
    #[error("the token must have three non-empty parts, separated by dots")]
    Parts,
    /// Not base64url in its one canonical spelling.
    #[error("the token's {0} is not canonical base64url without padding")]
    Base64(&'static str),
    /// Not one JSON object without duplicate members.
    #[error("the token's {0} is not one JSON object without duplicate members: {1}")]
    Json(&'static str, String),
    /// A header member of the wrong type or with a value that no ServiceAccount token has.
    #[error("the token's header has an unfit `{0}`")]
    Header(&'static str),
    /// CHECKS K2.
    #[error("the token's `alg` is {0}; RS256 or ES256 is needed")]
    Algorithm(String),
    /// CHECKS K2.
    #[error("the token's header has `{0}`, which is not allowed")]
    Extension(&'static str),
}

impl<'t> Jws<'t> {
    /// CHECKS K1 and K2. That the payload is an object without duplicate members is checked where its claims are read ([`Self::claims`]).
    pub fn parse(token: &'t str) -> Result<Self, JwsError> {
        if token.len() > limits::JWT {
            return Err(JwsError::TooLarge);
        }
        let (signing_input, signature) = token.rsplit_once('.').ok_or(JwsError::Parts)?;
        let (header, payload) = signing_input.split_once('.').ok_or(JwsError::Parts)?;
        if header.is_empty() || payload.is_empty() || signature.is_empty() || payload.contains('.') {
            return Err(JwsError::Parts);
        }
        let header = from_b64url(header).ok_or(JwsError::Base64("header"))?;
        let payload = from_b64url(payload).ok_or(JwsError::Base64("payload"))?;
        let signature = from_b64url(signature).ok_or(JwsError::Base64("signature"))?;
        let (algorithm, kid) = read_header(&header).map_err(|error| match error {
            // K1 comes first: what K2 refuses is a token in form.
            JwsError::Algorithm(_) | JwsError::Extension(_) => {
                read_payload::<Anything>(&payload).map_or_else(|unfit| unfit, |_| error)
            }
            other => other,
        })?;
        Ok(Self { algorithm, kid, payload, signature, signing_input })
    }

    /// Reads the payload: one JSON object without duplicate members (CHECKS K1).
    pub(crate) fn claims<'s, T: FromJson<'s>>(&'s self) -> Result<T, JwsError> {
        read_payload(&self.payload)
    }

    /// `alg`: RS256 or ES256.
    pub const fn algorithm(&self) -> SignatureAlgorithm {
        self.algorithm
    }

    /// `kid`.
    pub fn kid(&self) -> Option<&str> {
        self.kid.as_deref()
    }

    /// Octets of the payload.
    pub fn payload(&self) -> &[u8] {
        &self.payload
    }

    /// Octets of the signature.
    pub fn signature(&self) -> &[u8] {
        &self.signature
    }

    /// What was signed.
    pub const fn signing_input(&self) -> &'t str {
        self.signing_input
    }
}

fn read_payload<'s, T: FromJson<'s>>(payload: &'s [u8]) -> Result<T, JwsError> {
    read_object(payload).map_err(|error| JwsError::Json("payload", error.to_string()))
}

/// CHECKS K2.
fn read_header(text: &[u8]) -> Result<(SignatureAlgorithm, Option<Box<str>>), JwsError> {
    let header: Header = read_object(text).map_err(|error| JwsError::Json("header", error.to_string()))?;
    if let Some(extension) = header.extension {
        return Err(JwsError::Extension(extension));
    }
    let algorithm = match &header.alg {
        Claim::Is(alg) if &**alg == "RS256" => SignatureAlgorithm::Rs256,
        Claim::Is(alg) if &**alg == "ES256" => SignatureAlgorithm::Es256,
        Claim::Is(other) => return Err(JwsError::Algorithm(format!("\"{}\"", shown(other)))),
        Claim::Wrong => return Err(JwsError::Algorithm("no text".to_owned())),
        Claim::Absent => return Err(JwsError::Algorithm("missing".to_owned())),
    };
    // RFC 8725 section 3.11: a token that says it is of another kind (`at+jwt`) is no ServiceAccount token, whoever signed it.
    match &header.typ {
        Claim::Absent => {}
        Claim::Is(typ) if typ.eq_ignore_ascii_case("JWT") => {}
        Claim::Is(_) | Claim::Wrong => return Err(JwsError::Header("typ")),
    }
    match header.kid {
        Claim::Absent => Ok((algorithm, None)),
        Claim::Is(kid) => Ok((algorithm, Some(kid))),
        Claim::Wrong => Err(JwsError::Header("kid")),
    }
}

#[derive(Default)]
struct Header {
    alg: Claim<Box<str>>,
    kid: Claim<Box<str>>,
    typ: Claim<Box<str>>,
    extension: Option<&'static str>,
}

impl<'de> FromJson<'de> for Header {
    fn other() -> Self {
        Self::default()
    }

    fn object<A: MapAccess<'de>>(mut map: A) -> Result<Self, A::Error> {
        let mut header = Self::default();
        members(&mut map, |name, map| {
            match name {
                "alg" => header.alg = map.next_value::<Value<_>>()?.0,
                "kid" => header.kid = map.next_value::<Value<_>>()?.0,
                "typ" => header.typ = map.next_value::<Value<_>>()?.0,
                "crit" => header.extension = Some("crit"),
                "b64" => header.extension = Some("b64"),
                "zip" => header.extension = Some("zip"),
                _ => {}
            }
            Ok(matches!(name, "alg" | "kid" | "typ"))
        })?;
        Ok(header)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::encoding::b64url;

    const HEADER: &str = r#"{"alg":"RS256","kid":"a"}"#;

    fn token(header: &str, payload: &str) -> String {
        format!("{}.{}.{}", b64url(header.as_bytes()), b64url(payload.as_bytes()), b64url(&[7; 64]))
    }

    fn header(header: &str) -> Result<(SignatureAlgorithm, Option<Box<str>>), JwsError> {
        let token = token(header, "{}");
        Jws::parse(&token).map(|jws| (jws.algorithm, jws.kid))
    }

    #[test]
    fn parts_of_a_token() {
        let text = token(HEADER, r#"{"a":1}"#);
        let jws = Jws::parse(&text).unwrap();
        assert_eq!((jws.algorithm(), jws.kid()), (SignatureAlgorithm::Rs256, Some("a")));
        assert_eq!((jws.payload(), jws.signature()), (&br#"{"a":1}"#[..], &[7; 64][..]));
        assert_eq!(jws.signing_input(), text.rsplit_once('.').unwrap().0);
    }

    /// CHECKS K1.
    #[test]
    fn form() {
        let good = token(HEADER, "{}");
        let [first, second, third] = good.split('.').collect::<Vec<_>>()[..] else { panic!() };
        for bad in [
            String::new(),
            ".".to_owned(),
            "..".to_owned(),
            first.to_owned(),
            format!("{first}.{second}"),
            format!("{first}.{second}."),
            format!(".{second}.{third}"),
            format!("{first}..{third}"),
            format!("{good}."),
            format!("{good}.{third}"),
            format!("{good}.{third}.{third}"),
        ] {
            assert_eq!(Jws::parse(&bad), Err(JwsError::Parts), "{bad}");
        }
        for bad in [
            format!("{good}\n"),
            format!(" {good}"),
            format!("{good}="),
            format!("{first}=.{second}.{third}"),
            format!("{first}.{second}==.{third}"),
            format!("{first}.{second} .{third}"),
            format!("{first}.{second}.{}", third.replace('B', "+")),
            format!("{first}.{second}.{third}é"),
            // Stray bits in the last character: the same octets, another spelling.
            format!("{first}.{second}.{}", b64url(&[7; 64]).replace("Bw", "Bx")),
        ] {
            assert!(matches!(Jws::parse(&bad), Err(JwsError::Base64(_))), "{bad}");
        }
        assert_eq!(Jws::parse(&"a".repeat(limits::JWT + 1)), Err(JwsError::TooLarge));
        assert_eq!(Jws::parse(&token(HEADER, &"x".repeat(1 << 20))), Err(JwsError::TooLarge));
        assert_eq!(
            Jws::parse(&token(&format!(r#"{{"alg":"RS256","kid":"{}"}}"#, "k".repeat(100_000)), "{}")),
            Err(JwsError::TooLarge)
        );
        let prefix = token(HEADER, "{ }");
        let largest = format!("{}.{}", prefix.rsplit_once('.').unwrap().0, "A".repeat(limits::JWT));
        assert!(Jws::parse(&largest[..limits::JWT]).is_ok());
        assert_eq!(Jws::parse(&largest[..=limits::JWT]), Err(JwsError::TooLarge));
    }

    /// CHECKS K2: `none` and its spellings, symmetric algorithms, siblings of the allowed ones, wrong types.
    #[test]
    fn algorithms() {
        for bad in [
            "none",
            "None",
            "NONE",
            "nOnE",
            "",
            "HS256",
            "HS384",
            "HS512",
            "RS384",
            "RS512",
            "PS256",
            "PS384",
            "ES384",
            "ES512",
            "ES256K",
            "EdDSA",
            "rs256",
            "RS256 ",
            "RS256\\u0000",
            "RSA-OAEP",
            "dir",
        ] {
            let outcome = header(&format!(r#"{{"alg":"{bad}"}}"#));
            assert!(matches!(outcome, Err(JwsError::Algorithm(_))), "{bad}: {outcome:?}");
        }
        for bad in ["null", "1", "true", "[\"RS256\"]", "{\"a\":\"RS256\"}"] {
            assert_eq!(header(&format!(r#"{{"alg":{bad}}}"#)), Err(JwsError::Algorithm("no text".to_owned())), "{bad}");
        }
        assert_eq!(header("{}"), Err(JwsError::Algorithm("missing".to_owned())));
        assert_eq!(header(r#"{"ALG":"RS256"}"#), Err(JwsError::Algorithm("missing".to_owned())));
        assert_eq!(header(r#"{"alg":"ES256"}"#), Ok((SignatureAlgorithm::Es256, None)));
        assert_eq!(header(r#"{"\u0061lg":"ES256"}"#), Ok((SignatureAlgorithm::Es256, None)));
    }

    /// CHECKS K2; RFC 7515 section 4.1.11, RFC 7797.
    #[test]
    fn extensions() {
        for (member, value) in [
            ("crit", "[]"),
            ("crit", "[\"exp\"]"),
            ("crit", "null"),
            ("b64", "true"),
            ("b64", "false"),
            ("zip", "\"DEF\""),
        ] {
            let outcome = header(&format!(r#"{{"alg":"RS256","{member}":{value}}}"#));
            assert!(matches!(outcome, Err(JwsError::Extension(name)) if name == member), "{member}: {outcome:?}");
        }
    }

    /// CHECKS K2: brought or named keys are as if they were not there.
    #[test]
    fn keys_in_the_header_are_not_looked_at() {
        let with = r#"{"alg":"RS256","kid":"a","jwk":{"kty":"oct","k":"AA"},"jku":"https://evil.example/","x5u":1,"x5c":["AA"],"x5t":null}"#;
        assert_eq!(header(with), header(HEADER));
    }

    /// The order of CHECKS: a token that is out of form is that, whatever its header says.
    #[test]
    fn form_comes_before_algorithm() {
        for header in [r#"{"alg":"none"}"#, "{}", r#"{"alg":"RS256","crit":[]}"#] {
            for payload in ["", "[]", "x", r#"{"a":1,"a":1}"#, r#"{"a":{"b":1,"b":2}}"#] {
                let outcome = Jws::parse(&token(header, payload)).map(drop);
                assert!(matches!(outcome, Err(JwsError::Json("payload", _) | JwsError::Parts)), "{header} {payload}");
            }
            assert!(matches!(Jws::parse(&token(header, "{}")), Err(JwsError::Algorithm(_) | JwsError::Extension(_))));
        }
    }

    #[test]
    fn header_types_and_duplicates() {
        for (bad, member) in [
            (r#"{"alg":"RS256","kid":5}"#, "kid"),
            (r#"{"alg":"RS256","kid":null}"#, "kid"),
            (r#"{"alg":"RS256","kid":["a"]}"#, "kid"),
            (r#"{"alg":"RS256","typ":5}"#, "typ"),
            // Pinned: `hdr_typ_at` of the vectors.
            (r#"{"alg":"RS256","typ":"at+jwt"}"#, "typ"),
            (r#"{"alg":"RS256","typ":""}"#, "typ"),
        ] {
            assert_eq!(header(bad), Err(JwsError::Header(member)), "{bad}");
        }
        assert!(header(r#"{"alg":"RS256","typ":"jwt"}"#).is_ok());
        for bad in [
            r#"{"alg":"none","alg":"RS256"}"#,
            r#"{"alg":"RS256","alg":"RS256"}"#,
            r#"{"alg":"RS256","\u0061lg":"none"}"#,
            r#"{"alg":"RS256","kid":"a","kid":"b"}"#,
            r#"{"alg":"RS256","jwk":{"a":1,"a":2}}"#,
            r#"{"alg":"RS256","x":[{"a":1,"a":2}]}"#,
            r#"["RS256"]"#,
            r#""RS256""#,
            "null",
            "",
        ] {
            let outcome = header(bad);
            assert!(matches!(outcome, Err(JwsError::Json("header", _) | JwsError::Parts)), "{bad}: {outcome:?}");
        }
    }

    /// The documents' own tokens: the one that is RS256 or ES256 is read as it says, every other is refused for what it is.
    #[test]
    fn examples_of_the_rfcs() {
        let claims = "eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNvbS9pc19yb290Ijp0cnVlfQ";
        let payload = b"{\"iss\":\"joe\",\r\n \"exp\":1300819380,\r\n \"http://example.com/is_root\":true}";
        // RFC 7515 appendices A.2 and A.3.
        for (header, algorithm) in
            [("eyJhbGciOiJSUzI1NiJ9", SignatureAlgorithm::Rs256), ("eyJhbGciOiJFUzI1NiJ9", SignatureAlgorithm::Es256)]
        {
            let token = format!("{header}.{claims}.AAAA");
            let jws = Jws::parse(&token).unwrap();
            assert_eq!((jws.algorithm(), jws.kid(), jws.payload()), (algorithm, None, &payload[..]));
        }
        let refused = |token: &str| Jws::parse(token).unwrap_err();
        // RFC 7515 appendix A.1 and RFC 7519 section 3.1: HS256.
        let hs256 =
            format!("eyJ0eXAiOiJKV1QiLA0KICJhbGciOiJIUzI1NiJ9.{claims}.dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk");
        assert_eq!(refused(&hs256), JwsError::Algorithm("\"HS256\"".to_owned()));
        // RFC 7515 appendix A.4: ES512.
        let es512 = format!("eyJhbGciOiJFUzUxMiJ9.UGF5bG9hZA.{}", "A".repeat(176));
        // Its payload is no object, which comes first (CHECKS K1), as in appendix E.
        assert!(matches!(refused(&es512), JwsError::Json("payload", _)));
        let es512 = es512.replace("UGF5bG9hZA", claims);
        assert_eq!(refused(&es512), JwsError::Algorithm("\"ES512\"".to_owned()));
        // RFC 7515 appendix A.5 and RFC 7519 section 6.1: unsecured; the same with something in the place of a signature.
        assert_eq!(refused(&format!("eyJhbGciOiJub25lIn0.{claims}.")), JwsError::Parts);
        assert_eq!(refused(&format!("eyJhbGciOiJub25lIn0.{claims}.AA")), JwsError::Algorithm("\"none\"".to_owned()));
        // RFC 7515 appendix E: a critical extension that nobody knows.
        let critical = "eyJhbGciOiJub25lIiwNCiAiY3JpdCI6WyJodHRwOi8vZXhhbXBsZS5jb20vVU5ERUZJTkVEIl0sDQogImh0dHA6Ly9leGFtcGxlLmNvbS9VTkRFRklORUQiOnRydWUNCn0.RkFJTA.AA";
        assert!(matches!(refused(critical), JwsError::Json("payload", _)));
        assert_eq!(refused(&critical.replace("RkFJTA", claims)), JwsError::Extension("crit"));
        // RFC 7797 section 4.2: an unencoded payload.
        let unencoded =
            "eyJhbGciOiJIUzI1NiIsImI2NCI6ZmFsc2UsImNyaXQiOlsiYjY0Il19.$.02.A5dxf2s96_n5FLueVuW1Z_vh161FwXZC4YLPff6dmDY";
        assert!(matches!(refused(unencoded), JwsError::Parts | JwsError::Base64(_)));
        // RFC 7515 appendix A.7: the JSON serialization; RFC 7516 appendix A.1: a JWE's five parts.
        let json = format!(r#"{{"payload":"{claims}","protected":"eyJhbGciOiJFUzI1NiJ9","signature":"AAAA"}}"#);
        assert_eq!(refused(&json), JwsError::Parts);
        assert_eq!(refused("eyJhbGciOiJSU0EtT0FFUCIsImVuYyI6IkEyNTZHQ00ifQ.AAAA.AAAA.AAAA.AAAA"), JwsError::Parts);
    }

    proptest! {
        #[test]
        fn never_panics(text in ".{0,200}") {
            let _ = Jws::parse(&text);
        }

        #[test]
        fn hostile_headers_never_panic(header in ".{0,200}", payload in proptest::collection::vec(any::<u8>(), 0..200)) {
            let token = format!("{}.{}.AA", b64url(header.as_bytes()), b64url(&payload));
            let _ = Jws::parse(&token);
        }

        /// One token, one spelling: no other text with the same octets parses.
        #[test]
        fn spelling_is_unique(at in 0usize..10_000, with in "[A-Za-z0-9_=+/ -]") {
            let text = token(HEADER, r#"{"sub":"x"}"#);
            let at = at % text.len();
            let mut other = text.clone();
            other.replace_range(at..=at, &with);
            if let (Ok(a), Ok(b)) = (Jws::parse(&text), Jws::parse(&other)) && other != text {
                prop_assert!((a.algorithm, &a.kid, &a.payload, &a.signature) != (b.algorithm, &b.kid, &b.payload, &b.signature));
            }
        }
    }
}
