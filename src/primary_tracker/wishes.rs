//! What sessions wish for becomes questions.

use super::run::HEARTBEAT;
use super::{Tracker, Wish};

impl Tracker {
    pub(super) fn heed_wishes(&mut self) {
        let leader = self
            .decider
            .reign
            .as_ref()
            .map(|reign| (reign.id, reign.leader.addr));
        for wish in self.demand.take_wishes() {
            match wish {
                Wish::Fresh(since) => {
                    if let Some((id, _)) = leader {
                        self.poller.want(id, since);
                    }
                }
                // The first failure begins a doubt, which asks now; those of a crowd are the same doubt.
                Wish::DialFailed(_, at) => {
                    self.dial_failed = Some(self.dial_failed.map_or(at, |before| before.max(at)));
                }
                Wish::DialReady(addr, at) => {
                    if leader.is_some_and(|(_, leads)| leads == addr) {
                        self.decider.gap.write(Some(at));
                        self.dial_failed = self.dial_failed.filter(|failed| *failed > at);
                    }
                }
                Wish::ServerClosed(at) => {
                    if let Some((id, _)) = leader
                        && at.saturating_sub(self.asked_for_close) >= HEARTBEAT
                    {
                        self.asked_for_close = at;
                        self.poller.want(id, at);
                    }
                }
                Wish::Look(addr, at) => {
                    let records = &mut self.decider.records;
                    if let Some(record) = records.iter_mut().find(|r| r.dial == Some(addr))
                        && at.saturating_sub(record.looked) >= HEARTBEAT
                    {
                        record.looked = at;
                        self.poller.want(record.id, at);
                    }
                }
            }
        }
    }
}
