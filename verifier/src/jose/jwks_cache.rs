//! Policy of the JWKS cache of an isolate: which set to use, when to fetch, what a failed fetch means (CHECKS K8, K9).
//!
//! A pure state machine. [`JwksCache::decide`] says what to do for a token, [`JwksCache::record`] takes the outcome of a fetch. It hands
//! out sets, never futures: two requests that both need a fetch both make it, since a promise of one must never be awaited by the other.
//! Out of scope: the fetch itself ([`super::jwks_fetch`]) and the data centre's cache, which is a port ([`crate::ports::JwksStore`]).

use std::collections::HashMap;
use std::rc::Rc;

use super::jwk::JwkSet;
use crate::UnixTime;

/// Shortest time a fetched set is fresh, seconds; also where the host says nothing.
pub const MIN_FRESH: i64 = 300;
/// Longest time a fetched set is fresh, seconds.
pub const MAX_FRESH: i64 = 3_600;
/// How long after its fetch a set may serve while fetches fail, seconds.
pub const MAX_STALE: i64 = 86_400;
/// Least time between two fetches of one issuer for unknown key ids, and between failed fetches while a set serves, seconds.
pub const COOLDOWN: i64 = 30;
/// Least time between failed fetches of an issuer without any set, seconds.
pub const FAILURE_PAUSE: i64 = 1;
/// How long an issuer that its host does not know stays unknown, seconds.
pub const GONE: i64 = 300;
/// New issuers a wildcard project may bring within [`BUDGET_WINDOW`].
pub const BUDGET: usize = 10;
/// Seconds.
pub const BUDGET_WINDOW: i64 = 60;
/// Sets of wildcard issuers kept.
pub const MAX_WILDCARD_SETS: usize = 64;

/// An issuer whose keys are needed: selected from the policy (CHECKS K3), never from a token alone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeySetRef<'p> {
    /// `iss`.
    pub issuer: &'p str,
    /// Where its keys are.
    pub origin: Origin<'p>,
}

/// Where the keys of an issuer are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin<'p> {
    /// Written in the policy.
    Static {
        /// JWK set.
        jwks: &'p str,
    },
    /// An issuer that the policy names.
    Named {
        /// Address, from the policy.
        jwks_uri: &'p str,
    },
    /// An issuer reached through a `cluster = "*"` rule.
    Wildcard {
        /// Project of the rule; its issuers share a budget.
        project: &'p str,
        /// Address, built from the parsed parts of the issuer.
        jwks_uri: String,
    },
}

impl Origin<'_> {
    /// Address to fetch from.
    pub fn jwks_uri(&self) -> Option<&str> {
        match self {
            Self::Static { .. } => None,
            Self::Named { jwks_uri } => Some(jwks_uri),
            Self::Wildcard { jwks_uri, .. } => Some(jwks_uri),
        }
    }

    const fn is_wildcard(&self) -> bool {
        matches!(self, Self::Wildcard { .. })
    }
}

/// What to do for a token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    /// Verify with this set. It may lack the token's key, which then is unknown.
    Use(Rc<JwkSet>),
    /// Fetch, from the data centre's cache or the host, and record.
    Fetch,
    /// No keys now.
    Refuse(NoKeys),
}

/// Why there are no keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoKeys {
    /// A fetch failed or may not be made now: not the token's fault.
    Unavailable {
        /// Seconds after which another try makes sense.
        retry_after: u32,
    },
    /// The host says that a wildcard's issuer does not exist.
    Gone,
}

impl NoKeys {
    fn until(now: UnixTime, then: UnixTime) -> Self {
        Self::Unavailable { retry_after: u32::try_from(then.since(now).max(1)).unwrap_or(1) }
    }
}

/// Outcome of a fetch from the host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fetched {
    /// A set with a usable key.
    Set {
        /// The set.
        set: Rc<JwkSet>,
        /// Seconds it is fresh, clamped ([`fresh_for`]).
        fresh_for: i64,
    },
    /// 403, 404 or 410.
    Gone,
    /// Anything else.
    Failed,
}

/// A set that will soon not be fresh any more: to be fetched in the background, outside of any request's answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RefreshDue {
    issuer: String,
    jwks_uri: String,
}

impl RefreshDue {
    /// The issuer, as for a token of its own.
    pub fn key_set(&self) -> KeySetRef<'_> {
        KeySetRef { issuer: &self.issuer, origin: Origin::Named { jwks_uri: &self.jwks_uri } }
    }
}

/// The cache of one isolate.
#[derive(Debug, Default)]
pub struct JwksCache {
    issuers: HashMap<String, Entry>,
    written: HashMap<String, (String, Rc<JwkSet>)>,
    budgets: HashMap<String, Vec<UnixTime>>,
    uses: u64,
    due: Vec<RefreshDue>,
}

#[derive(Debug, Default)]
struct Entry {
    jwks_uri: String,
    wildcard: bool,
    set: Option<CachedSet>,
    failed_at: Option<UnixTime>,
    gone_until: Option<UnixTime>,
    unknown_kid_at: Option<UnixTime>,
    last_use: u64,
}

#[derive(Debug, Clone)]
struct CachedSet {
    set: Rc<JwkSet>,
    fetched_at: UnixTime,
    fresh_for: i64,
    refresh_asked_at: Option<UnixTime>,
}

impl CachedSet {
    fn age(&self, now: UnixTime) -> i64 {
        now.since(self.fetched_at)
    }

    fn is_fresh(&self, now: UnixTime) -> bool {
        self.age(now) < self.fresh_for
    }

    /// Fresh for a last fifth of its time only.
    fn is_ageing(&self, now: UnixTime) -> bool {
        self.age(now).saturating_mul(5) >= self.fresh_for.saturating_mul(4)
    }
}

impl Entry {
    /// The last good set, for as long as it may serve at all.
    fn usable(&self, now: UnixTime) -> Option<&CachedSet> {
        self.set.as_ref().filter(|set| set.age(now) < MAX_STALE)
    }

    fn failed_within(&self, seconds: i64, now: UnixTime) -> Option<UnixTime> {
        self.failed_at.map(|at| at.plus(seconds)).filter(|then| *then > now)
    }

    /// The last good set after a failed fetch: only for a key that it has, since the missing one may be in the set nobody could fetch.
    fn after_failure(&self, now: UnixTime, kid: Option<&str>) -> Result<Rc<JwkSet>, NoKeys> {
        match self.usable(now) {
            Some(cached) if kid.is_none() || cached.set.has(kid) => Ok(Rc::clone(&cached.set)),
            Some(_) => Err(NoKeys::until(now, self.failed_within(COOLDOWN, now).unwrap_or(now))),
            None => Err(NoKeys::until(now, now.plus(5))),
        }
    }
}

impl JwksCache {
    /// What to do for a token of this issuer with this `kid`.
    pub fn decide(&mut self, now: UnixTime, wanted: &KeySetRef<'_>, kid: Option<&str>) -> Decision {
        let jwks_uri = match &wanted.origin {
            Origin::Static { jwks } => return self.written(wanted.issuer, jwks),
            origin => origin.jwks_uri().unwrap_or_default(),
        };
        self.uses = self.uses.wrapping_add(1);
        let uses = self.uses;
        let Some(entry) = self.issuers.get_mut(wanted.issuer).filter(|entry| entry.jwks_uri == jwks_uri) else {
            return Decision::Fetch;
        };
        entry.last_use = uses;
        entry.wildcard = wanted.origin.is_wildcard();
        let Some(cached) = entry.set.as_mut().filter(|set| set.age(now) < MAX_STALE) else {
            return without_set(now, entry);
        };
        if !cached.is_fresh(now) {
            let paused = entry.failed_within(COOLDOWN, now).is_some();
            return if paused { entry.after_failure(now, kid).into() } else { Decision::Fetch };
        }
        if cached.is_ageing(now) && cached.refresh_asked_at.is_none_or(|at| now.since(at) >= COOLDOWN) {
            cached.refresh_asked_at = Some(now);
            self.due.push(RefreshDue { issuer: wanted.issuer.to_owned(), jwks_uri: jwks_uri.to_owned() });
        }
        if kid.is_none() || cached.set.has(kid) {
            return Decision::Use(Rc::clone(&cached.set));
        }
        let set = Rc::clone(&cached.set);
        unknown_kid(now, entry, set, kid)
    }

    /// Whether a fetch from the host may be made now; asked after the data centre's cache had nothing (CHECKS K9, budget of wildcards).
    pub fn permit(&mut self, now: UnixTime, wanted: &KeySetRef<'_>) -> Result<(), NoKeys> {
        let Origin::Wildcard { project, .. } = wanted.origin else { return Ok(()) };
        if self.entry(wanted).is_some_and(|entry| entry.usable(now).is_some()) {
            return Ok(());
        }
        let spent = self.budgets.entry(project.to_owned()).or_default();
        spent.retain(|at| now.since(*at) < BUDGET_WINDOW);
        match spent.first() {
            Some(oldest) if spent.len() >= BUDGET => Err(NoKeys::until(now, oldest.plus(BUDGET_WINDOW))),
            _ => {
                spent.push(now);
                Ok(())
            }
        }
    }

    /// Takes a set that another isolate fetched, if it is newer than ours; `Some` when it answers this token.
    pub fn adopt(
        &mut self,
        now: UnixTime,
        wanted: &KeySetRef<'_>,
        kid: Option<&str>,
        (set, fetched_at, fresh_for): (JwkSet, UnixTime, i64),
    ) -> Option<Rc<JwkSet>> {
        let fresh_for = fresh_for.clamp(MIN_FRESH, MAX_FRESH);
        let theirs = CachedSet { set: Rc::new(set), fetched_at, fresh_for, refresh_asked_at: None };
        if fetched_at > now || theirs.age(now) >= MAX_STALE {
            return None;
        }
        let entry = self.entry_mut(wanted);
        if entry.usable(now).is_none_or(|ours| ours.fetched_at < fetched_at) {
            entry.set = Some(theirs);
        }
        let answers = entry.usable(now).filter(|cached| cached.is_fresh(now) && (kid.is_none() || cached.set.has(kid)));
        let set = answers.map(|cached| Rc::clone(&cached.set));
        self.evict(now);
        set
    }

    /// Takes the outcome of a fetch from the host: the set to verify with, or why there is none.
    pub fn record(
        &mut self,
        now: UnixTime,
        wanted: &KeySetRef<'_>,
        kid: Option<&str>,
        outcome: Fetched,
    ) -> Result<Rc<JwkSet>, NoKeys> {
        let entry = self.entry_mut(wanted);
        let result = match outcome {
            Fetched::Set { set, fresh_for } => {
                if kid.is_some() && !set.has(kid) {
                    entry.unknown_kid_at = Some(now);
                }
                let fresh_for = fresh_for.clamp(MIN_FRESH, MAX_FRESH);
                entry.set =
                    Some(CachedSet { set: Rc::clone(&set), fetched_at: now, fresh_for, refresh_asked_at: None });
                (entry.failed_at, entry.gone_until) = (None, None);
                Ok(set)
            }
            Fetched::Gone if wanted.origin.is_wildcard() && entry.usable(now).is_none() => {
                entry.gone_until = Some(now.plus(GONE));
                Err(NoKeys::Gone)
            }
            Fetched::Gone | Fetched::Failed => {
                entry.failed_at = Some(now);
                entry.after_failure(now, kid)
            }
        };
        self.evict(now);
        result
    }

    /// A set that should be fetched again in the background; each is named once per cooldown.
    pub fn take_due(&mut self) -> Option<RefreshDue> {
        self.due.pop()
    }

    /// Sets written in the policy are parsed once.
    fn written(&mut self, issuer: &str, jwks: &str) -> Decision {
        if let Some((text, set)) = self.written.get(issuer)
            && text == jwks
        {
            return Decision::Use(Rc::clone(set));
        }
        match JwkSet::parse(jwks.as_bytes()) {
            Ok(set) => {
                let set = Rc::new(set);
                self.written.insert(issuer.to_owned(), (jwks.to_owned(), Rc::clone(&set)));
                Decision::Use(set)
            }
            // The policy was validated: only a fault of ours leads here.
            Err(_) => Decision::Refuse(NoKeys::Unavailable { retry_after: 60 }),
        }
    }

    fn entry(&self, wanted: &KeySetRef<'_>) -> Option<&Entry> {
        self.issuers.get(wanted.issuer).filter(|entry| Some(entry.jwks_uri.as_str()) == wanted.origin.jwks_uri())
    }

    /// The issuer's entry, empty when it is new or its address has changed.
    fn entry_mut(&mut self, wanted: &KeySetRef<'_>) -> &mut Entry {
        let jwks_uri = wanted.origin.jwks_uri().unwrap_or_default();
        let last_use = self.uses;
        let entry = self.issuers.entry(wanted.issuer.to_owned()).or_default();
        if entry.jwks_uri != jwks_uri {
            *entry = Entry { jwks_uri: jwks_uri.to_owned(), wildcard: wanted.origin.is_wildcard(), ..Entry::default() };
        }
        entry.last_use = entry.last_use.max(last_use);
        entry
    }

    /// Drops what can serve no more, then the least used wildcard sets above their number.
    fn evict(&mut self, now: UnixTime) {
        self.issuers.retain(|_, entry| {
            entry.usable(now).is_some()
                || entry.gone_until.is_some_and(|until| until > now)
                || entry.failed_within(COOLDOWN, now).is_some()
        });
        let mut wildcards: Vec<u64> = self
            .issuers
            .values()
            .filter(|entry| entry.wildcard && entry.set.is_some())
            .map(|entry| entry.last_use)
            .collect();
        let Some(above) = wildcards.len().checked_sub(MAX_WILDCARD_SETS).filter(|above| *above > 0) else { return };
        wildcards.sort_unstable();
        let oldest_kept = wildcards.get(above).copied().unwrap_or_default();
        self.issuers.retain(|_, entry| !(entry.wildcard && entry.set.is_some()) || entry.last_use >= oldest_kept);
    }
}

impl From<Result<Rc<JwkSet>, NoKeys>> for Decision {
    fn from(result: Result<Rc<JwkSet>, NoKeys>) -> Self {
        result.map_or_else(Self::Refuse, Self::Use)
    }
}

fn without_set(now: UnixTime, entry: &Entry) -> Decision {
    if entry.gone_until.is_some_and(|until| until > now) {
        return Decision::Refuse(NoKeys::Gone);
    }
    match entry.failed_within(FAILURE_PAUSE, now) {
        Some(then) => Decision::Refuse(NoKeys::until(now, then)),
        None => Decision::Fetch,
    }
}

/// CHECKS K9: one fetch for unknown key ids per cooldown, whatever comes of it.
fn unknown_kid(now: UnixTime, entry: &mut Entry, set: Rc<JwkSet>, kid: Option<&str>) -> Decision {
    let cooling = entry.unknown_kid_at.is_some_and(|at| now.since(at) < COOLDOWN);
    if entry.failed_within(COOLDOWN, now).is_some() {
        return entry.after_failure(now, kid).into();
    }
    if cooling {
        return Decision::Use(set);
    }
    entry.unknown_kid_at = Some(now);
    Decision::Fetch
}

/// Seconds a set is fresh: `max-age` of `cache-control`, clamped.
pub fn fresh_for(cache_control: Option<&str>) -> i64 {
    let directives = cache_control.unwrap_or_default().split(',').map(str::trim);
    let mut max_age = None;
    for directive in directives {
        if directive.eq_ignore_ascii_case("no-store") || directive.eq_ignore_ascii_case("no-cache") {
            return MIN_FRESH;
        }
        if let Some((name, value)) = directive.split_once('=')
            && name.eq_ignore_ascii_case("max-age")
            && !value.is_empty()
            && value.bytes().all(|byte| byte.is_ascii_digit())
        {
            // More digits than an i64 holds are more than the longest time, too.
            max_age = max_age.or(Some(value.parse().unwrap_or(MAX_FRESH)));
        }
    }
    max_age.unwrap_or(MIN_FRESH).clamp(MIN_FRESH, MAX_FRESH)
}
