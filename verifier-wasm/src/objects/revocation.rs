//! The `Revocation` object of the issuing CA: what is on the CRL (CHECKS I7). Fed from the outboxes of the tenants' objects; the worker
//! signs.

use serde::{Deserialize, Serialize};
use verifier::UnixTime;
use verifier::registry::{CRL_PERIOD_SECS, Revocation as Entry, RevocationReason};
use worker::{DurableObject, Env, Request, Response, SqlStorage, State, durable_object};

use super::shell::{Answer, Fault, decode, encode, transaction};
use crate::platform::clock;

/// What is asked.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Call {
    /// From a tenant's outbox; a serial that is there already stays as it is.
    Add(Vec<Entry>),
    /// For a CRL made now.
    List,
}

/// Contents of a CRL.
#[derive(Debug, Serialize, Deserialize)]
pub struct RevocationList {
    /// CRL number: greater than that of every list before.
    pub number: u64,
    /// Entries in order of serial.
    pub entries: Vec<Entry>,
}

/// The object.
#[durable_object]
pub struct Revocation {
    state: State,
}

impl DurableObject for Revocation {
    fn new(state: State, _env: Env) -> Self {
        Self { state }
    }

    async fn fetch(&self, mut request: Request) -> worker::Result<Response> {
        let call = match decode::<Call>(&mut request).await {
            Ok(call) => call,
            Err(fault) => return encode::<()>(Err(fault)),
        };
        let now = clock::now();
        let storage = self.state.storage();
        match call {
            Call::Add(entries) => encode(transaction(&storage, |sql| {
                prepare(sql)?;
                add(sql, &entries)?;
                Ok(Answer::Ok(()))
            })),
            Call::List => encode(transaction(&storage, |sql| {
                prepare(sql)?;
                Ok(Answer::Ok(list(sql, now)?))
            })),
        }
    }
}

fn prepare(sql: &SqlStorage) -> Result<(), Fault> {
    sql.exec(
        "CREATE TABLE IF NOT EXISTS revoked (serial TEXT PRIMARY KEY, revoked_at INTEGER NOT NULL, reason INTEGER NOT NULL, not_after INTEGER NOT NULL) WITHOUT ROWID;
         CREATE TABLE IF NOT EXISTS number (one INTEGER PRIMARY KEY CHECK (one = 1), value INTEGER NOT NULL);",
        None,
    )?;
    Ok(())
}

fn add(sql: &SqlStorage, entries: &[Entry]) -> Result<(), Fault> {
    for entry in entries {
        sql.exec(
            "INSERT OR IGNORE INTO revoked (serial, revoked_at, reason, not_after) VALUES (?, ?, ?, ?)",
            vec![
                entry.serial.clone().into(),
                entry.revoked_at.secs().into(),
                i64::from(entry.reason.code()).into(),
                entry.not_after.secs().into(),
            ],
        )?;
    }
    Ok(())
}

#[derive(Deserialize)]
struct Number {
    value: u64,
}

#[derive(Deserialize)]
struct Row {
    serial: String,
    revoked_at: i64,
    reason: u8,
    not_after: i64,
}

fn list(sql: &SqlStorage, now: UnixTime) -> Result<RevocationList, Fault> {
    // An entry stays on at least one CRL after its certificate has ended (RFC 5280 section 3.3).
    let horizon = now.plus(CRL_PERIOD_SECS.saturating_neg());
    sql.exec("DELETE FROM revoked WHERE not_after < ?", vec![horizon.secs().into()])?;
    let number: Number = sql
        .exec(
            "INSERT INTO number (one, value) VALUES (1, 1) ON CONFLICT (one) DO UPDATE SET value = value + 1 RETURNING value",
            None,
        )?
        .one()?;
    let rows: Vec<Row> =
        sql.exec("SELECT serial, revoked_at, reason, not_after FROM revoked ORDER BY serial", None)?.to_array()?;
    let entries: Result<Vec<Entry>, Fault> = rows
        .into_iter()
        .map(|row| {
            Ok(Entry {
                serial: row.serial,
                revoked_at: UnixTime::from_secs(row.revoked_at),
                reason: RevocationReason::from_code(row.reason).ok_or("stored reason code")?,
                not_after: UnixTime::from_secs(row.not_after),
            })
        })
        .collect();
    Ok(RevocationList { number: number.value, entries: entries? })
}
