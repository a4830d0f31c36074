//! Enrolment and `/v1/verify`: first look, then change (CHECKS A4). [`assess`] only reads and says what would happen; [`enroll`] does it.
//!
//! Order: K7 or the token, ban, state (PROTOCOL, Errors).

use protocol::Code;
use protocol::admin::{AuditType, TokenCause};
use subtle::ConstantTimeEq as _;

use super::audit::Event;
use super::owners::Owners;
use super::serials::{Place, Request, allot, draft, is_past_reattest, record};
use super::store::{AllottedSerial, Covered, EvidenceRecord, Runner, Standing, Store, Token};
use super::{
    AdmittedEvidence, Allotment, Appraisal, EnrollCommand, Outcome, Refusal, RevocationReason, Stop, VerifyCommand,
    bans,
};
use crate::checks::Check;
use crate::evidence::{BootstrapClaim, EvidenceUse, Principal, bootstrap_token};
use crate::ports::Entropy;
use crate::{Denial, UnixTime};

/// Enrols, or says why not. Refusals are written to the audit log: commit them too.
pub fn enroll(
    store: &mut dyn Store,
    command: &EnrollCommand,
    now: UnixTime,
    entropy: &impl Entropy,
) -> Outcome<Allotment> {
    let principal = command.evidence.principal();
    let event = Event::new(AuditType::Enroll, &command.request_id).about(principal.mode(), &principal.identity());
    match assess(store, command, &principal, now)
        .and_then(|assessed| carry_out(store, command, &assessed, now, entropy))
    {
        Ok(serial) => {
            event.runner(Some(&serial.runner_id)).write(store, now)?;
            Ok(Ok(serial.allotment(&command.tenant)))
        }
        Err(stop) => {
            let refusal = stop.into_refusal()?;
            event.runner(refusal.runner_id.as_deref()).denied(&refusal.denial, refusal.cause).write(store, now)?;
            Ok(Err(refusal.denial))
        }
    }
}

/// Appraises for `/v1/verify`. With `consume` the evidence is used up and bound to the key exactly as [`enroll`] does it, registering
/// no runner; without, nothing is written.
pub fn verify(store: &mut dyn Store, command: &VerifyCommand, now: UnixTime) -> Result<Appraisal, super::Fault> {
    let enroll = &command.enroll;
    let principal = enroll.evidence.principal();
    let assessed = assess(store, enroll, &principal, now);
    let event = Event::new(AuditType::Verify, &enroll.request_id)
        .about(principal.mode(), &principal.identity())
        .by(&command.actor);
    match assessed {
        Ok(assessed) => {
            if command.consume {
                event.runner(assessed.plan.runner().map(|runner| runner.id.as_str())).write(store, now)?;
                let serial = assessed.used.as_ref().and_then(|used| used.serial.clone());
                consume(store, enroll, &assessed, serial)?;
            }
            Ok(Appraisal { denial: None, passed: vec![assessed.settled_by, Check::M2], consumed: command.consume })
        }
        Err(stop) => {
            let refusal = stop.into_refusal()?;
            if command.consume {
                event.runner(refusal.runner_id.as_deref()).denied(&refusal.denial, refusal.cause).write(store, now)?;
            }
            let settled_by = settled_by(&principal);
            let passed = if refusal.denial.check == Some(settled_by) { Vec::new() } else { vec![settled_by] };
            Ok(Appraisal { denial: Some(refusal.denial), passed, consumed: false })
        }
    }
}

/// What an enrolment does to the record.
enum Plan {
    /// A new runner with this id.
    New(String),
    /// A known runner attested with fresh evidence.
    Attested(Runner),
    /// The same, clearing `suspect`.
    Cleared(Runner),
    /// The same use again: the certificate it was given.
    Again(Runner, AllottedSerial),
    /// The same use again, whose certificate has ended.
    Reissued(Runner),
}

impl Plan {
    /// Whose evidence it is: an evict voids what the runner used, before it was one too.
    fn runner_id(&self) -> &str {
        match self {
            Self::New(id) => id,
            Self::Attested(runner) | Self::Cleared(runner) | Self::Again(runner, _) | Self::Reissued(runner) => {
                &runner.id
            }
        }
    }

    const fn runner(&self) -> Option<&Runner> {
        match self {
            Self::New(_) => None,
            Self::Attested(runner) | Self::Cleared(runner) | Self::Again(runner, _) | Self::Reissued(runner) => {
                Some(runner)
            }
        }
    }
}

struct Assessed {
    plan: Plan,
    principal: Principal,
    /// K7 or B3.
    settled_by: Check,
    /// The use to remember.
    evidence: EvidenceUse,
    /// The same use, where it is remembered already.
    used: Option<EvidenceRecord>,
    /// Token that loses a use.
    spends: Option<Token>,
    /// Another active runner of the same instance.
    second_key: bool,
    /// There is no record of the runner, and so no serial of it.
    is_first: bool,
}

impl Assessed {
    /// How many serials of the runner have not ended; not looked up where that is certain or does not matter.
    fn serials(&self, store: &dyn Store, now: UnixTime) -> Result<u32, super::Fault> {
        Ok(match &self.plan {
            Plan::Again(..) => 0,
            Plan::New(_) if self.is_first => 0,
            Plan::New(id) => store.count_serials(id, now)?,
            Plan::Attested(runner) | Plan::Cleared(runner) | Plan::Reissued(runner) => {
                store.count_serials(&runner.id, now)?
            }
        })
    }
}

const fn settled_by(principal: &Principal) -> Check {
    match principal {
        Principal::Bootstrap { .. } => Check::B3,
        Principal::Aws(_) | Principal::Kubernetes(_) => Check::K7,
    }
}

fn assess(store: &dyn Store, command: &EnrollCommand, principal: &Principal, now: UnixTime) -> Result<Assessed, Stop> {
    let owners = Owners::of(store, &command.tenant, principal, &command.spki_sha256)?;
    let subject = Subject { command, principal, owners, now };
    match &command.evidence {
        AdmittedEvidence::Identity { evidence, .. } => assess_identity(store, &subject, evidence),
        AdmittedEvidence::Bootstrap(claim) => assess_bootstrap(store, &subject, claim),
    }
    .map_err(|stop| stop.about_runner(subject.known()))
}

/// Who enrols.
struct Subject<'a> {
    command: &'a EnrollCommand,
    principal: &'a Principal,
    owners: Owners,
    now: UnixTime,
}

impl Subject<'_> {
    /// Runner with this identity and key, evicted or not.
    fn known(&self) -> Option<&Runner> {
        self.owners.known()
    }

    /// Id of a new runner with this key.
    fn new_id(&self) -> String {
        self.owners.first.clone()
    }

    /// Neither used evidence nor a used token helps this runner.
    fn wants_fresh(&self) -> bool {
        self.known().is_some_and(|runner| {
            runner.evicted || runner.suspect || is_past_reattest(runner, &self.command.terms, self.now)
        })
    }

    /// Refused by a ban of a runner with this key, of the instance recorded for it, or of the instance it comes from now (CHECKS I6).
    fn check_bans(&self, store: &dyn Store) -> Result<Standing, Stop> {
        let id = self.known().map_or(&self.owners.first, |runner| &runner.id);
        let instance = self.principal.instance();
        let standing = store.standing(self.principal.mode(), id, &instance, self.now)?;
        let mut banned = standing.banned;
        for runner in self.owners.all() {
            if runner.id != *id || runner.principal.instance() != instance {
                banned |= bans::covers(store, &runner.id, &runner.principal, self.now)?;
            }
        }
        if banned {
            return Err(Stop::refused(bans::denial().at(Check::M2)));
        }
        Ok(standing)
    }

    /// The certificate given for this key by the use `used`, while it is live.
    fn given(&self, store: &dyn Store, used: Option<&EvidenceRecord>) -> Result<Option<AllottedSerial>, Stop> {
        let Some(runner) = self.known() else { return Ok(None) };
        let spki = &self.command.spki_sha256;
        let serial = match used {
            Some(EvidenceRecord { serial: Some(serial), .. }) => store.serial(&runner.id, serial)?,
            _ => match [&runner.next, &runner.current].into_iter().flatten().find(|slot| slot.spki_sha256 == *spki) {
                Some(slot) => store.serial(&runner.id, &slot.serial)?,
                None => store.latest_serial(&runner.id, spki)?,
            },
        };
        Ok(serial.filter(|serial| serial.spki_sha256 == *spki && serial.is_live(self.now)))
    }
}

/// `aws-sts`, `gke-oidc`, `eks-oidc` (CHECKS K7; PROTOCOL, Serials).
fn assess_identity(store: &dyn Store, subject: &Subject<'_>, evidence: &EvidenceUse) -> Result<Assessed, Stop> {
    let reused = |detail: &str| Stop::refused(Denial::evidence(Check::K7, evidence.reason, detail));
    let used = store.evidence(&evidence.digest)?;
    if let Some(used) = &used {
        if used.spki_sha256 != subject.command.spki_sha256 {
            return Err(reused("This evidence was already used with another key."));
        }
        if used.void {
            return Err(reused("This evidence was used before its runner was evicted: new evidence is needed."));
        }
    }
    let standing = subject.check_bans(store)?;
    if used.is_some() && subject.wants_fresh() {
        return Err(reused("The runner must attest again with evidence that was not used before."));
    }
    let enrolled = used.as_ref().is_some_and(|used| used.serial.is_some());
    let given = if enrolled { subject.given(store, used.as_ref())? } else { None };
    let plan = match (subject.known().filter(|runner| !runner.evicted).cloned(), given) {
        (None, _) => Plan::New(subject.new_id()),
        (Some(runner), Some(serial)) => Plan::Again(runner, serial),
        (Some(runner), None) if enrolled => Plan::Reissued(runner),
        (Some(runner), None) if runner.suspect => Plan::Cleared(runner),
        (Some(runner), None) => Plan::Attested(runner),
    };
    let second_key = has_second_key(subject, &plan, standing)?;
    Ok(Assessed {
        plan,
        principal: subject.principal.clone(),
        settled_by: Check::K7,
        evidence: evidence.clone(),
        used,
        spends: None,
        second_key,
        is_first: subject.known().is_none(),
    })
}

/// An active runner of the instance under another key; refused by policy, else audited. A runner that is active itself is no second one.
fn has_second_key(subject: &Subject<'_>, plan: &Plan, standing: Standing) -> Result<bool, Stop> {
    let is_active = plan.runner().is_some_and(|runner| runner.is_active(subject.now));
    if !standing.other_active || is_active || matches!(plan, Plan::Again(..)) {
        return Ok(false);
    }
    if subject.command.terms.one_key_per_instance {
        let detail =
            "This instance already has an active runner under another key; the policy allows one key per instance.";
        return Err(Stop::refused(Denial::new(Code::IdentityInUse, detail).at(Check::M2)));
    }
    Ok(true)
}

/// `bootstrap-token` (CHECKS B1 to B5; PROTOCOL, Serials). Every refusal of a token has read the same and compared as much (CHECKS B5).
fn assess_bootstrap(store: &dyn Store, subject: &Subject<'_>, claim: &BootstrapClaim) -> Result<Assessed, Stop> {
    let digest = use_digest(&claim.id, &subject.command.spki_sha256);
    let used = store.evidence(&digest)?;
    let token = live_token(store.token(&claim.id)?, claim, subject.now)?;
    let same_use = subject.known().is_some() || used.is_some();
    if !same_use && token.uses >= token.max_uses {
        return Err(refused(TokenCause::UsedUp));
    }
    subject.check_bans(store)?;
    if subject.wants_fresh() {
        return Err(refused(TokenCause::UsedUp));
    }
    let given = subject.given(store, None)?;
    let plan = match (subject.known().cloned(), given) {
        (None, _) => Plan::New(subject.new_id()),
        (Some(runner), Some(serial)) => Plan::Again(runner, serial),
        (Some(runner), None) => Plan::Reissued(runner),
    };
    Ok(Assessed {
        plan,
        principal: subject.principal.clone(),
        settled_by: Check::B3,
        evidence: EvidenceUse { digest, until: token.expires_at, reason: protocol::Reason::BootstrapTokenRefused },
        used,
        spends: (!same_use).then_some(token),
        second_key: false,
        is_first: subject.known().is_none(),
    })
}

/// Stands in for the hash of a token that there is none of: what no SHA-256 is known to give.
const NO_HASH: &str = "0000000000000000000000000000000000000000000000000000000000000000";

/// The token of the record, if the claim is it and it is still good. An unknown one is compared like any other.
fn live_token(token: Option<Token>, claim: &BootstrapClaim, now: UnixTime) -> Result<Token, Stop> {
    let kept = token.as_ref().map_or(NO_HASH, |token| &token.secret_sha256);
    let same = bool::from(kept.as_bytes().ct_eq(claim.secret_sha256.as_bytes()));
    let Some(token) = token else { return Err(refused(TokenCause::Unknown)) };
    if !same {
        return Err(refused(TokenCause::WrongSecret));
    }
    if token.revoked {
        return Err(refused(TokenCause::Revoked));
    }
    if token.expires_at <= now {
        return Err(refused(TokenCause::Expired));
    }
    Ok(token)
}

/// One answer for every cause (CHECKS B5); the cause goes to the audit log.
fn refused(cause: TokenCause) -> Stop {
    Stop::Refused(Box::new(Refusal {
        denial: bootstrap_token::refused(Check::B3),
        cause: Some(cause),
        runner_id: None,
    }))
}

fn use_digest(token_id: &str, spki_sha256: &str) -> String {
    ["bootstrap-token:", token_id, ":", spki_sha256].concat()
}

fn carry_out(
    store: &mut dyn Store,
    command: &EnrollCommand,
    assessed: &Assessed,
    now: UnixTime,
    entropy: &impl Entropy,
) -> Result<AllottedSerial, Stop> {
    let mut request = Request {
        spki_sha256: &command.spki_sha256,
        parent: None,
        place: Place::Next,
        terms: &command.terms,
        serials: assessed.serials(store, now)?,
        owns_key: true,
    };
    let serial = match &assessed.plan {
        Plan::Again(_, serial) => serial.clone(),
        Plan::New(id) => {
            request.place = Place::Current;
            // The id of a new runner is made from this key, so that it is found without an entry (PROTOCOL, Enroll).
            request.owns_key = false;
            allot(store, &mut new_runner(id, &assessed.principal, now), request, now, entropy)?
        }
        Plan::Attested(runner) => {
            let mut runner = attested(runner, &assessed.principal, now);
            allot(store, &mut runner, request, now, entropy)?
        }
        Plan::Cleared(runner) => {
            let mut runner = attested(runner, &assessed.principal, now);
            (runner.suspect, runner.live_until) = (false, UnixTime::from_secs(0));
            request.place = Place::Current;
            let serial = draft(&runner, request, now, entropy)?;
            store.revoke_serials(Covered::Runner(&runner.id), RevocationReason::KeyCompromise, now)?;
            record(store, &mut runner, serial, request)?
        }
        Plan::Reissued(runner) => allot(store, &mut runner.clone(), request, now, entropy)?,
    };
    if assessed.second_key {
        Event::new(AuditType::SecondKeyForInstance, &command.request_id)
            .about(assessed.principal.mode(), &assessed.principal.identity())
            .runner(Some(&serial.runner_id))
            .write(store, now)?;
    }
    if !matches!(assessed.plan, Plan::Again(..)) {
        consume(store, command, assessed, Some(serial.serial.clone()))?;
    }
    Ok(serial)
}

/// Spends the token's use and remembers the use of the evidence.
fn consume(
    store: &mut dyn Store,
    command: &EnrollCommand,
    assessed: &Assessed,
    serial: Option<String>,
) -> Result<(), super::Fault> {
    if let Some(token) = &assessed.spends {
        store.put_token(&Token { uses: token.uses.saturating_add(1), ..token.clone() })?;
    }
    let EvidenceUse { digest, until, .. } = &assessed.evidence;
    store.put_evidence(&EvidenceRecord {
        digest: digest.clone(),
        spki_sha256: command.spki_sha256.clone(),
        runner_id: Some(assessed.plan.runner_id().to_owned()),
        serial,
        until: *until,
        void: false,
    })?;
    Ok(())
}

fn new_runner(id: &str, principal: &Principal, now: UnixTime) -> Runner {
    let never = UnixTime::from_secs(0);
    Runner {
        id: id.to_owned(),
        principal: principal.clone(),
        attested_at: now,
        last_seen: now,
        current: None,
        next: None,
        not_after: never,
        live_until: never,
        ends_at: never,
        suspect: false,
        evicted: false,
    }
}

fn attested(runner: &Runner, principal: &Principal, now: UnixTime) -> Runner {
    Runner { principal: principal.clone(), attested_at: now, ..runner.clone() }
}

impl Stop {
    /// Names the runner in the audit log, where there is one.
    fn about_runner(self, known: Option<&Runner>) -> Self {
        match self {
            Self::Refused(mut refusal) if refusal.runner_id.is_none() => {
                refusal.runner_id = known.map(|runner| runner.id.clone());
                Self::Refused(refusal)
            }
            other => other,
        }
    }
}
