//! Time, injectable.
//!
//! Two clocks are read together: the wall clock, which people and certificates speak of and which may jump, and a clock that only
//! grows and counts suspended time. A duration that must hold is measured by whichever says that more has passed, so that neither a
//! suspend nor a wrong clock lets a certificate run out unnoticed.

use std::time::Duration;

use jiff::Timestamp;

/// One reading of both clocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Moment {
    /// The wall clock.
    pub wall: Timestamp,
    /// Time since some fixed start, suspended time included.
    pub uptime: Duration,
}

impl Moment {
    /// How much time passed since `earlier`, by the clock that says more.
    pub fn since(&self, earlier: &Self) -> Duration {
        let wall = Duration::try_from(self.wall.duration_since(earlier.wall)).unwrap_or_default();
        wall.max(self.uptime.saturating_sub(earlier.uptime))
    }

    /// By how much the wall clock moved against the other one since `earlier`; positive when it jumped ahead.
    pub fn jump_since(&self, earlier: &Self) -> jiff::SignedDuration {
        let wall = self.wall.duration_since(earlier.wall);
        let uptime = self.uptime.saturating_sub(earlier.uptime);
        wall - jiff::SignedDuration::try_from(uptime).unwrap_or(jiff::SignedDuration::MAX)
    }
}

/// Source of [`Moment`]s.
pub trait Clock: Send + Sync {
    /// Reads both clocks.
    fn now(&self) -> Moment;
}

/// The clocks of the system.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Moment {
        Moment { wall: Timestamp::now(), uptime: uptime() }
    }
}

#[cfg(target_os = "linux")]
fn uptime() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or_default())
}

#[cfg(not(target_os = "linux"))]
fn uptime() -> Duration {
    static START: std::sync::LazyLock<std::time::Instant> = std::sync::LazyLock::new(std::time::Instant::now);
    START.elapsed()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn moment(wall: i64, uptime: u64) -> Moment {
        Moment { wall: Timestamp::from_second(wall).unwrap(), uptime: Duration::from_secs(uptime) }
    }

    #[test]
    fn the_clock_that_says_more_counts() {
        let start = moment(1000, 50);
        assert_eq!(moment(1010, 60).since(&start), Duration::from_secs(10));
        assert_eq!(moment(1010, 51).since(&start), Duration::from_secs(10), "a virtual machine that was paused");
        assert_eq!(moment(400, 60).since(&start), Duration::from_secs(10), "a wall clock set back");
    }

    #[test]
    fn a_jump_has_a_sign() {
        let start = moment(1000, 50);
        assert_eq!(moment(1010, 60).jump_since(&start).as_secs(), 0);
        assert_eq!(moment(2010, 60).jump_since(&start).as_secs(), 1000);
        assert_eq!(moment(10, 60).jump_since(&start).as_secs(), -1000);
    }
}
