//! Nodes that nobody has configured: taken in when a view lists them, used once they prove where they belong.

use std::sync::Arc;

use super::decider::Decider;
use super::record::Record;
use crate::clock::BootTime;
use crate::topology::{Answer, NodeId};

/// A view that does not list a node for so many leases in a row has forgotten it for good.
const GONE_AFTER: u32 = 3;

/// What makes a record one of a discovered node.
#[derive(Clone, Copy, Debug)]
pub(super) struct Discovered {
    /// When a view last listed it.
    listed: BootTime,
    /// It has shown the same scope and system identifier itself. Before, it is asked, and nothing that it says counts.
    pub(super) admitted: bool,
    said: bool,
}

impl Discovered {
    pub(super) fn new(now: BootTime) -> Self {
        Self {
            listed: now,
            admitted: false,
            said: false,
        }
    }
}

impl Decider {
    /// Does this answer count? A discovered node's own word has to show the cluster that is known: a view may list
    /// whatever somebody has written into the DCS.
    pub(super) fn admits(&mut self, at: usize, said: &Answer) -> bool {
        if self.records[at].is_used() {
            return true;
        }
        let (scope, identifier) = (self.known_scope(), self.known_identifier());
        let record = &mut self.records[at];
        let Some(discovered) = &mut record.discovered else {
            return true;
        };
        let (Some(scope), Some(identifier)) = (scope, identifier) else {
            return false;
        };
        discovered.admitted = said.scope.as_ref() == Some(&scope)
            && said.system_identifier.as_ref() == Some(&identifier);
        let node = &*record.settings.name;
        if discovered.admitted {
            tracing::info!(node, address = %record.settings.address(), "the discovered node is used");
        } else if !std::mem::replace(&mut discovered.said, true) {
            tracing::warn!(
                node,
                address = %record.settings.address(),
                "the discovered node does not show the same scope and system identifier itself and is not used"
            );
        }
        discovered.admitted
    }

    /// A view that counts lists these.
    pub(super) fn note_listed(&mut self, nodes: &[Option<NodeId>], now: BootTime) {
        for record in &mut self.records {
            if let Some(discovered) = &mut record.discovered
                && nodes.contains(&Some(record.id))
            {
                discovered.listed = now;
            }
        }
    }

    /// Discovered nodes that have left the cluster for good, or that a configured node turns out to be. The one that
    /// leads is never forgotten.
    pub(super) fn left_for_good(&self, now: BootTime) -> Vec<NodeId> {
        let patience = self.settings.lease_timeout * GONE_AFTER;
        let is_gone = |record: &&Record| {
            record.discovered.is_some_and(|discovered| {
                let unlisted = now.saturating_sub(discovered.listed) >= patience;
                unlisted || self.is_double(record)
            })
        };
        let gone = self.records.iter().filter(is_gone);
        gone.filter(|record| !self.reigns(record.id))
            .map(|record| record.id)
            .collect()
    }

    /// One machine is one node: discovered, because the name of a configured one was not known to be its address yet.
    pub(super) fn is_double(&self, record: &Record) -> bool {
        let mut others = self.records.iter().filter(|r| r.discovered.is_none());
        record.discovered.is_some()
            && record.dial.is_some()
            && others.any(|other| other.dial == record.dial)
    }

    pub(super) fn reigns(&self, id: NodeId) -> bool {
        self.reign.as_ref().is_some_and(|reign| reign.id == id)
    }

    fn known_scope(&self) -> Option<Arc<str>> {
        let shown = || self.shown_by_a_node(|answer| answer.scope.clone());
        self.pins.scope.clone().or_else(shown)
    }

    fn known_identifier(&self) -> Option<Arc<str>> {
        let shown = || self.shown_by_a_node(|answer| answer.system_identifier.clone());
        self.pins.identifier().map(Arc::from).or_else(shown)
    }

    /// As the answers name it: of configured nodes, and of those that were compared with them.
    fn shown_by_a_node(&self, read: fn(&Answer) -> Option<Arc<str>>) -> Option<Arc<str>> {
        let mut latest = self.records.iter().filter_map(|r| r.latest.as_ref());
        latest.find_map(|latest| read(&latest.answer))
    }
}
