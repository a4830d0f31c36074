//! The `Tenant` object: a shell around `verifier::registry`.
//!
//! Invariants:
//! - One call is one synchronous function of the registry in one `transactionSync`; no await lies between its first read and its last write.
//! - Refusals are committed (they are audit events), faults are rolled back.
//! - What a call put into the outbox and the alarm that delivers it are written without an await in between, so that storage takes both or neither:
//!   a process that dies after a ban still tells the CRL (CHECKS I7).
//! - The outbox is emptied only after the `Revocation` object has said that it holds the entries; delivering twice is harmless.

use std::borrow::Cow;
use std::cell::Cell;
use std::time::Duration;

use protocol::admin::{BanRequest, MintRequest};
use serde::{Deserialize, Serialize};
use verifier::UnixTime;
use verifier::registry::store::OutboxItem;
use verifier::registry::{
    AdminContext, EnrollCommand, PageQuery, RenewCommand, Store as _, VerifyCommand, audit, enroll, purge, renew,
    runners, tokens, verify,
};
use worker::{DurableObject, Env, Request, Response, SqlStorage, State, durable_object};

use super::client;
use super::schema;
use super::shell::{Answer, Fault, encode, report, transaction};
use super::tenant_store::SqlStore;
use crate::platform::clock;
use crate::platform::webcrypto::PlatformEntropy;

/// Time between purges while there is anything that will end.
const PURGE_EVERY: Duration = Duration::from_hours(1);
/// Time to the next attempt when the `Revocation` object did not take the outbox, so that a ban is on the CRL within 10 s (CHECKS I7).
const RETRY: Duration = Duration::from_secs(2);
/// Time to the next step of a purge that has more to do: other calls go in between.
const NEXT_STEP: Duration = Duration::from_millis(200);
/// Entries of the outbox delivered at once.
const BATCH: u32 = 500;

/// What the worker asks.
#[derive(Debug, Serialize, Deserialize)]
pub struct TenantRequest<'a> {
    /// Tenant, which is also the object's name.
    pub tenant: Cow<'a, str>,
    /// What.
    pub call: TenantCall<'a>,
}

/// One call: one function of `verifier::registry`.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TenantCall<'a> {
    /// [`enroll`].
    Enroll(Cow<'a, EnrollCommand>),
    /// [`renew`].
    Renew(Cow<'a, RenewCommand>),
    /// [`verify`].
    Verify(Cow<'a, VerifyCommand>),
    /// [`tokens::mint`].
    Mint(Cow<'a, AdminContext>, MintRequest),
    /// [`tokens::list`].
    Tokens(PageQuery),
    /// [`tokens::revoke`].
    RevokeToken(Cow<'a, AdminContext>, Cow<'a, str>),
    /// [`runners::list`].
    Runners(PageQuery),
    /// [`runners::show`].
    Runner(Cow<'a, str>),
    /// [`runners::ban`].
    Ban(Cow<'a, AdminContext>, Cow<'a, str>, BanRequest),
    /// [`runners::unban`].
    Unban(Cow<'a, AdminContext>, Cow<'a, str>),
    /// [`runners::evict`].
    Evict(Cow<'a, AdminContext>, Cow<'a, str>),
    /// [`audit::list`].
    Audit(PageQuery),
}

/// The object.
#[durable_object(alarm)]
pub struct Tenant {
    state: State,
    env: Env,
    /// The schema is in place.
    migrated: Cell<bool>,
    /// The alarm as this instance knows it.
    alarm: Cell<Alarm>,
}

/// What is known of the storage's alarm.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Alarm {
    /// Not asked yet.
    Unknown,
    /// None is set.
    Off,
    /// One is set, at latest for the next purge.
    Set,
}

/// What a committed call leaves to do.
struct Done {
    answer: String,
    /// The outbox may hold something.
    deliver: bool,
}

impl DurableObject for Tenant {
    fn new(state: State, env: Env) -> Self {
        Self { state, env, migrated: Cell::new(false), alarm: Cell::new(Alarm::Unknown) }
    }

    async fn fetch(&self, mut request: Request) -> worker::Result<Response> {
        match self.serve(&mut request).await {
            Ok(answer) => Response::ok(answer),
            Err(fault) => encode::<()>(Err(fault)),
        }
    }

    async fn alarm(&self) -> worker::Result<Response> {
        // An alarm that fires is no longer set.
        self.alarm.set(Alarm::Off);
        let next = match self.work().await {
            Ok(next) => next,
            Err(fault) => {
                report(&fault);
                Some(RETRY)
            }
        };
        if let Some(after) = next {
            // A failure here makes the platform repeat the whole alarm.
            self.state.storage().set_alarm(after).await?;
            self.alarm.set(Alarm::Set);
        }
        Response::ok("")
    }
}

impl Tenant {
    async fn serve(&self, request: &mut Request) -> Result<String, Fault> {
        let text = request.text().await?;
        let request: TenantRequest<'_> = serde_json::from_str(&text)?;
        let first = self.alarm.get() == Alarm::Unknown;
        self.know_alarm().await?;
        let now = clock::now();
        let done = self.transaction(|sql| {
            let mut store = SqlStore::new(sql);
            let answer = decide(&mut store, &request, now)?;
            // Once per instance also what an earlier one may have left.
            let deliver = store.has_revoked() || (first && !store.outbox(1)?.is_empty());
            Ok(Done { answer, deliver })
        })?;
        if done.deliver {
            self.set_alarm(Duration::ZERO).await?;
        } else if self.alarm.get() == Alarm::Off {
            self.set_alarm(PURGE_EVERY).await?;
        }
        Ok(done.answer)
    }

    fn transaction<T>(&self, work: impl FnOnce(&SqlStorage) -> Result<T, Fault>) -> Result<T, Fault> {
        let result = transaction(&self.state.storage(), |sql| {
            if !self.migrated.get() {
                schema::migrate(sql, schema::TENANT)?;
            }
            work(sql)
        });
        if result.is_ok() {
            self.migrated.set(true);
        }
        result
    }

    async fn know_alarm(&self) -> Result<(), Fault> {
        if self.alarm.get() == Alarm::Unknown {
            let set = self.state.storage().get_alarm().await?.is_some();
            self.alarm.set(if set { Alarm::Set } else { Alarm::Off });
        }
        Ok(())
    }

    /// The write is issued before the first await of the returned future.
    async fn set_alarm(&self, after: Duration) -> Result<(), Fault> {
        self.state.storage().set_alarm(after).await?;
        self.alarm.set(Alarm::Set);
        Ok(())
    }

    /// Delivers the outbox, then purges; when to come back.
    async fn work(&self) -> Result<Option<Duration>, Fault> {
        if !self.deliver().await? {
            return Ok(Some(RETRY));
        }
        let now = clock::now();
        let (more, holds, undelivered) = self.transaction(|sql| {
            let mut store = SqlStore::new(sql);
            let more = purge(&mut store, now)?;
            Ok((more, store.holds_rows()?, !store.outbox(1)?.is_empty()))
        })?;
        Ok(if undelivered {
            Some(Duration::ZERO)
        } else if more {
            Some(NEXT_STEP)
        } else {
            holds.then_some(PURGE_EVERY)
        })
    }

    /// Tenant first, then the CRL: whether everything was taken.
    async fn deliver(&self) -> Result<bool, Fault> {
        loop {
            let items = self.transaction(|sql| Ok(SqlStore::new(sql).outbox(BATCH)?))?;
            let Some(last) = items.last().map(|item| item.seq) else { return Ok(true) };
            let entries = items.into_iter().map(|OutboxItem { revocation, .. }| revocation).collect();
            if let Err(denial) = client::revoke(&self.env, entries).await {
                report(&Fault(denial.detail));
                return Ok(false);
            }
            self.transaction(|sql| Ok(SqlStore::new(sql).outbox_ack(last)?))?;
        }
    }
}

fn decide(store: &mut SqlStore<'_>, request: &TenantRequest<'_>, now: UnixTime) -> Result<String, Fault> {
    let tenant = &request.tenant;
    let entropy = &PlatformEntropy;
    match &request.call {
        TenantCall::Enroll(command) => json(enroll(store, command, now, entropy)?),
        TenantCall::Renew(command) => json(renew(store, command, now, entropy)?),
        TenantCall::Verify(command) => json(Ok(verify(store, command, now)?)),
        TenantCall::Mint(context, request) => json(tokens::mint(store, context, request, now, entropy)?),
        TenantCall::Tokens(query) => json(tokens::list(store, tenant, query)?),
        TenantCall::RevokeToken(context, id) => json(tokens::revoke(store, context, id, now)?),
        TenantCall::Runners(query) => json(runners::list(store, tenant, query, now)?),
        TenantCall::Runner(id) => json(runners::show(store, tenant, id, now)?),
        TenantCall::Ban(context, id, request) => json(runners::ban(store, context, id, request, now)?),
        TenantCall::Unban(context, id) => json(runners::unban(store, context, id, now)?),
        TenantCall::Evict(context, id) => json(runners::evict(store, context, id, now)?),
        TenantCall::Audit(query) => json(audit::list(store, query)?),
    }
}

fn json<T: Serialize>(decision: Result<T, verifier::Denial>) -> Result<String, Fault> {
    Ok(serde_json::to_string(&Answer::from(decision))?)
}
