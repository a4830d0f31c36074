//! Renewal (CHECKS I4 to I6). The worker has verified the presented certificate and the proof of its key; here is what the record says.
//!
//! Order: certificate, mapping, ban, state (PROTOCOL, Errors).

use std::borrow::Cow;
use std::fmt::Display;

use protocol::admin::AuditType;
use protocol::{Code, Reason};

use super::audit::Event;
use super::owners::Owners;
use super::serials::{Place, Request, allot, is_past_reattest};
use super::store::{AllottedSerial, Presented, Runner, Slot, Store, StoreError};
use super::{Allotment, Fault, Outcome, RenewCommand, Stop, bans};
use crate::appraisal::Rule;
use crate::evidence::Principal;
use crate::ports::Entropy;
use crate::{Denial, UnixTime};

/// Name of the version of the newest policy that a renewal brought, among the store's values.
pub const POLICY_VERSION: &str = "policy_version";
/// Name of the tenant's rules in it: JSON, `null` when it does not have the tenant.
const POLICY_RULES: &str = "policy_rules";

/// What the audit log says of a renewal that put another key into `next`.
const NEXT_REPLACED: &str = "next_replaced";

/// Renews, or says why not. Refusals are written to the audit log: commit them too.
pub fn renew(
    store: &mut dyn Store,
    command: &RenewCommand,
    now: UnixTime,
    entropy: &impl Entropy,
) -> Outcome<Allotment> {
    let presented = store.presented(&command.runner_id, &command.presented_serial, now)?;
    // The certificate is ours and its key was proven: the runner that it names is named, also where its record is gone.
    let mut event = Event::new(AuditType::Renew, &command.request_id).runner(Some(&command.runner_id));
    if let Some(Presented { runner, .. }) = &presented {
        event = event.about(runner.principal.mode(), &runner.principal.identity());
    }
    let authentic = authenticate(presented, command, now);
    match authentic.and_then(|presented| decide(store, command, presented, now, entropy)) {
        Ok(renewed) => {
            event.because(renewed.replaced.then_some(NEXT_REPLACED)).write(store, now)?;
            Ok(Ok(renewed.serial.allotment(&command.tenant)))
        }
        Err(stop) => {
            let refusal = stop.into_refusal()?;
            event.denied(&refusal.denial, None).write(store, now)?;
            Ok(Err(refusal.denial))
        }
    }
}

struct Renewed {
    serial: AllottedSerial,
    /// Whether a pending certificate was retired unused.
    replaced: bool,
}

/// The serial is known, of this runner and key, in date, and neither evicted nor revoked; where a ban revoked it, the ban is the answer.
fn authenticate(presented: Option<Presented>, command: &RenewCommand, now: UnixTime) -> Result<Presented, Stop> {
    let Some(presented) = presented else {
        return Err(certificate_invalid("The serial of the presented certificate is not known."));
    };
    if presented.serial.spki_sha256 != command.presented_spki_sha256 {
        return Err(certificate_invalid("The presented certificate was issued for another key."));
    }
    if presented.serial.not_after <= now {
        return Err(certificate_invalid("The presented certificate has ended."));
    }
    if !presented.banned && (presented.runner.evicted || presented.serial.revoked) {
        return Err(certificate_invalid("The presented certificate is revoked."));
    }
    Ok(presented)
}

fn decide(
    store: &mut dyn Store,
    command: &RenewCommand,
    presented: Presented,
    now: UnixTime,
    entropy: &impl Entropy,
) -> Result<Renewed, Stop> {
    let rules = rules_in_force(store, command, &presented)?;
    let Presented { mut runner, serial: presented, banned, serials, .. } = presented;
    if !is_mapped(rules.as_deref(), &runner.principal) {
        let detail = format!("No rule of tenant {} admits {} any longer.", command.tenant, runner.principal.identity());
        return Err(Stop::refused(Denial::new(Code::IdentityNotMapped, detail)));
    }
    if banned {
        return Err(Stop::refused(bans::denial()));
    }
    if runner.suspect {
        return Err(must_reattest(
            "Two holders of one certificate of this runner were seen: it must attest fully again.",
        ));
    }
    let answered = store.renewal_of(&runner.id, &presented.serial, &command.spki_sha256)?;
    let has_answer = answered.is_some();
    if let Some(serial) = answered.filter(|serial| serial.is_live(now)) {
        return Ok(Renewed { serial, replaced: false });
    }
    let is = |slot: &Option<Slot>| slot.as_ref().is_some_and(|slot| slot.serial == presented.serial);
    let (is_next, is_current) = (is(&runner.next), is(&runner.current));
    if !is_next && !is_current && !has_answer {
        return Err(superseded(store, runner, command, now)?);
    }
    if is_past_reattest(&runner, &command.terms, now) || !(is_next || is_current) {
        return Err(must_reattest("The time for a full attestation has come."));
    }
    if is_next {
        runner.current = runner.next.take();
    }
    let replaced = runner.next.is_some();
    let request = Request {
        spki_sha256: &command.spki_sha256,
        parent: Some(&presented.serial),
        place: Place::Next,
        terms: &command.terms,
        serials,
        owns_key: owns_key(store, &runner, command)?,
    };
    Ok(Renewed { serial: allot(store, &mut runner, request, now, entropy)?, replaced })
}

/// The tenant's rules in the newest policy that a renewal brought: an isolate that is behind cannot bring a rule back (CHECKS I5).
fn rules_in_force<'a>(
    store: &mut dyn Store,
    command: &'a RenewCommand,
    presented: &Presented,
) -> Result<Cow<'a, Option<Vec<Rule>>>, Fault> {
    let newest = presented.policy_version.as_deref().map_or(Ok(0), str::parse::<u64>).map_err(corrupt)?;
    if command.policy_version < newest {
        let rules = store.meta(POLICY_RULES)?.ok_or_else(|| corrupt("a policy version without its rules"))?;
        return Ok(Cow::Owned(serde_json::from_str(&rules).map_err(corrupt)?));
    }
    if command.policy_version > newest {
        store.put_meta(POLICY_RULES, &serde_json::to_string(&command.rules).map_err(corrupt)?)?;
        store.put_meta(POLICY_VERSION, &command.policy_version.to_string())?;
    }
    Ok(Cow::Borrowed(&command.rules))
}

fn corrupt(error: impl Display) -> Fault {
    StoreError::Corrupt(error.to_string()).into()
}

/// Rules, `None` without the tenant, on the identity as recorded. A tenant needs no rule for bootstrap tokens.
fn is_mapped(rules: Option<&[Rule]>, principal: &Principal) -> bool {
    match (rules, principal) {
        (None, _) => false,
        (Some(_), Principal::Bootstrap { .. }) => true,
        (Some(rules), principal) => rules.iter().any(|rule| rule.matches(principal)),
    }
}

/// Whether the key to be certified becomes the runner's: not when it is another's of the same identity.
fn owns_key(store: &dyn Store, runner: &Runner, command: &RenewCommand) -> Result<bool, Fault> {
    let owners = Owners::of(store, &command.tenant, &runner.principal, &command.spki_sha256)?;
    Ok(owners.known().is_none_or(|owner| owner.evicted || owner.id == runner.id))
}

/// A retired serial with a valid proof and another CSR key: one of two holders is a thief (CHECKS I4).
fn superseded(store: &mut dyn Store, runner: Runner, command: &RenewCommand, now: UnixTime) -> Result<Stop, Stop> {
    let denial = Denial::new(
        Code::CertificateSuperseded,
        "The presented certificate was replaced. Another holder may exist: the runner must attest fully again.",
    );
    Event::new(AuditType::Suspect, &command.request_id)
        .about(runner.principal.mode(), &runner.principal.identity())
        .runner(Some(&runner.id))
        .denied(&denial, None)
        .write(store, now)?;
    store.put_runner(&Runner { suspect: true, ..runner })?;
    Ok(Stop::refused(denial))
}

fn certificate_invalid(detail: &str) -> Stop {
    Stop::refused(Denial { reason: Some(Reason::CertificateInvalid), ..Denial::new(Code::AttestationInvalid, detail) })
}

fn must_reattest(detail: &str) -> Stop {
    Stop::refused(Denial::new(Code::MustReattest, detail))
}
