//! Answer of STS (CHECKS S11, S14), each body under both content types and as an error: an identity only with status 200, never one
//! that both readers see in the same body, and never with anything before or after it.

use verifier::aws::caller_identity::{AnswerError, read};

const TYPES: [&str; 2] = ["application/json", "text/xml; charset=utf-8"];

/// One body.
///
/// # Panics
///
/// When a property does not hold.
pub fn check(body: &[u8]) -> bool {
    let [json, xml] = TYPES.map(|content_type| {
        for status in [400, 403] {
            match read(status, Some(content_type), body) {
                Err(AnswerError::Refused { code: Some(code), .. }) => {
                    assert!((1..=64).contains(&code.len()));
                    assert!(code.bytes().all(|octet| octet.is_ascii_alphabetic() || octet == b'.'));
                }
                Err(AnswerError::Refused { code: None, .. } | AnswerError::Throttled { .. }) => {}
                other => panic!("{other:?}"),
            }
        }
        read(200, Some(content_type), body)
    });
    assert!(json.is_err() || xml.is_err());
    for (answer, content_type) in [(&json, TYPES[0]), (&xml, TYPES[1])] {
        let Ok(identity) = answer else { continue };
        assert_eq!(read(200, Some(content_type), body).as_ref(), Ok(identity));
        for around in [[b"x".as_slice(), body].concat(), [body, b"x"].concat(), [body, body].concat()] {
            assert!(read(200, Some(content_type), &around).is_err());
        }
        // Only these two content types are read, and none is guessed.
        for other in [None, Some("text/html"), Some("application/octet-stream")] {
            assert!(read(200, other, body).is_err());
        }
    }
    json.is_ok() || xml.is_ok()
}
