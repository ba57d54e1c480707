//! The public providers on a real cluster: a tracker follows a switchover and a kill, and tells each once.

use std::{sync::Arc, time::Duration};

use heliosdb_proxy::primary_tracker::{
    NODE_NAMESPACE, ObservingProvider, PatroniNode, PatroniTopologyProvider, PostgresNode,
    PostgresTopologyProvider, PrimaryChangeEvent, PrimaryTracker, TrackerStatus,
};
use tokio::{runtime::Runtime, sync::broadcast, time::timeout};
use uuid::Uuid;

use super::stage::SOON;
use crate::lab::{self, Lab, NODES, Node};

/// A tracker that runs on a provider of ours, and what it has told.
struct Watcher {
    what: &'static str,
    tracker: Arc<PrimaryTracker>,
    changes: broadcast::Receiver<PrimaryChangeEvent>,
}

fn id(node: Node) -> Uuid {
    Uuid::new_v5(&NODE_NAMESPACE, node.to_string().as_bytes())
}

/// The user has a password, which must arrive.
fn postgres(lab: &Lab) -> PostgresTopologyProvider {
    let node = |node| PostgresNode {
        node_id: id(node),
        host: lab.ip(node).to_string(),
        port: 5432,
        user: "app_scram".to_owned(),
        password: Some("app".to_owned()),
        database: "postgres".to_owned(),
    };
    PostgresTopologyProvider::new(NODES.map(node).into())
        .with_poll_interval(Duration::from_millis(500))
}

fn patroni(lab: &Lab) -> PatroniTopologyProvider {
    let node = |node: Node| PatroniNode {
        name: node.to_string(),
        host: lab.ip(node).to_string(),
        port: 5432,
        rest_port: 8008,
    };
    PatroniTopologyProvider::new(NODES.map(node).into())
        .with_poll_interval(Duration::from_millis(500))
}

impl Watcher {
    fn start(what: &'static str, runtime: &Runtime, tracker: PrimaryTracker) -> Self {
        let tracker = Arc::new(tracker);
        assert_eq!(tracker.status(), TrackerStatus::NotStarted);
        let changes = tracker.subscribe();
        let running = Arc::clone(&tracker);
        runtime.spawn(async move { running.run().await });
        Self {
            what,
            tracker,
            changes,
        }
    }

    /// What is told until `leader` leads, by its own word.
    async fn until(&mut self, lab: &Lab, leader: Node) -> Vec<PrimaryChangeEvent> {
        let mut told = Vec::new();
        loop {
            let event = timeout(SOON, self.changes.recv()).await;
            let event = event.unwrap_or_else(|_| panic!("{}: only {told:?}", self.what));
            told.push(event.unwrap());
            let info = self.tracker.get_primary();
            if let Some(info) = info.filter(|info| info.node_id == id(leader) && info.is_confirmed)
            {
                assert_eq!(info.address, lab.postgres_at(leader).to_string());
                told.extend(std::iter::from_fn(|| self.changes.try_recv().ok()));
                return told;
            }
        }
    }

    /// Each event is a transition from where the one before has left us.
    fn assert_chained(&self, mut leads: Option<Uuid>, told: &[PrimaryChangeEvent]) {
        for event in told {
            leads = match event {
                PrimaryChangeEvent::Changed { old, new, .. } => {
                    assert_eq!(*old, leads, "{}: {told:?}", self.what);
                    Some(*new)
                }
                PrimaryChangeEvent::Lost { old } => {
                    assert_eq!(Some(*old), leads, "{}: {told:?}", self.what);
                    None
                }
                PrimaryChangeEvent::Confirmed { node_id } => {
                    assert_eq!(Some(*node_id), leads, "{}: {told:?}", self.what);
                    leads
                }
            };
        }
    }
}

#[test]
fn trackers_on_our_providers_follow_a_switchover_and_a_kill() {
    if lab::require("trackers").is_none() {
        return;
    }
    let lab = Lab::builder().fast().up().unwrap();
    let first = lab.wait_healthy().unwrap();
    let runtime = Runtime::new().unwrap();
    let observing =
        |provider: Arc<dyn ObservingProvider>| PrimaryTracker::with_observing_provider(provider);
    let plain = PrimaryTracker::with_provider(Arc::new(postgres(&lab)));
    let mut watchers = [
        Watcher::start("postgres", &runtime, observing(Arc::new(postgres(&lab)))),
        Watcher::start("patroni", &runtime, observing(Arc::new(patroni(&lab)))),
        Watcher::start("postgres by three methods", &runtime, plain),
    ];
    for watcher in &mut watchers {
        let told = runtime.block_on(watcher.until(&lab, first));
        watcher.assert_chained(None, &told);
        eprintln!("{}, at first: {told:?}", watcher.what);
        assert!(watcher.tracker.authority_valid(), "{}", watcher.what);
        let info = watcher.tracker.get_primary().unwrap();
        assert!(info.is_confirmed && info.epoch == 1, "{info:?}");
    }

    let second = lab.replicas()[0];
    lab.switchover(second).unwrap();
    for watcher in &mut watchers {
        let told = runtime.block_on(watcher.until(&lab, second));
        eprintln!("{}, switchover: {told:?}", watcher.what);
        watcher.assert_chained(Some(id(first)), &told);
        assert_eq!(watcher.tracker.get_epoch(), 2, "{}", watcher.what);
    }

    lab.wait_healthy().unwrap();
    lab.kill(second);
    lab.dcs_expire().unwrap();
    let other = || lab.leader().filter(|node| *node != second);
    let third = lab::poll(SOON, Duration::from_millis(50), other).unwrap();
    for watcher in &mut watchers {
        let told = runtime.block_on(watcher.until(&lab, third));
        eprintln!("{}, kill: {told:?}", watcher.what);
        watcher.assert_chained(Some(id(second)), &told);
        assert_eq!(watcher.tracker.get_epoch(), 3, "{}", watcher.what);
    }
}
