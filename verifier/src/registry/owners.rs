//! Whose a key is (PROTOCOL, Enroll: an enrolment with the same identity and a key that was certified for a runner is that runner).

use super::store::{Runner, Store};
use super::{Fault, runner_id};
use crate::evidence::Principal;

/// The runners of an identity that were certified for a key.
pub struct Owners {
    /// Id of a new runner with this key.
    pub first: String,
    /// Place of the one whose the key is. There are others where a runner was evicted, its key began a runner of its own, and the evicted
    /// one came back: what is certified for both is the one's whose id was made from it, then the one's that attests with it.
    owner: usize,
    runners: Vec<Runner>,
}

impl Owners {
    /// Looks them up.
    pub fn of(store: &dyn Store, tenant: &str, principal: &Principal, spki_sha256: &str) -> Result<Self, Fault> {
        let first = runner_id::derive(tenant, principal, spki_sha256)?;
        let runners = store.runners_by_key(principal.mode(), &principal.identity(), spki_sha256, &first)?;
        let owner = runners.iter().enumerate().min_by_key(|(_, runner)| {
            (runner.evicted, runner.id != first, !runner.holds(spki_sha256), runner.id.as_str())
        });
        Ok(Self { owner: owner.map_or(0, |(place, _)| place), first, runners })
    }

    /// The runner whose the key is; an evicted one where there is no other.
    pub fn known(&self) -> Option<&Runner> {
        self.runners.get(self.owner)
    }

    /// All of them: a ban of any holds for the key.
    pub fn all(&self) -> &[Runner] {
        &self.runners
    }
}
