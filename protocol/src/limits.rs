//! Sizes in octets and counts above which a call is refused before anything is parsed further (PROTOCOL, Limits).

/// Request body; above it 413.
pub const BODY: usize = 64 * 1024;
/// CSR text, PEM or base64url.
pub const CSR: usize = 8 * 1024;
/// Compact JWS.
pub const JWT: usize = 16 * 1024;
/// Presented certificate, PEM.
pub const CERTIFICATE: usize = 16 * 1024;
/// Number of `aws-sts` headers.
pub const HEADERS: usize = 16;
/// Value of `x-amz-security-token`.
pub const SECURITY_TOKEN: usize = 16 * 1024;
/// Value (and name) of any other `aws-sts` header.
pub const HEADER: usize = 4 * 1024;
/// All `aws-sts` header names and values together.
pub const HEADERS_TOTAL: usize = 24 * 1024;
