//! What one change of leader cost the crowd.

use std::{
    net::IpAddr,
    time::{Duration, Instant},
};

use super::client::{Attempt, Outcome};

/// The gap between the last row written before and the first one after.
#[derive(Clone, Copy, Debug)]
pub struct Cost {
    /// From the last row before to the first one after.
    pub downtime: Duration,
    /// The part of it that is the proxy's: from the new leader's own word that it is writable to the first row.
    pub added: Duration,
}

impl Cost {
    /// `began` is when the fault came, `writable` when the new leader, at `new`, said that it is one. `None` when
    /// nothing was written afterwards.
    pub fn of(
        attempts: &[Attempt],
        began: Instant,
        new: IpAddr,
        writable: Instant,
    ) -> Option<Self> {
        // Where the same node comes back, a row from just before the fault may have been answered just after it;
        // and PostgreSQL may take rows a moment before Patroni says so.
        let early = writable
            .checked_sub(Duration::from_millis(500))
            .map_or(began, |early| early.max(began));
        let written = |wanted: &dyn Fn(&Attempt, Instant) -> bool| -> Vec<Instant> {
            attempts
                .iter()
                .filter(|attempt| attempt.is_written())
                .filter_map(|attempt| attempt.ended.filter(|ended| wanted(attempt, *ended)))
                .collect()
        };
        let by_new =
            |attempt: &Attempt, ended| attempt.outcome == Outcome::Written(new) && ended > early;
        let first = written(&by_new).into_iter().min()?;
        let last = written(&|attempt, ended| ended < first && !by_new(attempt, ended))
            .into_iter()
            .max()
            .unwrap_or(began);
        Some(Self {
            downtime: first.saturating_duration_since(last),
            added: first.saturating_duration_since(writable),
        })
    }
}
