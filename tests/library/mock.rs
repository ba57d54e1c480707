//! A provider that says what the test tells it to, and a tracker that runs on it under paused time.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use heliosdb_proxy::clock::Clock;
use heliosdb_proxy::primary_tracker::{
    ObservingProvider, PrimaryChangeEvent, PrimaryTracker, SightedLeader, Sighting, TopologyEvent,
    TopologyNodeInfo, TopologyProvider,
};
use tokio::sync::broadcast;
use uuid::Uuid;

pub const LEASE: Duration = Duration::from_secs(10);

pub fn id(n: u8) -> Uuid {
    Uuid::from_u128(n.into())
}

pub fn node(n: u8) -> TopologyNodeInfo {
    TopologyNodeInfo {
        node_id: id(n),
        client_addr: format!("10.0.0.{n}:5432"),
        is_healthy: true,
    }
}

pub fn changed(old: Option<u8>, new: u8) -> PrimaryChangeEvent {
    PrimaryChangeEvent::Changed {
        old: old.map(id),
        new: id(new),
        address: node(new).client_addr,
    }
}

pub fn lost(old: u8) -> PrimaryChangeEvent {
    PrimaryChangeEvent::Lost { old: id(old) }
}

/// Knows nodes 1 to 9, and no other.
pub struct Mock {
    /// `None` once the provider has died.
    events: Mutex<Option<broadcast::Sender<TopologyEvent>>>,
    primary: Mutex<Option<TopologyNodeInfo>>,
    sighting: Mutex<Option<Sighting>>,
}

impl Mock {
    pub fn new() -> Arc<Self> {
        Arc::new(Self {
            events: Mutex::new(Some(broadcast::channel(4).0)),
            primary: Mutex::default(),
            sighting: Mutex::default(),
        })
    }

    /// What `get_primary` answers from here on.
    pub fn answers(&self, n: Option<u8>) {
        *self.primary.lock().unwrap() = n.map(node);
    }

    pub fn sends(&self, event: TopologyEvent) {
        let events = self.events.lock().unwrap();
        let _ = events.as_ref().unwrap().send(event);
    }

    pub fn moves_to(&self, n: u8) {
        self.sends(TopologyEvent::PrimaryChanged {
            old_primary: None,
            new_primary: id(n),
        });
    }

    pub fn sees(&self, sighting: Option<Sighting>) {
        *self.sighting.lock().unwrap() = sighting;
    }

    /// The task that would send events is gone.
    pub fn dies(&self) {
        self.events.lock().unwrap().take();
    }
}

impl TopologyProvider for Mock {
    fn subscribe(&self) -> broadcast::Receiver<TopologyEvent> {
        match &*self.events.lock().unwrap() {
            Some(events) => events.subscribe(),
            None => broadcast::channel(1).1,
        }
    }

    fn get_primary(&self) -> Option<TopologyNodeInfo> {
        self.primary.lock().unwrap().clone()
    }

    fn get_node(&self, wanted: Uuid) -> Option<TopologyNodeInfo> {
        (1..=9).map(node).find(|node| node.node_id == wanted)
    }
}

impl ObservingProvider for Mock {
    fn sighting(&self) -> Option<Sighting> {
        self.sighting.lock().unwrap().clone()
    }
}

/// A running tracker, its provider, and what it has told.
pub struct Watched {
    pub mock: Arc<Mock>,
    pub tracker: Arc<PrimaryTracker>,
    pub clock: Clock,
    changes: broadcast::Receiver<PrimaryChangeEvent>,
    pub running: tokio::task::JoinHandle<()>,
}

impl Watched {
    pub async fn plain(mock: Arc<Mock>) -> Self {
        let tracker = PrimaryTracker::with_provider(Arc::clone(&mock) as Arc<dyn TopologyProvider>);
        Self::run(mock, tracker).await
    }

    pub async fn observing(mock: Arc<Mock>) -> Self {
        let provider = Arc::clone(&mock) as Arc<dyn ObservingProvider>;
        Self::run(mock, PrimaryTracker::with_observing_provider(provider)).await
    }

    async fn run(mock: Arc<Mock>, tracker: PrimaryTracker) -> Self {
        let clock = Clock::tokio();
        let tracker = Arc::new(tracker.with_clock(clock).with_lease_timeout(LEASE));
        let changes = tracker.subscribe();
        let running = tokio::spawn({
            let tracker = Arc::clone(&tracker);
            async move { tracker.run().await }
        });
        let watched = Self {
            mock,
            tracker,
            clock,
            changes,
            running,
        };
        watched.settle().await;
        watched
    }

    /// Everything that was sent is taken in.
    pub async fn settle(&self) {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }

    pub async fn pass(&self, wait: Duration) {
        tokio::time::sleep(wait).await;
    }

    /// What the tracker has told since the last call.
    pub fn told(&mut self) -> Vec<PrimaryChangeEvent> {
        std::iter::from_fn(|| self.changes.try_recv().ok()).collect()
    }

    /// The node that leads, and its epoch.
    pub fn leads(&self) -> Option<(Uuid, u64)> {
        let info = self.tracker.get_primary()?;
        Some((info.node_id, info.epoch))
    }

    /// A look that asked just now.
    pub fn sighted(&self, n: u8) -> Sighting {
        Sighting {
            leader: Some(SightedLeader {
                node: node(n),
                timeline: Some(5),
                asked: self.clock.now(),
                ends: None,
                confirmed: true,
            }),
            conflict: false,
        }
    }
}
