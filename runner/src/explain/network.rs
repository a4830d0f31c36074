//! Failures in which the control plane itself said nothing: never worded as a refusal, never blamed on credentials.

use std::time::Duration;

use crate::config::ControlPlaneUrl;
use crate::control_plane::fault::{Fault, TlsFault};
use crate::failure::{Class, Failure, Remedy};
use crate::output::one_line;

/// Explains a fault of the network.
pub fn fault(fault: &Fault, url: &ControlPlaneUrl) -> Failure {
    let (host, port) = (url.host(), url.port());
    match fault {
        Fault::Name(error) => Failure::unreachable(format!(
            "the name of the control plane, {host}, was not found (DNS); this is not about credentials: {}",
            one_line(error)
        ))
        .hint("nothing was sent: check RUNNER_CONTROL_PLANE_URL, and the resolver of this machine"),
        Fault::Refused => {
            Failure::unreachable(format!("nothing listens at {host} port {port}: the connection was refused"))
                .hint("nothing was sent: check RUNNER_CONTROL_PLANE_URL, and that the control plane runs")
        }
        Fault::Connect(error) => {
            Failure::unreachable(format!("cannot connect to {host} port {port}: {}", one_line(error)))
                .hint("this is the network between this machine and the control plane, not credentials")
        }
        Fault::Timeout => Failure::unreachable(format!("no answer from {host} port {port} in time"))
            .hint("a firewall that drops packets, or a control plane under load; not credentials"),
        Fault::Broken(error) => {
            Failure::unreachable(format!("the connection to {host} broke during the call: {}", one_line(error)))
                .hint("the same request is repeated with the same key, so a lost answer does no harm")
        }
        Fault::Tls { error, kind, leaf } => tls(url, error, *kind, leaf.as_ref()),
        Fault::Proxy { proxy, fault } => at_proxy(proxy, fault, &host),
    }
}

fn at_proxy(proxy: &str, fault: &Fault, host: &str) -> Failure {
    let message = match fault {
        Fault::Name(error) => format!("the name of the proxy {proxy} was not found (DNS): {}", one_line(error)),
        Fault::Refused => format!("nothing listens at the proxy {proxy}: the connection was refused"),
        Fault::Timeout => format!("the proxy {proxy} did not connect to {host} in time"),
        Fault::Connect(error) | Fault::Broken(error) => {
            format!("the proxy {proxy} does not connect to {host}: {}", one_line(error))
        }
        Fault::Tls { error, .. } => format!("TLS with the proxy {proxy} failed: {}", one_line(error)),
        Fault::Proxy { fault, .. } => return at_proxy(proxy, fault, host),
    };
    Failure::unreachable(message)
        .hint("HTTPS_PROXY or ALL_PROXY names this proxy: set it right, with its user and password where it wants them")
        .hint(format!("or go without it: NO_PROXY={host}; this is not about the runner's evidence"))
}

fn tls(url: &ControlPlaneUrl, error: &str, kind: TlsFault, leaf: Option<&crate::control_plane::tls::Leaf>) -> Failure {
    let host = url.host();
    let issuer = leaf.map_or_else(|| "unknown".to_owned(), |leaf| leaf.issuer.clone());
    match kind {
        TlsFault::NotTls => {
            Failure::unreachable(format!("what answers at {host} port {} does not speak TLS: {}", url.port(), one_line(error)))
                .hint("nothing was sent: check the port in RUNNER_CONTROL_PLANE_URL")
        }
        TlsFault::UnknownIssuer => Failure::unreachable(format!(
            "the TLS certificate of {host} is not trusted: it was issued by {issuer}, which is no certificate authority that this machine knows"
        ))
        .hint("if that is your own authority, or a proxy that inspects TLS, name its certificate in RUNNER_CA_FILE"),
        TlsFault::Name => {
            Failure::unreachable(format!("the TLS certificate that {host} presented is for another name (issuer {issuer}): {}", one_line(error)))
                .hint("check the host name in RUNNER_CONTROL_PLANE_URL")
        }
        TlsFault::Date => Failure::unreachable(format!(
            "the TLS certificate of {host} is out of date by this machine's clock (issuer {issuer}, valid {})",
            leaf.map_or("unknown", |leaf| leaf.validity.as_str())
        ))
        .hint("check the clock of this machine first"),
        TlsFault::Other => Failure::unreachable(format!("TLS with {host} failed (issuer {issuer}): {}", one_line(error)))
            .hint("nothing was sent: this is TLS, not credentials"),
    }
}

/// Explains an answer that is not of this protocol.
pub fn foreign(status: u16, location: Option<&str>, retry_after: Option<Duration>, url: &ControlPlaneUrl) -> Failure {
    match status {
        300..=399 => {
            let to = location.map(|to| format!(" to {}", one_line(to))).unwrap_or_default();
            Failure::unreachable(format!("{url} answers with a redirect{to}, which is not followed"))
                .hint("set RUNNER_CONTROL_PLANE_URL to the final address of the control plane")
        }
        400 | 401 | 403 => Failure::new(
            Class::Refused,
            Remedy::Person,
            format!("something in front of the control plane at {url} refuses with status {status}, without a problem document"),
        )
        .hint("a firewall, an access proxy or a bot check; the control plane itself explains its refusals"),
        429 | 500..=599 => Failure::new(
            Class::Unreachable,
            Remedy::Retry { after: retry_after },
            format!("{url} is not available: status {status}, not from the control plane itself"),
        )
        .hint("not a refusal: something in front of the control plane, or the control plane restarting"),
        _ => Failure::unreachable(format!("{url} is not a RootPilot control plane: status {status} without a problem document"))
            .hint("check RUNNER_CONTROL_PLANE_URL, its path included"),
    }
}
