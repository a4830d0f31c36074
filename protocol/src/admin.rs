//! Admin routes: tokens, runners, audit, lists, policy problems.

use serde::{Deserialize, Serialize};

use crate::error::text_enum;
use crate::{Code, Mode, Reason};

/// One problem of a policy document.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PolicyProblem {
    /// Place, such as `tenants[0].rules[1].role`.
    pub path: String,
    /// What is wrong and what would be right.
    pub message: String,
}

/// Body of `POST /v1/admin/tenants/{tenant}/tokens`. Every field has a default.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MintRequest {
    /// Duration text, such as `1h`; default 1h, at most 30d.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ttl: Option<String>,
    /// Default 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_uses: Option<u32>,
    /// For people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
}

/// Answer of a mint: the only time the token is shown.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MintedToken {
    /// Public part, for `list` and `revoke`.
    pub id: String,
    /// `rpbt_<tenant>_<id>_<secret>`.
    pub token: String,
    /// Tenant that the token admits to.
    pub tenant: String,
    /// RFC 3339.
    pub expires_at: String,
    /// How many runners may enrol with it.
    pub max_uses: u32,
}

/// A bootstrap token as listed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TokenItem {
    /// Public part of the token.
    pub id: String,
    /// Tenant that the token admits to.
    pub tenant: String,
    /// As given at the mint, or null.
    pub description: Option<String>,
    /// RFC 3339.
    pub created_at: String,
    /// RFC 3339.
    pub expires_at: String,
    /// How many runners may enrol with it.
    pub max_uses: u32,
    /// How many did.
    pub uses: u32,
    /// Whether it was revoked.
    pub revoked: bool,
}

text_enum! {
    /// State of a runner's record.
    RunnerState {
        /// Holds a live certificate.
        Active = "active",
        /// Two holders of one certificate were seen: must attest again.
        Suspect = "suspect",
        /// Banned, itself or its instance.
        Banned = "banned",
        /// No live certificate.
        Expired = "expired",
    }
}

/// A runner as listed. Times are RFC 3339.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunnerItem {
    /// Runner id.
    pub runner_id: String,
    /// Tenant.
    pub tenant: String,
    /// Mode of its attestation.
    pub mode: Mode,
    /// Canonical identity.
    pub identity: String,
    /// What stands behind it: STS `UserId`, pod uid, token id.
    pub instance: String,
    /// State now.
    pub state: RunnerState,
    /// Last serial allotted, 32 lower-case hex digits.
    pub serial: String,
    /// End of the last certificate allotted.
    pub not_after: String,
    /// Last full attestation.
    pub attested_at: String,
    /// Last enrolment or renewal.
    pub last_seen: String,
}

text_enum! {
    /// What a ban covers.
    BanScope {
        /// Every runner of the instance.
        Instance = "instance",
        /// This runner.
        Runner = "runner",
    }
}

/// Body of a ban.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BanRequest {
    /// For the audit log.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Default `instance`, for bootstrap runners `runner`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scope: Option<BanScope>,
}

/// Answer of a ban: the runner and, where the ban cannot hold by itself, why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BanResponse {
    /// The runner, now banned.
    #[serde(flatten)]
    pub runner: RunnerItem,
    /// What the operator must do besides, or null.
    pub warning: Option<String>,
}

text_enum! {
    /// Kind of an audit event.
    AuditType {
        /// Enrolment.
        Enroll = "enroll",
        /// Renewal.
        Renew = "renew",
        /// Appraisal by `/v1/verify`.
        Verify = "verify",
        /// Bootstrap token minted.
        TokenMint = "token_mint",
        /// Bootstrap token revoked.
        TokenRevoke = "token_revoke",
        /// Runner or instance banned.
        Ban = "ban",
        /// Ban lifted.
        Unban = "unban",
        /// Runner forgotten.
        Evict = "evict",
        /// An instance with an active runner enrolled another key.
        SecondKeyForInstance = "second_key_for_instance",
        /// Two holders of one certificate.
        Suspect = "suspect",
        /// A new policy.
        PolicyApply = "policy_apply",
    }
}

text_enum! {
    /// Why a bootstrap token was refused: for the audit log only.
    TokenCause {
        /// No such token.
        Unknown = "unknown",
        /// The id exists, the secret differs.
        WrongSecret = "wrong_secret",
        /// Past its end.
        Expired = "expired",
        /// No uses left.
        UsedUp = "used_up",
        /// Revoked.
        Revoked = "revoked",
    }
}

/// One audit event; every field always present, null where it does not apply.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AuditItem {
    /// Number within the log, growing.
    pub id: u64,
    /// RFC 3339.
    pub time: String,
    /// Kind.
    #[serde(rename = "type")]
    pub event: AuditType,
    /// Allow or deny.
    pub outcome: crate::Decision,
    /// Code of a refusal.
    pub code: Option<Code>,
    /// Reason of a refusal, or an operator's own words for a ban.
    pub reason: Option<String>,
    /// Cause of a token refusal.
    pub cause: Option<TokenCause>,
    /// Mode of the evidence.
    pub mode: Option<Mode>,
    /// Canonical identity.
    pub identity: Option<String>,
    /// Runner concerned.
    pub runner_id: Option<String>,
    /// First 8 hex digits of the SHA-256 of the admin or service token that came with the call.
    pub actor: Option<String>,
    /// `x-request-id` of the call.
    pub request_id: String,
}

impl AuditItem {
    /// The reason, where it is one of the protocol.
    pub fn protocol_reason(&self) -> Option<Reason> {
        self.reason.as_deref().and_then(|text| text.parse().ok())
    }
}

/// A page of a list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Page<T> {
    /// Items of this page.
    pub items: Vec<T>,
    /// Cursor of the next page, or null.
    pub next: Option<String>,
}

/// Items on a page unless asked otherwise.
pub const PAGE_DEFAULT: u32 = 50;
/// Most items on a page.
pub const PAGE_MAX: u32 = 200;

/// `GET /healthz`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Health {
    /// `ok`.
    pub status: String,
    /// Version of the verifier.
    pub version: String,
}
