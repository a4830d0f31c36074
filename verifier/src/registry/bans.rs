//! Bans: whom they cover (CHECKS I6).

use protocol::Code;

use super::Fault;
use super::store::Store;
use crate::evidence::Principal;
use crate::{Denial, UnixTime};

/// Whether a ban covers this runner, or the instance behind this principal.
pub fn covers(store: &dyn Store, runner_id: &str, principal: &Principal, now: UnixTime) -> Result<bool, Fault> {
    Ok(store.standing(principal.mode(), runner_id, &principal.instance(), now)?.banned)
}

/// `runner_banned`. The operator's words stay in the audit log.
pub fn denial() -> Denial {
    Denial::new(Code::RunnerBanned, "An operator has banned this runner or the instance behind it.")
}
