//! The `Tenant` object: a shell around `verifier::registry`. Its class in `js/entry.mjs` runs each function of here in one `transactionSync`.
//!
//! Invariants:
//! - One call is one synchronous function of the registry in one transaction; no await lies between its first read and its last write.
//! - Refusals are committed (they are audit events), faults are rolled back.
//! - What a call put into the outbox and the alarm that delivers it are written without an await in between, so that storage takes both or neither:
//!   a process that dies after a ban still tells the CRL (CHECKS I7).
//! - The outbox is emptied only after the `Revocation` object has said that it holds the entries; delivering twice is harmless.
//! - Calls that only read write nothing, neither schema nor alarm; an alarm is set only while something will end.

use std::borrow::Cow;
use std::time::Duration;

use protocol::Code;
use protocol::admin::{AuditType, BanRequest, MintRequest};
use serde::{Deserialize, Serialize};
use verifier::UnixTime;
use verifier::ports::Entropy;
use verifier::registry::store::OutboxItem;
use verifier::registry::{
    AdminContext, EnrollCommand, PageQuery, RenewCommand, Store as _, VerifyCommand, audit, enroll, purge, renew,
    runners, tokens, verify,
};

use super::revocation::Call as RevocationCall;
use super::schema;
use super::shell::{Answer, Fault, encode, encode_json, pack, unpack};
use super::sql::{Sql, Untouched};
use super::tenant_store::SqlStore;

/// Time between purges while there is anything that will end.
const PURGE_EVERY: Duration = Duration::from_hours(1);
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
    Mint(Cow<'a, AdminContext>, #[serde(with = "json")] MintRequest),
    /// [`tokens::list`].
    Tokens(PageQuery),
    /// [`tokens::revoke`].
    RevokeToken(Cow<'a, AdminContext>, Cow<'a, str>),
    /// [`runners::list`].
    Runners(PageQuery),
    /// [`runners::show`].
    Runner(Cow<'a, str>),
    /// [`runners::ban`].
    Ban(Cow<'a, AdminContext>, Cow<'a, str>, #[serde(with = "json")] BanRequest),
    /// [`runners::unban`].
    Unban(Cow<'a, AdminContext>, Cow<'a, str>),
    /// [`runners::evict`].
    Evict(Cow<'a, AdminContext>, Cow<'a, str>),
    /// [`audit::note_refused`], for a call that the worker refuses.
    Refused(Cow<'a, AdminContext>, AuditType, Option<Cow<'a, str>>, Code),
    /// [`audit::list`].
    Audit(PageQuery),
}

/// Bodies of admin calls cross as JSON: their members may be missing, which takes names.
mod json {
    use std::borrow::Cow;

    use serde::de::{DeserializeOwned, Error as _};
    use serde::ser::Error as _;
    use serde::{Deserialize as _, Deserializer, Serialize, Serializer};

    pub fn serialize<T: Serialize, S: Serializer>(body: &T, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&serde_json::to_string(body).map_err(S::Error::custom)?)
    }

    pub fn deserialize<'de, T: DeserializeOwned, D: Deserializer<'de>>(deserializer: D) -> Result<T, D::Error> {
        serde_json::from_str(&Cow::<str>::deserialize(deserializer)?).map_err(D::Error::custom)
    }
}

impl TenantCall<'_> {
    /// Whether the call writes nothing, whatever it finds.
    fn only_reads(&self) -> bool {
        match self {
            Self::Verify(command) => !command.consume,
            Self::Tokens(_) | Self::Runners(_) | Self::Runner(_) | Self::Audit(_) => true,
            _ => false,
        }
    }
}

/// What the object's instance knows of its storage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Known {
    /// The schema is in place, and what an earlier instance left in the outbox has been looked after.
    pub ready: bool,
    /// An alarm is set, at latest for the next purge.
    pub armed: bool,
}

/// A call that was answered.
#[derive(Debug, PartialEq, Eq)]
pub struct Decided {
    /// For the worker.
    pub answer: Vec<u8>,
    /// Whether the instance is [`Known::ready`] now.
    pub ready: bool,
    /// When the alarm is to go off, if it is to be set.
    pub alarm: Option<Duration>,
}

/// Answers one call. One that only reads creates nothing: a tenant without a schema is answered for as the empty one (CHECKS B1).
pub fn decide(
    sql: &dyn Sql,
    message: &[u8],
    known: Known,
    now: UnixTime,
    entropy: &impl Entropy,
) -> Result<Decided, Fault> {
    let request: TenantRequest<'_> = unpack(message)?;
    let only_reads = request.call.only_reads();
    if !known.ready {
        if only_reads && !schema::is_present(sql)? {
            let answer = answer(&mut SqlStore::new(&Untouched), &request, now, entropy)?;
            return Ok(Decided { answer, ready: false, alarm: None });
        }
        schema::migrate(sql, schema::TENANT)?;
    }
    let mut store = SqlStore::new(sql);
    let answer = answer(&mut store, &request, now, entropy)?;
    let deliver = store.has_revoked() || (!known.ready && !store.outbox(1)?.is_empty());
    let alarm = if deliver { Some(Duration::ZERO) } else { (!known.armed && !only_reads).then_some(PURGE_EVERY) };
    Ok(Decided { answer, ready: true, alarm })
}

/// Entries of the outbox on their way to the `Revocation` object.
#[derive(Debug, PartialEq, Eq)]
pub struct Batch {
    /// Number of the last one, for [`delivered`].
    pub last: u64,
    /// The call that hands them over.
    pub call: Vec<u8>,
}

/// The next entries to deliver, or `None` when all are.
pub fn undelivered(sql: &dyn Sql) -> Result<Option<Batch>, Fault> {
    schema::migrate(sql, schema::TENANT)?;
    let items = SqlStore::new(sql).outbox(BATCH)?;
    let Some(last) = items.last().map(|item| item.seq) else { return Ok(None) };
    let entries = items.into_iter().map(|OutboxItem { revocation, .. }| revocation).collect();
    Ok(Some(Batch { last, call: pack(&RevocationCall::Add(entries))? }))
}

/// Takes a batch out of the outbox, given what the `Revocation` object answered.
pub fn delivered(sql: &dyn Sql, last: u64, answer: &[u8]) -> Result<(), Fault> {
    match unpack(answer)? {
        Answer::Ok(()) => Ok(SqlStore::new(sql).outbox_ack(last)?),
        Answer::Denied(denial) => Err(Fault(denial.detail)),
    }
}

/// One step of the purge; when the alarm is to go off next, `None` while there is nothing that will end.
pub fn forget_ended(sql: &dyn Sql, now: UnixTime) -> Result<Option<Duration>, Fault> {
    let mut store = SqlStore::new(sql);
    let more = purge(&mut store, now)?;
    Ok(if !store.outbox(1)?.is_empty() {
        Some(Duration::ZERO)
    } else if more {
        Some(NEXT_STEP)
    } else {
        store.holds_rows()?.then_some(PURGE_EVERY)
    })
}

fn answer(
    store: &mut SqlStore<'_>,
    request: &TenantRequest<'_>,
    now: UnixTime,
    entropy: &impl Entropy,
) -> Result<Vec<u8>, Fault> {
    let tenant = &request.tenant;
    match &request.call {
        TenantCall::Enroll(command) => encode(enroll(store, command, now, entropy)?),
        TenantCall::Renew(command) => encode(renew(store, command, now, entropy)?),
        TenantCall::Verify(command) => encode(Answer::Ok(verify(store, command, now)?)),
        TenantCall::Mint(context, request) => encode_json(tokens::mint(store, context, request, now, entropy)?),
        TenantCall::Tokens(query) => encode_json(tokens::list(store, tenant, query)?),
        TenantCall::RevokeToken(context, id) => encode(tokens::revoke(store, context, id, now)?),
        TenantCall::Runners(query) => encode_json(runners::list(store, tenant, query, now)?),
        TenantCall::Runner(id) => encode_json(runners::show(store, tenant, id, now)?),
        TenantCall::Ban(context, id, request) => encode_json(runners::ban(store, context, id, request, now)?),
        TenantCall::Unban(context, id) => encode_json(runners::unban(store, context, id, now)?),
        TenantCall::Evict(context, id) => encode(runners::evict(store, context, id, now)?),
        TenantCall::Refused(context, kind, named, code) => {
            encode(Answer::Ok(audit::note_refused(store, context, *kind, named.as_deref(), *code, now)?))
        }
        TenantCall::Audit(query) => encode_json(audit::list(store, query)?),
    }
}

#[cfg(all(test, not(target_arch = "wasm32")))]
mod tests {
    use protocol::admin::MintedToken;
    use rusqlite::Connection;
    use serde::de::DeserializeOwned;
    use verifier::Denial;
    use verifier::registry::suite::world::{Counter, NOW, TENANT, by_token, enrolment, pod};
    use verifier::registry::{Allotment, RevocationReason};

    use super::super::shell::Json;
    use super::*;

    const NEW: Known = Known { ready: false, armed: false };
    const WARM: Known = Known { ready: true, armed: true };

    fn database() -> Connection {
        Connection::open_in_memory().unwrap()
    }

    fn decided(sql: &Connection, call: TenantCall<'_>, known: Known) -> Decided {
        let request = TenantRequest { tenant: TENANT.into(), call };
        decide(sql, &pack(&request).unwrap(), known, NOW, &Counter).unwrap()
    }

    fn read<T: DeserializeOwned>(decided: &Decided) -> T {
        Result::<T, Denial>::from(unpack::<Answer<T>>(&decided.answer).unwrap()).unwrap()
    }

    fn context() -> AdminContext {
        AdminContext { tenant: TENANT.to_owned(), actor: "0a1b2c3d".to_owned(), request_id: "r".to_owned() }
    }

    fn mint(sql: &Connection, known: Known) -> Decided {
        let request = serde_json::from_str(r#"{"max_uses":2}"#).unwrap();
        decided(sql, TenantCall::Mint(Cow::Owned(context()), request), known)
    }

    fn looks() -> Vec<TenantCall<'static>> {
        let enroll = enrolment(&pod("1"), "e", "k");
        let page = || PageQuery { limit: None, cursor: None };
        vec![
            TenantCall::Tokens(page()),
            TenantCall::Runners(page()),
            TenantCall::Runner("0".repeat(32).into()),
            TenantCall::Audit(page()),
            TenantCall::Verify(Cow::Owned(VerifyCommand { enroll, consume: false, actor: context().actor })),
        ]
    }

    fn tables(sql: &Connection) -> usize {
        sql.query("SELECT 1 FROM sqlite_master", &[]).unwrap().len()
    }

    #[test]
    fn a_look_at_an_untouched_tenant_creates_nothing_and_finds_what_an_empty_one_has() {
        let (untouched, empty) = (database(), database());
        schema::migrate(&empty, schema::TENANT).unwrap();
        for (at_untouched, at_empty) in looks().into_iter().zip(looks()) {
            let found = decided(&untouched, at_untouched, NEW);
            assert_eq!(found, Decided { ready: false, alarm: None, ..decided(&empty, at_empty, NEW) });
            assert_eq!(tables(&untouched), 0, "{found:?}");
        }
        for look in looks() {
            assert_eq!(decided(&empty, look, Known { ready: true, armed: false }).alarm, None);
        }
    }

    #[test]
    fn a_write_brings_schema_and_alarm_and_a_ban_the_next_delivery() {
        let sql = database();
        let minted = mint(&sql, NEW);
        assert_eq!((minted.ready, minted.alarm), (true, Some(PURGE_EVERY)));
        assert_eq!(mint(&sql, WARM).alarm, None);
        let Json(minted) = read(&minted);
        let token = serde_json::from_str::<MintedToken>(&minted).unwrap().token;
        let enrolled = decided(&sql, TenantCall::Enroll(Cow::Owned(by_token(&token, "k"))), WARM);
        let runner = read::<Allotment>(&enrolled).runner_id;
        let ban = serde_json::from_str("{}").unwrap();
        assert_eq!(
            decided(&sql, TenantCall::Ban(Cow::Owned(context()), runner.into(), ban), WARM).alarm,
            Some(Duration::ZERO)
        );
        // An instance that died before it delivered: even a look reminds the next one.
        let page = PageQuery { limit: None, cursor: None };
        assert_eq!(decided(&sql, TenantCall::Tokens(page), NEW).alarm, Some(Duration::ZERO));
    }

    #[test]
    fn the_outbox_is_emptied_by_an_answer_and_nothing_else() {
        let sql = database();
        mint(&sql, NEW);
        assert_eq!(undelivered(&sql).unwrap(), None);
        let insert = "INSERT INTO outbox (serial, revoked_at, reason, not_after) VALUES (?, ?, ?, ?)";
        let serial = "5".repeat(32);
        let reason = i64::from(RevocationReason::PrivilegeWithdrawn.code());
        sql.query(insert, &[(&serial).into(), NOW.into(), reason.into(), NOW.plus(60).into()]).unwrap();
        let batch = undelivered(&sql).unwrap().unwrap();
        let RevocationCall::Add(entries) = unpack(&batch.call).unwrap() else { panic!("{batch:?}") };
        assert_eq!(entries.iter().map(|entry| &entry.serial).collect::<Vec<_>>(), [&serial]);
        assert!(delivered(&sql, batch.last, &[]).is_err());
        assert_eq!(undelivered(&sql).unwrap(), Some(batch));
        assert_eq!(forget_ended(&sql, NOW).unwrap(), Some(Duration::ZERO));
        let last = undelivered(&sql).unwrap().unwrap().last;
        delivered(&sql, last, &encode(Answer::Ok(())).unwrap()).unwrap();
        assert_eq!(undelivered(&sql).unwrap(), None);
        assert_eq!(forget_ended(&sql, NOW).unwrap(), Some(PURGE_EVERY));
    }

    #[test]
    fn no_alarm_where_nothing_will_end() {
        let sql = database();
        assert_eq!(undelivered(&sql).unwrap(), None);
        assert_eq!(forget_ended(&sql, NOW).unwrap(), None);
    }
}
