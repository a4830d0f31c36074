//! Grammars of single values.

use crate::aws::endpoint::{Endpoint, EndpointError};
use crate::evidence::bootstrap_token::is_tenant_id;

/// Whole seconds of a duration text such as `1h`, `90m`, `1h 30m`, `30d`.
pub fn seconds(text: &str) -> Result<i64, String> {
    let duration = humantime::parse_duration(text).map_err(|error| {
        format!(
            "must be a duration such as \"30m\", \"1h\" or \"30d\" ({})",
            crate::encoding::shown(&error.to_string())
        )
    })?;
    if duration.subsec_nanos() != 0 {
        return Err("must be a duration in whole seconds".to_owned());
    }
    i64::try_from(duration.as_secs()).map_err(|_| "is too long a duration".to_owned())
}

/// Trust domain of the SPIFFE ID specification, section 2.1.
pub(super) fn check_trust_domain(text: &str) -> Result<(), &'static str> {
    let allowed = |byte: u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'.' | b'-' | b'_');
    if !(1..=255).contains(&text.len()) || !text.bytes().all(allowed) {
        return Err("must be 1 to 255 of a-z, 0-9, '.', '-' and '_', without scheme, port or path");
    }
    Ok(())
}

/// Form of an audience; whether it belongs to somebody else is another question.
pub(super) fn is_audience(text: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b':' | b'/' | b'-');
    (1..=255).contains(&text.len()) && text.bytes().all(allowed)
}

/// Why `text` is somebody else's audience, so that a token or request made for them would be good here.
pub(super) fn foreign_audience(text: &str) -> Option<&'static str> {
    let lower = text.to_ascii_lowercase();
    let host = lower.strip_prefix("https://").unwrap_or(&lower).trim_end_matches('/');
    let name = host.split(['/', ':']).next().unwrap_or(host);
    let sts = name.starts_with("sts.") && (name.ends_with(".amazonaws.com") || name.ends_with(".amazonaws.com.cn"));
    if sts || matches!(name, "sts.amazonaws.com" | "sts.amazonaws.com.cn" | "sts.amazonaws.eu") {
        return Some("is the audience of AWS STS: tokens made for it would be accepted here");
    }
    if name == "container.googleapis.com" || name.starts_with("oidc.eks.") {
        return Some("is an issuer: it is the default audience of that cluster's own tokens");
    }
    if name.starts_with("kubernetes.default") {
        return Some("is the audience of a Kubernetes API server: every pod's default token would be accepted here");
    }
    (name.ends_with(".svc.id.goog") || name == "iam.googleapis.com")
        .then_some("is an audience of Google Cloud: tokens made for it would be accepted here")
}

/// A URL whose scheme and host [`Endpoint`] accepts, with a plain path. `anywhere` allows http to any host.
pub(super) fn check_url(text: &str, anywhere: bool) -> Result<(), String> {
    let (scheme, rest) = text.split_once("://").ok_or_else(|| EndpointError::Scheme.to_string())?;
    let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"._~-/:%?=&+,;@!$'()*".contains(&byte);
    if !path.bytes().all(allowed) || text.len() > 2048 {
        return Err("must be a URL of at most 2048 characters, its path and query of plain URL characters".to_owned());
    }
    let base = if anywhere && scheme == "http" {
        ["https://", authority].concat()
    } else {
        [scheme, "://", authority].concat()
    };
    Endpoint::parse(&base).map(|_| ()).map_err(|error| match error {
        EndpointError::Authority => "must have a lower-case host and an optional port, and no user".to_owned(),
        other => other.to_string(),
    })
}

/// A DNS label (RFC 1123): Kubernetes namespaces.
pub(super) fn is_namespace(text: &str) -> bool {
    is_tenant_id(text)
}

/// A DNS subdomain (RFC 1123): Kubernetes ServiceAccounts.
pub(super) fn is_service_account(text: &str) -> bool {
    text.len() <= 253 && text.split('.').all(is_tenant_id)
}

/// 12 digits.
pub(super) fn is_account(text: &str) -> bool {
    text.len() == 12 && text.bytes().all(|byte| byte.is_ascii_digit())
}

const fn is_iam_name_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'+' | b'=' | b',' | b'.' | b'@' | b'-')
}

fn is_iam_name(text: &str, longest: usize) -> bool {
    (1..=longest).contains(&text.len()) && text.bytes().all(is_iam_name_byte)
}

/// Splits one trailing `*` off; `None` when a `*` stands anywhere else or alone.
fn pattern(text: &str) -> Option<(&str, bool)> {
    let (stem, prefix) = text.strip_suffix('*').map_or((text, false), |stem| (stem, true));
    (!stem.contains('*') && !stem.is_empty()).then_some((stem, prefix))
}

/// Role name or prefix (CHECKS S12).
pub(super) fn check_role(text: &str) -> Result<(), &'static str> {
    if text.contains('/') {
        return Err(
            "must be the role's name without its path: STS leaves the path out of assumed-role ARNs, so a rule with one could never match",
        );
    }
    if text.starts_with("arn:") {
        return Err("must be the role's name, not its ARN");
    }
    match pattern(text) {
        None => Err("may have one '*', at its end, after at least one character"),
        Some((stem, _)) if is_iam_name(stem, 64) => Ok(()),
        Some(_) => Err("must be 1 to 64 of A-Z, a-z, 0-9 and _+=,.@-"),
    }
}

/// User name with its path, or a prefix of that (CHECKS S12).
pub(super) fn check_user(text: &str) -> Result<(), &'static str> {
    if text.starts_with("arn:") {
        return Err("must be the user's path and name, not its ARN");
    }
    let (stem, prefix) = pattern(text).ok_or("may have one '*', at its end, after at least one character")?;
    let (path, name) = stem.rsplit_once('/').unwrap_or(("", stem));
    let path_ok = stem.len() <= 576 && !stem.starts_with('/') && path.bytes().all(|byte| byte.is_ascii_graphic());
    let name_ok = is_iam_name(name, 64) || (prefix && name.is_empty());
    if path_ok && name_ok {
        Ok(())
    } else {
        Err(
            "must be the user's name, with its path in front where it has one (division/team/name), without a leading '/'",
        )
    }
}

/// Role session name, exactly.
pub(super) fn is_session(text: &str) -> bool {
    text.len() >= 2 && is_iam_name(text, 64)
}

/// `AROA…` of a role, `AIDA…` of a user.
pub(super) fn is_unique_id(text: &str, prefix: &str) -> bool {
    (16..=128).contains(&text.len())
        && text.starts_with(prefix)
        && text.bytes().all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations() {
        for (text, secs) in [("1h", 3600), ("5m", 300), ("30d", 2_592_000), ("1h 30m", 5400), ("90s", 90)] {
            assert_eq!(seconds(text), Ok(secs));
        }
        for bad in ["", "1", "h", "-1h", "1500ms", "99999999999999999999h", "1h\n;", "PT1H"] {
            assert!(seconds(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn audiences_of_others_are_known() {
        for bad in [
            "sts.amazonaws.com",
            "STS.amazonaws.com",
            "https://sts.amazonaws.com/",
            "sts.eu-west-1.amazonaws.com",
            "sts.cn-north-1.amazonaws.com.cn",
            "https://container.googleapis.com/v1/projects/p/locations/l/clusters/c",
            "https://oidc.eks.eu-west-1.amazonaws.com/id/EXAMPLED539D4633E53DE1B716D3041E",
            "https://kubernetes.default.svc",
            "acme-prod.svc.id.goog",
        ] {
            assert!(foreign_audience(bad).is_some(), "{bad}");
        }
        for good in ["edge.example.com", "https://edge.example.com/v1", "sts.example.com", "urn:edge"] {
            assert!(is_audience(good) && foreign_audience(good).is_none(), "{good}");
        }
        for bad in ["", "a b", "a;b", "é", "a\n", &"a".repeat(256)] {
            assert!(!is_audience(bad), "{bad}");
        }
    }

    #[test]
    fn urls() {
        for good in
            ["https://keys.example.com/a/b?x=1", "http://127.0.0.1:8081/jwks", "http://localhost", "https://[::1]/"]
        {
            assert_eq!(check_url(good, false), Ok(()), "{good}");
        }
        assert_eq!(check_url("http://edge.example.com/v1/crl", true), Ok(()));
        for bad in [
            "http://edge.example.com/v1/crl",
            "ftp://127.0.0.1/",
            "keys.example.com",
            "https://user@keys.example.com/",
            "https://keys.example.com/#x",
            "https://keys.example.com\\@evil/",
            "https://keys.example.com/a b",
            "https://keys.example.com?x",
            "https:///x",
        ] {
            assert!(check_url(bad, false).is_err(), "{bad}");
        }
        assert!(check_url("file:///v1/crl", true).is_err());
    }

    #[test]
    fn s12_roles_and_users() {
        for good in ["rootpilot-runner", "r*", "a+=,.@-_Z9"] {
            assert_eq!(check_role(good), Ok(()), "{good}");
        }
        for bad in ["", "*", "**", "r**", "r*x", "team/runner", "/r", "arn:aws:iam::1:role", "ro le", &"r".repeat(65)] {
            assert!(check_role(bad).is_err(), "{bad}");
        }
        for good in ["alice", "team/alice", "team/*", "team/al*", "a*"] {
            assert_eq!(check_user(good), Ok(()), "{good}");
        }
        for bad in ["", "*", "/alice", "team/", "a*b", "te am/alice", "arn:aws:iam::1:user/alice"] {
            assert!(check_user(bad).is_err(), "{bad}");
        }
    }
}
