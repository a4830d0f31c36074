//! Endpoint written in the policy in place of a region's own (PROTOCOL, `[aws_sts.endpoints]`): scheme, host and port, nothing else.
//!
//! The host of a request is compared with [`Endpoint::authority`], and its URL is [`Endpoint::url`] (CHECKS S3, S10). Out of scope:
//! name resolution; whoever runs an endpoint can claim any identity, which validation of the policy warns of.

use thiserror::Error;

/// A checked endpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Endpoint {
    https: bool,
    authority: String,
}

/// Why a text is no endpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum EndpointError {
    /// Neither `https://` nor `http://`.
    #[error("must start with https:// (or http:// for loopback)")]
    Scheme,
    /// Plain http to somewhere else (CHECKS S10).
    #[error("http is for loopback only (localhost, 127.0.0.0/8, [::1]); use https")]
    PlainHttp,
    /// User info, path, query, fragment, upper case, or not a host name or address.
    #[error("must be a lower-case host and an optional port, with no user, path, query or fragment")]
    Authority,
    /// Not 1 to 65535.
    #[error("port must be 1 to 65535")]
    Port,
}

impl Endpoint {
    /// From `https://host[:port][/]`, or `http://` with a loopback host. A default port is dropped, as in a `host` header.
    pub fn parse(text: &str) -> Result<Self, EndpointError> {
        let (https, rest) = if let Some(rest) = text.strip_prefix("https://") {
            (true, rest)
        } else if let Some(rest) = text.strip_prefix("http://") {
            (false, rest)
        } else {
            return Err(EndpointError::Scheme);
        };
        let authority = rest.strip_suffix('/').unwrap_or(rest);
        let (host, port) = split_port(authority)?;
        if !is_host(host) {
            return Err(EndpointError::Authority);
        }
        if !https && !is_loopback(host) {
            return Err(EndpointError::PlainHttp);
        }
        let default_port = if https { 443 } else { 80 };
        let authority = match port {
            Some(port) if port != default_port => format!("{host}:{port}"),
            _ => host.to_owned(),
        };
        Ok(Self { https, authority })
    }

    /// The https endpoint of a host of the partition table.
    pub(crate) const fn of_host(host: String) -> Self {
        Self { https: true, authority: host }
    }

    /// Host, and port where it is not the default one: the `host` header of a call.
    pub fn authority(&self) -> &str {
        &self.authority
    }

    /// Address of a call.
    pub fn url(&self) -> String {
        [if self.https { "https://" } else { "http://" }, &self.authority, "/"].concat()
    }
}

/// Whether a host (an IPv6 address in brackets) names this machine: `localhost`, 127.0.0.0/8 or ::1.
pub fn is_loopback(host: &str) -> bool {
    host == "localhost"
        || host.parse::<std::net::Ipv4Addr>().is_ok_and(|address| address.is_loopback())
        || bracketed(host).is_some_and(|address| address.is_loopback())
}

fn split_port(authority: &str) -> Result<(&str, Option<u16>), EndpointError> {
    match authority.rsplit_once(':') {
        Some((host, port)) if !port.ends_with(']') => {
            let digits = !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit()) && !port.starts_with('0');
            let port = port.parse().ok().filter(|_| digits).ok_or(EndpointError::Port)?;
            Ok((host, Some(port)))
        }
        _ => Ok((authority, None)),
    }
}

fn bracketed(host: &str) -> Option<std::net::Ipv6Addr> {
    host.strip_prefix('[')?.strip_suffix(']')?.parse().ok()
}

/// A lower-case host name, an IPv4 address in its one usual form, or a lower-case IPv6 address in brackets.
fn is_host(host: &str) -> bool {
    if host.starts_with('[') {
        return bracketed(host).is_some_and(|address| host == format!("[{address}]"));
    }
    let label = |label: &str| {
        (1..=63).contains(&label.len())
            && label.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-')
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    let numeric = host.rsplit('.').next().is_some_and(|last| last.starts_with(|first: char| first.is_ascii_digit()));
    host.len() <= 253
        && host.split('.').all(label)
        && (!numeric || host.parse::<std::net::Ipv4Addr>().is_ok_and(|address| host == address.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accepted_forms() {
        for (text, authority, url) in [
            ("https://sts.example.com", "sts.example.com", "https://sts.example.com/"),
            ("https://sts.example.com:443/", "sts.example.com", "https://sts.example.com/"),
            ("https://sts.example.com:8443", "sts.example.com:8443", "https://sts.example.com:8443/"),
            ("http://127.0.0.1:4566", "127.0.0.1:4566", "http://127.0.0.1:4566/"),
            ("http://localhost:80", "localhost", "http://localhost/"),
            ("http://[::1]:4566/", "[::1]:4566", "http://[::1]:4566/"),
            ("https://10.0.0.1", "10.0.0.1", "https://10.0.0.1/"),
        ] {
            let endpoint = Endpoint::parse(text).unwrap();
            assert_eq!((endpoint.authority(), endpoint.url().as_str()), (authority, url), "{text}");
        }
    }

    #[test]
    fn refused_forms() {
        use EndpointError::{Authority, PlainHttp, Port, Scheme};
        for (text, error) in [
            ("", Scheme),
            ("sts.example.com", Scheme),
            ("HTTPS://sts.example.com", Scheme),
            ("ftp://127.0.0.1", Scheme),
            ("http://sts.example.com", PlainHttp),
            ("http://169.254.169.254", PlainHttp),
            ("http://localhost.evil.com", PlainHttp),
            ("http://127.0.0.1.nip.io", PlainHttp),
            ("http://[::2]", PlainHttp),
            ("https://", Authority),
            ("https:///", Authority),
            ("https://user@sts.example.com", Authority),
            ("https://sts.example.com/path", Authority),
            ("https://sts.example.com//", Authority),
            ("https://sts.example.com?x", Authority),
            ("https://sts.example.com#x", Authority),
            ("https://STS.example.com", Authority),
            ("https://sts.example.com.", Authority),
            ("https://sts..example.com", Authority),
            ("https://-sts.example.com", Authority),
            ("https://sts example.com", Authority),
            ("https://[::1", Authority),
            ("https://[0:0:0:0:0:0:0:1]", Authority),
            ("https://127.1", Authority),
            ("https://0x7f.1", Authority),
            ("https://stś.example.com", Authority),
            ("https://sts.example.com:", Port),
            ("https://sts.example.com:0", Port),
            ("https://sts.example.com:65536", Port),
            ("https://sts.example.com:+80", Port),
            ("https://sts.example.com:080", Port),
        ] {
            assert_eq!(Endpoint::parse(text), Err(error), "{text}");
        }
    }
}
