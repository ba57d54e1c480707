//! From the tracker of one process to that of the next: leaving an [`Heir`], and going on from one.

use super::Tracker;
use super::decider::Decider;
use super::heir::{Heir, Machine, Reigning, Standing};
use super::record::Record;
use super::reign::Reign;
use crate::clock::BootTime;
use crate::topology::Provider;

impl Tracker {
    /// What the next process goes on from.
    pub(super) fn leave(&self) -> Heir {
        let decider = &self.decider;
        Heir {
            provider: provider(decider),
            epoch: decider.epoch,
            reign: decider.reign.as_ref().and_then(|reign| {
                let record = decider.record(reign.id)?;
                Some(reign.leave(record))
            }),
            led: decider.led,
            last_failover: decider.last_failover,
            changes: decider.gap.changes().to_vec(),
            pinned: decider.pins.leave(),
            dynamic: self.told_dynamic,
            dead_lock_ends: decider.dead_lock_ends,
            nodes: decider
                .records
                .iter()
                .filter(|record| record.discovered.is_none())
                .map(|record| {
                    let forced = self.chaos.is_silenced(record.id);
                    Standing::of(record, forced, self.poller.found(record.id))
                })
                .collect(),
            conflicts: decider.metrics.conflicting_primaries.get(),
        }
    }

    /// Goes on from there. To be called before anybody was sent to a leader: at the start, and again with a fresh heir
    /// at the moment of the hand-over. What was heard in between stands as long as both have come to the same; else the
    /// older process knows better, and the nodes are asked anew.
    pub(super) fn inherit(&mut self, heir: &Heir, now: BootTime) {
        if let Some(said) = heir.dynamic.filter(|_| self.told_dynamic.is_none()) {
            // Whoever heard it has said what it means.
            self.told_dynamic = Some(said);
            self.decider.dynamic = said;
        }
        for standing in &heir.nodes {
            if let Some(record) = self.decider.same(&standing.node, &standing.machine) {
                standing.impress(record);
                self.poller.find(record.id, standing.found);
                match standing.forced {
                    true => self.chaos.silence(record.id),
                    false => self.chaos.restore(record.id),
                }
            }
        }
        if !self.decider.inherit(heir, now) {
            self.poller.doubt(now);
        }
        for standing in &heir.nodes {
            if let Some(record) = self.decider.same(&standing.node, &standing.machine) {
                standing.promote(record);
            }
        }
        self.decider.decide(now);
    }
}

impl Decider {
    /// False when what was heard here before had to be forgotten.
    fn inherit(&mut self, heir: &Heir, now: BootTime) -> bool {
        self.pins.inherit(&heir.pinned);
        self.last_failover = self.last_failover.max(heir.last_failover);
        let conflicts = &self.metrics.conflicting_primaries;
        conflicts.inc_by(heir.conflicts.saturating_sub(conflicts.get()));
        if self.has_come_to_the_same(heir) {
            if let (Some(reign), Some(theirs)) = (&mut self.reign, &heir.reign) {
                reign.take_if_newer(theirs, self.settings.lease_timeout);
                let by_hand = self.settings.provider == Provider::Manual;
                let mut records = self.records.iter_mut();
                if let Some(record) = records.find(|record| record.id == reign.id)
                    && (by_hand || record.answered < theirs.said)
                {
                    reign.open = theirs.open;
                    if !theirs.open {
                        // The older word would open it again.
                        record.latest = None;
                        record.answered = record.answered.max(theirs.said);
                    }
                }
            }
            return true;
        }
        let is_new = self.records.iter().all(|record| record.latest.is_none());
        for record in &mut self.records {
            record.latest = None;
            record.foreign = None;
            if !is_new {
                // What was asked before is no answer to what the older process knows.
                record.answered = record.answered.max(now);
            }
        }
        self.reign = None;
        self.epoch = self.epoch.max(heir.epoch);
        let changes = &self.metrics.leader_changes;
        changes.inc_by(self.epoch.saturating_sub(changes.get()));
        self.led = heir.led;
        self.dead_lock_ends = heir.dead_lock_ends;
        self.gap.inherit(heir.changes.clone());
        if let Some(theirs) = &heir.reign
            && provider(self) == heir.provider
        {
            self.enthrone(theirs, now);
        }
        is_new
    }

    fn has_come_to_the_same(&self, heir: &Heir) -> bool {
        let own = self.reign.as_ref();
        let own = own.map(|reign| (reign.epoch, reign.leader.addr, reign.leader.timeline));
        let theirs = heir.reign.as_ref();
        let theirs = theirs.map(|reign| (reign.epoch, reign.addr, reign.timeline));
        // Who has never known a leader knows nothing better.
        heir.epoch == 0 || own == theirs && own.is_some()
    }

    /// A leader that the configuration does not name here is as one that a reload has removed: it gets nobody, and is
    /// the same epoch if it turns up again.
    fn enthrone(&mut self, theirs: &Reigning, now: BootTime) {
        let lease_timeout = self.settings.lease_timeout;
        let record = self
            .same(&theirs.node, &theirs.machine)
            .map(|record| &*record);
        let is_here = record.is_some();
        let reign = Reign::inherited(theirs, record, lease_timeout);
        match is_here {
            true => {
                self.why = (now >= reign.until).then_some(super::WhyNobody::LeaseEnded);
                self.reign = Some(reign);
            }
            false => self.removed.push(reign),
        }
    }

    /// The record of the node that has this name, and is this machine, here too.
    fn same(&mut self, node: &str, machine: &Machine) -> Option<&mut Record> {
        let mut records = self.records.iter_mut();
        records.find(|record| *record.settings.name == *node && machine.is_of(&record.settings))
    }
}

fn provider(decider: &Decider) -> String {
    format!("{:?}", decider.settings.provider)
}
