//! `Authorization` header (CHECKS S5): never a panic, and what is accepted has one spelling, but for the spaces behind its commas.
#![no_main]

use libfuzzer_sys::fuzz_target;
use verifier::aws::sigv4::Authorization;

fuzz_target!(|value: &str| {
    let Ok(parsed) = Authorization::parse(value) else { return };
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
    assert_eq!(value.replace(", ", ",").replacen(' ', "", 1).replace(' ', ""), again.replace(' ', ""));
    assert_eq!(parsed.signature.len(), 64);
});
