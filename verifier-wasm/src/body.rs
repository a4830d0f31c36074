//! Request bodies: media type, then size, then text (PROTOCOL, Errors: order).

use futures_util::StreamExt as _;
use protocol::{Code, limits};
use verifier::Denial;
use worker::Request;

/// The body of a JSON call, at most 64 KiB, valid UTF-8.
pub async fn json_text(request: &mut Request) -> Result<String, Denial> {
    let header = |name: &str| request.headers().get(name).ok().flatten();
    if !header("content-type").is_some_and(|value| is_json(&value)) {
        return Err(Denial::new(Code::UnsupportedMediaType, "send the body as content-type: application/json"));
    }
    if header("content-length").and_then(|value| value.parse::<u64>().ok()).is_some_and(|n| n > limits::BODY as u64) {
        return Err(too_large());
    }
    String::from_utf8(read(request).await?).map_err(|_| Denial::malformed("the body is not UTF-8"))
}

async fn read(request: &mut Request) -> Result<Vec<u8>, Denial> {
    let Ok(mut stream) = request.stream() else {
        return Ok(Vec::new());
    };
    let mut body = Vec::new();
    while let Some(chunk) = stream.next().await {
        let chunk = chunk.map_err(|_| Denial::malformed("the body was cut off"))?;
        if body.len().saturating_add(chunk.len()) > limits::BODY {
            return Err(too_large());
        }
        body.extend_from_slice(&chunk);
    }
    Ok(body)
}

fn too_large() -> Denial {
    Denial::new(Code::PayloadTooLarge, format!("the body may have at most {} octets", limits::BODY))
}

fn is_json(value: &str) -> bool {
    let essence = value.split(';').next().unwrap_or_default().trim();
    essence.eq_ignore_ascii_case("application/json")
}
