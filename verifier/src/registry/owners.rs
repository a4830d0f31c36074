//! Whose a key is (PROTOCOL, Enroll: an enrolment with the same identity and a key that was certified for a runner is that runner).

use super::store::{Runner, Store};
use super::{Fault, runner_id};
use crate::evidence::Principal;

/// The runners of an identity that were certified for a key.
pub struct Owners {
    /// Id of a new runner with this key.
    pub first: String,
    /// The one whose the key is comes first. There are others where a runner was evicted, its key began a runner of its own, and the
    /// evicted one came back: what is certified for both is the one's whose id was made from it, then the one's that attests with it.
    runners: Vec<Runner>,
}

impl Owners {
    /// Looks them up.
    pub fn of(store: &dyn Store, tenant: &str, principal: &Principal, spki_sha256: &str) -> Result<Self, Fault> {
        let first = runner_id::derive(tenant, principal, spki_sha256)?;
        let mut runners = store.runners_by_key(principal.mode(), &principal.identity(), spki_sha256, &first)?;
        runners.sort_by_cached_key(|runner| {
            (runner.evicted, runner.id != first, !runner.holds(spki_sha256), runner.id.clone())
        });
        Ok(Self { first, runners })
    }

    /// The runner whose the key is; an evicted one where there is no other.
    pub fn known(&self) -> Option<&Runner> {
        self.runners.first()
    }

    /// All of them: a ban of any holds for the key.
    pub fn all(&self) -> &[Runner] {
        &self.runners
    }
}
