//! Allotting a serial: what the certificate will say, stored before it is signed (CHECKS I2, I3).

use protocol::Code;

use super::store::{AllottedSerial, Runner, Slot, Store};
use super::{CertificateTerms, Stop};
use crate::evidence::Principal;
use crate::issuance::Serial;
use crate::ports::Entropy;
use crate::{Denial, UnixTime};

/// `notBefore` lies this far back, for clocks that are late.
const BACKDATE_SECS: i64 = 60;
/// A key stays in the index this long after its certificate's end; keys of a slot stay as long as their runner.
pub const KEY_KEPT_SECS: i64 = 86_400;
/// Serials of one runner that have not ended: bounds the CRL a single runner can cause.
pub const SERIALS_PER_RUNNER: u32 = 1_000;

/// Where a new serial goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// In use from the start: a first enrolment, or the attestation that clears `suspect`.
    Current,
    /// Pending until its first use; `current` stays.
    Next,
}

/// What is asked.
#[derive(Debug, Clone, Copy)]
pub struct Request<'a> {
    /// Key to certify.
    pub spki_sha256: &'a str,
    /// Serial that was presented.
    pub parent: Option<&'a str>,
    /// Slot.
    pub place: Place,
    /// Lifetimes.
    pub terms: &'a CertificateTerms,
}

/// When a full attestation of the runner is due (CHECKS I5).
pub fn reattest_before(runner: &Runner, terms: &CertificateTerms) -> Option<UnixTime> {
    let after = match runner.principal {
        Principal::Bootstrap { .. } => terms.bootstrap_reattest_after?,
        Principal::Aws(_) | Principal::Kubernetes(_) => terms.reattest_after,
    };
    Some(runner.attested_at.plus(after))
}

/// Whether that time has come.
pub fn is_past_reattest(runner: &Runner, terms: &CertificateTerms, now: UnixTime) -> bool {
    reattest_before(runner, terms).is_some_and(|due| now >= due)
}

/// Allots a serial to `runner`, whose other fields the caller has set, and stores serial, key and runner.
pub fn allot(
    store: &mut dyn Store,
    runner: &mut Runner,
    request: Request<'_>,
    now: UnixTime,
    entropy: &impl Entropy,
) -> Result<AllottedSerial, Stop> {
    let serial = draft(store, runner, request, now, entropy)?;
    record(store, runner, serial, request.place)
}

/// The first half of [`allot`]: everything that can be refused, and nothing written.
pub fn draft(
    store: &dyn Store,
    runner: &Runner,
    request: Request<'_>,
    now: UnixTime,
    entropy: &impl Entropy,
) -> Result<AllottedSerial, Stop> {
    if store.count_serials(&runner.id, now)? >= SERIALS_PER_RUNNER {
        let denial = Denial::new(Code::RateLimited, "This runner holds too many certificates that have not ended.");
        return Err(Stop::refused(Denial { retry_after: Some(300), ..denial }));
    }
    let reattest_before = reattest_before(runner, request.terms);
    let not_after =
        now.plus(request.terms.ttl).min(request.terms.issuer_not_after).min(reattest_before.unwrap_or(UnixTime::MAX));
    if not_after <= now {
        return Err(Stop::refused(Denial::new(Code::NotConfigured, "The certificate of the issuing CA has ended.")));
    }
    Ok(AllottedSerial {
        runner_id: runner.id.clone(),
        serial: Serial::random(entropy)?.to_hex(),
        spki_sha256: request.spki_sha256.to_owned(),
        parent: request.parent.map(str::to_owned),
        allotted_at: now,
        not_before: now.plus(BACKDATE_SECS.saturating_neg()),
        not_after,
        reattest_before,
        revoked: false,
    })
}

/// The second half of [`allot`].
pub fn record(
    store: &mut dyn Store,
    runner: &mut Runner,
    serial: AllottedSerial,
    place: Place,
) -> Result<AllottedSerial, Stop> {
    let slot = Slot { serial: serial.serial.clone(), spki_sha256: serial.spki_sha256.clone() };
    match place {
        Place::Current => (runner.current, runner.next) = (Some(slot), None),
        Place::Next => runner.next = Some(slot),
    }
    runner.last_seen = serial.allotted_at;
    runner.not_after = serial.not_after;
    runner.live_until = runner.live_until.max(serial.not_after);
    runner.ends_at = runner.ends_at.max(serial.not_after);
    store.add_serial(&serial)?;
    store.put_runner(runner)?;
    index_key(store, runner, &serial.spki_sha256, serial.not_after)?;
    Ok(serial)
}

/// A key belongs to the first runner of an identity that was certified for it.
fn index_key(store: &mut dyn Store, runner: &Runner, spki_sha256: &str, not_after: UnixTime) -> Result<(), Stop> {
    let owner = store.runner_by_key(runner.principal.mode(), &runner.principal.identity(), spki_sha256)?;
    if owner.is_none_or(|owner| owner.evicted || owner.id == runner.id) {
        store.put_key(&runner.id, spki_sha256, not_after.plus(KEY_KEPT_SECS))?;
    }
    Ok(())
}
