//! Bans: whom they cover (CHECKS I6).

use protocol::Code;
use protocol::admin::BanScope;

use super::Fault;
use super::store::Store;
use crate::Denial;
use crate::evidence::Principal;

/// Whether a ban covers this runner, or the instance behind this principal.
pub fn covers(store: &dyn Store, runner_id: &str, principal: &Principal) -> Result<bool, Fault> {
    let mode = principal.mode();
    Ok(store.ban(BanScope::Runner, mode, runner_id)?.is_some()
        || store.ban(BanScope::Instance, mode, &principal.instance())?.is_some())
}

/// `runner_banned`. The operator's words stay in the audit log.
pub fn denial() -> Denial {
    Denial::new(Code::RunnerBanned, "An operator has banned this runner or the instance behind it.")
}
