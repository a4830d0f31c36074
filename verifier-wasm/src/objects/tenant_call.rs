//! What the worker asks of a tenant's object.

use protocol::admin::{BanRequest, MintRequest};
use serde::{Deserialize, Serialize};
use verifier::registry::{AdminContext, EnrollCommand, PageQuery, RenewCommand, VerifyCommand};

/// One call: one function of `verifier::registry`, in one transaction.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TenantCall {
    /// `enroll`.
    Enroll(EnrollCommand),
    /// `renew`.
    Renew(RenewCommand),
    /// `verify`.
    Verify(VerifyCommand),
    /// `tokens::mint`.
    Mint(AdminContext, MintRequest),
    /// `tokens::list`.
    Tokens(PageQuery),
    /// `tokens::revoke`.
    RevokeToken(AdminContext, String),
    /// `runners::list`.
    Runners(PageQuery),
    /// `runners::show`.
    Runner(String),
    /// `runners::ban`.
    Ban(AdminContext, String, BanRequest),
    /// `runners::unban`.
    Unban(AdminContext, String),
    /// `runners::evict`.
    Evict(AdminContext, String),
    /// `audit::list`.
    Audit(PageQuery),
}
