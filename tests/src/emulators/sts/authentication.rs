//! Who signed a request: the checks AWS makes before and after it recomputes the signature.

use jiff::civil::DateTime;
use jiff::tz::TimeZone;

use super::directory::{Directory, Principal, partition_of_region};
use super::sigv4::{Claim, Placement, SignedRequest, expected_signature, read_claim};
use super::wire::StsError;

const SERVICE: &str = "sts";
const TERMINATOR: &str = "aws4_request";
const DATE_FORMAT: &str = "%Y%m%dT%H%M%SZ";

/// What a caller is judged by.
#[derive(Debug, Clone)]
pub struct Judge {
    /// Regions served.
    pub regions: Vec<String>,
    /// How far a signature's time may lie from ours, either way, in seconds.
    pub clock_skew: i64,
}

/// The principal whose key signed the request.
pub fn authenticate(
    judge: &Judge,
    directory: &Directory,
    request: &SignedRequest<'_>,
    now: i64,
) -> Result<Principal, StsError> {
    let claim = read_claim(request)
        .map_err(|error| StsError::new(400, "IncompleteSignature", error.to_string()))?
        .ok_or_else(|| StsError::new(403, "MissingAuthenticationToken", "Request is missing Authentication Token"))?;
    check_signed_headers(request, &claim)?;
    check_scope(judge, request, &claim)?;
    check_time(judge, &claim, now)?;
    let key = directory
        .key(&claim.scope.access_key_id)
        .filter(|key| key.session_token == claim.security_token)
        .filter(|key| key.principal.partition == partition_of_region(&claim.scope.region))
        .ok_or_else(|| {
            StsError::new(403, "InvalidClientTokenId", "The security token included in the request is invalid.")
        })?;
    if key.expires_at.is_some_and(|end| end <= now) {
        return Err(StsError::new(403, "ExpiredToken", "The security token included in the request is expired"));
    }
    if expected_signature(request, &claim, &key.secret) != claim.signature {
        return Err(does_not_match(
            "The request signature we calculated does not match the signature you provided. Check your AWS Secret Access Key and signing method. Consult the service documentation for details.",
        ));
    }
    Ok(key.principal.clone())
}

fn does_not_match(message: impl Into<String>) -> StsError {
    StsError::new(403, "SignatureDoesNotMatch", message)
}

/// `host` and every `x-amz-*` header must be signed. Others, such as those a proxy adds, may be not.
fn check_signed_headers(request: &SignedRequest<'_>, claim: &Claim) -> Result<(), StsError> {
    let signed = |name: &str| claim.signed_headers.iter().any(|header| header == name);
    if !signed("host") {
        return Err(does_not_match("'Host' or ':authority' must be a 'SignedHeader' in the AWS Authorization."));
    }
    let unsigned = request
        .headers
        .keys()
        .map(axum::http::HeaderName::as_str)
        .find(|name| name.starts_with("x-amz-") && !signed(name));
    match unsigned {
        Some(name) => Err(does_not_match(format!("'{name}' must be a 'SignedHeader' in the AWS Authorization."))),
        None => Ok(()),
    }
}

fn check_scope(judge: &Judge, request: &SignedRequest<'_>, claim: &Claim) -> Result<(), StsError> {
    let scope = &claim.scope;
    let host_region = request.headers.get("host").and_then(|host| host.to_str().ok()).and_then(region_of_host);
    let served = judge.regions.contains(&scope.region) && host_region.is_none_or(|region| region == scope.region);
    if !served {
        return Err(does_not_match(format!("Credential should be scoped to a valid region, not '{}'. ", scope.region)));
    }
    if scope.service != SERVICE {
        return Err(does_not_match(format!("Credential should be scoped to correct service: '{SERVICE}'. ")));
    }
    if scope.terminator != TERMINATOR {
        return Err(does_not_match(format!(
            "Credential should be scoped with a valid terminator: '{TERMINATOR}', not '{}'. ",
            scope.terminator
        )));
    }
    if !claim.timestamp.starts_with(&scope.day) || scope.day.len() != 8 {
        return Err(does_not_match(format!(
            "Date in Credential scope does not match YYYYMMDD from ISO-8601 version of date from HTTP: '{}' != '{}', from '{}'.",
            scope.day,
            claim.timestamp.get(..8).unwrap_or(&claim.timestamp),
            claim.timestamp,
        )));
    }
    Ok(())
}

/// The region of a real STS host name; none for a loopback address.
fn region_of_host(host: &str) -> Option<&str> {
    let host = host.split(':').next().unwrap_or(host);
    if host == "sts.amazonaws.com" {
        return Some("us-east-1");
    }
    let rest = host.strip_prefix("sts.").or_else(|| host.strip_prefix("sts-fips."))?;
    [".amazonaws.com", ".amazonaws.com.cn", ".amazonaws.eu"].iter().find_map(|suffix| rest.strip_suffix(suffix))
}

fn check_time(judge: &Judge, claim: &Claim, now: i64) -> Result<(), StsError> {
    let signed_at = parse_timestamp(&claim.timestamp).ok_or_else(|| {
        let place = match claim.placement {
            Placement::Header => "Date must be in ISO-8601 'basic format'",
            Placement::Query => "X-Amz-Date must be in the ISO8601 Long Format \"yyyyMMdd'T'HHmmss'Z'\"",
        };
        StsError::new(
            400,
            "IncompleteSignature",
            format!("{place}. Got '{}'. See http://en.wikipedia.org/wiki/ISO_8601", claim.timestamp),
        )
    })?;
    let minutes = judge.clock_skew / 60;
    let (signed, ours) = (&claim.timestamp, format_timestamp(now));
    if signed_at < now - judge.clock_skew {
        let limit = format_timestamp(now - judge.clock_skew);
        return Err(does_not_match(format!(
            "Signature expired: {signed} is now earlier than {limit} ({ours} - {minutes} min.)"
        )));
    }
    if signed_at > now + judge.clock_skew {
        let limit = format_timestamp(now + judge.clock_skew);
        return Err(does_not_match(format!(
            "Signature not yet current: {signed} is still later than {limit} ({ours} + {minutes} min.)"
        )));
    }
    Ok(())
}

fn parse_timestamp(text: &str) -> Option<i64> {
    if text.len() != 16 {
        return None;
    }
    let time = DateTime::strptime(DATE_FORMAT, text).ok()?;
    Some(time.to_zoned(TimeZone::UTC).ok()?.timestamp().as_second())
}

/// `YYYYMMDDThhmmssZ`.
pub fn format_timestamp(seconds: i64) -> String {
    jiff::Timestamp::from_second(seconds)
        .map_or_else(|_| seconds.to_string(), |time| time.strftime(DATE_FORMAT).to_string())
}
