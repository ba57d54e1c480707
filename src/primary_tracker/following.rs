//! The public tracker's long run: a provider's events and answers, taken in one at a time.

use std::time::Duration;

use tokio::sync::broadcast::error::RecvError;

use super::authority::Named;
use super::tracker::Source;
use super::{PrimaryTracker, TrackerStatus};
use crate::clock::BootTime;
use crate::topology::{Sighting, TopologyEvent, TopologyNodeInfo};

/// The provider is looked at so often, whether or not it has sent an event; sooner with a short lease.
const LOOK_EVERY: Duration = Duration::from_secs(1);

impl PrimaryTracker {
    /// Listens to the provider until it ends: after that nothing extends the lease, and this returns when the lease has
    /// ended too. Returns at once without a provider, and while another call of it runs. May be dropped at any time and
    /// called again.
    pub async fn run(&self) {
        let Some(running) = self.enter() else {
            return;
        };
        let mut news = match &self.source {
            Source::Standalone => return,
            Source::Plain(provider) => provider.subscribe(),
            Source::Observing(provider) => provider.subscribe(),
        };
        self.look();
        loop {
            let wake = self.next_look();
            tokio::select! {
                heard = news.recv() => match heard {
                    Ok(event) => self.take_in(&event),
                    Err(RecvError::Lagged(_)) => self.look(),
                    Err(RecvError::Closed) => break,
                },
                () = self.clock.sleep_until(wake) => self.look(),
            }
        }
        tracing::error!(
            "the topology provider has ended; nothing extends its leader's lease any more"
        );
        running.end_as(TrackerStatus::ProviderGone);
        while let Some(ends) = self.read(|authority, now| authority.ends(now)) {
            self.clock.sleep_until(ends).await;
        }
    }

    /// `None` when there is nothing to run, or it runs.
    fn enter(&self) -> Option<Running<'_>> {
        let mut state = self.lock();
        match state.status {
            TrackerStatus::Standalone | TrackerStatus::Running | TrackerStatus::Starting => None,
            TrackerStatus::NotStarted | TrackerStatus::ProviderGone | TrackerStatus::Stopped => {
                state.status = TrackerStatus::Starting;
                Some(Running {
                    tracker: self,
                    ends_as: TrackerStatus::Stopped,
                })
            }
        }
    }

    /// The periodic look, and what a lagging subscription falls back on.
    fn look(&self) {
        match &self.source {
            Source::Standalone => {}
            Source::Plain(provider) => {
                let primary = provider.get_primary();
                self.read_answer(primary);
            }
            Source::Observing(provider) => {
                let sighting = provider.sighting();
                self.read_sighting(sighting);
            }
        }
    }

    /// Without a time stamp the lease counts from now. No answer ends nothing: the lease does.
    fn read_answer(&self, primary: Option<TopologyNodeInfo>) {
        self.decide(|state, now| {
            state.status = TrackerStatus::Running;
            let has_left = |node: &TopologyNodeInfo| state.left == Some(node.node_id);
            match primary {
                Some(node) if !has_left(&node) => {
                    state.left = None;
                    state.authority.hear(named(node), now.at, None, now)
                }
                Some(_gone) => state.authority.settle(now),
                None => {
                    state.left = None;
                    state.authority.settle(now)
                }
            }
        });
    }

    fn read_sighting(&self, sighting: Option<Sighting>) {
        self.decide(|state, now| {
            let Some(sighting) = sighting else {
                return state.authority.settle(now);
            };
            state.status = TrackerStatus::Running;
            match sighting.leader.filter(|_| !sighting.conflict) {
                None => state.authority.clear(now),
                Some(leader) => {
                    let named = Named {
                        timeline: leader.timeline,
                        confirmed: leader.confirmed,
                        ..named(leader.node)
                    };
                    state.authority.hear(named, leader.asked, leader.ends, now)
                }
            }
        });
    }

    fn take_in(&self, event: &TopologyEvent) {
        let Source::Plain(provider) = &self.source else {
            // Whatever has changed, the sighting shows it.
            return self.look();
        };
        match *event {
            TopologyEvent::PrimaryChanged { new_primary, .. } => {
                let node = provider.get_node(new_primary);
                self.decide(|state, now| {
                    state.status = TrackerStatus::Running;
                    state.left = None;
                    match node {
                        Some(node) => state.authority.hear(named(node), now.at, None, now),
                        // Somebody else leads, at no known address: never an invented one.
                        None => state.authority.clear(now),
                    }
                });
            }
            TopologyEvent::NodeLeft { node_id } => self.decide(|state, now| {
                state.left = Some(node_id);
                if state.authority.is_held_by(node_id) {
                    state.authority.clear(now)
                } else {
                    state.authority.settle(now)
                }
            }),
            TopologyEvent::HealthChanged { .. } => {}
        }
    }

    fn next_look(&self) -> BootTime {
        let state = self.lock();
        let now = self.clock.now();
        let soon = now + LOOK_EVERY.min(state.authority.lease_timeout / 3);
        state
            .authority
            .ends(now)
            .map_or(soon, |ends| ends.min(soon))
    }
}

/// Says that nobody runs the tracker any more, however the run ends.
struct Running<'a> {
    tracker: &'a PrimaryTracker,
    ends_as: TrackerStatus,
}

impl Running<'_> {
    fn end_as(mut self, status: TrackerStatus) {
        self.ends_as = status;
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.tracker.lock().status = self.ends_as;
    }
}

/// What a provider names is confirmed by its naming it.
fn named(node: TopologyNodeInfo) -> Named {
    Named {
        node_id: node.node_id,
        address: node.client_addr,
        timeline: None,
        confirmed: true,
    }
}
