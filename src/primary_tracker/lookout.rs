//! What is inside of a public provider: the house's own poller and decider, on a thread of their own.

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tokio::runtime::Builder;
use tokio::sync::{broadcast, mpsc, watch};
use tokio_util::sync::{CancellationToken, DropGuard};
use uuid::Uuid;

use super::{
    Demand, Ears, NodePicture, Operator, Orders, Picture, Progress, ProviderError, Tracker,
    WhyNobody,
};
use crate::clock::{BootTime, Clock};
use crate::metrics::Metrics;
use crate::topology::{SightedLeader, Sighting, TopologyEvent, TopologyNodeInfo};

/// Events that a subscriber may leave unread before it lags.
const EVENTS: usize = 64;
/// Nodes that go up or down wake nobody: they are looked for so often.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// A running look-out. It ends with this value, or by itself when its thread dies: then its events end.
pub(super) struct Lookout {
    clock: Clock,
    picture: watch::Receiver<Picture>,
    /// Weak, so that subscribers hear the end when the thread that holds the sender is gone.
    events: broadcast::WeakSender<TopologyEvent>,
    ids: Ids,
    /// A proof whose question was sent longer ago is no news any more: the next one should have been answered by now.
    news: Duration,
    _stop: Option<DropGuard>,
}

/// A look-out that begins with its first use: until then the provider's settings may change.
#[derive(Debug, Default)]
pub(super) struct AtFirstUse(OnceLock<Lookout>);

/// Ids that the user has given to nodes, by our names for them; any other has the id of its name.
pub(super) type Ids = Arc<HashMap<Arc<str>, Uuid>>;

impl AtFirstUse {
    /// Begins, unless it has already.
    pub(super) fn start(
        &self,
        begin: impl FnOnce() -> Result<Lookout, ProviderError>,
    ) -> Result<(), ProviderError> {
        if self.0.get().is_none() {
            // Of two that start it at the same moment, the later one's thread ends at once.
            let _ = self.0.set(begin()?);
        }
        Ok(())
    }

    /// One that cannot begin is dead, and the log says why.
    pub(super) fn get(&self, begin: impl FnOnce() -> Result<Lookout, ProviderError>) -> &Lookout {
        self.0.get_or_init(|| match begin() {
            Ok(lookout) => lookout,
            Err(error) => {
                error.log();
                Lookout::dead()
            }
        })
    }
}

impl Lookout {
    /// Starts to ask. `orders` are made on the new thread.
    pub(super) fn start(
        orders: impl FnOnce() -> Orders + Send + 'static,
        ids: HashMap<Arc<str>, Uuid>,
        news: Duration,
    ) -> io::Result<Self> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let (clock, ids) = (Clock::Boot, Arc::new(ids));
        let (publish, picture) = watch::channel(Picture::blank());
        let (events, _) = broadcast::channel(EVENTS);
        let stop = CancellationToken::new();
        let lookout = Self {
            clock,
            picture: picture.clone(),
            events: events.downgrade(),
            ids: Arc::clone(&ids),
            news,
            _stop: Some(stop.clone().drop_guard()),
        };
        let life = async move {
            let demand = Demand::new(clock);
            let metrics = Arc::new(Metrics::new());
            let progress = Progress::default();
            // Nobody gives orders: all ends stay here.
            let (_reload, reloads) = mpsc::channel(1);
            let (_operator, operator) = Operator::new();
            let (_succession, succession) = mpsc::channel(1);
            let ears = Ears {
                orders: reloads,
                operator,
                succession,
            };
            let tracker = Tracker::new(clock, orders(), demand, metrics, publish, progress);
            tokio::select! {
                () = tracker.run(ears, stop) => {}
                () = herald(picture, &ids, events) => {}
            }
        };
        std::thread::Builder::new()
            .name("helios-topology".to_owned())
            .spawn(move || {
                runtime.block_on(life);
                // A lookup of a name may hang.
                runtime.shutdown_background();
            })?;
        Ok(lookout)
    }

    /// One that could not start: its events have ended, and it has seen nothing.
    pub(super) fn dead() -> Self {
        Self {
            clock: Clock::Boot,
            picture: watch::channel(Picture::blank()).1,
            events: broadcast::channel(1).0.downgrade(),
            ids: Ids::default(),
            news: Duration::ZERO,
            _stop: None,
        }
    }

    pub(super) fn subscribe(&self) -> broadcast::Receiver<TopologyEvent> {
        match self.events.upgrade() {
            Some(events) => events.subscribe(),
            // It hears at once that nobody sends any more.
            None => broadcast::channel(1).1,
        }
    }

    /// Who leads, as long as that is news: this answer extends a lease.
    pub(super) fn get_primary(&self) -> Option<TopologyNodeInfo> {
        let picture = self.picture.borrow();
        let now = self.clock.now();
        let lease = picture.valid_lease(now)?;
        let node = picture.nodes.iter().find(|node| node.leader)?;
        let alive = self.picture.has_changed().is_ok();
        let is_news = now.saturating_sub(lease.proved) <= self.news;
        (alive && is_news).then(|| TopologyNodeInfo {
            client_addr: lease.leader.addr.to_string(),
            ..info(node, &self.ids)
        })
    }

    pub(super) fn get_node(&self, id: Uuid) -> Option<TopologyNodeInfo> {
        let picture = self.picture.borrow();
        let mut nodes = picture.nodes.iter();
        let node = nodes.find(|node| id_of(node, &self.ids) == id)?;
        let leads = picture.lease.as_ref().filter(|_| node.leader);
        let info = info(node, &self.ids);
        Some(TopologyNodeInfo {
            client_addr: leads.map_or(info.client_addr, |lease| lease.leader.addr.to_string()),
            ..info
        })
    }

    pub(super) fn sighting(&self) -> Option<Sighting> {
        sighting(&self.picture.borrow(), &self.ids, self.clock.now())
    }

    /// Ends when each node has been asked once and has answered or was given up.
    pub(super) async fn first_round(&self) {
        let mut picture = self.picture.clone();
        let _ = picture.wait_for(|picture| picture.first_round_done).await;
    }
}

impl std::fmt::Debug for Lookout {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Lookout").finish_non_exhaustive()
    }
}

/// Turns what is seen into events, until nobody looks any more.
async fn herald(
    mut picture: watch::Receiver<Picture>,
    ids: &Ids,
    events: broadcast::Sender<TopologyEvent>,
) {
    let mut told = Seen::default();
    loop {
        let seen = Seen::of(&picture.borrow_and_update(), ids);
        for event in seen.news_since(&told) {
            // Nobody need listen.
            let _ = events.send(event);
        }
        told = seen;
        let changed = tokio::time::timeout(LOOK_EVERY, picture.changed()).await;
        if let Ok(Err(_nobody_looks)) = changed {
            return;
        }
    }
}

/// What events are about.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Seen {
    /// Who leads, and in which epoch.
    leader: Option<(Uuid, u64)>,
    health: BTreeMap<Uuid, bool>,
}

impl Seen {
    fn of(picture: &Picture, ids: &Ids) -> Self {
        let leader = picture.nodes.iter().find(|node| node.leader);
        let leader = leader.map(|node| id_of(node, ids));
        Self {
            leader: leader.zip(picture.lease.as_ref().map(|lease| lease.epoch)),
            health: picture
                .nodes
                .iter()
                .map(|node| (id_of(node, ids), node.up))
                .collect(),
        }
    }

    /// What nodes are well comes before who leads, so that a new leader is known by then.
    fn news_since(&self, before: &Self) -> Vec<TopologyEvent> {
        let mut news = Vec::new();
        for (&node_id, &is_healthy) in &self.health {
            // Nodes start down.
            if before.health.get(&node_id).unwrap_or(&false) != &is_healthy {
                news.push(TopologyEvent::HealthChanged {
                    node_id,
                    is_healthy,
                });
            }
        }
        if self.leader != before.leader {
            let id = |leader: Option<(Uuid, u64)>| leader.map(|(id, _)| id);
            news.push(TopologyEvent::PrimaryChanged {
                old_primary: id(before.leader),
                new_primary: id(self.leader).unwrap_or_default(),
            });
        }
        let gone = before
            .health
            .keys()
            .filter(|id| !self.health.contains_key(id));
        news.extend(gone.map(|&node_id| TopologyEvent::NodeLeft { node_id }));
        news
    }
}

/// `None` before the first round has ended.
fn sighting(picture: &Picture, ids: &Ids, now: BootTime) -> Option<Sighting> {
    if !picture.first_round_done && picture.lease.is_none() {
        return None;
    }
    Some(Sighting {
        leader: pending(picture, ids, now).or_else(|| leader(picture, ids)),
        conflict: picture.why == Some(WhyNobody::Conflict),
    })
}

/// Whom the cluster names, and who has not spoken itself yet.
fn pending(picture: &Picture, ids: &Ids, now: BootTime) -> Option<SightedLeader> {
    let named = picture.pending.as_ref()?;
    let mut nodes = picture.nodes.iter();
    let node = nodes.find(|node| node.node_id == named.node_id)?;
    Some(SightedLeader {
        node: info(node, ids),
        timeline: named.timeline,
        asked: now,
        ends: None,
        confirmed: false,
    })
}

fn leader(picture: &Picture, ids: &Ids) -> Option<SightedLeader> {
    let node = picture.nodes.iter().find(|node| node.leader);
    node.zip(picture.lease.as_ref()).map(|(node, lease)| {
        let silent = matches!(picture.why, None | Some(WhyNobody::LeaseEnded));
        SightedLeader {
            node: TopologyNodeInfo {
                client_addr: lease.leader.addr.to_string(),
                ..info(node, ids)
            },
            timeline: lease.leader.timeline,
            asked: lease.proved,
            // How long silence is borne is the tracker's to say; what the leader itself has said is not.
            ends: if silent {
                bound(lease.until, lease.proved)
            } else {
                Some(lease.proved)
            },
            confirmed: true,
        }
    })
}

/// Our own lease, where the age of the lock has cut it.
fn bound(until: Option<BootTime>, proved: BootTime) -> Option<BootTime> {
    let whole = proved + super::TrackerSettings::default().lease_timeout;
    until.filter(|until| *until < whole)
}

fn info(node: &NodePicture, ids: &Ids) -> TopologyNodeInfo {
    TopologyNodeInfo {
        node_id: id_of(node, ids),
        client_addr: node.address.to_string(),
        is_healthy: node.up,
    }
}

fn id_of(node: &NodePicture, ids: &Ids) -> Uuid {
    ids.get(&node.name).copied().unwrap_or(node.node_id)
}

#[cfg(test)]
mod tests {
    use super::*;
    use TopologyEvent::{HealthChanged, NodeLeft, PrimaryChanged};

    fn seen(leader: Option<(u128, u64)>, health: &[(u128, bool)]) -> Seen {
        Seen {
            leader: leader.map(|(id, epoch)| (Uuid::from_u128(id), epoch)),
            health: health
                .iter()
                .map(|(id, up)| (Uuid::from_u128(*id), *up))
                .collect(),
        }
    }

    const A: Uuid = Uuid::from_u128(1);
    const B: Uuid = Uuid::from_u128(2);

    #[test]
    fn a_new_leader_is_told_once_and_after_its_health() {
        let (before, now) = (
            Seen::default(),
            seen(Some((1, 1)), &[(1, true), (2, false)]),
        );
        let primary = PrimaryChanged {
            old_primary: None,
            new_primary: A,
        };
        let health = HealthChanged {
            node_id: A,
            is_healthy: true,
        };

        assert_eq!(now.news_since(&before), [health, primary]);
        assert_eq!(now.news_since(&now), []);
    }

    #[test]
    fn a_leader_that_nobody_follows_is_told_with_an_id_of_nobody() {
        let (before, now) = (seen(Some((1, 1)), &[]), seen(None, &[]));
        let event = PrimaryChanged {
            old_primary: Some(A),
            new_primary: Uuid::nil(),
        };

        assert_eq!(now.news_since(&before), [event]);
    }

    #[test]
    fn the_same_node_in_another_epoch_is_a_change() {
        let (before, now) = (seen(Some((1, 1)), &[]), seen(Some((1, 2)), &[]));
        let event = PrimaryChanged {
            old_primary: Some(A),
            new_primary: A,
        };

        assert_eq!(now.news_since(&before), [event]);
    }

    #[test]
    fn a_node_that_is_no_longer_there_has_left() {
        let (before, now) = (
            seen(None, &[(1, true), (2, true)]),
            seen(None, &[(1, true)]),
        );

        assert_eq!(now.news_since(&before), [NodeLeft { node_id: B }]);
    }
}
