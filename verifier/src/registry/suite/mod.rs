//! Tests of this room against any [`Store`]: run here over [`MemoryStore`](super::MemoryStore), and over SQLite where that store lives.
//!
//! Each case starts on an empty store. Cases are named after the sentence of PROTOCOL or CHECKS that they hold.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::string_slice,
    clippy::missing_panics_doc,
    clippy::arithmetic_side_effects,
    reason = "test code that other crates run too"
)]

mod admin;
mod bootstrap;
mod ended;
mod enrolment;
mod renewal;
pub mod sequence;
pub mod world;

use super::Store;

/// A case: its name and what it does to an empty store.
pub type Case = (&'static str, fn(&mut dyn Store));

/// Every case.
pub fn cases() -> Vec<Case> {
    [enrolment::CASES, bootstrap::CASES, renewal::CASES, admin::CASES, ended::CASES].concat()
}

macro_rules! list_cases {
    ($($name:ident),+ $(,)?) => {
        /// Cases of this file.
        pub const CASES: &[super::Case] = &[$((concat!(module_path!(), "::", stringify!($name)), $name),)+];
    };
}
use list_cases;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::MemoryStore;
    use super::*;

    #[test]
    fn over_memory() {
        for (name, case) in cases() {
            println!("{name}");
            case(&mut MemoryStore::default());
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]
        #[test]
        fn any_sequence_keeps_the_invariants(steps in proptest::collection::vec(any::<[u8; 4]>(), 0..80)) {
            sequence::run(&mut MemoryStore::default(), &steps);
        }
    }

    /// CHECKS B5: what a refusal costs does not tell why. The same reads in the same order, and one comparison of hashes, whatever the
    /// cause (a token that there is none of is compared too, see `live_token`).
    #[test]
    fn every_refusal_of_a_token_does_the_same_work() {
        use crate::registry::suite::world::{NOW, World, admin, by_token};
        use crate::registry::tokens;

        let mut store = MemoryStore::default();
        let mut world = World::new(&mut store);
        let [used_up, revoked, expired, live] = [(); 4].map(|()| world.mint(1));
        world.enroll(&by_token(&used_up.token, "k1")).unwrap();
        tokens::revoke(world.store, &admin(), &revoked.id, NOW).unwrap().unwrap();
        let (head, secret) = live.token.rsplit_once('_').unwrap();
        let wrong = format!("{head}_{}", "a".repeat(52));
        let unknown = format!("rpbt_acme_{}_{secret}", "a".repeat(16));
        let mut work = Vec::new();
        for (token, now) in [
            (&unknown, NOW),
            (&wrong, NOW),
            (&revoked.token, NOW),
            (&used_up.token, NOW),
            (&expired.token, NOW.plus(3_600)),
        ] {
            store.take_reads();
            World { store: &mut store, now }.enroll(&by_token(token, "k2")).unwrap_err();
            work.push(store.take_reads());
        }
        assert_eq!(work[0], ["runners_by_key", "evidence", "token"]);
        assert!(work.iter().all(|reads| *reads == work[0]), "{work:#?}");
    }

    #[test]
    fn a_failed_transaction_leaves_nothing() {
        let mut store = MemoryStore::default();
        let before = store.clone();
        let failed: Result<(), ()> = store.transaction(|store| {
            store.put_meta("x", "y").unwrap();
            Err(())
        });
        assert_eq!((failed, store), (Err(()), before));
    }
}
