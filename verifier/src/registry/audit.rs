//! The audit log of a tenant: one event for every decision that reached it and every call by which an operator would change something,
//! refused ones too, written in the transaction of the decision.

use protocol::admin::{AuditItem, AuditType, Page, TokenCause};
use protocol::{Code, Decision, Mode};

use super::page::{Paging, decimal_cursor, is_id};
use super::store::{Store, Stored};
use super::{AdminContext, Outcome, PageQuery, runner_id, tokens};
use crate::{Denial, UnixTime};

/// Events older than this are purged.
pub const KEPT_SECS: i64 = 90 * 86_400;
/// Events beyond this number are purged, oldest first: about 400 MB of an object's 10 GB.
pub const KEPT_ROWS: u64 = 1_000_000;

/// An event in the making.
#[derive(Debug, Clone)]
pub struct Event(AuditItem);

impl Event {
    /// An event that says allow and nothing else.
    pub fn new(event: AuditType, request_id: &str) -> Self {
        Self(AuditItem {
            id: 0,
            time: String::new(),
            event,
            outcome: Decision::Allow,
            code: None,
            reason: None,
            cause: None,
            mode: None,
            identity: None,
            runner_id: None,
            actor: None,
            request_id: request_id.to_owned(),
        })
    }

    /// Who it is about.
    #[must_use]
    pub fn about(mut self, mode: Mode, identity: &str) -> Self {
        self.0.mode = Some(mode);
        self.0.identity = Some(identity.to_owned());
        self
    }

    /// Which runner.
    #[must_use]
    pub fn runner(mut self, runner_id: Option<&str>) -> Self {
        self.0.runner_id = runner_id.map(str::to_owned);
        self
    }

    /// Which operator.
    #[must_use]
    pub fn by(mut self, actor: &str) -> Self {
        self.0.actor = Some(actor.to_owned());
        self
    }

    /// Words that go with it.
    #[must_use]
    pub fn because(mut self, reason: Option<&str>) -> Self {
        self.0.reason = reason.map(str::to_owned);
        self
    }

    /// A refusal.
    #[must_use]
    pub fn denied(mut self, denial: &Denial, cause: Option<TokenCause>) -> Self {
        self.0.outcome = Decision::Deny;
        self.0.code = Some(denial.code);
        self.0.reason = denial.reason.map(|reason| reason.as_str().to_owned());
        self.0.cause = cause;
        self
    }

    /// Writes it.
    pub fn write(mut self, store: &mut dyn Store, now: UnixTime) -> Stored<()> {
        self.0.time = now.to_rfc3339();
        store.append_audit(&self.0, now)
    }
}

/// Refuses an operator's call, on the record.
pub(super) fn refuse<T>(
    store: &mut dyn Store,
    context: &AdminContext,
    kind: AuditType,
    named: Option<&str>,
    denial: Denial,
    now: UnixTime,
) -> Outcome<T> {
    note_refused(store, context, kind, named, denial.code, now)?;
    Ok(Err(denial))
}

/// Writes down that an operator's call was refused. `named` is the token or runner that it was about, as it was given: the log names it
/// where it has the form of one.
pub fn note_refused(
    store: &mut dyn Store,
    context: &AdminContext,
    kind: AuditType,
    named: Option<&str>,
    code: Code,
    now: UnixTime,
) -> Stored<()> {
    let event = match (kind, named) {
        (AuditType::TokenRevoke, Some(id)) if is_id(id, tokens::ID_LENGTH) => tokens::event(kind, context, id),
        (AuditType::TokenMint | AuditType::TokenRevoke, _) => Event::new(kind, &context.request_id).by(&context.actor),
        (_, id) => {
            let id = id.filter(|id| is_id(id, runner_id::LENGTH));
            Event::new(kind, &context.request_id).runner(id).by(&context.actor)
        }
    };
    event.denied(&Denial::new(code, ""), None).write(store, now)
}

/// `GET …/audit`: newest first.
pub fn list(store: &dyn Store, query: &PageQuery) -> Outcome<Page<AuditItem>> {
    let paging = match Paging::new(query) {
        Ok(paging) => paging,
        Err(denial) => return Ok(Err(denial)),
    };
    let before = match paging.cursor.map(decimal_cursor).transpose() {
        Ok(before) => before,
        Err(denial) => return Ok(Err(denial)),
    };
    let events = store.audit(before, paging.fetch())?;
    Ok(Ok(paging.page(events, |event| event.id.to_string(), |event| event)))
}
