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
/// Longest time that a key stays in the index after its certificate's end: as long as a bootstrap token can live.
const KEY_KEPT_MAX: i64 = 30 * 86_400;
/// Shortest.
const KEY_KEPT_MIN: i64 = 86_400;
/// In between, by the life of the certificates: a runner that takes a new key at half of each has about 400 in the index.
const KEY_LIFETIMES: i64 = 200;
/// Serials of one runner that have not ended: bounds the CRL a single runner can cause.
pub const SERIALS_PER_RUNNER: u32 = 1_000;

/// How long a key stays in the index after its certificate's end; the first key and those of the slots stay as long as their runner.
///
/// The record indexes every key certified for a runner (PROTOCOL, Enroll), and it must stay bounded although runners take new keys for ever.
/// The keys that a runner is told to attest with do: the one of its present certificate is in a slot, and the first one is known by the id
/// that was made from it. Any other key comes back only with a machine that was set back to an older state, which is what the time is for.
/// For a bootstrap token the sentence holds without exception: it is the same token with any key for as long as it can live.
pub fn key_kept_secs(principal: &Principal, terms: &CertificateTerms) -> i64 {
    match principal {
        Principal::Bootstrap { .. } => KEY_KEPT_MAX,
        Principal::Aws(_) | Principal::Kubernetes(_) => {
            terms.ttl.saturating_mul(KEY_LIFETIMES).clamp(KEY_KEPT_MIN, KEY_KEPT_MAX)
        }
    }
}

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
    /// How many serials of the runner have not ended.
    pub serials: u32,
    /// Whether the key enters the index of the runner's keys: it belongs to the first runner of an identity that was certified for it.
    pub owns_key: bool,
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
    let serial = draft(runner, request, now, entropy)?;
    record(store, runner, serial, request)
}

/// The first half of [`allot`]: everything that can be refused, and nothing written.
pub fn draft(
    runner: &Runner,
    request: Request<'_>,
    now: UnixTime,
    entropy: &impl Entropy,
) -> Result<AllottedSerial, Stop> {
    if request.serials >= SERIALS_PER_RUNNER {
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
    request: Request<'_>,
) -> Result<AllottedSerial, Stop> {
    let slot = Slot { serial: serial.serial.clone(), spki_sha256: serial.spki_sha256.clone() };
    match request.place {
        Place::Current => (runner.current, runner.next) = (Some(slot), None),
        Place::Next => runner.next = Some(slot),
    }
    runner.last_seen = serial.allotted_at;
    runner.not_after = serial.not_after;
    runner.live_until = runner.live_until.max(serial.not_after);
    runner.ends_at = runner.ends_at.max(serial.not_after);
    store.add_serial(&serial)?;
    store.put_runner(runner)?;
    if request.owns_key {
        let until = serial.not_after.plus(key_kept_secs(&runner.principal, request.terms));
        store.put_key(&runner.id, &serial.spki_sha256, until)?;
    }
    Ok(serial)
}
