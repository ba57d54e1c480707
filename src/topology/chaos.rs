//! Faults on demand: a decorator in front of the nodes' observations that takes an answer for silence.

use std::collections::HashSet;

use super::news::{NodeId, Observation, Silence};

/// The nodes that are played silent. Everything about a node comes through here before it is believed.
#[derive(Debug, Default)]
pub(crate) struct Chaos {
    silenced: HashSet<NodeId>,
}

impl Chaos {
    pub(crate) fn silence(&mut self, node: NodeId) {
        self.silenced.insert(node);
    }

    pub(crate) fn restore(&mut self, node: NodeId) {
        self.silenced.remove(&node);
    }

    pub(crate) fn reset(&mut self) {
        self.silenced.clear();
    }

    pub(crate) fn is_silenced(&self, node: NodeId) -> bool {
        self.silenced.contains(&node)
    }

    /// What of an observation is let through.
    pub(crate) fn pass(&self, mut seen: Observation) -> Observation {
        if self.is_silenced(seen.node) {
            seen.heard = Err(Silence::Forced);
        }
        seen
    }
}
