//! What the alarm does: forget what has ended (CHECKS I6), in bounded steps.
//!
//! | what | kept until |
//! |---|---|
//! | serial | the end of its certificate |
//! | key | 1 to 30 days after that ([`key_kept_secs`](super::serials::key_kept_secs)); the first one and those of the slots as long as the runner |
//! | use of evidence | as the evidence says (CHECKS K7) |
//! | token | seven days after its end, so that the audit log still tells expired from unknown |
//! | runner | 90 days after its last certificate; a bootstrap or evicted runner only as long as certificate or token live |
//! | ban | for ever, and the runners it covers with it |
//! | audit event | 90 days, and at most a million; the last one stays, so that numbers go on |
//! | outbox entry | delivered, or useless because the certificate ended |

use super::store::{Horizon, Runner, Store};
use super::{Fault, audit, bans};
use crate::UnixTime;
use crate::evidence::Principal;

/// An expired token stays this long.
const TOKEN_KEPT_SECS: i64 = 7 * 86_400;
/// A runner without a live certificate stays this long, so that it keeps its id when it comes back.
const RUNNER_KEPT_SECS: i64 = 90 * 86_400;
/// An entry stays on the CRL one period beyond the certificate's end (RFC 5280 section 3.3).
pub const CRL_PERIOD_SECS: i64 = 86_400;
/// Rows of each table deleted by one call.
const STEP: u32 = 2_000;
/// Where the walk over ended runners stands.
const WALK: &str = "purge_walk";

/// Deletes what has ended; whether there is more to delete at once.
pub fn purge(store: &mut dyn Store, now: UnixTime) -> Result<bool, Fault> {
    let before = |secs: i64| now.plus(secs.saturating_neg());
    let horizon = Horizon {
        serials: now,
        outbox: before(CRL_PERIOD_SECS),
        keys: now,
        uses: now,
        tokens: before(TOKEN_KEPT_SECS),
        audit: before(audit::KEPT_SECS),
        audit_rows: audit::KEPT_ROWS,
    };
    // Runners first: their keys are free then.
    let more = purge_runners(store, now)?;
    Ok(store.purge(&horizon, STEP)? || more)
}

/// One step of the walk over runners all of whose certificates have ended.
fn purge_runners(store: &mut dyn Store, now: UnixTime) -> Result<bool, Fault> {
    let after = store.meta(WALK)?.filter(|id| !id.is_empty());
    let ended = store.ended_runners(after.as_deref(), now, STEP)?;
    for runner in &ended {
        if has_ended(store, runner, now)? {
            store.delete_runner(&runner.id)?;
        }
    }
    let more = ended.len() >= STEP as usize;
    let last = ended.last().filter(|_| more).map_or("", |runner| runner.id.as_str());
    if last != after.as_deref().unwrap_or_default() {
        store.put_meta(WALK, last)?;
    }
    Ok(more)
}

fn has_ended(store: &dyn Store, runner: &Runner, now: UnixTime) -> Result<bool, Fault> {
    if bans::covers(store, &runner.id, &runner.principal, now)? {
        return Ok(false);
    }
    if let Principal::Bootstrap { token_id } = &runner.principal {
        let usable = store.token(token_id)?.is_some_and(|token| !token.revoked && token.expires_at > now);
        return Ok(!usable);
    }
    Ok(runner.evicted || runner.ends_at.plus(RUNNER_KEPT_SECS) <= now)
}
