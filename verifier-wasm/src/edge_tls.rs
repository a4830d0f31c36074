//! The client certificate of edge mutual TLS, where the zone has it (CHECKS I8). Request headers that claim one are never read.
//!
//! `worker`'s own view of `cf.tlsClientAuth` lacks the fields needed and unwraps: the raw object is read instead. `cf` may be absent, or
//! lack `tlsClientAuth`, or say `certVerified: "NONE"`: all three mean no certificate.

use verifier::Denial;
use verifier::evidence::mtls_renewal::{EdgeClientCertificate, EdgeTlsFields};

use crate::platform::js::{property, text};
use crate::request::Request;

/// The certificate the edge verified, if any.
pub fn client_certificate(request: &Request) -> Result<Option<EdgeClientCertificate>, Denial> {
    let Some(tls) = property(request.raw(), "cf").and_then(|cf| property(&cf, "tlsClientAuth")) else {
        return Ok(None);
    };
    // Text by the documentation; should it ever be a boolean or a number, it still counts.
    let revoked =
        property(&tls, "certRevoked").map(|value| value.as_string().unwrap_or_else(|| value.is_truthy().to_string()));
    EdgeClientCertificate::from_edge(EdgeTlsFields {
        verified: text(&tls, "certVerified").as_deref(),
        revoked: revoked.as_deref(),
        rfc9440: text(&tls, "certRFC9440").as_deref(),
    })
}
