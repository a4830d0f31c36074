//! Runners as operators see them: list, show, ban, unban, evict (CHECKS I6).

use protocol::admin::{AuditType, BanRequest, BanResponse, BanScope, Page, RunnerItem, RunnerState};
use protocol::{Code, Mode};

use super::audit::{self, Event};
use super::page::{Paging, id_cursor};
use super::store::{Ban, Covered, Runner, Slot, Store};
use super::{AdminContext, Fault, Outcome, PageQuery, RevocationReason, bans, runner_id, tokens};
use crate::evidence::{Principal, PrincipalKind};
use crate::{Denial, UnixTime};

/// Longest reason of a ban, characters.
const REASON_MAX: usize = 512;

/// `GET …/runners`.
pub fn list(store: &dyn Store, tenant: &str, query: &PageQuery, now: UnixTime) -> Outcome<Page<RunnerItem>> {
    let checked = Paging::new(query)
        .and_then(|paging| Ok((paging, paging.cursor.map(|cursor| id_cursor(cursor, runner_id::LENGTH)).transpose()?)));
    let (paging, after) = match checked {
        Ok(checked) => checked,
        Err(denial) => return Ok(Err(denial)),
    };
    let mut items = Vec::new();
    for runner in store.runners(after, paging.fetch())? {
        items.push(item(store, tenant, &runner, now)?);
    }
    Ok(Ok(paging.page(items, |item| item.runner_id.clone(), |item| item)))
}

/// `GET …/runners/{id}`.
pub fn show(store: &dyn Store, tenant: &str, id: &str, now: UnixTime) -> Outcome<RunnerItem> {
    match visible(store, id)? {
        Some(runner) => Ok(Ok(item(store, tenant, &runner, now)?)),
        None => Ok(Err(unknown())),
    }
}

/// `POST …/ban`: refuses now and later, and revokes every certificate covered.
pub fn ban(
    store: &mut dyn Store,
    context: &AdminContext,
    id: &str,
    request: &BanRequest,
    now: UnixTime,
) -> Outcome<BanResponse> {
    if let Err(denial) = check_ban(request) {
        return audit::refuse(store, context, AuditType::Ban, Some(id), denial, now);
    }
    let Some(runner) = visible(store, id)? else {
        return audit::refuse(store, context, AuditType::Ban, Some(id), unknown(), now);
    };
    let mode = runner.principal.mode();
    let scope = request.scope.unwrap_or(match mode {
        Mode::BootstrapToken => BanScope::Runner,
        _ => BanScope::Instance,
    });
    let instance = runner.principal.instance();
    let (subject, covered) = match scope {
        BanScope::Runner => (runner.id.clone(), Covered::Runner(&runner.id)),
        BanScope::Instance => (instance.clone(), Covered::Instance(mode, &instance)),
    };
    store.put_ban(&Ban { scope, mode, subject, reason: request.reason.clone(), since: now })?;
    store.revoke_serials(covered, RevocationReason::PrivilegeWithdrawn, now)?;
    event(AuditType::Ban, context, &runner).because(request.reason.as_deref()).write(store, now)?;
    if scope == BanScope::Instance {
        revoke_token_of(store, context, &runner.principal, now)?;
    }
    let warning = warning(store, scope, &runner.principal, now)?;
    let runner = store.runner(id)?.unwrap_or(runner);
    Ok(Ok(BanResponse { runner: item(store, &context.tenant, &runner, now)?, warning }))
}

/// `malformed_request` where a ban does not have the documented form, whatever it is for.
pub fn check_ban(request: &BanRequest) -> Result<(), Denial> {
    if request.reason.as_ref().is_some_and(|reason| reason.chars().count() > REASON_MAX) {
        return Err(Denial::malformed(format!("reason must have at most {REASON_MAX} characters")));
    }
    Ok(())
}

fn revoke_token_of(
    store: &mut dyn Store,
    context: &AdminContext,
    principal: &Principal,
    now: UnixTime,
) -> Result<(), Fault> {
    let Principal::Bootstrap { token_id } = principal else { return Ok(()) };
    match store.token(token_id)? {
        Some(token) if !token.revoked => tokens::revoke_known(store, context, token, now),
        _ => Ok(()),
    }
}

/// What the operator must do besides, because the ban does not hold by itself.
fn warning(store: &dyn Store, scope: BanScope, principal: &Principal, now: UnixTime) -> Result<Option<String>, Fault> {
    let text = match (principal, scope) {
        (Principal::Aws(aws), _) if aws.kind == PrincipalKind::Role => {
            "An aws-sts role lets its caller choose the session name, and with it the instance that is banned. To shut this identity \
             out, remove the rule that admits it from the policy."
        }
        (Principal::Aws(_) | Principal::Kubernetes(_), BanScope::Runner) => {
            "Only this runner is banned: the same instance can enrol with a new key as a new runner. Ban the instance to prevent it."
        }
        (Principal::Bootstrap { token_id }, BanScope::Runner) => {
            let usable = store
                .token(token_id)?
                .is_some_and(|token| !token.revoked && token.expires_at > now && token.uses < token.max_uses);
            if !usable {
                return Ok(None);
            }
            "The bootstrap token of this runner has uses left and still admits new runners. Revoke it to prevent that."
        }
        (Principal::Aws(_) | Principal::Kubernetes(_) | Principal::Bootstrap { .. }, BanScope::Instance) => {
            return Ok(None);
        }
    };
    Ok(Some(text.to_owned()))
}

/// `POST …/unban`: lifts every ban that covers the runner. What was revoked stays revoked: the runner attests again.
pub fn unban(store: &mut dyn Store, context: &AdminContext, id: &str, now: UnixTime) -> Outcome<RunnerItem> {
    let Some(runner) = unbannable(store, id, now)? else {
        return audit::refuse(store, context, AuditType::Unban, Some(id), unknown(), now);
    };
    let mode = runner.principal.mode();
    store.delete_ban(BanScope::Runner, mode, id)?;
    store.delete_ban(BanScope::Instance, mode, &runner.principal.instance())?;
    event(AuditType::Unban, context, &runner).write(store, now)?;
    Ok(Ok(item(store, &context.tenant, &runner, now)?))
}

/// `POST …/evict`: forgets the runner, revokes its certificates and voids the evidence it used. Bans stay.
pub fn evict(store: &mut dyn Store, context: &AdminContext, id: &str, now: UnixTime) -> Outcome<()> {
    let Some(mut runner) = visible(store, id)? else {
        return audit::refuse(store, context, AuditType::Evict, Some(id), unknown(), now);
    };
    store.revoke_serials(Covered::Runner(id), RevocationReason::CessationOfOperation, now)?;
    store.void_evidence(id)?;
    event(AuditType::Evict, context, &runner).write(store, now)?;
    runner.evicted = true;
    runner.live_until = UnixTime::from_secs(0);
    store.put_runner(&runner)?;
    Ok(Ok(()))
}

fn visible(store: &dyn Store, id: &str) -> Result<Option<Runner>, Fault> {
    Ok(store.runner(id)?.filter(|runner| !runner.evicted))
}

/// An evicted runner is out of sight but for its bans.
fn unbannable(store: &dyn Store, id: &str, now: UnixTime) -> Result<Option<Runner>, Fault> {
    Ok(match store.runner(id)? {
        Some(runner) if runner.evicted && !bans::covers(store, id, &runner.principal, now)? => None,
        found => found,
    })
}

fn unknown() -> Denial {
    Denial::new(Code::NotFound, "No such runner.")
}

fn event(kind: AuditType, context: &AdminContext, runner: &Runner) -> Event {
    Event::new(kind, &context.request_id)
        .about(runner.principal.mode(), &runner.principal.identity())
        .runner(Some(&runner.id))
        .by(&context.actor)
}

fn item(store: &dyn Store, tenant: &str, runner: &Runner, now: UnixTime) -> Result<RunnerItem, Fault> {
    Ok(RunnerItem {
        runner_id: runner.id.clone(),
        tenant: tenant.to_owned(),
        mode: runner.principal.mode(),
        identity: runner.principal.identity(),
        instance: runner.principal.instance(),
        state: state(store, runner, now)?,
        serial: runner.last().map(|slot: &Slot| slot.serial.clone()).unwrap_or_default(),
        not_after: runner.not_after.to_rfc3339(),
        attested_at: runner.attested_at.to_rfc3339(),
        last_seen: runner.last_seen.to_rfc3339(),
    })
}

fn state(store: &dyn Store, runner: &Runner, now: UnixTime) -> Result<RunnerState, Fault> {
    Ok(if bans::covers(store, &runner.id, &runner.principal, now)? {
        RunnerState::Banned
    } else if runner.suspect {
        RunnerState::Suspect
    } else if runner.is_active(now) {
        RunnerState::Active
    } else {
        RunnerState::Expired
    })
}
