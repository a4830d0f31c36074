//! Policy of the JWKS cache of an isolate: which set to use, when to fetch, what a failed fetch means (CHECKS K8, K9).
//!
//! A pure state machine. [`JwksCache::decide`] says what to do for a token, [`JwksCache::record`] takes the outcome of a fetch. It hands
//! out sets, never futures: two requests that both need a fetch both make it, since a promise of one must never be awaited by the other.
//! Out of scope: the fetch itself ([`super::jwks_fetch`]) and the data centre's cache, which is a port ([`crate::ports::JwksStore`]).

use std::rc::Rc;

use thiserror::Error;

use super::jwk::{JwkSet, JwkSetError};
use crate::UnixTime;
use crate::ports::HttpError;
use crate::shelf::Shelf;

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
/// `Retry-After` of a failed fetch of an issuer without any set, seconds.
const RETRY: i64 = 5;
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

    const fn project(&self) -> Option<&str> {
        match self {
            Self::Static { .. } | Self::Named { .. } => None,
            Self::Wildcard { project, .. } => Some(project),
        }
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
        /// For the operator.
        cause: Cause,
    },
    /// The host says that a wildcard's issuer does not exist.
    Gone,
}

impl NoKeys {
    fn until(now: UnixTime, then: UnixTime, cause: Cause) -> Self {
        Self::Unavailable { retry_after: u32::try_from(then.since(now).max(1)).unwrap_or(1), cause }
    }
}

/// Why keys are not available.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum Cause {
    /// Any status but 200.
    #[error("the JWKS host answered {0}")]
    Status(u16),
    /// No whole answer.
    #[error("the JWKS host: {0}")]
    Http(HttpError),
    /// 200, but not a set with a usable key.
    #[error("the JWKS host's answer: {0}")]
    NotASet(JwkSetError),
    /// An address that validation of the policy should not have let pass.
    #[error("the address of the keys is not https, nor http to loopback")]
    Address,
    /// [`BUDGET`] is spent.
    #[error("too many new clusters of this project within a minute")]
    Budget,
    /// The set written in the policy cannot be read, though it was validated.
    #[error("the policy's own key set: {0}")]
    Policy(JwkSetError),
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
    Gone(u16),
    /// Anything else.
    Failed(Cause),
}

/// A set that will soon not be fresh any more: to be fetched in the background, outside of any request's answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RefreshDue {
    issuer: String,
    jwks_uri: String,
    /// Project of the wildcard that the issuer was reached through: its set stays one of those that are bounded.
    project: Option<String>,
}

impl RefreshDue {
    /// The issuer, as for a token of its own.
    pub fn key_set(&self) -> KeySetRef<'_> {
        let origin = match &self.project {
            None => Origin::Named { jwks_uri: &self.jwks_uri },
            Some(project) => Origin::Wildcard { project, jwks_uri: self.jwks_uri.clone() },
        };
        KeySetRef { issuer: &self.issuer, origin }
    }
}

/// The cache of one isolate.
#[derive(Debug, Default)]
pub struct JwksCache {
    issuers: Shelf<Entry>,
    written: Shelf<(String, Rc<JwkSet>)>,
    budgets: Shelf<Vec<UnixTime>>,
    uses: u64,
    due: Vec<RefreshDue>,
}

#[derive(Debug, Default)]
struct Entry {
    jwks_uri: String,
    wildcard: bool,
    set: Option<CachedSet>,
    failed: Option<(UnixTime, Cause)>,
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

    /// End of the pause of `seconds` after the last failure, while it lasts.
    fn paused(&self, seconds: i64, now: UnixTime) -> Option<(UnixTime, Cause)> {
        self.failed.map(|(at, cause)| (at.plus(seconds), cause)).filter(|(end, _)| *end > now)
    }

    /// The last good set after a failed fetch: only for a key that it has, since the missing one may be in the set nobody could fetch.
    fn after_failure(
        &self,
        now: UnixTime,
        kid: Option<&str>,
        until: UnixTime,
        cause: Cause,
    ) -> Result<Rc<JwkSet>, NoKeys> {
        match self.usable(now) {
            Some(cached) if kid.is_none() || cached.set.has(kid) => Ok(Rc::clone(&cached.set)),
            _ => Err(NoKeys::until(now, until, cause)),
        }
    }
}

impl Entry {
    fn fail(&mut self, now: UnixTime, kid: Option<&str>, cause: Cause) -> Result<Rc<JwkSet>, NoKeys> {
        // One that waited long for its failure does not take back that another has begun since.
        self.failed = Some((self.failed.map_or(now, |(at, _)| at.max(now)), cause));
        let pause = if self.usable(now).is_some() { COOLDOWN } else { RETRY };
        self.after_failure(now, kid, now.plus(pause), cause)
    }

    /// A fetch begins. After a failure it counts as one until it has ended: a host that hangs is tried by one request a pause, not by all
    /// that come before the first of them gives up.
    fn fetch(&mut self, now: UnixTime) -> Decision {
        if let Some((at, _)) = &mut self.failed {
            *at = now;
        }
        Decision::Fetch
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
        entry.wildcard = wanted.origin.project().is_some();
        let Some(cached) = entry.set.as_mut().filter(|set| set.age(now) < MAX_STALE) else {
            return without_set(now, entry);
        };
        if !cached.is_fresh(now) {
            return match entry.paused(COOLDOWN, now) {
                Some((until, cause)) => entry.after_failure(now, kid, until, cause).into(),
                None => entry.fetch(now),
            };
        }
        if cached.is_ageing(now) && cached.refresh_asked_at.is_none_or(|at| now.since(at) >= COOLDOWN) {
            cached.refresh_asked_at = Some(now);
            self.due.push(RefreshDue {
                issuer: wanted.issuer.to_owned(),
                jwks_uri: jwks_uri.to_owned(),
                project: wanted.origin.project().map(str::to_owned),
            });
        }
        if kid.is_none() || cached.set.has(kid) {
            return Decision::Use(Rc::clone(&cached.set));
        }
        let set = Rc::clone(&cached.set);
        unknown_kid(now, entry, set, kid)
    }

    /// Whether a fetch from the host may be made now; asked after the data centre's cache had nothing (CHECKS K9, budget of wildcards).
    pub fn permit(&mut self, now: UnixTime, wanted: &KeySetRef<'_>) -> Result<(), NoKeys> {
        let Some(project) = wanted.origin.project() else { return Ok(()) };
        if self.keeps(now, wanted) {
            return Ok(());
        }
        let mut spent = self.budgets.remove(project).unwrap_or_default();
        spent.retain(|at| now.since(*at) < BUDGET_WINDOW);
        let permitted = match spent.first() {
            Some(oldest) if spent.len() >= BUDGET => Err(NoKeys::until(now, oldest.plus(BUDGET_WINDOW), Cause::Budget)),
            _ => {
                spent.push(now);
                Ok(())
            }
        };
        self.budgets.insert(project, spent);
        permitted
    }

    /// Whether a set is still there to be fetched again: one that was pushed out meanwhile is nobody's any more.
    pub fn keeps(&self, now: UnixTime, wanted: &KeySetRef<'_>) -> bool {
        self.entry(wanted).is_some_and(|entry| entry.usable(now).is_some())
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
        let mut entry = self.take(wanted);
        if entry.usable(now).is_none_or(|ours| ours.fetched_at < fetched_at) {
            entry.set = Some(theirs);
        }
        let answers = entry.usable(now).filter(|cached| cached.is_fresh(now) && (kid.is_none() || cached.set.has(kid)));
        let set = answers.map(|cached| Rc::clone(&cached.set));
        self.issuers.insert(wanted.issuer, entry);
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
        let mut entry = self.take(wanted);
        let result = match outcome {
            Fetched::Set { set, fresh_for } => {
                if kid.is_some() && !set.has(kid) {
                    entry.unknown_kid_at = Some(now);
                }
                let fresh_for = fresh_for.clamp(MIN_FRESH, MAX_FRESH);
                entry.set =
                    Some(CachedSet { set: Rc::clone(&set), fetched_at: now, fresh_for, refresh_asked_at: None });
                (entry.failed, entry.gone_until) = (None, None);
                Ok(set)
            }
            Fetched::Gone(_) if wanted.origin.project().is_some() && entry.usable(now).is_none() => {
                entry.gone_until = Some(now.plus(GONE));
                Err(NoKeys::Gone)
            }
            Fetched::Gone(status) => entry.fail(now, kid, Cause::Status(status)),
            Fetched::Failed(cause) => entry.fail(now, kid, cause),
        };
        self.issuers.insert(wanted.issuer, entry);
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
                self.written.insert(issuer, (jwks.to_owned(), Rc::clone(&set)));
                Decision::Use(set)
            }
            // The policy was validated: only a fault of ours leads here.
            Err(error) => Decision::Refuse(NoKeys::Unavailable { retry_after: 60, cause: Cause::Policy(error) }),
        }
    }

    fn entry(&self, wanted: &KeySetRef<'_>) -> Option<&Entry> {
        self.issuers.get(wanted.issuer).filter(|entry| Some(entry.jwks_uri.as_str()) == wanted.origin.jwks_uri())
    }

    /// The issuer's entry, to be changed and put back; a new one when there is none or its address has changed.
    fn take(&mut self, wanted: &KeySetRef<'_>) -> Entry {
        let jwks_uri = wanted.origin.jwks_uri().unwrap_or_default();
        let old = self.issuers.remove(wanted.issuer).filter(|entry| entry.jwks_uri == jwks_uri);
        let mut entry = old.unwrap_or_else(|| Entry {
            jwks_uri: jwks_uri.to_owned(),
            wildcard: wanted.origin.project().is_some(),
            ..Entry::default()
        });
        entry.last_use = entry.last_use.max(self.uses);
        entry
    }

    /// Drops what can serve no more, then the least used wildcard sets above their number.
    fn evict(&mut self, now: UnixTime) {
        self.issuers.retain(|entry| {
            entry.usable(now).is_some()
                || entry.gone_until.is_some_and(|until| until > now)
                || entry.paused(COOLDOWN, now).is_some()
        });
        let wildcards = self.issuers.iter().filter(|(_, entry)| entry.wildcard && entry.set.is_some()).count();
        for _ in MAX_WILDCARD_SETS..wildcards {
            let bounded = self.issuers.iter().filter(|(_, entry)| entry.wildcard && entry.set.is_some());
            let Some(oldest) = bounded.min_by_key(|(_, entry)| entry.last_use).map(|(issuer, _)| issuer.to_owned())
            else {
                return;
            };
            self.issuers.remove(&oldest);
        }
    }
}

impl From<Result<Rc<JwkSet>, NoKeys>> for Decision {
    fn from(result: Result<Rc<JwkSet>, NoKeys>) -> Self {
        result.map_or_else(Self::Refuse, Self::Use)
    }
}

fn without_set(now: UnixTime, entry: &mut Entry) -> Decision {
    // An issuer that the policy names since its wildcard was told so is not gone: its host fails.
    if entry.wildcard && entry.gone_until.is_some_and(|until| until > now) {
        return Decision::Refuse(NoKeys::Gone);
    }
    match entry.paused(FAILURE_PAUSE, now) {
        Some((until, cause)) => Decision::Refuse(NoKeys::until(now, until, cause)),
        None => entry.fetch(now),
    }
}

/// CHECKS K9: one fetch for unknown key ids per cooldown, whatever comes of it.
///
/// Until the cooldown ends, another id that the set lacks is unknown (K4, `key_unknown`), also while that one fetch is under way. A good
/// runner whose key is newer than that pays for someone else's junk with one refusal, which it tries again. Anything else costs more: a
/// second fetch is the flood's, waiting for the first is what K9 forbids, and a 503 in its place would be an answer that a flood can
/// choose and that the limit on refusals does not count.
fn unknown_kid(now: UnixTime, entry: &mut Entry, set: Rc<JwkSet>, kid: Option<&str>) -> Decision {
    let cooling = entry.unknown_kid_at.is_some_and(|at| now.since(at) < COOLDOWN);
    if let Some((until, cause)) = entry.paused(COOLDOWN, now) {
        return entry.after_failure(now, kid, until, cause).into();
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const T0: UnixTime = UnixTime::from_secs(1_790_000_000);
    const N: &str = "j1JU_1oe2MejnoJRitw6ThvIDHys72jvlXgE3FCinBxzTSGB0Q8HZTsi3ZbyRoDJCuQgichBxNiw3RspVT_oHymIGeZYQl2xqzPj9V7sJsl8SQKTPjyFkQ-P15pNDsNWG58dSwEtup7K1Hlw7OGXgg7iITdxB4hur7u5ZWERVMi5ESOscaoWBqZRebyv-1XvZBmzp4Qlkm8uoEoYhYulFHOoeUa0DTWxvnpV0XhzMC7LZqQbuHE0tSW21eTdZWDftW_p57HsvM0T9uW_qHt2Es17LJomN6IdusnjC9UDXsj-iVUQKf3_sHKyKROsVqXLVa6vVtj2YojgKJfr7DLGIw";

    fn text(kids: &[&str]) -> String {
        let keys: Vec<String> =
            kids.iter().map(|kid| format!(r#"{{"kty":"RSA","kid":"{kid}","n":"{N}","e":"AQAB"}}"#)).collect();
        format!(r#"{{"keys":[{}]}}"#, keys.join(","))
    }

    fn set(kids: &[&str]) -> Rc<JwkSet> {
        Rc::new(JwkSet::parse(text(kids).as_bytes()).unwrap())
    }

    fn fetched(kids: &[&str], fresh_for: i64) -> Fetched {
        Fetched::Set { set: set(kids), fresh_for }
    }

    fn named() -> KeySetRef<'static> {
        KeySetRef { issuer: "https://issuer", origin: Origin::Named { jwks_uri: "https://issuer/jwks" } }
    }

    fn wildcard(issuer: &str) -> KeySetRef<'_> {
        KeySetRef { issuer, origin: Origin::Wildcard { project: "acme", jwks_uri: format!("{issuer}/jwks") } }
    }

    fn warm(kids: &[&str], fresh_for: i64) -> JwksCache {
        let mut cache = JwksCache::default();
        assert_eq!(cache.decide(T0, &named(), Some(kids[0])), Decision::Fetch);
        assert!(cache.record(T0, &named(), Some(kids[0]), fetched(kids, fresh_for)).is_ok());
        cache
    }

    const TIMEOUT: Cause = Cause::Http(HttpError::Timeout);
    const FAILED: Fetched = Fetched::Failed(TIMEOUT);
    const GONE: Fetched = Fetched::Gone(404);

    const fn unavailable(retry_after: u32) -> NoKeys {
        NoKeys::Unavailable { retry_after, cause: TIMEOUT }
    }

    #[test]
    fn k8_a_set_is_fresh_for_its_time_and_not_a_second_longer() {
        let mut cache = warm(&["a"], 600);
        assert_eq!(cache.decide(T0.plus(599), &named(), Some("a")), Decision::Use(set(&["a"])));
        assert_eq!(cache.decide(T0.plus(600), &named(), Some("a")), Decision::Fetch);
        // The key left the set: it stops working with the fetch that says so.
        assert_eq!(cache.record(T0.plus(600), &named(), Some("a"), fetched(&["b"], 600)), Ok(set(&["b"])));
        assert_eq!(cache.decide(T0.plus(601), &named(), Some("a")), Decision::Use(set(&["b"])));
        assert!(!set(&["b"]).has(Some("a")));
    }

    #[test]
    fn k8_freshness_is_clamped_wherever_it_comes_from() {
        for (given, used) in [(i64::MIN, 300), (0, 300), (300, 300), (3_600, 3_600), (i64::MAX, 3_600)] {
            let mut cache = warm(&["a"], given);
            assert!(matches!(cache.decide(T0.plus(used - 1), &named(), Some("a")), Decision::Use(_)), "{given}");
            assert_eq!(cache.decide(T0.plus(used), &named(), Some("a")), Decision::Fetch, "{given}");
            let mut cache = JwksCache::default();
            let theirs = (JwkSet::parse(text(&["a"]).as_bytes()).unwrap(), T0, given);
            assert!(cache.adopt(T0, &named(), Some("a"), theirs).is_some());
            assert_eq!(cache.decide(T0.plus(used), &named(), Some("a")), Decision::Fetch, "{given}");
        }
    }

    #[test]
    fn k8_cache_control() {
        for (header, seconds) in [
            (None, 300),
            (Some(""), 300),
            (Some("public"), 300),
            (Some("max-age=0"), 300),
            (Some("max-age=299"), 300),
            (Some("max-age=301"), 301),
            (Some("public, max-age=3600, must-revalidate"), 3_600),
            (Some("MAX-AGE=900"), 900),
            (Some("max-age=900,max-age=3000"), 900),
            (Some("max-age=86400"), 3_600),
            (Some("max-age=99999999999999999999999"), 3_600),
            (Some("max-age=-5"), 300),
            (Some("max-age="), 300),
            (Some("max-age=\"900\""), 300),
            (Some("s-maxage=900"), 300),
            (Some("max-age=900, no-store"), 300),
            (Some("no-cache, max-age=900"), 300),
        ] {
            assert_eq!(fresh_for(header), seconds, "{header:?}");
        }
    }

    #[test]
    fn k8_the_last_good_set_serves_for_a_day_while_fetches_fail() {
        let mut cache = warm(&["a"], 300);
        let mut now = T0.plus(300);
        while now.since(T0) < MAX_STALE {
            assert_eq!(cache.decide(now, &named(), Some("a")), Decision::Fetch, "{}", now.since(T0));
            assert_eq!(cache.record(now, &named(), Some("a"), FAILED), Ok(set(&["a"])));
            // In between it serves without a fetch.
            assert_eq!(cache.decide(now.plus(29), &named(), Some("a")), Decision::Use(set(&["a"])));
            now = now.plus(900);
        }
        let end = T0.plus(MAX_STALE);
        assert_eq!(cache.decide(end, &named(), Some("a")), Decision::Fetch);
        assert_eq!(cache.record(end, &named(), Some("a"), FAILED), Err(unavailable(5)));
        // Also a pause that began before the end does not carry the set over it.
        let mut cache = warm(&["a"], 300);
        let _ = cache.record(end.plus(-5), &named(), Some("a"), FAILED);
        assert!(matches!(cache.decide(end.plus(-1), &named(), Some("a")), Decision::Use(_)));
        assert_eq!(cache.decide(end, &named(), Some("a")), Decision::Fetch);
    }

    #[test]
    fn k8_without_a_set_failures_are_a_retry_and_pause_shortly() {
        let mut cache = JwksCache::default();
        assert_eq!(cache.decide(T0, &named(), Some("a")), Decision::Fetch);
        let status = NoKeys::Unavailable { retry_after: 5, cause: Cause::Status(404) };
        assert_eq!(cache.record(T0, &named(), Some("a"), GONE), Err(status));
        assert_eq!(cache.record(T0, &named(), Some("a"), FAILED), Err(unavailable(5)));
        assert_eq!(cache.decide(T0, &named(), Some("a")), Decision::Refuse(unavailable(1)));
        assert_eq!(cache.decide(T0.plus(1), &named(), Some("a")), Decision::Fetch);
        assert!(cache.record(T0.plus(1), &named(), Some("a"), fetched(&["a"], 300)).is_ok());
        assert!(matches!(cache.decide(T0.plus(1), &named(), Some("a")), Decision::Use(_)));
    }

    #[test]
    fn k9_a_flood_of_unknown_kids_causes_one_fetch() {
        // Cold: the fetch that finds no such key is the one.
        let mut cache = JwksCache::default();
        let mut fetches = 0;
        for n in 0..1_000 {
            let (now, kid) = (T0.plus(n % 30), format!("random-{n}"));
            if cache.decide(now, &named(), Some(&kid)) == Decision::Fetch {
                fetches += 1;
                assert!(cache.record(now, &named(), Some(&kid), fetched(&["a"], 300)).is_ok());
            }
        }
        assert_eq!(fetches, 1);
        // Warm, all at once: the second does not wait for the first.
        let mut cache = warm(&["a"], 3_600);
        let fetches =
            (0..1_000).filter(|n| cache.decide(T0.plus(5), &named(), Some(&n.to_string())) == Decision::Fetch);
        assert_eq!(fetches.count(), 1);
        assert!(matches!(cache.decide(T0.plus(34), &named(), Some("b")), Decision::Use(_)));
        assert_eq!(cache.decide(T0.plus(35), &named(), Some("b")), Decision::Fetch);
        // Known kids are served all the while.
        assert!(matches!(cache.decide(T0.plus(5), &named(), Some("a")), Decision::Use(_)));
    }

    #[test]
    fn k9_a_rotated_key_is_found_at_once() {
        let mut cache = warm(&["a"], 3_600);
        assert_eq!(cache.decide(T0.plus(2), &named(), Some("b")), Decision::Fetch);
        assert_eq!(cache.record(T0.plus(2), &named(), Some("b"), fetched(&["a", "b"], 3_600)), Ok(set(&["a", "b"])));
        assert_eq!(cache.decide(T0.plus(3), &named(), Some("b")), Decision::Use(set(&["a", "b"])));
    }

    #[test]
    fn k9_failed_refetches_count_and_are_no_refusal() {
        let mut cache = warm(&["a"], 3_600);
        assert_eq!(cache.decide(T0.plus(5), &named(), Some("b")), Decision::Fetch);
        assert_eq!(cache.record(T0.plus(5), &named(), Some("b"), FAILED), Err(unavailable(30)));
        for n in 5..35 {
            let wait = u32::try_from(35 - n).unwrap();
            assert_eq!(cache.decide(T0.plus(n), &named(), Some("b")), Decision::Refuse(unavailable(wait)));
            assert!(matches!(cache.decide(T0.plus(n), &named(), Some("a")), Decision::Use(_)));
        }
        assert_eq!(cache.decide(T0.plus(35), &named(), Some("b")), Decision::Fetch);
    }

    #[test]
    fn k9_tokens_without_kid_cause_no_refetch() {
        let mut cache = warm(&["a", "b"], 3_600);
        assert!(matches!(cache.decide(T0.plus(100), &named(), None), Decision::Use(_)));
    }

    #[test]
    fn k9_a_wildcards_unknown_cluster_is_refused_for_five_minutes() {
        for issuer in ["https://gke/1", "https://gke/2"] {
            let mut cache = JwksCache::default();
            let wanted = wildcard(issuer);
            assert_eq!(cache.decide(T0, &wanted, Some("a")), Decision::Fetch);
            assert_eq!(cache.permit(T0, &wanted), Ok(()));
            assert_eq!(cache.record(T0, &wanted, Some("a"), GONE), Err(NoKeys::Gone));
            assert_eq!(cache.decide(T0.plus(299), &wanted, Some("a")), Decision::Refuse(NoKeys::Gone));
            assert_eq!(cache.decide(T0.plus(300), &wanted, Some("a")), Decision::Fetch);
        }
        // With a set, or for a named issuer, the same answer is a failed fetch.
        let mut cache = JwksCache::default();
        let wanted = wildcard("https://gke/1");
        assert!(cache.record(T0, &wanted, Some("a"), fetched(&["a"], 300)).is_ok());
        assert_eq!(cache.record(T0.plus(300), &wanted, Some("a"), GONE), Ok(set(&["a"])));
        assert!(matches!(cache.decide(T0.plus(301), &wanted, Some("a")), Decision::Use(_)));
        assert_eq!(cache.record(T0.plus(MAX_STALE), &wanted, Some("a"), GONE), Err(NoKeys::Gone));
    }

    #[test]
    fn k9_an_issuer_that_is_named_meanwhile_is_not_gone() {
        let mut cache = JwksCache::default();
        let jwks_uri = "https://gke/1/jwks";
        let wild = KeySetRef {
            issuer: "https://gke/1",
            origin: Origin::Wildcard { project: "p", jwks_uri: jwks_uri.to_owned() },
        };
        let named = KeySetRef { issuer: "https://gke/1", origin: Origin::Named { jwks_uri } };
        assert_eq!(cache.record(T0, &wild, Some("a"), GONE), Err(NoKeys::Gone));
        assert_eq!(cache.decide(T0, &wild, Some("a")), Decision::Refuse(NoKeys::Gone));
        assert_eq!(cache.decide(T0.plus(1), &named, Some("a")), Decision::Fetch);
        let status = NoKeys::Unavailable { retry_after: 5, cause: Cause::Status(404) };
        assert_eq!(cache.record(T0.plus(1), &named, Some("a"), GONE), Err(status));
        assert!(cache.record(T0.plus(2), &named, Some("a"), fetched(&["a"], 300)).is_ok());
        assert!(matches!(cache.decide(T0.plus(2), &named, Some("a")), Decision::Use(_)));
    }

    /// A fetch takes up to five seconds to fail, in which many more requests come.
    #[test]
    fn k9_a_host_that_hangs_is_tried_by_one_request_a_pause() {
        let wait = 5;
        for (mut cache, pause) in [(JwksCache::default(), FAILURE_PAUSE), (warm(&["a"], 300), COOLDOWN)] {
            let start = T0.plus(300);
            assert_eq!(cache.decide(start, &named(), Some("a")), Decision::Fetch);
            let _ = cache.record(start, &named(), Some("a"), FAILED);
            let (mut waiting, mut fetches): (Vec<i64>, i64) = (Vec::new(), 0);
            for second in 0..120 {
                let now = start.plus(second);
                while waiting.first().is_some_and(|begun| begun + wait <= second) {
                    let begun = start.plus(waiting.remove(0));
                    let _ = cache.record(begun, &named(), Some("a"), FAILED);
                }
                for n in 0..50 {
                    if cache.decide(now, &named(), Some(if n % 2 == 0 { "a" } else { "b" })) == Decision::Fetch {
                        waiting.push(second);
                        fetches += 1;
                    }
                }
            }
            assert!((1..=120 / pause).contains(&fetches), "{fetches} with a pause of {pause} s");
        }
    }

    #[test]
    fn k9_wildcards_share_a_budget_per_project() {
        let budget = |retry_after| NoKeys::Unavailable { retry_after, cause: Cause::Budget };
        let mut cache = JwksCache::default();
        let issuers: Vec<String> = (0..20).map(|n| format!("https://gke/{n}")).collect();
        for (n, issuer) in issuers.iter().enumerate() {
            let (now, wanted) = (T0.plus(i64::try_from(n).unwrap()), wildcard(issuer));
            assert_eq!(cache.decide(now, &wanted, Some("a")), Decision::Fetch);
            let permitted = cache.permit(now, &wanted);
            if n < BUDGET {
                assert_eq!(permitted, Ok(()));
                assert!(cache.record(now, &wanted, Some("a"), fetched(&["a"], 300)).is_ok());
            } else {
                assert_eq!(permitted, Err(budget(u32::try_from(60 - n).unwrap())));
            }
        }
        // Known issuers, other projects and named issuers are not held up; after a minute new ones are let in again.
        assert_eq!(cache.permit(T0.plus(20), &wildcard(&issuers[3])), Ok(()));
        assert_eq!(cache.permit(T0.plus(20), &named()), Ok(()));
        let other = KeySetRef {
            issuer: "https://gke/x",
            origin: Origin::Wildcard { project: "other", jwks_uri: "https://gke/x/jwks".to_owned() },
        };
        assert_eq!(cache.permit(T0.plus(20), &other), Ok(()));
        assert_eq!(cache.permit(T0.plus(59), &wildcard(&issuers[19])), Err(budget(1)));
        assert_eq!(cache.permit(T0.plus(60), &wildcard(&issuers[19])), Ok(()));
    }

    #[test]
    fn k9_at_most_64_wildcard_sets_the_least_used_go() {
        let mut cache = warm(&["a"], 3_600);
        let issuers: Vec<String> = (0..100).map(|n| format!("https://gke/{n}")).collect();
        for issuer in &issuers {
            let wanted = wildcard(issuer);
            assert_eq!(cache.decide(T0, &wanted, Some("a")), Decision::Fetch);
            assert!(cache.record(T0, &wanted, Some("a"), fetched(&["a"], 3_600)).is_ok());
            // The first one is in constant use.
            assert!(matches!(cache.decide(T0, &wildcard(&issuers[0]), Some("a")), Decision::Use(_)));
        }
        let kept: Vec<usize> = (0..100).filter(|n| cache.issuers.get(&issuers[*n]).is_some()).collect();
        assert_eq!(kept.len(), MAX_WILDCARD_SETS);
        assert_eq!((kept[0], kept[1], kept[63]), (0, 37, 99));
        // Named issuers are not among them.
        assert!(matches!(cache.decide(T0, &named(), Some("a")), Decision::Use(_)));
    }

    #[test]
    fn k9_issuers_that_do_not_exist_push_no_set_out_and_leave_nothing() {
        let mut cache = JwksCache::default();
        assert!(cache.record(T0, &wildcard("https://gke/good"), Some("a"), fetched(&["a"], 3_600)).is_ok());
        for n in 0..1_000 {
            let issuer = format!("https://gke/{n}");
            let _ = cache.record(T0.plus(n), &wildcard(&issuer), Some("a"), GONE);
        }
        assert!(matches!(cache.decide(T0.plus(1_000), &wildcard("https://gke/good"), Some("a")), Decision::Use(_)));
        assert!(cache.issuers.iter().len() <= 301, "{}", cache.issuers.iter().len());
    }

    #[test]
    fn another_address_is_another_set() {
        let mut cache = warm(&["a"], 3_600);
        let moved =
            KeySetRef { issuer: "https://issuer", origin: Origin::Named { jwks_uri: "https://elsewhere/jwks" } };
        assert_eq!(cache.decide(T0, &moved, Some("a")), Decision::Fetch);
        assert_eq!(cache.record(T0, &moved, Some("a"), FAILED), Err(unavailable(5)));
        assert_eq!(cache.decide(T0, &named(), Some("a")), Decision::Fetch);
    }

    #[test]
    fn sets_of_the_policy_are_parsed_once_and_follow_it() {
        let mut cache = JwksCache::default();
        let (one, two) = (text(&["a"]), text(&["b"]));
        let wanted = |jwks| KeySetRef { issuer: "https://issuer", origin: Origin::Static { jwks } };
        let Decision::Use(first) = cache.decide(T0, &wanted(&one), Some("a")) else { panic!() };
        let Decision::Use(again) = cache.decide(T0, &wanted(&one), Some("x")) else { panic!() };
        assert!(Rc::ptr_eq(&first, &again));
        assert_eq!(cache.decide(T0, &wanted(&two), Some("a")), Decision::Use(set(&["b"])));
        assert_eq!(
            cache.decide(T0, &wanted("{}"), Some("a")),
            Decision::Refuse(NoKeys::Unavailable { retry_after: 60, cause: Cause::Policy(JwkSetError::NotASet) })
        );
    }

    #[test]
    fn the_data_centres_set_is_taken_when_newer() {
        let theirs = |kids: &[&str], at| (JwkSet::parse(text(kids).as_bytes()).unwrap(), at, 600);
        let mut cache = warm(&["a"], 600);
        // Of the same time, older or from the future: not taken.
        assert_eq!(cache.adopt(T0.plus(9), &named(), Some("b"), theirs(&["b"], T0)), None);
        assert_eq!(cache.adopt(T0.plus(9), &named(), Some("b"), theirs(&["b"], T0.plus(-1))), None);
        assert_eq!(cache.adopt(T0.plus(9), &named(), Some("b"), theirs(&["b"], T0.plus(10))), None);
        assert_eq!(cache.decide(T0.plus(9), &named(), Some("a")), Decision::Use(set(&["a"])));
        // Newer: taken, with its own age.
        assert_eq!(cache.adopt(T0.plus(9), &named(), Some("b"), theirs(&["b"], T0.plus(5))), Some(set(&["b"])));
        assert_eq!(cache.decide(T0.plus(604), &named(), Some("b")), Decision::Use(set(&["b"])));
        assert_eq!(cache.decide(T0.plus(605), &named(), Some("b")), Decision::Fetch);
        // Newer without the key that is looked for: taken, but the host is asked.
        assert_eq!(cache.adopt(T0.plus(9), &named(), Some("x"), theirs(&["c"], T0.plus(6))), None);
        assert_eq!(cache.decide(T0.plus(10), &named(), Some("c")), Decision::Use(set(&["c"])));
        // Not fresh any more: no answer, but it serves if the host fails.
        let mut cache = JwksCache::default();
        assert_eq!(cache.adopt(T0.plus(600), &named(), Some("a"), theirs(&["a"], T0)), None);
        assert_eq!(cache.record(T0.plus(600), &named(), Some("a"), FAILED), Ok(set(&["a"])));
        assert_eq!(cache.adopt(T0.plus(MAX_STALE), &named(), Some("b"), theirs(&["b"], T0)), None);
    }

    #[test]
    fn refresh_is_due_in_the_last_fifth_and_asked_once_per_cooldown() {
        let mut cache = warm(&["a"], 600);
        let _ = cache.decide(T0.plus(479), &named(), Some("a"));
        assert_eq!(cache.take_due(), None);
        for _ in 0..3 {
            assert!(matches!(cache.decide(T0.plus(480), &named(), Some("a")), Decision::Use(_)));
        }
        let due = cache.take_due().unwrap();
        assert_eq!(due.key_set(), named());
        assert_eq!(cache.take_due(), None);
        let _ = cache.decide(T0.plus(509), &named(), Some("a"));
        assert_eq!(cache.take_due(), None);
        let _ = cache.decide(T0.plus(510), &named(), Some("a"));
        assert!(cache.take_due().is_some());
        assert!(cache.record(T0.plus(511), &due.key_set(), None, fetched(&["a"], 600)).is_ok());
        let _ = cache.decide(T0.plus(990), &named(), Some("a"));
        assert_eq!(cache.take_due(), None);
    }

    /// CHECKS K9: a refresh is no way around the bound, also when its set was pushed out before it came back.
    #[test]
    fn k9_refreshed_wildcard_sets_stay_among_the_64() {
        let mut cache = JwksCache::default();
        let issuers: Vec<String> = (0..200).map(|n| format!("https://gke/{n}")).collect();
        let mut due = Vec::new();
        for issuer in &issuers {
            let wanted = wildcard(issuer);
            assert!(cache.record(T0, &wanted, Some("a"), fetched(&["a"], 300)).is_ok());
            assert!(matches!(cache.decide(T0.plus(290), &wanted, Some("a")), Decision::Use(_)));
            let refresh = cache.take_due().unwrap();
            assert_eq!(refresh.key_set(), wanted);
            due.push(refresh);
        }
        let kept = due.iter().filter(|refresh| cache.keeps(T0.plus(291), &refresh.key_set()));
        assert_eq!(kept.count(), MAX_WILDCARD_SETS);
        for refresh in &due {
            assert!(cache.record(T0.plus(291), &refresh.key_set(), None, fetched(&["a"], 300)).is_ok());
            assert!(cache.issuers.iter().len() <= MAX_WILDCARD_SETS, "{}", cache.issuers.iter().len());
        }
        assert!(cache.issuers.iter().all(|(_, entry)| entry.wildcard));
    }

    proptest! {
        /// Whatever happens in whatever order: no set serves past its day, and unknown kids cause at most a fetch per cooldown.
        #[test]
        fn bounds_hold_in_any_history(steps in proptest::collection::vec((0i64..4_000, 0u8..4, any::<bool>()), 1..80)) {
            let mut cache = JwksCache::default();
            let (mut now, mut last_set, mut last_unknown) = (T0, None::<UnixTime>, None::<UnixTime>);
            for (wait, outcome, known) in steps {
                now = now.plus(wait);
                let kid = if known { "a" } else { "b" };
                match cache.decide(now, &named(), Some(kid)) {
                    Decision::Use(_) => prop_assert!(last_set.is_some_and(|at| now.since(at) < MAX_STALE)),
                    Decision::Refuse(NoKeys::Unavailable { retry_after, .. }) => prop_assert!((1..=60).contains(&retry_after)),
                    Decision::Refuse(NoKeys::Gone) => prop_assert!(false, "a named issuer is never gone"),
                    Decision::Fetch => {
                        if last_set.is_some_and(|at| now.since(at) < MIN_FRESH) {
                            prop_assert!(!known);
                            prop_assert!(last_unknown.is_none_or(|at| now.since(at) >= COOLDOWN));
                        }
                        if !known {
                            last_unknown = Some(now);
                        }
                        let outcome = match outcome { 0 => FAILED, 1 => GONE, _ => fetched(&["a"], 0) };
                        let good = matches!(outcome, Fetched::Set { .. });
                        let result = cache.record(now, &named(), Some(kid), outcome);
                        if good {
                            last_set = Some(now);
                        }
                        if result.is_ok() {
                            prop_assert!(last_set.is_some_and(|at| now.since(at) < MAX_STALE));
                        }
                    }
                }
            }
        }
    }
}
