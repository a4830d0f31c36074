//! The `Policy` object: the one document in force, compare-and-set, who applied it, and every tenant any policy ever named.

use protocol::admin::{AuditItem, AuditType, Page};
use protocol::{Code, Decision};
use serde::{Deserialize, Serialize};
use verifier::encoding::{hex, sha256};
use verifier::registry::PageQuery;
use verifier::registry::page::{Paging, decimal_cursor};
use verifier::{Denial, UnixTime};

use super::schema;
use super::shell::{Answer, Fault, encode, encode_json, unpack};
use super::sql::{Row, Sql, row_number};

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
    /// A document that was refused and goes no further.
    Refused(Applicant, Code),
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
    /// Who applies it.
    pub applicant: Applicant,
}

/// Who applies a policy, for the audit log.
#[derive(Debug, Serialize, Deserialize)]
pub struct Applicant {
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

/// Answers one call.
pub fn decide(sql: &dyn Sql, message: &[u8], now: UnixTime) -> Result<Vec<u8>, Fault> {
    let call: Call = unpack(message)?;
    schema::migrate(sql, schema::POLICY)?;
    match &call {
        Call::Read(etag) => encode(Answer::Ok(read(sql, etag.as_deref())?)),
        Call::Write(write) => encode(store(sql, write, now)?),
        Call::Refused(applicant, code) => encode(Answer::Ok(record(sql, applicant, Some(*code), now)?)),
        Call::TenantKnown(tenant) => encode(Answer::Ok(knows(sql, tenant)?)),
        Call::Audit(query) => encode_json(audit(sql, query)?),
    }
}

fn current(sql: &dyn Sql) -> Result<Option<StoredPolicy>, Fault> {
    let mut rows = sql.query("SELECT document, etag, version FROM policy", &[])?;
    let Some(row) = rows.first_mut() else { return Ok(None) };
    Ok(Some(StoredPolicy { document: row.text()?, etag: row.text()?, version: row.number()? }))
}

fn read(sql: &dyn Sql, known: Option<&str>) -> Result<PolicyRead, Fault> {
    Ok(match current(sql)? {
        None => PolicyRead::Absent,
        Some(stored) if known == Some(stored.etag.as_str()) => PolicyRead::Unchanged,
        Some(stored) => PolicyRead::Document(stored),
    })
}

fn store(sql: &dyn Sql, write: &PolicyWrite, now: UnixTime) -> Result<Result<StoredPolicy, Denial>, Fault> {
    let current = current(sql)?;
    if let Err(denial) = precondition(write.if_match.as_deref(), current.as_ref()) {
        record(sql, &write.applicant, Some(denial.code), now)?;
        return Ok(Err(denial));
    }
    let version = current.map_or(1, |stored| stored.version.saturating_add(1));
    let digest: String = hex(&sha256(write.document.as_bytes())).chars().take(16).collect();
    let stored = StoredPolicy { document: write.document.clone(), etag: format!("\"{version}-{digest}\""), version };
    sql.query(
        "INSERT OR REPLACE INTO policy (one, version, etag, document) VALUES (1, ?, ?, ?)",
        &[row_number(version).into(), (&stored.etag).into(), (&stored.document).into()],
    )?;
    for tenant in &write.tenants {
        sql.query("INSERT OR IGNORE INTO tenants (id) VALUES (?)", &[tenant.into()])?;
    }
    record(sql, &write.applicant, None, now)?;
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
        (Some(_), None) => {
            Err(Denial::new(Code::EtagMismatch, "there is no policy yet: apply the first without If-Match"))
        }
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

fn record(sql: &dyn Sql, applicant: &Applicant, code: Option<Code>, now: UnixTime) -> Result<(), Fault> {
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
        actor: Some(applicant.actor.clone()),
        request_id: applicant.request_id.clone(),
    };
    let event = serde_json::to_string(&event)?;
    sql.query("INSERT INTO audit (event) VALUES (?)", &[(&event).into()])?;
    sql.query("DELETE FROM audit WHERE id <= (SELECT MAX(id) FROM audit) - ?", &[AUDIT_ROWS.into()])?;
    Ok(())
}

fn knows(sql: &dyn Sql, tenant: &str) -> Result<bool, Fault> {
    Ok(!sql.query("SELECT 1 FROM tenants WHERE id = ?", &[tenant.into()])?.is_empty())
}

fn audit(sql: &dyn Sql, query: &PageQuery) -> Result<Result<Page<AuditItem>, Denial>, Fault> {
    let checked = Paging::new(query).and_then(|paging| Ok((paging, paging.cursor.map(decimal_cursor).transpose()?)));
    let (paging, before) = match checked {
        Ok(checked) => checked,
        Err(denial) => return Ok(Err(denial)),
    };
    let rows = sql.query(
        "SELECT id, event FROM audit WHERE id < ? ORDER BY id DESC LIMIT ?",
        &[before.map_or(i64::MAX, row_number).into(), paging.fetch().into()],
    )?;
    let events: Result<Vec<AuditItem>, Fault> = rows
        .into_iter()
        .map(|mut row: Row| {
            let id = row.number()?;
            Ok(AuditItem { id, ..serde_json::from_str(&row.text()?)? })
        })
        .collect();
    Ok(Ok(paging.page(events?, |event| event.id.to_string(), |event| event)))
}

#[cfg(all(test, not(target_arch = "wasm32")))]
mod tests {
    use rusqlite::Connection;

    use super::*;

    const NOW: UnixTime = UnixTime::from_secs(1_790_000_000);

    fn database() -> Connection {
        let sql = Connection::open_in_memory().unwrap();
        schema::migrate(&sql, schema::POLICY).unwrap();
        sql
    }

    fn write(document: &str, tenants: &[&str], if_match: Option<&str>) -> PolicyWrite {
        PolicyWrite {
            document: document.to_owned(),
            tenants: tenants.iter().map(|tenant| (*tenant).to_owned()).collect(),
            if_match: if_match.map(str::to_owned),
            applicant: Applicant { actor: "0a1b2c3d".to_owned(), request_id: "r".to_owned() },
        }
    }

    fn apply(sql: &Connection, document: &str, tenants: &[&str], if_match: Option<&str>) -> Result<StoredPolicy, Code> {
        store(sql, &write(document, tenants, if_match), NOW).unwrap().map_err(|denial| denial.code)
    }

    #[test]
    fn compare_and_set() {
        let sql = database();
        assert!(matches!(read(&sql, None).unwrap(), PolicyRead::Absent));
        assert_eq!(apply(&sql, "{}", &[], Some("\"1\"")), Err(Code::EtagMismatch));
        let first = apply(&sql, "{\"a\":1}", &["acme"], None).unwrap();
        assert_eq!(first.version, 1);
        assert_eq!(apply(&sql, "{}", &[], None), Err(Code::EtagRequired));
        let second = apply(&sql, "{\"a\":2}", &["other"], Some(&first.etag)).unwrap();
        assert_eq!((second.version, second.etag == first.etag), (2, false));
        assert_eq!(apply(&sql, "{}", &[], Some(&first.etag)), Err(Code::EtagMismatch));
        // Nor does an old document come back under its old tag.
        let third = apply(&sql, "{\"a\":1}", &["acme"], Some("\"x\", *")).unwrap();
        assert_ne!(third.etag, first.etag);
        assert!(matches!(read(&sql, Some(&third.etag)).unwrap(), PolicyRead::Unchanged));
        let PolicyRead::Document(stored) = read(&sql, Some(&second.etag)).unwrap() else { panic!() };
        assert_eq!(stored, third);
    }

    #[test]
    fn every_tenant_ever_named_is_known() {
        let sql = database();
        let first = apply(&sql, "{}", &["acme"], None).unwrap();
        apply(&sql, "{}", &["other"], Some(&first.etag)).unwrap();
        assert!(knows(&sql, "acme").unwrap() && knows(&sql, "other").unwrap());
        assert!(!knows(&sql, "nobody").unwrap());
    }

    #[test]
    fn audit_tells_who_applied_newest_first_and_keeps_a_bounded_number() {
        let sql = database();
        apply(&sql, "{}", &[], None).unwrap();
        apply(&sql, "{}", &[], None).unwrap_err();
        let query = PageQuery { limit: Some(1), cursor: None };
        let page = audit(&sql, &query).unwrap().unwrap();
        assert_eq!((page.items[0].outcome, page.items[0].code), (Decision::Deny, Some(Code::EtagRequired)));
        assert_eq!(page.items[0].actor.as_deref(), Some("0a1b2c3d"));
        let rest = audit(&sql, &PageQuery { limit: None, cursor: page.next }).unwrap().unwrap();
        assert_eq!((rest.items.len(), rest.items[0].outcome, rest.next), (1, Decision::Allow, None));
        for _ in 0..AUDIT_ROWS {
            record(&sql, &write("", &[], None).applicant, None, NOW).unwrap();
        }
        let rows = sql.query("SELECT COUNT(*) FROM audit", &[]).unwrap().remove(0).integer().unwrap();
        assert_eq!(rows, AUDIT_ROWS);
    }
}
