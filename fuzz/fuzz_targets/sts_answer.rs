//! Answer of STS (CHECKS S11, S14), each body under both content types and as an error: never a panic, an identity only with status
//! 200, and never one that both readers see in the same body.
#![no_main]

use libfuzzer_sys::fuzz_target;
use verifier::aws::caller_identity::{AnswerError, read};

fuzz_target!(|body: &[u8]| {
    let [json, xml] = ["application/json", "text/xml; charset=utf-8"].map(|content_type| {
        for status in [400, 403] {
            match read(status, Some(content_type), body) {
                Err(AnswerError::Refused { code: Some(code), .. }) => {
                    assert!(
                        (1..=64).contains(&code.len()) && code.bytes().all(|b| b.is_ascii_alphabetic() || b == b'.')
                    );
                }
                Err(AnswerError::Refused { code: None, .. } | AnswerError::Throttled { .. }) => {}
                other => panic!("{other:?}"),
            }
        }
        read(200, Some(content_type), body)
    });
    assert!(json.is_err() || xml.is_err());
});
