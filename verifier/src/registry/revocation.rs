//! What the CRL says of a serial.

use serde::{Deserialize, Serialize};

use crate::UnixTime;
use crate::issuance::RevocationReason;

/// One entry for the CRL.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Revocation {
    /// 32 lower-case hex digits.
    pub serial: String,
    /// When.
    pub revoked_at: UnixTime,
    /// Why.
    pub reason: RevocationReason,
    /// End of the certificate; the entry is needed until then.
    pub not_after: UnixTime,
}
