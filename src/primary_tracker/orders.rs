//! The tracker follows an operator's orders.

use std::sync::Arc;

use super::record::Record;
use super::run::Tracker;
use super::{Fault, Order, Refused};
use crate::metrics::RevokeReason;
use crate::topology::NodeId;

impl Tracker {
    /// All of the order or nothing of it.
    pub(super) fn follow(&mut self, order: Order) -> Result<(), Refused> {
        let said = format!("{order:?}");
        match order {
            Order::Enable { node } => self.record(&node)?.switch = Some(true),
            Order::Disable { node, close } => self.disable(&node, close)?,
            Order::Unpin => self.unpin(),
            Order::Chaos(fault) => self.play(fault)?,
            Order::SetPrimary { node: Some(node) } => {
                self.propose(&node)?;
                self.confirm()?;
            }
            Order::SetPrimary { node: None } => self.clear()?,
            Order::ProposePrimary { node } => self.propose(&node)?,
            Order::ConfirmPrimary => self.confirm()?,
        }
        tracing::info!(order = said, "an operator's order is done");
        self.decider.decide(self.clock.now());
        Ok(())
    }

    /// With `close`, the leader's epoch is over like any other whose sessions are ended: what the node says next
    /// begins another one, which nobody may use before it is enabled.
    fn disable(&mut self, node: &Arc<str>, close: bool) -> Result<(), Refused> {
        let record = self.record(node)?;
        record.switch = Some(false);
        if !close {
            return Ok(());
        }
        record.end_readers(RevokeReason::disabled);
        let id = record.id;
        let reign = self.decider.reign.as_ref().filter(|reign| reign.id == id);
        if let Some((dial, open)) = reign.map(|reign| (reign.leader.addr, reign.open)) {
            self.decider.end_reign(RevokeReason::disabled);
            let now = self.clock.now();
            self.decider.name_again(id, dial, open, now);
        }
        Ok(())
    }

    fn unpin(&mut self) {
        self.decider.unpin();
        self.poller.doubt(self.clock.now());
    }

    fn play(&mut self, fault: Fault) -> Result<(), Refused> {
        match fault {
            Fault::ForceUnhealthy { node } => {
                let threshold = self.decider.failure_threshold;
                let record = self.record(&node)?;
                record.force_down(threshold);
                let id = record.id;
                self.chaos.silence(id);
            }
            Fault::Restore { node } => {
                let id = self.record(&node)?.id;
                self.chaos.restore(id);
                self.ask_now(id);
            }
            Fault::Reset => {
                self.chaos.reset();
                self.poller.doubt(self.clock.now());
            }
        }
        Ok(())
    }

    fn ask_now(&mut self, node: NodeId) {
        let now = self.clock.now();
        self.poller.want(node, now);
    }

    pub(super) fn record(&mut self, name: &Arc<str>) -> Result<&mut Record, Refused> {
        let mut records = self.decider.records.iter_mut();
        records
            .find(|record| record.settings.name == *name)
            .ok_or_else(|| Refused::UnknownNode(Arc::clone(name)))
    }
}
