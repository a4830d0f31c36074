//! When an isolate asks for the policy again, and what it does meanwhile: at most 10 s old, or up to 60 s when the object does not answer
//! (PROTOCOL, Policy).
//!
//! One request a second asks, and the others go on with what there is. While the object fails it is one in [`PAUSE`] seconds: an object that
//! hangs costs that one its time limit, and no other request anything.

use verifier::UnixTime;

/// A policy is used this long, seconds, before the object is asked again, so that a new one is in force within 10 s everywhere.
const FRESH: i64 = 9;
/// A policy that cannot be refreshed is used this long.
const STALE: i64 = 60;
/// Time for one request to ask before the next one does: it may have been given up by its client.
const ASKING: i64 = 1;
/// The same after a failure, and time to the next attempt.
const PAUSE: i64 = 4;

/// What a request does about the policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// Uses what there is.
    Use,
    /// Asks, and uses what there is when the object does not answer.
    Try,
    /// Asks; without an answer there is no policy.
    Ask,
}

/// What an isolate remembers of its attempts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Attempts {
    /// Nobody asks before this, unless there is nothing to go on with.
    next: Option<UnixTime>,
    /// The last one that ended was in vain.
    failing: bool,
}

impl Attempts {
    /// None yet.
    pub const NEW: Self = Self { next: None, failing: false };

    /// What to do now with a policy that was asked for at `asked_at`; notes the attempt if there is to be one.
    pub fn step(&mut self, asked_at: Option<UnixTime>, now: UnixTime) -> Step {
        let Some(age) = asked_at.map(|asked_at| now.since(asked_at)) else { return Step::Ask };
        if (0..FRESH).contains(&age) {
            return Step::Use;
        }
        if age >= STALE {
            return Step::Ask;
        }
        // A pause that began in the future is one of a clock that went back.
        if self.next.is_some_and(|next| next > now && next.since(now) <= PAUSE) {
            return Step::Use;
        }
        self.next = Some(now.plus(if self.failing { PAUSE } else { ASKING }));
        Step::Try
    }

    /// The object did not answer.
    pub fn failed(&mut self, now: UnixTime) {
        *self = Self { next: Some(now.plus(PAUSE)), failing: true };
    }

    /// It did.
    pub fn succeeded(&mut self) {
        *self = Self::NEW;
    }
}

#[cfg(all(test, not(target_arch = "wasm32")))]
mod tests {
    use super::*;

    const START: UnixTime = UnixTime::from_secs(1_790_000_000);

    fn at(secs: i64) -> UnixTime {
        START.plus(secs)
    }

    #[test]
    fn a_policy_is_asked_for_when_there_is_none_and_before_it_is_ten_seconds_old() {
        let mut attempts = Attempts::NEW;
        assert_eq!(attempts.step(None, START), Step::Ask);
        for (age, step) in [(0, Step::Use), (8, Step::Use), (9, Step::Try)] {
            assert_eq!(attempts.step(Some(START), at(age)), step, "{age}");
        }
        // While one asks, the others go on; when its client has given up, the next one asks.
        assert_eq!(attempts.step(Some(START), at(9)), Step::Use);
        assert_eq!(attempts.step(Some(START), at(10)), Step::Try);
    }

    #[test]
    fn an_object_that_hangs_holds_up_few() {
        let mut attempts = Attempts::NEW;
        let mut tried = Vec::new();
        // Requests come all the time; each attempt ends after the limit of a call to an object, 10 s.
        for second in 9..60 {
            if tried.contains(&(second - 10)) {
                attempts.failed(at(second));
            }
            for _ in 0..100 {
                match attempts.step(Some(START), at(second)) {
                    Step::Try => tried.push(second),
                    step => assert_eq!(step, Step::Use),
                }
            }
        }
        // One a second until it is known to hang; then nobody while others are known to wait or have just failed.
        assert_eq!(tried, [9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 32, 36, 40, 54, 58]);
        assert_eq!(attempts.step(Some(START), at(60)), Step::Ask);
        attempts.succeeded();
        assert_eq!(attempts, Attempts::NEW);
    }

    #[test]
    fn a_clock_that_went_back_stops_nothing() {
        let mut attempts = Attempts::NEW;
        attempts.failed(at(1_000));
        assert_eq!(attempts.step(Some(at(1_000)), START), Step::Try);
    }
}
