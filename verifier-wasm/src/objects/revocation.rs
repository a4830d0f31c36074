//! The `Revocation` object of the issuing CA: what is on the CRL (CHECKS I7). Fed from the outboxes of the tenants' objects; the worker
//! signs.

use serde::{Deserialize, Serialize};
use verifier::UnixTime;
use verifier::issuance::{CrlDraft, CrlEntry, Serial};
use verifier::registry::{CRL_PERIOD_SECS, Revocation as Entry, RevocationReason};

use super::schema;
use super::shell::{Answer, Fault, encode, unpack};
use super::sql::{Row, Sql, unreadable};

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
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RevocationList {
    /// CRL number: greater than that of every list before.
    pub number: u64,
    /// Entries in order of serial.
    pub entries: Vec<Entry>,
}

impl RevocationList {
    /// The list to be signed, of `now`. An entry whose serial cannot be read was never a certificate's.
    pub fn draft(&self, now: UnixTime) -> CrlDraft {
        let entries = self.entries.iter().filter_map(|entry| {
            let serial = Serial::from_hex(&entry.serial)?;
            Some(CrlEntry { serial, revoked_at: entry.revoked_at, reason: entry.reason })
        });
        CrlDraft::new(self.number, now, entries.collect())
    }
}

/// Answers one call.
pub fn decide(sql: &dyn Sql, message: &[u8], now: UnixTime) -> Result<Vec<u8>, Fault> {
    let call: Call = unpack(message)?;
    schema::migrate(sql, schema::REVOCATION)?;
    match call {
        Call::Add(entries) => encode(Answer::Ok(add(sql, &entries)?)),
        Call::List => encode(Answer::Ok(list(sql, now)?)),
    }
}

fn add(sql: &dyn Sql, entries: &[Entry]) -> Result<(), Fault> {
    for entry in entries {
        sql.query(
            "INSERT OR IGNORE INTO revoked (serial, revoked_at, reason, not_after) VALUES (?, ?, ?, ?)",
            &[
                (&entry.serial).into(),
                entry.revoked_at.into(),
                i64::from(entry.reason.code()).into(),
                entry.not_after.into(),
            ],
        )?;
    }
    Ok(())
}

fn list(sql: &dyn Sql, now: UnixTime) -> Result<RevocationList, Fault> {
    // An entry stays on at least one CRL after its certificate has ended (RFC 5280 section 3.3).
    let horizon = now.plus(CRL_PERIOD_SECS.saturating_neg());
    sql.query("DELETE FROM revoked WHERE not_after < ?", &[horizon.into()])?;
    sql.query("INSERT INTO number (one, value) VALUES (1, 1) ON CONFLICT (one) DO UPDATE SET value = value + 1", &[])?;
    let number = sql.query("SELECT value FROM number", &[])?.first_mut().map(Row::number).transpose()?;
    let rows = sql.query("SELECT serial, revoked_at, reason, not_after FROM revoked ORDER BY serial", &[])?;
    let entries: Result<Vec<Entry>, Fault> = rows
        .into_iter()
        .map(|mut row| {
            Ok(Entry {
                serial: row.text()?,
                revoked_at: row.time()?,
                reason: RevocationReason::from_code(row.number()?).ok_or_else(|| unreadable("a CRLReason"))?,
                not_after: row.time()?,
            })
        })
        .collect();
    Ok(RevocationList { number: number.unwrap_or_default(), entries: entries? })
}

#[cfg(all(test, not(target_arch = "wasm32")))]
mod tests {
    use rusqlite::Connection;

    use super::*;

    const NOW: UnixTime = UnixTime::from_secs(1_790_000_000);

    fn database() -> Connection {
        let sql = Connection::open_in_memory().unwrap();
        schema::migrate(&sql, schema::REVOCATION).unwrap();
        sql
    }

    fn entry(digit: char, reason: RevocationReason) -> Entry {
        Entry { serial: digit.to_string().repeat(32), revoked_at: NOW, reason, not_after: NOW.plus(3_600) }
    }

    #[test]
    fn a_serial_is_listed_once_and_the_first_entry_counts() {
        let sql = database();
        let banned = entry('5', RevocationReason::PrivilegeWithdrawn);
        add(&sql, &[banned.clone(), entry('4', RevocationReason::KeyCompromise)]).unwrap();
        add(&sql, &[Entry { revoked_at: NOW.plus(9), ..entry('5', RevocationReason::KeyCompromise) }]).unwrap();
        let listed = list(&sql, NOW).unwrap();
        assert_eq!(listed.entries, [entry('4', RevocationReason::KeyCompromise), banned]);
        let draft = listed.draft(NOW);
        assert_eq!((draft.number, draft.entries.len(), draft.this_update), (1, 2, NOW));
    }

    #[test]
    fn numbers_grow_and_ended_entries_stay_for_one_more_period() {
        let sql = database();
        add(&sql, &[entry('4', RevocationReason::CessationOfOperation)]).unwrap();
        let numbers: Vec<u64> = (0..3).map(|_| list(&sql, NOW).unwrap().number).collect();
        assert_eq!(numbers, [1, 2, 3]);
        let ended = NOW.plus(3_600);
        assert_eq!(list(&sql, ended.plus(CRL_PERIOD_SECS)).unwrap().entries.len(), 1);
        assert_eq!(list(&sql, ended.plus(CRL_PERIOD_SECS + 1)).unwrap().entries.len(), 0);
    }
}
