//! Which part of the network failed: told by the types of the errors, not by their texts.

use std::error::Error;
use std::io;
use std::net::SocketAddr;

use reqwest::dns::{Addrs, Name, Resolve, Resolving};

use super::tls::{Leaf, Presented};

/// Why nothing came back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fault {
    /// The name of the host cannot be resolved.
    Name(String),
    /// The host is there, nothing listens.
    Refused,
    /// No route, no network, or another failure to connect.
    Connect(String),
    /// No answer in time.
    Timeout,
    /// The certificate of the server is not acceptable.
    Tls {
        /// What rustls says.
        error: String,
        /// What kind of fault it is.
        kind: TlsFault,
        /// What the server presented.
        leaf: Option<Leaf>,
    },
    /// The connection broke during the call.
    Broken(String),
    /// It came no further than to a proxy.
    Proxy {
        /// Host and port.
        proxy: String,
        /// What went wrong there.
        fault: Box<Fault>,
    },
}

/// Faults of TLS that have different ways out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TlsFault {
    /// No known authority signed it.
    UnknownIssuer,
    /// It is for another name.
    Name,
    /// It is out of date, or this clock is wrong.
    Date,
    /// What answers does not speak TLS.
    NotTls,
    /// Anything else.
    Other,
}

/// The system's resolver, with an error type of its own.
pub struct Resolver;

/// A name that cannot be resolved.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct NameError(io::Error);

impl Resolve for Resolver {
    fn resolve(&self, name: Name) -> Resolving {
        Box::pin(async move {
            let found = tokio::net::lookup_host((name.as_str(), 0)).await.map_err(NameError)?;
            let found: Vec<SocketAddr> = found.collect();
            if found.is_empty() {
                return Err(NameError(io::Error::new(io::ErrorKind::NotFound, "no address")).into());
            }
            let addresses: Addrs = Box::new(found.into_iter());
            Ok(addresses)
        })
    }
}

impl Fault {
    /// A failure to connect, where it is a proxy that is connected to. TLS is spoken through it, with the control plane.
    #[must_use]
    pub fn at_proxy(self, proxy: &str) -> Self {
        match self {
            Self::Name(_) | Self::Refused | Self::Connect(_) | Self::Timeout | Self::Broken(_) => {
                Self::Proxy { proxy: proxy.to_owned(), fault: Box::new(self) }
            }
            Self::Tls { .. } | Self::Proxy { .. } => self,
        }
    }

    /// Finds the cause in the chain of an error.
    pub fn classify(error: &reqwest::Error, presented: &Presented) -> Self {
        let mut last = String::new();
        let mut next: Option<&(dyn Error + 'static)> = Some(error);
        while let Some(cause) = next {
            if let Some(fault) = Self::of(cause, presented) {
                return fault;
            }
            last = cause.to_string();
            next = cause.source();
        }
        if error.is_timeout() {
            Self::Timeout
        } else if error.is_connect() {
            Self::Connect(last)
        } else {
            Self::Broken(last)
        }
    }

    fn of(cause: &(dyn Error + 'static), presented: &Presented) -> Option<Self> {
        if let Some(error) = cause.downcast_ref::<NameError>() {
            return Some(Self::Name(error.0.to_string()));
        }
        if let Some(error) = cause.downcast_ref::<rustls::Error>() {
            return Some(Self::tls(error, presented));
        }
        let error = cause.downcast_ref::<io::Error>()?;
        if let Some(inner) = error.get_ref()
            && let Some(fault) = Self::of(inner, presented)
        {
            return Some(fault);
        }
        match error.kind() {
            io::ErrorKind::ConnectionRefused => Some(Self::Refused),
            io::ErrorKind::TimedOut => Some(Self::Timeout),
            io::ErrorKind::HostUnreachable | io::ErrorKind::NetworkUnreachable => {
                Some(Self::Connect(error.to_string()))
            }
            _ => None,
        }
    }

    fn tls(error: &rustls::Error, presented: &Presented) -> Self {
        use rustls::CertificateError as Cert;
        let kind = match error {
            rustls::Error::InvalidCertificate(Cert::UnknownIssuer) => TlsFault::UnknownIssuer,
            rustls::Error::InvalidCertificate(Cert::NotValidForName | Cert::NotValidForNameContext { .. }) => {
                TlsFault::Name
            }
            rustls::Error::InvalidCertificate(
                Cert::Expired | Cert::ExpiredContext { .. } | Cert::NotValidYet | Cert::NotValidYetContext { .. },
            ) => TlsFault::Date,
            rustls::Error::InvalidMessage(_) => TlsFault::NotTls,
            _ => TlsFault::Other,
        };
        Self::Tls { error: error.to_string(), kind, leaf: presented.take() }
    }
}
