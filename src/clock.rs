//! Time that runs through suspend: what leases are measured with.
//!
//! A test that pauses tokio's time hands [`Clock::tokio`] to whatever takes a clock, and time moves with it:
//!
//! ```
//! use std::time::Duration;
//! use heliosdb_proxy::clock::Clock;
//!
//! # #[tokio::main(flavor = "current_thread", start_paused = true)]
//! # async fn main() {
//! let clock = Clock::tokio();
//! let asked = clock.now();
//! tokio::time::sleep(Duration::from_secs(7)).await;      // paused: returns at once
//! assert_eq!(clock.now().saturating_sub(asked), Duration::from_secs(7));
//! # }
//! ```

use std::time::{Duration, Instant};

use nix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};

/// A point on `CLOCK_BOOTTIME`. `Instant` is `CLOCK_MONOTONIC` on Linux and stands still while a laptop or a VM
/// sleeps; a lease measured with it would survive the sleep.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct BootTime(Duration);

impl BootTime {
    /// The moment of boot: earlier than everything that is ever observed.
    pub(crate) const ZERO: Self = Self(Duration::ZERO);

    /// Later than everything that ever is.
    pub(crate) const NEVER: Self = Self(Duration::MAX);

    /// How long `earlier` was before `self`; zero when it was not.
    #[must_use]
    pub fn saturating_sub(self, earlier: Self) -> Duration {
        self.0.saturating_sub(earlier.0)
    }

    /// `self` moved back by `d`, at most to the moment of boot.
    pub(crate) fn back(self, d: Duration) -> Self {
        Self(self.0.saturating_sub(d))
    }

    /// Milliseconds since boot: for atomics.
    pub(crate) fn as_millis(self) -> u64 {
        u64::try_from(self.0.as_millis()).unwrap_or(u64::MAX)
    }

    /// The inverse of [`Self::as_millis`].
    pub(crate) fn from_millis(ms: u64) -> Self {
        Self(Duration::from_millis(ms))
    }
}

impl std::ops::Add<Duration> for BootTime {
    type Output = Self;

    fn add(self, d: Duration) -> Self {
        Self(self.0.saturating_add(d))
    }
}

/// Where the time is read: one per house or tracker, handed in, so that tests can move it.
#[derive(Clone, Copy, Debug, Default)]
#[non_exhaustive]
pub enum Clock {
    /// The kernel's `CLOCK_BOOTTIME`.
    #[default]
    Boot,
    /// For tests, made by [`Clock::tokio`]. It starts an hour after boot, so that they can look back.
    Tokio(tokio::time::Instant),
}

impl Clock {
    #[allow(
        clippy::expect_used,
        reason = "the clock exists since Linux 2.6.39, and a guessed time would be worse than an end"
    )]
    /// What time it is.
    #[must_use]
    pub fn now(self) -> BootTime {
        match self {
            Self::Boot => BootTime(
                clock_gettime(ClockId::CLOCK_BOOTTIME)
                    .expect("CLOCK_BOOTTIME")
                    .into(),
            ),
            Self::Tokio(origin) => {
                BootTime(Duration::from_secs(3600)) + (tokio::time::Instant::now() - origin)
            }
        }
    }

    /// Moves with tokio's time, also when a test has paused it. Not for production: that time stands still while the
    /// machine sleeps.
    #[must_use]
    pub fn tokio() -> Self {
        Self::Tokio(tokio::time::Instant::now())
    }

    /// For tests under `#[tokio::test(start_paused = true)]`.
    #[cfg(test)]
    pub(crate) fn paused() -> Self {
        Self::tokio()
    }

    /// Now, on the clock that the public contract shows to people; it moves with the same tests.
    pub(crate) fn instant(self) -> Instant {
        match self {
            Self::Boot => Instant::now(),
            Self::Tokio(_) => tokio::time::Instant::now().into_std(),
        }
    }

    /// Waits until `when`. Timers stand still in a suspend, so this may return late after one, never early:
    /// whoever acts on a lease asks the clock again.
    pub(crate) async fn sleep_until(self, when: BootTime) {
        loop {
            let left = when.saturating_sub(self.now());
            if left.is_zero() {
                return;
            }
            tokio::time::sleep(left).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn boottime_is_never_behind_the_monotonic_clock() {
        let monotonic: Duration = clock_gettime(ClockId::CLOCK_MONOTONIC).unwrap().into();
        assert!(Clock::Boot.now() >= BootTime(monotonic));
    }

    #[tokio::test(start_paused = true)]
    async fn the_clock_of_tests_moves_with_paused_time() {
        let clock = Clock::paused();
        let start = clock.now();

        clock.sleep_until(start + Duration::from_secs(7)).await;

        assert_eq!(clock.now().saturating_sub(start), Duration::from_secs(7));
    }
}
