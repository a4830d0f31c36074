//! [`Store`] in memory, with transactions by snapshot: the fake that tests run on.

use std::cell::RefCell;
use std::collections::BTreeMap;

use protocol::Mode;
use protocol::admin::{AuditItem, BanScope};

use super::revocation::Revocation;
use super::store::{
    AllottedSerial, Ban, Covered, EvidenceRecord, Horizon, OutboxItem, Presented, Runner, Standing, Store, Stored,
    Token,
};
use crate::UnixTime;
use crate::issuance::RevocationReason;

/// A tenant in memory.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MemoryStore {
    tokens: BTreeMap<String, Token>,
    runners: BTreeMap<String, Runner>,
    /// (SPKI hash, runner id) → kept until.
    keys: BTreeMap<(String, String), UnixTime>,
    /// (runner id, serial).
    serials: BTreeMap<(String, String), AllottedSerial>,
    evidence: BTreeMap<String, EvidenceRecord>,
    bans: BTreeMap<(BanScope, Mode, String), Ban>,
    audit: BTreeMap<u64, (UnixTime, AuditItem)>,
    audit_seq: u64,
    outbox: BTreeMap<u64, Revocation>,
    outbox_seq: u64,
    meta: BTreeMap<String, String>,
    reads: Reads,
}

/// Which reads were made, in order. No part of what a store holds: any two are equal.
#[derive(Debug, Clone, Default)]
struct Reads(RefCell<Vec<&'static str>>);

impl Reads {
    fn note(&self, what: &'static str) {
        self.0.borrow_mut().push(what);
    }
}

impl PartialEq for Reads {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for Reads {}

impl MemoryStore {
    /// Names of the reads since the last call of this, in order.
    pub fn take_reads(&self) -> Vec<&'static str> {
        self.reads.0.take()
    }

    /// Runs `body`; what it wrote is taken back when it fails.
    pub fn transaction<T, E>(&mut self, body: impl FnOnce(&mut Self) -> Result<T, E>) -> Result<T, E> {
        let before = self.clone();
        let result = body(self);
        if result.is_err() {
            *self = before;
        }
        result
    }

    fn revoke(&mut self, of: impl Fn(&AllottedSerial) -> bool, reason: RevocationReason, now: UnixTime) {
        for serial in self.serials.values_mut().filter(|serial| serial.is_live(now) && of(serial)) {
            serial.revoked = true;
            self.outbox_seq = self.outbox_seq.saturating_add(1);
            let revocation =
                Revocation { serial: serial.serial.clone(), revoked_at: now, reason, not_after: serial.not_after };
            self.outbox.insert(self.outbox_seq, revocation);
        }
    }
}

fn follows(id: &str, after: Option<&str>) -> bool {
    after.is_none_or(|after| id > after)
}

impl Store for MemoryStore {
    fn token(&self, id: &str) -> Stored<Option<Token>> {
        self.reads.note("token");
        Ok(self.tokens.get(id).cloned())
    }

    fn put_token(&mut self, token: &Token) -> Stored<()> {
        self.tokens.insert(token.id.clone(), token.clone());
        Ok(())
    }

    fn tokens(&self, after: Option<&str>, limit: u32) -> Stored<Vec<Token>> {
        Ok(self.tokens.values().filter(|token| follows(&token.id, after)).take(limit as usize).cloned().collect())
    }

    fn runner(&self, id: &str) -> Stored<Option<Runner>> {
        self.reads.note("runner");
        Ok(self.runners.get(id).cloned())
    }

    fn runners_by_key(&self, mode: Mode, identity: &str, spki_sha256: &str, first: &str) -> Stored<Vec<Runner>> {
        self.reads.note("runners_by_key");
        let indexed = self.keys.keys().filter(|(spki, id)| spki == spki_sha256 && id != first);
        Ok(indexed
            .map(|(_, id)| id.as_str())
            .chain([first])
            .filter_map(|id| self.runners.get(id))
            .filter(|runner| runner.principal.mode() == mode && runner.principal.identity() == identity)
            .cloned()
            .collect())
    }

    fn standing(&self, mode: Mode, runner_id: &str, instance: &str, now: UnixTime) -> Stored<Standing> {
        self.reads.note("standing");
        let banned = |scope, subject: &str| self.bans.contains_key(&(scope, mode, subject.to_owned()));
        let is_other = |runner: &Runner| {
            runner.id != runner_id
                && runner.is_active(now)
                && runner.principal.mode() == mode
                && runner.principal.instance() == instance
        };
        Ok(Standing {
            banned: banned(BanScope::Runner, runner_id) || banned(BanScope::Instance, instance),
            other_active: self.runners.values().any(is_other),
        })
    }

    fn put_runner(&mut self, runner: &Runner) -> Stored<()> {
        self.runners.insert(runner.id.clone(), runner.clone());
        Ok(())
    }

    fn delete_runner(&mut self, id: &str) -> Stored<()> {
        self.runners.remove(id);
        Ok(())
    }

    fn runners(&self, after: Option<&str>, limit: u32) -> Stored<Vec<Runner>> {
        let listed = self.runners.values().filter(|runner| !runner.evicted && follows(&runner.id, after));
        Ok(listed.take(limit as usize).cloned().collect())
    }

    fn ended_runners(&self, after: Option<&str>, now: UnixTime, limit: u32) -> Stored<Vec<Runner>> {
        let ended = self.runners.values().filter(|runner| runner.ends_at < now && follows(&runner.id, after));
        Ok(ended.take(limit as usize).cloned().collect())
    }

    fn put_key(&mut self, runner_id: &str, spki_sha256: &str, until: UnixTime) -> Stored<()> {
        let kept = self.keys.entry((spki_sha256.to_owned(), runner_id.to_owned())).or_insert(until);
        *kept = (*kept).max(until);
        Ok(())
    }

    fn presented(&self, runner_id: &str, serial: &str, now: UnixTime) -> Stored<Option<Presented>> {
        let Some((serial, runner)) = self.serial(runner_id, serial)?.zip(self.runner(runner_id)?) else {
            return Ok(None);
        };
        Ok(Some(Presented {
            serial,
            banned: self.standing(runner.principal.mode(), runner_id, &runner.principal.instance(), now)?.banned,
            serials: self.count_serials(runner_id, now)?,
            policy_version: self.meta(super::POLICY_VERSION)?,
            runner,
        }))
    }

    fn serial(&self, runner_id: &str, serial: &str) -> Stored<Option<AllottedSerial>> {
        self.reads.note("serial");
        Ok(self.serials.get(&(runner_id.to_owned(), serial.to_owned())).cloned())
    }

    fn add_serial(&mut self, serial: &AllottedSerial) -> Stored<()> {
        self.serials.insert((serial.runner_id.clone(), serial.serial.clone()), serial.clone());
        Ok(())
    }

    fn renewal_of(&self, runner_id: &str, parent: &str, spki_sha256: &str) -> Stored<Option<AllottedSerial>> {
        self.reads.note("renewal_of");
        Ok(self
            .serials
            .values()
            .filter(|serial| {
                serial.runner_id == runner_id
                    && serial.parent.as_deref() == Some(parent)
                    && serial.spki_sha256 == spki_sha256
            })
            .max_by_key(|serial| serial.allotted_at)
            .cloned())
    }

    fn latest_serial(&self, runner_id: &str, spki_sha256: &str) -> Stored<Option<AllottedSerial>> {
        self.reads.note("latest_serial");
        Ok(self
            .serials
            .values()
            .filter(|serial| serial.runner_id == runner_id && serial.spki_sha256 == spki_sha256)
            .max_by_key(|serial| serial.allotted_at)
            .cloned())
    }

    fn count_serials(&self, runner_id: &str, now: UnixTime) -> Stored<u32> {
        let count =
            self.serials.values().filter(|serial| serial.runner_id == runner_id && serial.not_after > now).count();
        Ok(u32::try_from(count).unwrap_or(u32::MAX))
    }

    fn revoke_serials(&mut self, covered: Covered<'_>, reason: RevocationReason, now: UnixTime) -> Stored<()> {
        let ids: Vec<String> = self
            .runners
            .values()
            .filter(|runner| match covered {
                Covered::Runner(id) => runner.id == id,
                Covered::Instance(mode, instance) => {
                    runner.principal.mode() == mode && runner.principal.instance() == instance
                }
            })
            .map(|runner| runner.id.clone())
            .collect();
        self.revoke(|serial| ids.contains(&serial.runner_id), reason, now);
        for id in ids {
            if let Some(runner) = self.runners.get_mut(&id) {
                runner.live_until = UnixTime::from_secs(0);
            }
        }
        Ok(())
    }

    fn evidence(&self, digest: &str) -> Stored<Option<EvidenceRecord>> {
        self.reads.note("evidence");
        Ok(self.evidence.get(digest).cloned())
    }

    fn put_evidence(&mut self, record: &EvidenceRecord) -> Stored<()> {
        self.evidence.insert(record.digest.clone(), record.clone());
        Ok(())
    }

    fn void_evidence(&mut self, runner_id: &str) -> Stored<()> {
        for record in self.evidence.values_mut().filter(|record| record.runner_id.as_deref() == Some(runner_id)) {
            record.void = true;
        }
        Ok(())
    }

    fn put_ban(&mut self, ban: &Ban) -> Stored<()> {
        self.bans.insert((ban.scope, ban.mode, ban.subject.clone()), ban.clone());
        Ok(())
    }

    fn delete_ban(&mut self, scope: BanScope, mode: Mode, subject: &str) -> Stored<()> {
        self.bans.remove(&(scope, mode, subject.to_owned()));
        Ok(())
    }

    fn append_audit(&mut self, event: &AuditItem, now: UnixTime) -> Stored<()> {
        self.audit_seq = self.audit_seq.saturating_add(1);
        self.audit.insert(self.audit_seq, (now, AuditItem { id: self.audit_seq, ..event.clone() }));
        Ok(())
    }

    fn audit(&self, before: Option<u64>, limit: u32) -> Stored<Vec<AuditItem>> {
        let events = self.audit.range(..before.unwrap_or(u64::MAX)).rev();
        Ok(events.take(limit as usize).map(|(_, (_, event))| event.clone()).collect())
    }

    fn outbox(&self, limit: u32) -> Stored<Vec<OutboxItem>> {
        let items = self.outbox.iter().take(limit as usize);
        Ok(items.map(|(seq, revocation)| OutboxItem { seq: *seq, revocation: revocation.clone() }).collect())
    }

    fn outbox_ack(&mut self, seq: u64) -> Stored<()> {
        self.outbox.retain(|number, _| *number > seq);
        Ok(())
    }

    fn meta(&self, name: &str) -> Stored<Option<String>> {
        Ok(self.meta.get(name).cloned())
    }

    fn put_meta(&mut self, name: &str, value: &str) -> Stored<()> {
        self.meta.insert(name.to_owned(), value.to_owned());
        Ok(())
    }

    fn purge(&mut self, horizon: &Horizon, limit: u32) -> Stored<bool> {
        let runners = &self.runners;
        let bans = &self.bans;
        let needed = |spki: &str, id: &str| {
            runners.get(id).is_some_and(|runner| {
                runner.holds(spki) || bans.contains_key(&(BanScope::Runner, runner.principal.mode(), id.to_owned()))
            })
        };
        let newest = self.audit_seq;
        let last = newest.saturating_sub(horizon.audit_rows);
        let more = [
            drop_some(&mut self.serials, limit, |_, serial| serial.not_after < horizon.serials),
            drop_some(&mut self.outbox, limit, |_, revocation| revocation.not_after < horizon.outbox),
            drop_some(&mut self.keys, limit, |(spki, id), until| *until < horizon.keys && !needed(spki, id)),
            drop_some(&mut self.evidence, limit, |_, record| record.until < horizon.uses),
            drop_some(&mut self.tokens, limit, |_, token| token.expires_at < horizon.tokens),
            drop_some(&mut self.audit, limit, |seq, (time, _)| {
                *seq < newest && (*time < horizon.audit || *seq <= last)
            }),
        ];
        Ok(more.contains(&true))
    }

    fn holds_rows(&self) -> Stored<bool> {
        Ok(!(self.tokens.is_empty()
            && self.runners.is_empty()
            && self.keys.is_empty()
            && self.serials.is_empty()
            && self.evidence.is_empty()
            && self.audit.len() <= 1
            && self.outbox.is_empty()))
    }
}

/// Drops at most `limit` entries; whether the limit was reached.
fn drop_some<K: Ord + Clone, V>(map: &mut BTreeMap<K, V>, limit: u32, ended: impl Fn(&K, &V) -> bool) -> bool {
    let keys: Vec<K> =
        map.iter().filter(|(key, value)| ended(key, value)).take(limit as usize).map(|(key, _)| key.clone()).collect();
    for key in &keys {
        map.remove(key);
    }
    keys.len() >= limit as usize
}
