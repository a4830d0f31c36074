//! Any sequence of calls keeps the invariants: the steps are octets, so that any source of randomness can drive it.
//!
//! After each step: at most one `current` and one `next` and both known; a retired serial never returns to a slot; no token is used more often than it
//! allows; a suspect, banned or evicted runner gets no certificate; a certificate never outlives its bounds; revoked serials
//! are in the outbox; one key, one evidence.

use std::collections::{BTreeMap, BTreeSet};

use protocol::Code;
use protocol::admin::{BanRequest, BanScope, MintedToken, RunnerState};

use super::world::{TTL, World, admin, by_token, enrolment, pod, renewal, session};
use crate::registry::{Allotment, Store, purge, runners, tokens};

/// Names are few, so that steps meet.
const KEYS: u8 = 6;

struct Model {
    tokens: Vec<MintedToken>,
    allotted: Vec<Allotment>,
    serials: BTreeSet<String>,
    retired: BTreeSet<String>,
    slots: BTreeMap<String, (Option<String>, Option<String>)>,
    evidence: BTreeMap<String, String>,
}

/// Runs the steps, each (what, two choices, a key), on an empty store.
pub fn run(store: &mut dyn Store, steps: &[[u8; 4]]) {
    let mut world = World::new(store);
    let mut model = Model {
        tokens: Vec::new(),
        allotted: Vec::new(),
        serials: BTreeSet::new(),
        retired: BTreeSet::new(),
        slots: BTreeMap::new(),
        evidence: BTreeMap::new(),
    };
    for step in steps {
        model.step(&mut world, *step);
        model.check(&world);
    }
}

fn pick<T>(items: &[T], choice: u8) -> Option<&T> {
    items.get(usize::from(choice).checked_rem(items.len())?)
}

impl Model {
    fn step(&mut self, world: &mut World<'_>, [what, choice, other, key]: [u8; 4]) {
        let key = format!("k{}", key % KEYS);
        match what % 12 {
            0 | 1 => self.enroll_identity(world, choice, other, &key),
            2 => self.tokens.push(world.mint(u32::from(choice % 3) + 1)),
            3 | 4 => self.enroll_token(world, choice, &key),
            5..=7 => self.renew(world, choice, &key),
            8 => world.pass([1, 60, TTL / 2, TTL, 86_400][usize::from(choice % 5)]),
            9 => self.administer(world, choice, other),
            10 => {
                if let Some(token) = pick(&self.tokens, choice) {
                    let _ = tokens::revoke(world.store, &admin(), &token.id, world.now).unwrap();
                }
            }
            _ => {
                purge(world.store, world.now).unwrap();
            }
        }
    }

    fn enroll_identity(&mut self, world: &mut World<'_>, choice: u8, other: u8, key: &str) {
        let principal = if choice.is_multiple_of(2) { pod("u") } else { session("s") };
        // Evidence belongs to one principal: its digest covers issuer or signature.
        let evidence = format!("{} {}", choice % 2, other % 16);
        let answer = world.enroll(&enrolment(&principal, &evidence, key));
        if let Ok(allotment) = answer {
            let first = self.evidence.entry(evidence).or_insert_with(|| key.to_owned());
            assert_eq!(first, key, "evidence counts for one key");
            self.certified(world, allotment, key);
        }
    }

    fn enroll_token(&mut self, world: &mut World<'_>, choice: u8, key: &str) {
        let Some(token) = pick(&self.tokens, choice).cloned() else { return };
        if let Ok(allotment) = world.enroll(&by_token(&token.token, key)) {
            self.certified(world, allotment, key);
        }
    }

    fn renew(&mut self, world: &mut World<'_>, choice: u8, key: &str) {
        let Some(presented) = pick(&self.allotted, choice).cloned() else { return };
        let was_retired = self.retired.contains(&presented.serial);
        let known = self.serials.len();
        let mut command = renewal(&presented, key);
        // Rules of the suite are for pods; a session stands for a removed rule half of the time.
        if choice > 127 {
            command.rules = None;
        }
        match world.renew(&command) {
            Ok(allotment) => {
                assert_eq!(allotment.runner_id, presented.runner_id);
                assert!(command.rules.is_some());
                assert!(!was_retired || self.serials.contains(&allotment.serial), "a retired serial got a new one");
                self.certified(world, allotment, key);
            }
            Err(denial) => {
                assert_eq!(known, self.serials.len());
                if denial.code == Code::CertificateSuperseded {
                    let runner = world.store.runner(&presented.runner_id).unwrap().unwrap();
                    assert!(was_retired && runner.suspect);
                }
            }
        }
    }

    fn administer(&mut self, world: &mut World<'_>, choice: u8, other: u8) {
        let Some(runner) = pick(&self.allotted, other).map(|allotment| allotment.runner_id.clone()) else { return };
        let now = world.now;
        match choice % 5 {
            0 | 1 => {
                let scope = if choice.is_multiple_of(2) { BanScope::Runner } else { BanScope::Instance };
                let request = BanRequest { reason: None, scope: Some(scope) };
                let _ = runners::ban(world.store, &admin(), &runner, &request, now).unwrap();
            }
            2 | 3 => {
                let _ = runners::unban(world.store, &admin(), &runner, now).unwrap();
            }
            _ => {
                let _ = runners::evict(world.store, &admin(), &runner, now).unwrap();
            }
        }
    }

    fn certified(&mut self, world: &World<'_>, allotment: Allotment, key: &str) {
        let state = world.show(&allotment.runner_id).expect("a certified runner is visible").state;
        assert_eq!(state, RunnerState::Active, "only active runners get certificates");
        assert_eq!(allotment.spki_sha256, super::world::key(key));
        assert!(allotment.not_after > world.now && allotment.not_after <= world.now.plus(TTL));
        assert!(allotment.reattest_before.is_none_or(|due| allotment.not_after <= due));
        let stored = world.store.serial(&allotment.runner_id, &allotment.serial).unwrap().expect("allotted is stored");
        assert!(!stored.revoked && stored.allotment(&allotment.tenant) == allotment);
        if self.serials.insert(allotment.serial.clone()) {
            self.allotted.push(allotment);
        } else {
            assert!(self.allotted.contains(&allotment), "the same serial is the same allotment");
        }
    }

    fn check(&mut self, world: &World<'_>) {
        for token in &self.tokens {
            if let Some(token) = world.store.token(&token.id).unwrap() {
                assert!(token.uses <= token.max_uses, "{token:?}");
            }
        }
        let outbox: BTreeSet<String> = world.revoked().into_iter().collect();
        let ids: BTreeSet<String> = self.allotted.iter().map(|allotment| allotment.runner_id.clone()).collect();
        for id in ids {
            let Some(runner) = world.store.runner(&id).unwrap() else { continue };
            let slots = (runner.current.map(|slot| slot.serial), runner.next.map(|slot| slot.serial));
            let held: Vec<&String> = [&slots.0, &slots.1].into_iter().flatten().collect();
            assert!(held.iter().all(|serial| self.serials.contains(*serial) && !self.retired.contains(*serial)));
            assert!(held.len() < 2 || held[0] != held[1]);
            if let Some((current, next)) = self.slots.insert(id.clone(), slots.clone()) {
                let gone = [current, next].into_iter().flatten().filter(|old| !held.contains(&old));
                self.retired.extend(gone);
            }
        }
        for allotment in &self.allotted {
            let stored = world.store.serial(&allotment.runner_id, &allotment.serial).unwrap();
            if stored.as_ref().is_some_and(|serial| serial.revoked) && allotment.not_after > world.now {
                assert!(outbox.contains(&allotment.serial), "a revoked serial reaches the CRL");
            }
            assert!(stored.is_some() || allotment.not_after < world.now, "kept until its end");
        }
    }
}
