//! Request bodies: media type, then size, then text (PROTOCOL, Errors: order).

use protocol::{Code, limits};
use verifier::Denial;

use crate::request::{BodyError, Request};

/// The body of a JSON call, at most 64 KiB, valid UTF-8.
pub async fn json_text(request: &Request) -> Result<String, Denial> {
    if !request.header("content-type").is_some_and(|value| is_json(&value)) {
        return Err(Denial::new(Code::UnsupportedMediaType, "send the body as content-type: application/json"));
    }
    let body = request.body(limits::BODY).await.map_err(|error| match error {
        BodyError::TooLarge => {
            Denial::new(Code::PayloadTooLarge, format!("the body may have at most {} octets", limits::BODY))
        }
        BodyError::Cut => Denial::malformed("the body was cut off"),
    })?;
    String::from_utf8(body).map_err(|_| Denial::malformed("the body is not UTF-8"))
}

fn is_json(value: &str) -> bool {
    let essence = value.split(';').next().unwrap_or_default().trim();
    essence.eq_ignore_ascii_case("application/json")
}
