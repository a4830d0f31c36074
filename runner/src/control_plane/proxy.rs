//! The proxy between this machine and the control plane, found as the HTTP client finds it: `HTTPS_PROXY`, `ALL_PROXY`, `NO_PROXY`.

use hyper_util::client::proxy::matcher::Matcher;

use crate::config::ControlPlaneUrl;

/// Host and port of the proxy for an address, without its credentials.
pub fn of(url: &ControlPlaneUrl) -> Option<String> {
    let address: http::Uri = url.as_str().parse().ok()?;
    let proxy = Matcher::from_env().intercept(&address)?;
    let authority = proxy.uri().authority()?;
    Some(match authority.port() {
        Some(port) => format!("{}:{port}", authority.host()),
        None => authority.host().to_owned(),
    })
}
