//! The line in the log that splits the gap of a leader change.

use std::sync::Arc;
use std::time::Duration;

use super::Leader;
use crate::clock::BootTime;

/// The line is written with the first session at the new leader, or after so long without one.
const PATIENCE: Duration = Duration::from_secs(2);

/// What happened between the last proof of one leader and the first session at the next.
#[derive(Debug, Default)]
pub(super) struct Gap {
    lost: Option<(Arc<str>, BootTime)>,
    promotion: Option<(Arc<str>, BootTime)>,
    /// The question of the newest proof of the present leader.
    last_proof: Option<BootTime>,
    change: Option<Change>,
}

#[derive(Debug)]
struct Change {
    leader: Leader,
    epoch: u64,
    first_proof: BootTime,
    was: Option<(Arc<str>, BootTime)>,
    promotion: Option<BootTime>,
}

impl Gap {
    pub(super) fn promotion(&mut self, node: Arc<str>, now: BootTime) {
        if self
            .promotion
            .as_ref()
            .is_none_or(|(seen, _)| *seen != node)
        {
            self.promotion = Some((node, now));
        }
    }

    pub(super) fn proof(&mut self, sent: BootTime) {
        self.last_proof = Some(sent);
    }

    pub(super) fn lost(&mut self, node: &Arc<str>, proved: BootTime) {
        self.lost = Some((Arc::clone(node), proved));
    }

    pub(super) fn begin(&mut self, leader: &Leader, epoch: u64, sent: BootTime, now: BootTime) {
        self.write(None);
        self.change = Some(Change {
            leader: leader.clone(),
            epoch,
            first_proof: now,
            was: self.lost.take(),
            promotion: self
                .promotion
                .take()
                .filter(|(node, _)| *node == leader.name)
                .map(|(_, at)| at),
        });
        self.last_proof = Some(sent);
    }

    /// When the line is written at the latest.
    pub(super) fn deadline(&self) -> Option<BootTime> {
        self.change.as_ref().map(|c| c.first_proof + PATIENCE)
    }

    /// Writes the line, if one is owed: with the first session's time, or without.
    pub(super) fn write(&mut self, first_session: Option<BootTime>) {
        let Some(change) = self.change.take() else {
            return;
        };
        let since = |at: BootTime| {
            let from = change
                .was
                .as_ref()
                .map_or(change.first_proof, |(_, at)| *at);
            format!("+{} ms", at.saturating_sub(from).as_millis())
        };
        let none = || "none seen".to_owned();
        tracing::info!(
            node = &*change.leader.name,
            address = %change.leader.addr,
            epoch = change.epoch,
            timeline = change.leader.timeline,
            was = change.was.as_ref().map(|(node, _)| &**node),
            promotion_seen = change.promotion.map_or_else(none, since),
            first_proof = since(change.first_proof),
            first_session = first_session.map_or_else(none, since),
            "the leader is {}; times count from the last proof of the old one",
            change.leader.name
        );
    }
}
