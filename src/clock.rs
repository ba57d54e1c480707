//! Time that runs through suspend.

use std::time::Duration;

use nix::time::{ClockId, clock_gettime};

/// A point on `CLOCK_BOOTTIME`. `Instant` is `CLOCK_MONOTONIC` on Linux and stands still while a laptop or a VM
/// sleeps; a lease measured with it would survive the sleep.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct BootTime(Duration);

impl BootTime {
    /// The moment of boot: earlier than everything that is ever observed.
    pub(crate) const ZERO: Self = Self(Duration::ZERO);

    pub(crate) fn saturating_sub(self, earlier: Self) -> Duration {
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

/// Where a house reads the time: one per house, handed in, so that tests can move it.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Clock {
    /// The kernel's `CLOCK_BOOTTIME`.
    Boot,
    /// Moves with tokio's paused time. It starts an hour after boot, so that tests can look back.
    #[cfg(test)]
    Paused(tokio::time::Instant),
}

impl Clock {
    #[allow(
        clippy::expect_used,
        reason = "the clock exists since Linux 2.6.39, and a guessed time would be worse than an end"
    )]
    pub(crate) fn now(self) -> BootTime {
        match self {
            Self::Boot => BootTime(
                clock_gettime(ClockId::CLOCK_BOOTTIME)
                    .expect("CLOCK_BOOTTIME")
                    .into(),
            ),
            #[cfg(test)]
            Self::Paused(origin) => {
                BootTime(Duration::from_secs(3600)) + (tokio::time::Instant::now() - origin)
            }
        }
    }

    /// For tests under `#[tokio::test(start_paused = true)]`.
    #[cfg(test)]
    pub(crate) fn paused() -> Self {
        Self::Paused(tokio::time::Instant::now())
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
