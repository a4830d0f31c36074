//! The `Policy` object: the one document in force, compare-and-set, who applied it, and every tenant any policy ever named.

use protocol::admin::{AuditItem, AuditType, Page};
use protocol::{Code, Decision};
use serde::{Deserialize, Serialize};
use verifier::encoding::{hex, sha256};
use verifier::registry::PageQuery;
use verifier::registry::page::{Paging, decimal_cursor};
use verifier::{Denial, UnixTime};
use worker::{DurableObject, Env, Request, Response, SqlStorage, State, durable_object};

use super::shell::{Answer, Fault, decode, encode, transaction};
use crate::platform::clock;

/// Applied policies remembered in the audit log.
const AUDIT_ROWS: i64 = 10_000;

/// What the worker asks.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Call {
    /// The document, unless it is still the one with this `ETag`.
    Read(Option<String>),
    /// A new document.
    Write(PolicyWrite),
    /// Whether any policy ever named the tenant.
    TenantKnown(String),
    /// Who applied what.
    Audit(PageQuery),
}

/// A validated document to be stored.
#[derive(Debug, Serialize, Deserialize)]
pub struct PolicyWrite {
    /// JSON.
    pub document: String,
    /// Tenants it names.
    pub tenants: Vec<String>,
    /// `If-Match`, as sent.
    pub if_match: Option<String>,
    /// First 8 hex digits of the admin token's hash.
    pub actor: String,
    /// `x-request-id`.
    pub request_id: String,
}

/// A stored document.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredPolicy {
    /// JSON.
    pub document: String,
    /// Strong entity tag, quoted.
    pub etag: String,
    /// Growing by one with each document.
    pub version: u64,
}

/// Answer to a read.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PolicyRead {
    /// No policy yet.
    Absent,
    /// Still the one named.
    Unchanged,
    /// Here it is.
    Document(StoredPolicy),
}

/// The object.
#[durable_object]
pub struct Policy {
    state: State,
}

impl DurableObject for Policy {
    fn new(state: State, _env: Env) -> Self {
        Self { state }
    }

    async fn fetch(&self, mut request: Request) -> worker::Result<Response> {
        let call = match decode::<Call>(&mut request).await {
            Ok(call) => call,
            Err(fault) => return encode::<()>(Err(fault)),
        };
        let now = clock::now();
        let text = transaction(&self.state.storage(), |sql| {
            prepare(sql)?;
            answer(sql, &call, now)
        });
        match text {
            Ok(text) => Response::ok(text),
            Err(fault) => encode::<()>(Err(fault)),
        }
    }
}

fn answer(sql: &SqlStorage, call: &Call, now: UnixTime) -> Result<String, Fault> {
    Ok(match call {
        Call::Read(etag) => serde_json::to_string(&Answer::Ok(read(sql, etag.as_deref())?)),
        Call::Write(write) => serde_json::to_string(&Answer::from(store(sql, write, now)?)),
        Call::TenantKnown(tenant) => serde_json::to_string(&Answer::Ok(knows(sql, tenant)?)),
        Call::Audit(query) => serde_json::to_string(&Answer::from(audit(sql, query)?)),
    }?)
}

fn prepare(sql: &SqlStorage) -> Result<(), Fault> {
    sql.exec(
        "CREATE TABLE IF NOT EXISTS policy (one INTEGER PRIMARY KEY CHECK (one = 1), version INTEGER NOT NULL, etag TEXT NOT NULL, document TEXT NOT NULL);
         CREATE TABLE IF NOT EXISTS tenants (id TEXT PRIMARY KEY) WITHOUT ROWID;
         CREATE TABLE IF NOT EXISTS audit (id INTEGER PRIMARY KEY AUTOINCREMENT, event TEXT NOT NULL);",
        None,
    )?;
    Ok(())
}

#[derive(Deserialize)]
struct Row {
    version: u64,
    etag: String,
    document: String,
}

fn current(sql: &SqlStorage) -> Result<Option<StoredPolicy>, Fault> {
    let rows: Vec<Row> = sql.exec("SELECT version, etag, document FROM policy", None)?.to_array()?;
    Ok(rows.into_iter().next().map(|Row { version, etag, document }| StoredPolicy { document, etag, version }))
}

fn read(sql: &SqlStorage, known: Option<&str>) -> Result<PolicyRead, Fault> {
    Ok(match current(sql)? {
        None => PolicyRead::Absent,
        Some(stored) if known == Some(stored.etag.as_str()) => PolicyRead::Unchanged,
        Some(stored) => PolicyRead::Document(stored),
    })
}

fn store(sql: &SqlStorage, write: &PolicyWrite, now: UnixTime) -> Result<Result<StoredPolicy, Denial>, Fault> {
    let current = current(sql)?;
    if let Err(denial) = precondition(write.if_match.as_deref(), current.as_ref()) {
        record(sql, write, Some(denial.code), now)?;
        return Ok(Err(denial));
    }
    let version = current.map_or(1, |stored| stored.version.saturating_add(1));
    let digest: String = hex(&sha256(write.document.as_bytes())).chars().take(16).collect();
    let stored = StoredPolicy { document: write.document.clone(), etag: format!("\"{version}-{digest}\""), version };
    sql.exec(
        "INSERT OR REPLACE INTO policy (one, version, etag, document) VALUES (1, ?, ?, ?)",
        vec![i64::try_from(version)?.into(), stored.etag.clone().into(), stored.document.clone().into()],
    )?;
    for tenant in &write.tenants {
        sql.exec("INSERT OR IGNORE INTO tenants (id) VALUES (?)", vec![tenant.clone().into()])?;
    }
    record(sql, write, None, now)?;
    Ok(Ok(stored))
}

/// `If-Match` (RFC 9110 section 13.1.1), required once a policy exists.
fn precondition(if_match: Option<&str>, current: Option<&StoredPolicy>) -> Result<(), Denial> {
    match (if_match, current) {
        (None, None) => Ok(()),
        (None, Some(_)) => Err(Denial::new(
            Code::EtagRequired,
            "a policy exists: send If-Match with the ETag of the version you have read",
        )),
        (Some(_), None) => Err(Denial::new(Code::EtagMismatch, "there is no policy yet: apply the first without If-Match")),
        (Some(tags), Some(stored)) => {
            if tags.split(',').map(str::trim).any(|tag| tag == "*" || tag == stored.etag) {
                Ok(())
            } else {
                let detail = "the policy has changed since you read it: read it again, and apply your change to that";
                Err(Denial::new(Code::EtagMismatch, detail))
            }
        }
    }
}

fn record(sql: &SqlStorage, write: &PolicyWrite, code: Option<Code>, now: UnixTime) -> Result<(), Fault> {
    let event = AuditItem {
        id: 0,
        time: now.to_rfc3339(),
        event: AuditType::PolicyApply,
        outcome: if code.is_none() { Decision::Allow } else { Decision::Deny },
        code,
        reason: None,
        cause: None,
        mode: None,
        identity: None,
        runner_id: None,
        actor: Some(write.actor.clone()),
        request_id: write.request_id.clone(),
    };
    sql.exec("INSERT INTO audit (event) VALUES (?)", vec![serde_json::to_string(&event)?.into()])?;
    sql.exec("DELETE FROM audit WHERE id <= (SELECT MAX(id) FROM audit) - ?", vec![AUDIT_ROWS.into()])?;
    Ok(())
}

fn knows(sql: &SqlStorage, tenant: &str) -> Result<bool, Fault> {
    let rows: Vec<serde_json::Value> =
        sql.exec("SELECT 1 AS one FROM tenants WHERE id = ?", vec![tenant.into()])?.to_array()?;
    Ok(!rows.is_empty())
}

#[derive(Deserialize)]
struct AuditRow {
    id: u64,
    event: String,
}

fn audit(sql: &SqlStorage, query: &PageQuery) -> Result<Result<Page<AuditItem>, Denial>, Fault> {
    let paging = match Paging::new(query) {
        Ok(paging) => paging,
        Err(denial) => return Ok(Err(denial)),
    };
    let before = match paging.cursor.map(decimal_cursor).transpose() {
        Ok(before) => before,
        Err(denial) => return Ok(Err(denial)),
    };
    let before = before.and_then(|id| i64::try_from(id).ok()).unwrap_or(i64::from(u32::MAX));
    let rows: Vec<AuditRow> = sql
        .exec(
            "SELECT id, event FROM audit WHERE id < ? ORDER BY id DESC LIMIT ?",
            vec![before.into(), i64::from(paging.fetch()).into()],
        )?
        .to_array()?;
    let events: Result<Vec<AuditItem>, serde_json::Error> = rows
        .into_iter()
        .map(|row| serde_json::from_str::<AuditItem>(&row.event).map(|event| AuditItem { id: row.id, ..event }))
        .collect();
    Ok(Ok(paging.page(events?, |event| event.id.to_string(), |event| event)))
}
