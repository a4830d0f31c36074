//! `POST /v1/enroll` and `POST /v1/renew`: the same request shape and the same answer.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use crate::Attestation;

/// Evidence and the key to be certified.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EnrollRequest<'a> {
    /// PKCS#10, PEM, or base64url of DER when it does not start with `-----BEGIN`.
    #[serde(borrow)]
    pub csr: Cow<'a, str>,
    /// Evidence.
    #[serde(borrow)]
    pub attestation: Attestation<'a>,
}

/// A certificate and what the runner needs to live with it. Times are RFC 3339 UTC.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EnrollResponse {
    /// 26 characters of lower-case base32; never changes for a runner.
    pub runner_id: String,
    /// Tenant the runner belongs to.
    pub tenant: String,
    /// `spiffe://<trust_domain>/tenant/<tenant>/runner/<runner_id>`.
    pub spiffe_id: String,
    /// Leaf and intermediates, PEM.
    pub certificate: String,
    /// Roots, PEM.
    pub trust_bundle: String,
    /// Start of the certificate.
    pub not_before: String,
    /// End of the certificate.
    pub not_after: String,
    /// When to renew: half of the life that is left.
    pub renew_after: String,
    /// When a full attestation is due, or null.
    pub reattest_before: Option<String>,
    /// The verifier's clock.
    pub server_time: String,
}
