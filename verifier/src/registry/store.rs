//! The storage port of the tenant's object: rows in domain terms, one small trait.
//!
//! Every function of this room reads and writes through [`Store`] and nothing else. The caller runs one such function inside one
//! storage transaction and rolls back when it returns a [`Fault`](super::Fault); so no method here commits anything by itself.
//!
//! Out of scope: transactions, schema and migration. Those are the back end's (SQLite in the object, [`super::MemoryStore`] in tests).

use protocol::Mode;
use protocol::admin::{AuditItem, BanScope};
use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::revocation::Revocation;
use crate::UnixTime;
use crate::evidence::Principal;
use crate::issuance::RevocationReason;
use crate::registry::Allotment;

/// Storage failed; the transaction must be rolled back.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum StoreError {
    /// The back end refused a statement.
    #[error("storage: {0}")]
    Backend(String),
    /// A stored row does not have the form of this version.
    #[error("stored row cannot be read: {0}")]
    Corrupt(String),
}

/// Answer of every storage call.
pub type Stored<T> = Result<T, StoreError>;

/// A bootstrap token. The secret itself is never kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Token {
    /// Public part.
    pub id: String,
    /// SHA-256 of the whole token, lower-case hex.
    pub secret_sha256: String,
    /// As given at the mint.
    pub description: Option<String>,
    /// Time of the mint.
    pub created_at: UnixTime,
    /// Refused from here on.
    pub expires_at: UnixTime,
    /// Uses allowed.
    pub max_uses: u32,
    /// Uses made.
    pub uses: u32,
    /// Refused at once.
    pub revoked: bool,
}

/// A certificate of a runner by its serial and key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Slot {
    /// 32 lower-case hex digits.
    pub serial: String,
    /// SHA-256 of its SubjectPublicKeyInfo, lower-case hex.
    pub spki_sha256: String,
}

/// The record of a runner. A serial that is in neither slot is retired: that is the only record of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Runner {
    /// Runner id.
    pub id: String,
    /// Who was proven at the last full attestation.
    pub principal: Principal,
    /// Last full attestation.
    pub attested_at: UnixTime,
    /// Last enrolment or renewal that allotted a serial.
    pub last_seen: UnixTime,
    /// The certificate in use.
    pub current: Option<Slot>,
    /// Allotted, not used yet; its first use retires `current`.
    pub next: Option<Slot>,
    /// End of the certificate allotted last.
    pub not_after: UnixTime,
    /// Latest end of a certificate that is not revoked; 1970 when all are.
    pub live_until: UnixTime,
    /// Latest end of any certificate ever allotted.
    pub ends_at: UnixTime,
    /// Two holders of one certificate were seen (CHECKS I4).
    pub suspect: bool,
    /// Forgotten by an operator: kept out of sight for its bans and for the uses that must not be repeated (PROTOCOL, Serials).
    pub evicted: bool,
}

impl Runner {
    /// The slot allotted last.
    pub fn last(&self) -> Option<&Slot> {
        self.next.as_ref().or(self.current.as_ref())
    }

    /// Whether a certificate in a slot is for this key.
    pub fn holds(&self, spki_sha256: &str) -> bool {
        [&self.current, &self.next].into_iter().flatten().any(|slot| slot.spki_sha256 == spki_sha256)
    }

    /// Holds a live certificate and is not suspect. Bans are looked up separately.
    pub fn is_active(&self, now: UnixTime) -> bool {
        !self.evicted && !self.suspect && self.live_until > now
    }
}

/// A serial that was allotted; kept until the end of its certificate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AllottedSerial {
    /// Whose.
    pub runner_id: String,
    /// 32 lower-case hex digits.
    pub serial: String,
    /// SHA-256 of the certified SubjectPublicKeyInfo, lower-case hex.
    pub spki_sha256: String,
    /// Serial that was presented for it; `None` for an enrolment.
    pub parent: Option<String>,
    /// When it was allotted.
    pub allotted_at: UnixTime,
    /// Start of the certificate.
    pub not_before: UnixTime,
    /// End of the certificate.
    pub not_after: UnixTime,
    /// When a full attestation is due.
    pub reattest_before: Option<UnixTime>,
    /// On the CRL, or on its way there.
    pub revoked: bool,
}

impl AllottedSerial {
    /// Neither ended nor revoked.
    pub fn is_live(&self, now: UnixTime) -> bool {
        !self.revoked && self.not_after > now
    }

    /// The allotment as first given.
    pub fn allotment(&self, tenant: &str) -> Allotment {
        Allotment {
            tenant: tenant.to_owned(),
            runner_id: self.runner_id.clone(),
            serial: self.serial.clone(),
            spki_sha256: self.spki_sha256.clone(),
            not_before: self.not_before,
            not_after: self.not_after,
            reattest_before: self.reattest_before,
        }
    }
}

/// A use of evidence (CHECKS K7), or of a bootstrap token by a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EvidenceRecord {
    /// [`crate::evidence::EvidenceUse::digest`].
    pub digest: String,
    /// The one key it counts for.
    pub spki_sha256: String,
    /// Runner it enrolled, or would where only `/v1/verify` used it; `None` in rows of the first version then.
    pub runner_id: Option<String>,
    /// Serial it was given.
    pub serial: Option<String>,
    /// Kept until then.
    pub until: UnixTime,
    /// Refused for every key: its runner was evicted.
    pub void: bool,
}

/// A ban; never purged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ban {
    /// What it covers.
    pub scope: BanScope,
    /// Mode of the runner it was set on.
    pub mode: Mode,
    /// Runner id, or instance.
    pub subject: String,
    /// The operator's words.
    pub reason: Option<String>,
    /// Since when.
    pub since: UnixTime,
}

/// What bans and other runners mean for a runner: nothing where there are none.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Standing {
    /// A ban covers the runner or the instance.
    pub banned: bool,
    /// Another runner of the instance is active. Bans of single runners need no look: their `live_until` is over.
    pub other_active: bool,
}

/// The certificate that a renewal presents, with all that the record says of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Presented {
    /// Its serial.
    pub serial: AllottedSerial,
    /// Its runner.
    pub runner: Runner,
    /// A ban covers the runner or its instance.
    pub banned: bool,
    /// How many of the runner's serials have not ended.
    pub serials: u32,
    /// [`Store::meta`] of [`super::POLICY_VERSION`].
    pub policy_version: Option<String>,
}

/// Whose serials.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Covered<'a> {
    /// Of this runner.
    Runner(&'a str),
    /// Of every runner of the instance.
    Instance(Mode, &'a str),
}

/// A revocation on its way to the Revocation object.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OutboxItem {
    /// Number within the outbox, growing.
    pub seq: u64,
    /// What to put on the CRL.
    pub revocation: Revocation,
}

/// What has ended, table by table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Horizon {
    /// Serials whose certificate ended before this.
    pub serials: UnixTime,
    /// Outbox entries whose certificate ended before this.
    pub outbox: UnixTime,
    /// Keys not to be kept beyond this, unless a slot of their runner or a ban of their runner needs them.
    pub keys: UnixTime,
    /// Uses of evidence to be remembered until before this.
    pub uses: UnixTime,
    /// Tokens that expired before this.
    pub tokens: UnixTime,
    /// Audit events older than this, but for the last one, which numbers the next.
    pub audit: UnixTime,
    /// Audit events kept at most.
    pub audit_rows: u64,
}

/// Storage of one tenant.
pub trait Store {
    /// A bootstrap token by its public part.
    fn token(&self, id: &str) -> Stored<Option<Token>>;
    /// Adds or replaces a token.
    fn put_token(&mut self, token: &Token) -> Stored<()>;
    /// Tokens in order of id, after `after`.
    fn tokens(&self, after: Option<&str>, limit: u32) -> Stored<Vec<Token>>;

    /// A runner by id, evicted ones too.
    fn runner(&self, id: &str) -> Stored<Option<Runner>>;
    /// The runners with this identity that were certified for this key, or whose id `first` was made from it, evicted ones too, in no order.
    fn runners_by_key(&self, mode: Mode, identity: &str, spki_sha256: &str, first: &str) -> Stored<Vec<Runner>>;
    /// How a runner stands, recorded or not yet.
    fn standing(&self, mode: Mode, runner_id: &str, instance: &str, now: UnixTime) -> Stored<Standing>;
    /// Adds or replaces a runner.
    fn put_runner(&mut self, runner: &Runner) -> Stored<()>;
    /// Removes a runner's record; its keys and serials end by themselves.
    fn delete_runner(&mut self, id: &str) -> Stored<()>;
    /// Runners in order of id, after `after`, evicted ones left out.
    fn runners(&self, after: Option<&str>, limit: u32) -> Stored<Vec<Runner>>;
    /// Runners in order of id, after `after`, evicted ones too, all of whose certificates have ended.
    fn ended_runners(&self, after: Option<&str>, now: UnixTime, limit: u32) -> Stored<Vec<Runner>>;

    /// Indexes a key of a runner, to be kept at least until `until`.
    fn put_key(&mut self, runner_id: &str, spki_sha256: &str, until: UnixTime) -> Stored<()>;

    /// A serial with its runner, as a renewal presents them.
    fn presented(&self, runner_id: &str, serial: &str, now: UnixTime) -> Stored<Option<Presented>>;
    /// A serial of a runner.
    fn serial(&self, runner_id: &str, serial: &str) -> Stored<Option<AllottedSerial>>;
    /// Adds a serial.
    fn add_serial(&mut self, serial: &AllottedSerial) -> Stored<()>;
    /// What was allotted to `spki_sha256` when `parent` was presented; the latest, should there be several.
    fn renewal_of(&self, runner_id: &str, parent: &str, spki_sha256: &str) -> Stored<Option<AllottedSerial>>;
    /// The latest serial of a runner for a key.
    fn latest_serial(&self, runner_id: &str, spki_sha256: &str) -> Stored<Option<AllottedSerial>>;
    /// How many of the runner's serials have not ended.
    fn count_serials(&self, runner_id: &str, now: UnixTime) -> Stored<u32>;
    /// Revokes every serial covered that has not ended and is not revoked, puts each into the outbox, and ends `live_until` of the
    /// runners covered.
    fn revoke_serials(&mut self, covered: Covered<'_>, reason: RevocationReason, now: UnixTime) -> Stored<()>;

    /// A use of evidence.
    fn evidence(&self, digest: &str) -> Stored<Option<EvidenceRecord>>;
    /// Adds or replaces a use.
    fn put_evidence(&mut self, record: &EvidenceRecord) -> Stored<()>;
    /// Voids every use that enrolled the runner.
    fn void_evidence(&mut self, runner_id: &str) -> Stored<()>;

    /// Adds or replaces a ban.
    fn put_ban(&mut self, ban: &Ban) -> Stored<()>;
    /// Lifts a ban.
    fn delete_ban(&mut self, scope: BanScope, mode: Mode, subject: &str) -> Stored<()>;

    /// Appends an event; its `id` is ignored and the next number taken.
    fn append_audit(&mut self, event: &AuditItem, now: UnixTime) -> Stored<()>;
    /// Events, newest first, with an id below `before`.
    fn audit(&self, before: Option<u64>, limit: u32) -> Stored<Vec<AuditItem>>;

    /// The oldest entries of the outbox.
    fn outbox(&self, limit: u32) -> Stored<Vec<OutboxItem>>;
    /// Drops the entries up to and including `seq`.
    fn outbox_ack(&mut self, seq: u64) -> Stored<()>;

    /// A value by name.
    fn meta(&self, name: &str) -> Stored<Option<String>>;
    /// Sets a value.
    fn put_meta(&mut self, name: &str, value: &str) -> Stored<()>;

    /// Deletes what has ended, at most `limit` rows of each table; whether more is left.
    fn purge(&mut self, horizon: &Horizon, limit: u32) -> Stored<bool>;
    /// Whether anything but bans, values and the last audit event is stored: something will end some day.
    fn holds_rows(&self) -> Stored<bool>;
}
