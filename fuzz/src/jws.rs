//! Compact JWS (CHECKS K1, K2): what is accepted has the one spelling of its octets, an algorithm of two, and no extension, as another
//! reader sees it.

use serde_json::{Map, Value};
use verifier::encoding::{b64url, from_b64url};
use verifier::jose::Jws;
use verifier::keys::SignatureAlgorithm;

/// One token.
///
/// # Panics
///
/// When a property does not hold.
pub fn check(input: &[u8]) -> bool {
    let Ok(token) = std::str::from_utf8(input) else { return false };
    let Ok(jws) = Jws::parse(token) else { return false };
    let parts: Vec<&str> = token.split('.').collect();
    let [header, payload, signature] = parts[..] else { panic!("{} parts", parts.len()) };
    assert!(token.len() <= protocol::limits::JWT);
    // CHECKS K1: canonical base64url, what was signed is what was sent.
    assert_eq!(jws.signing_input(), format!("{header}.{payload}"));
    assert_eq!((b64url(jws.payload()).as_str(), b64url(jws.signature()).as_str()), (payload, signature));
    let header = from_b64url(header).unwrap();
    assert_eq!(b64url(&header), parts[0]);
    // CHECKS K2.
    let header: Map<String, Value> = serde_json::from_slice(&header).unwrap();
    let algorithm = match header["alg"].as_str().unwrap() {
        "RS256" => SignatureAlgorithm::Rs256,
        "ES256" => SignatureAlgorithm::Es256,
        other => panic!("{other}"),
    };
    assert_eq!(jws.algorithm(), algorithm);
    assert!(["crit", "b64", "zip"].iter().all(|extension| !header.contains_key(*extension)));
    assert_eq!(jws.kid(), header.get("kid").map(|kid| kid.as_str().unwrap()));
    assert!(header.get("typ").is_none_or(|typ| typ.as_str().unwrap().eq_ignore_ascii_case("JWT")));
    for other in [format!("{token}="), format!("{token}."), format!(" {token}"), format!("{token}\n")] {
        assert!(Jws::parse(&other).is_err());
    }
    true
}
