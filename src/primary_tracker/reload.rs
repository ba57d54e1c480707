//! What the tracker is told at the start, and how a reload is obeyed.

use std::collections::HashMap;
use std::sync::Arc;

use tokio::sync::oneshot;

use super::{Tracker, TrackerSettings};
use crate::topology::{HealthSettings, NodeSettings, Rest, Sources};

/// Everything the tracker is told: at the start, and again at a reload.
#[derive(Clone, Debug)]
pub(crate) struct Orders {
    pub(crate) nodes: Vec<NodeSettings>,
    pub(crate) health: HealthSettings,
    /// How the nodes are asked.
    pub(crate) source: Arc<Sources>,
    /// How every node's REST API is reached.
    pub(crate) rest: Arc<Rest>,
    pub(crate) tracker: TrackerSettings,
}

/// Orders at a reload, and whom to tell once the picture shows them.
pub(crate) type Reordered = (Orders, oneshot::Sender<()>);

impl Tracker {
    /// Nodes are matched by name; a changed address is a removal and an addition.
    pub(super) fn obey(&mut self, orders: Orders) {
        let health = orders.health;
        self.decider.reconfigure(orders.tracker.clone(), &health);
        self.poller.reconfigure(
            health,
            Arc::clone(&orders.source),
            orders.rest,
            orders.tracker.lease_timeout,
        );
        self.set_views(&orders.source);
        let mut wanted: HashMap<_, _> = orders
            .nodes
            .iter()
            .map(|n| (Arc::clone(&n.name), n.clone()))
            .collect();
        let mut gone = Vec::new();
        for record in &mut self.decider.records {
            if self.discover && record.is_discovered_beside(&orders.nodes) {
                continue;
            }
            match wanted.get(&record.settings.name) {
                Some(node) if node.is_same_machine(&record.settings) => {
                    self.poller.change(record.id, node.clone());
                    record.take_settings(node.clone());
                    record.discovered = None;
                    wanted.remove(&node.name.clone());
                }
                _ => gone.push(record.id),
            }
        }
        for id in gone {
            self.remove(id);
        }
        for node in orders.nodes {
            if wanted.contains_key(&node.name) {
                self.add(node);
            }
        }
        self.decider.decide(self.clock.now());
    }
}
