//! How far a replica is behind: measured against a leader's position that was asked for no later than it answered.

use super::decider::Decider;
use super::record::Record;
use crate::clock::BootTime;
use crate::topology::Role;

/// A leader's position, and when it was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Mark {
    asked: BootTime,
    position: u64,
}

impl Decider {
    /// Takes the measure of the node at `at`, whose answer has just been heard. A position that a leader reaches later
    /// would make a replica look slow that is not: with ten seconds between two answers, by ten seconds of writing.
    pub(super) fn measure(&mut self, at: usize, now: BootTime) {
        let record = &mut self.records[at];
        record.heard = now;
        record.mark = self.mark;
        let Some(latest) = &record.latest else {
            return;
        };
        let reigns = self
            .reign
            .as_ref()
            .is_some_and(|r| r.id == record.id && record.dial == Some(r.leader.addr));
        let is_primary = latest.answer.role == Some(Role::Primary);
        let Some(position) = latest.answer.position.filter(|_| reigns && is_primary) else {
            return;
        };
        let mark = Mark {
            asked: latest.sent,
            position,
        };
        self.mark = Some(mark);
        for record in &mut self.records {
            let is_older = record.mark.is_none_or(|known| known.asked < mark.asked);
            if record.heard >= mark.asked && is_older {
                record.mark = Some(mark);
            }
        }
    }
}

impl Record {
    /// In bytes; `None` where it is no replica, names no position, or no leader was ever heard.
    pub(super) fn lag(&self) -> Option<u64> {
        let answer = &self.latest.as_ref()?.answer;
        let replayed = answer
            .position
            .filter(|_| answer.role.as_ref().is_some_and(Role::is_replica))?;
        Some(self.mark?.position.saturating_sub(replayed))
    }
}
