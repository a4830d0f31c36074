//! AWS Signature Version 4, the receiving side, from the AWS General Reference ("Create a signed
//! AWS API request"): what the signer claims is parsed, the canonical request is made anew from
//! the bytes received, and the signature over it computed from the secret.
//!
//! Written against the specification with `hmac` and `sha2` alone, so that it can disagree with the
//! SDK's signer, which the runner uses. Knows nothing of keys, regions or time: see
//! [`super::authentication`].

use std::collections::BTreeMap;
use std::fmt::Write as _;

use axum::http::HeaderMap;
use base16ct::lower::encode_string;
use hmac::{Hmac, KeyInit as _, Mac as _};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, percent_encode};
use sha2::{Digest as _, Sha256};

const ALGORITHM: &str = "AWS4-HMAC-SHA256";
/// All but the unreserved characters of RFC 3986.
const QUERY_ESCAPES: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');
const PATH_ESCAPES: &AsciiSet = &QUERY_ESCAPES.remove(b'/');

/// The received request, as far as a signature covers it.
#[derive(Debug, Clone, Copy)]
pub struct SignedRequest<'a> {
    /// HTTP method.
    pub method: &'a str,
    /// Path as on the request line.
    pub path: &'a str,
    /// Query as on the request line, without the question mark.
    pub query: &'a str,
    /// All headers.
    pub headers: &'a HeaderMap,
    /// The body's bytes.
    pub body: &'a [u8],
}

/// `<key id>/<day>/<region>/<service>/<terminator>`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CredentialScope {
    /// The access key id.
    pub access_key_id: String,
    /// `YYYYMMDD`.
    pub day: String,
    /// Region.
    pub region: String,
    /// Service.
    pub service: String,
    /// `aws4_request` when right.
    pub terminator: String,
}

/// Where the signature was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Placement {
    /// In the `Authorization` header.
    Header,
    /// In `X-Amz-…` query parameters (a presigned request).
    Query,
}

/// What the signer claims.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claim {
    /// Key and scope.
    pub scope: CredentialScope,
    /// Signed header names as listed.
    pub signed_headers: Vec<String>,
    /// The signature, as sent.
    pub signature: String,
    /// `X-Amz-Date`, as sent.
    pub timestamp: String,
    /// `X-Amz-Security-Token`, as sent.
    pub security_token: Option<String>,
    /// Where all this was found.
    pub placement: Placement,
}

/// A claim that cannot be read; the text is AWS's message.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Incomplete(pub String);

/// Reads the claim of a request; `None` when the request carries none.
pub fn read_claim(request: &SignedRequest<'_>) -> Result<Option<Claim>, Incomplete> {
    match joined_header(request.headers, "authorization") {
        Some(authorization) => read_header_claim(request, &authorization).map(Some),
        None => read_query_claim(request),
    }
}

fn read_header_claim(request: &SignedRequest<'_>, authorization: &str) -> Result<Claim, Incomplete> {
    let Some(parameters) = authorization.strip_prefix(ALGORITHM).filter(|rest| rest.starts_with(' ')) else {
        let algorithm = authorization.split(' ').next().unwrap_or_default();
        return Err(Incomplete(format!("Unsupported AWS 'algorithm': '{algorithm}'.")));
    };
    let mut found = BTreeMap::new();
    for parameter in parameters.split(',') {
        let Some((name, value)) = parameter.trim().split_once('=') else {
            return Err(Incomplete(format!(
                "'{}' not a valid key=value pair (missing equal-sign) in Authorization header: '{authorization}'.",
                parameter.trim()
            )));
        };
        if found.insert(name, value).is_some() {
            return Err(Incomplete(format!(
                "Authorization header contains '{name}' more than once. Authorization={authorization}"
            )));
        }
    }
    let timestamp = joined_header(request.headers, "x-amz-date");
    let missing = missing_parts(&found, timestamp.is_none());
    if !missing.is_empty() {
        return Err(Incomplete(format!("{missing}Authorization={authorization}")));
    }
    Ok(Claim {
        scope: read_scope(found["Credential"])?,
        signed_headers: found["SignedHeaders"].split(';').map(str::to_owned).collect(),
        signature: found["Signature"].to_owned(),
        timestamp: timestamp.unwrap_or_default(),
        security_token: joined_header(request.headers, "x-amz-security-token"),
        placement: Placement::Header,
    })
}

fn missing_parts(found: &BTreeMap<&str, &str>, no_date: bool) -> String {
    let mut text = String::new();
    for name in ["Credential", "Signature", "SignedHeaders"] {
        if found.get(name).is_none_or(|value| value.is_empty()) {
            let _ = write!(text, "Authorization header requires '{name}' parameter. ");
        }
    }
    if no_date {
        text.push_str("Authorization header requires existence of either a 'X-Amz-Date' or a 'Date' header. ");
    }
    text
}

fn read_query_claim(request: &SignedRequest<'_>) -> Result<Option<Claim>, Incomplete> {
    let pairs = query_pairs(request.query);
    let find = |name: &str| {
        pairs
            .iter()
            .find(|(key, _)| key == name.as_bytes())
            .map(|(_, value)| String::from_utf8_lossy(value).into_owned())
    };
    let Some(algorithm) = find("X-Amz-Algorithm") else {
        return Ok(None);
    };
    if algorithm != ALGORITHM {
        return Err(Incomplete(format!("Unsupported AWS 'algorithm': '{algorithm}'.")));
    }
    let require = |name: &str| {
        find(name).filter(|value| !value.is_empty()).ok_or_else(|| {
            Incomplete(format!(
                "AWS query-string parameters must include '{name}'. Re-examine the query-string parameters."
            ))
        })
    };
    Ok(Some(Claim {
        scope: read_scope(&require("X-Amz-Credential")?)?,
        signed_headers: require("X-Amz-SignedHeaders")?.split(';').map(str::to_owned).collect(),
        signature: require("X-Amz-Signature")?,
        timestamp: require("X-Amz-Date")?,
        security_token: find("X-Amz-Security-Token"),
        placement: Placement::Query,
    }))
}

fn read_scope(credential: &str) -> Result<CredentialScope, Incomplete> {
    let parts: Vec<&str> = credential.split('/').collect();
    let [access_key_id, day, region, service, terminator] = parts[..] else {
        return Err(Incomplete(format!(
            "Credential must have exactly 5 slash-delimited elements, e.g. keyid/date/region/service/term, got '{credential}'"
        )));
    };
    Ok(CredentialScope {
        access_key_id: access_key_id.to_owned(),
        day: day.to_owned(),
        region: region.to_owned(),
        service: service.to_owned(),
        terminator: terminator.to_owned(),
    })
}

/// The signature that `secret` makes over the request in the way `claim` says.
pub fn expected_signature(request: &SignedRequest<'_>, claim: &Claim, secret: &str) -> String {
    let scope = &claim.scope;
    let canonical = canonical_request(request, claim);
    let string_to_sign = format!(
        "{ALGORITHM}\n{}\n{}/{}/{}/{}\n{}",
        claim.timestamp,
        scope.day,
        scope.region,
        scope.service,
        scope.terminator,
        encode_string(&Sha256::digest(&canonical)),
    );
    let mut key = format!("AWS4{secret}").into_bytes();
    for part in [&scope.day, &scope.region, &scope.service, &scope.terminator] {
        key = hmac_sha256(&key, part.as_bytes());
    }
    encode_string(&hmac_sha256(&key, string_to_sign.as_bytes()))
}

/// The canonical request of the specification's step 1.
pub fn canonical_request(request: &SignedRequest<'_>, claim: &Claim) -> Vec<u8> {
    let mut text = Vec::new();
    for line in [request.method, &canonical_path(request.path), &canonical_query(request.query, claim.placement)] {
        text.extend_from_slice(line.as_bytes());
        text.push(b'\n');
    }
    for name in &claim.signed_headers {
        text.extend_from_slice(name.as_bytes());
        text.push(b':');
        text.extend_from_slice(&canonical_value(request.headers, name));
        text.push(b'\n');
    }
    let rest = format!("\n{}\n{}", claim.signed_headers.join(";"), encode_string(&Sha256::digest(request.body)));
    text.extend_from_slice(rest.as_bytes());
    text
}

/// The path with dot segments and empty segments resolved, then encoded once more (every service but
/// S3 encodes twice; the first time is the one on the request line).
fn canonical_path(path: &str) -> String {
    let mut segments: Vec<&str> = Vec::new();
    for segment in path.split('/') {
        match segment {
            "" | "." => {}
            ".." => {
                segments.pop();
            }
            other => segments.push(other),
        }
    }
    let ends_in_slash = path.ends_with('/') && !segments.is_empty();
    let normal = format!("/{}{}", segments.join("/"), if ends_in_slash { "/" } else { "" });
    percent_encode(normal.as_bytes(), PATH_ESCAPES).to_string()
}

fn query_pairs(query: &str) -> Vec<(Vec<u8>, Vec<u8>)> {
    query
        .split('&')
        .filter(|pair| !pair.is_empty())
        .map(|pair| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            (percent_decode_str(name).collect(), percent_decode_str(value).collect())
        })
        .collect()
}

fn canonical_query(query: &str, placement: Placement) -> String {
    let mut pairs: Vec<(String, String)> = query_pairs(query)
        .into_iter()
        .filter(|(name, _)| placement == Placement::Header || name != b"X-Amz-Signature")
        .map(|(name, value)| {
            (percent_encode(&name, QUERY_ESCAPES).to_string(), percent_encode(&value, QUERY_ESCAPES).to_string())
        })
        .collect();
    pairs.sort();
    let pairs: Vec<String> = pairs.into_iter().map(|(name, value)| format!("{name}={value}")).collect();
    pairs.join("&")
}

/// All values of a header: each trimmed and with runs of spaces made one, joined by commas.
fn canonical_value(headers: &HeaderMap, name: &str) -> Vec<u8> {
    let values: Vec<Vec<u8>> = headers
        .get_all(name)
        .iter()
        .map(|value| {
            let mut collapsed = value.as_bytes().trim_ascii().to_vec();
            collapsed.dedup_by(|next, previous| *next == b' ' && *previous == b' ');
            collapsed
        })
        .collect();
    values.join(&b","[..])
}

fn joined_header(headers: &HeaderMap, name: &str) -> Option<String> {
    headers.contains_key(name).then(|| String::from_utf8_lossy(&canonical_value(headers, name)).into_owned())
}

fn hmac_sha256(key: &[u8], message: &[u8]) -> Vec<u8> {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).expect("HMAC takes a key of any length");
    mac.update(message);
    mac.finalize().into_bytes().to_vec()
}
