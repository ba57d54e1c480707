//! A client's place in the line: its deadline, and whether it has been held.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::Target;
use super::line::{self, Line};
use crate::clock::BootTime;
use crate::metrics::Metrics;
use crate::primary_tracker::{Demand, HeldGuard};

/// One per client, for all of its attempts.
pub(crate) struct Ticket {
    pub(super) line: Arc<Line>,
    pub(super) deadline: Instant,
    /// What `deadline` was made of, for the words at its end.
    pub(super) limit: Duration,
    /// Only while the client waits.
    held: Option<Held>,
    pub(super) was_held: bool,
    /// Only a node proved after this will do: one of this client's own attempts failed then.
    pub(super) after: Option<BootTime>,
    /// Where the last attempt went.
    pub(super) last: Option<Target>,
    /// A reader's failed dials since it last had to wait for news.
    pub(super) tried: u32,
    /// How the last attempt failed.
    pub(super) failure: Option<String>,
}

impl Ticket {
    pub(super) fn new(line: Arc<Line>, limit: Duration) -> Self {
        Self {
            line,
            deadline: Instant::now() + limit,
            limit,
            held: None,
            was_held: false,
            after: None,
            last: None,
            tried: 0,
            failure: None,
        }
    }

    /// Was this client ever held? Then it has been told nothing for a while, and waits on rather than fail.
    pub(crate) fn was_held(&self) -> bool {
        self.was_held
    }

    /// When this client's time is up.
    pub(crate) fn deadline(&self) -> Instant {
        self.deadline
    }

    /// The client has taken so long itself.
    pub(crate) fn extend(&mut self, by: Duration) {
        self.deadline += by;
    }

    /// How an attempt failed that says nothing to anybody else.
    pub(crate) fn note_failure(&mut self, why: String) {
        self.failure = Some(why);
    }

    pub(super) fn hold(&mut self, demand: &Arc<Demand>, metrics: &Arc<Metrics>) {
        self.hold_since(demand, metrics, None);
    }

    /// `since`: for a client that was held elsewhere before, `None` = now.
    pub(super) fn hold_since(
        &mut self,
        demand: &Arc<Demand>,
        metrics: &Arc<Metrics>,
        since: Option<Instant>,
    ) {
        self.was_held = true;
        self.held.get_or_insert_with(|| {
            metrics.held_clients.inc();
            Held {
                _line: self.line.hold(),
                _demand: demand.hold(),
                metrics: Arc::clone(metrics),
                since: Some(since.unwrap_or_else(Instant::now)),
            }
        });
    }

    pub(super) fn held_for(&self) -> Option<Duration> {
        let since = self.held.as_ref().and_then(|held| held.since);
        since.map(|since| since.elapsed())
    }

    /// The client waits on in another process, which will say for how long.
    pub(crate) fn leave(mut self) {
        if let Some(held) = &mut self.held {
            held.since = None;
        }
    }

    pub(super) fn release(&mut self) {
        self.held = None;
    }
}

/// Counts a held client as long as it lives.
struct Held {
    _line: line::Held,
    _demand: HeldGuard,
    metrics: Arc<Metrics>,
    /// `None` when another process goes on with it.
    since: Option<Instant>,
}

impl Drop for Held {
    fn drop(&mut self) {
        self.metrics.held_clients.dec();
        if let Some(since) = self.since {
            let held = since.elapsed().as_secs_f64();
            self.metrics.held_seconds.observe(held);
        }
    }
}
