//! `Authorization` header (CHECKS S5): what is accepted has one spelling, but for the spaces behind its commas.

use verifier::aws::sigv4::Authorization;

/// One header value.
///
/// # Panics
///
/// When a property does not hold.
pub fn check(input: &[u8]) -> bool {
    let Ok(value) = std::str::from_utf8(input) else { return false };
    let Ok(parsed) = Authorization::parse(value) else { return false };
    let (_, rest) = value.split_once("Credential=").unwrap();
    let (key, _) = rest.split_once('/').unwrap();
    let again = format!(
        "AWS4-HMAC-SHA256Credential={key}/{}/{}/{}/aws4_request,SignedHeaders={},Signature={}",
        parsed.day,
        parsed.region,
        parsed.service,
        parsed.signed_headers.join(";"),
        parsed.signature
    );
    assert_eq!(value.replace(' ', ""), again.replace(' ', ""));
    assert_eq!(parsed.signature.len(), 64);
    assert!(parsed.signature.bytes().all(|octet| octet.is_ascii_hexdigit() && !octet.is_ascii_uppercase()));
    // CHECKS S5: SignedHeaders once, one of each name.
    for name in &parsed.signed_headers {
        assert_eq!(parsed.signed_headers.iter().filter(|other| *other == name).count(), 1);
        assert!(parsed.signs(name));
    }
    // Two values joined by a comma are never one.
    assert!(Authorization::parse(&format!("{value}, {value}")).is_err());
    true
}
