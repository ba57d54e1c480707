//! What the tracker of one process leaves to the next one: who leads, until when, and what must not begin anew.

use std::net::SocketAddr;
use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};
use tokio::sync::oneshot;

use super::Tracker;
use super::decider::Decider;
use super::gap::LeaderChange;
use super::record::{Latest, Record};
use super::reign::Reign;
use crate::clock::BootTime;
use crate::topology::{Answer, Dynamic, Evidence, Found, NodeSettings, Provider};

/// A tracker's state as a plain value. Both processes live on one machine, so its times mean the same to both.
///
/// It carries authority over, and never makes any: a lease that has ended is handed over as ended, and an epoch that
/// was revoked is not in it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Heir {
    /// Whose word it was: what one provider has said is nothing to another.
    pub(super) provider: String,
    pub(super) epoch: u64,
    /// `None` when nobody leads.
    pub(super) reign: Option<Reigning>,
    /// Whose reign began last, also when it is over.
    pub(super) led: Option<(SocketAddr, Option<u32>)>,
    pub(super) last_failover: Option<SystemTime>,
    /// The last changes of leader, newest first.
    pub(super) changes: Vec<Changed>,
    pub(super) pinned: Pinned,
    /// What the cluster has said of itself.
    pub(super) dynamic: Option<Said>,
    pub(super) dead_lock_ends: Option<BootTime>,
    pub(super) nodes: Vec<Standing>,
    /// `conflictingPrimariesTotal`.
    pub(super) conflicts: u64,
}

/// What one process's tracker is told for the sake of the next one.
#[derive(Debug)]
pub(crate) enum Succession {
    /// Say what the next process goes on from.
    Leave(oneshot::Sender<Heir>),
    /// Go on from there; told once the picture shows it.
    Inherit(Box<Heir>, oneshot::Sender<()>),
}

/// The present epoch.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Reigning {
    pub(super) node: String,
    pub(super) machine: Machine,
    pub(super) addr: SocketAddr,
    pub(super) timeline: Option<u32>,
    pub(super) epoch: u64,
    pub(super) identifier: Option<String>,
    pub(super) scope: Option<String>,
    pub(super) until: BootTime,
    pub(super) proved: BootTime,
    pub(super) heard: BootTime,
    pub(super) open: bool,
    /// When the question was sent that the leader has answered last, whatever it said.
    #[serde(default)]
    pub(super) said: BootTime,
    pub(super) lock_ends: Option<BootTime>,
}

/// Which cluster it is, as far as that was learnt.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Pinned {
    pub(super) scope: Option<String>,
    pub(super) identifier: Option<String>,
    pub(super) shown: BootTime,
    pub(super) highest_timeline: Option<u32>,
    pub(super) raised: BootTime,
}

/// How a node stands, and what operators have said of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Standing {
    pub(super) node: String,
    pub(super) machine: Machine,
    /// What the configuration said: an operator's word on it holds as long as it says the same.
    enabled: bool,
    switch: Option<bool>,
    /// Reachability belongs to the address that has answered.
    dial: Option<SocketAddr>,
    up: bool,
    successes: u32,
    failures: u32,
    /// It held the lock and was not writable yet, when it was asked then: nobody else is authorised.
    #[serde(default)]
    promoting: Option<BootTime>,
    /// Played silent.
    forced: bool,
    /// One node is one machine: it is asked where it has answered.
    found: Found,
}

/// Where a node is asked and dialled.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Machine {
    host: String,
    port: u16,
    rest_host: Option<String>,
    rest_port: u16,
}

/// [`LeaderChange`], as it travels.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Changed {
    at: SystemTime,
    node: String,
    address: SocketAddr,
    epoch: u64,
    timeline: Option<u32>,
    was: Option<String>,
    promotion_seen: Option<Duration>,
    first_proof: Duration,
    first_session: Option<Duration>,
}

/// [`Dynamic`], as it travels.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Said {
    ttl: Duration,
    loop_wait: Duration,
    failsafe: bool,
    paused: bool,
}

impl Heir {
    /// No fault is played on: for a process in which nobody could end it.
    pub(crate) fn without_faults(mut self) -> Self {
        self.nodes.iter_mut().for_each(|node| node.forced = false);
        self
    }
}

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
            changes: decider.gap.changes().iter().map(Changed::of).collect(),
            pinned: decider.pins.leave(),
            dynamic: self.told_dynamic.map(Said::of),
            dead_lock_ends: decider.dead_lock_ends,
            nodes: decider
                .records
                .iter()
                .filter(|record| record.discovered.is_none())
                .map(|record| Standing {
                    forced: self.chaos.is_silenced(record.id),
                    found: self.poller.found(record.id),
                    ..Standing::of(record)
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
            self.told_dynamic = Some(said.into());
            self.decider.dynamic = said.into();
        }
        for standing in &heir.nodes {
            let records = self.decider.records.iter_mut();
            let mut same = records.filter(|record| standing.is_of(record));
            if let Some(record) = same.next() {
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
            let mut records = self.decider.records.iter_mut();
            if let Some(record) = records.find(|record| standing.is_of(record)) {
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
        self.gap
            .inherit(heir.changes.iter().map(Changed::back).collect());
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
        let record = self.records.iter().find(|record| {
            *record.settings.name == *theirs.node && theirs.machine.is_of(&record.settings)
        });
        let reign = Reign::inherited(theirs, record, self.settings.lease_timeout);
        match record {
            Some(_) => {
                self.why = (now >= reign.until).then_some(super::WhyNobody::LeaseEnded);
                self.reign = Some(reign);
            }
            None => self.removed.push(reign),
        }
    }
}

impl Reigning {
    /// A shorter lease than the other process had is kept too.
    pub(super) fn ends(&self, lease_timeout: Duration) -> BootTime {
        match self.until {
            BootTime::NEVER => BootTime::NEVER,
            until => until.min(self.heard + lease_timeout),
        }
    }
}

impl Standing {
    fn of(record: &Record) -> Self {
        Self {
            node: record.settings.name.to_string(),
            machine: Machine::of(&record.settings),
            enabled: record.settings.enabled,
            switch: record.switch,
            dial: record.dial,
            up: record.up,
            successes: record.successes,
            failures: record.failures,
            promoting: record.latest.as_ref().and_then(|latest| {
                let promotes = latest.evidence == Evidence::Promoting;
                promotes.then_some(latest.sent)
            }),
            forced: false,
            found: Found::default(),
        }
    }

    fn is_of(&self, record: &Record) -> bool {
        self.node == *record.settings.name && self.machine.is_of(&record.settings)
    }

    /// What the record has heard itself is newer than what the other one had.
    fn impress(&self, record: &mut Record) {
        if self.enabled == record.settings.enabled {
            record.switch = self.switch;
        }
        if record.people.asked.is_none() {
            record.dial = self.dial;
            record.up = self.up;
            record.successes = self.successes;
            record.failures = self.failures;
        }
    }
}

impl Standing {
    /// Whoever leads by an older word does not; what the node itself says next decides.
    fn promote(&self, record: &mut Record) {
        let is_newer = |sent| record.latest.as_ref().is_none_or(|own| own.sent < sent);
        if let Some(sent) = self.promoting.filter(|sent| is_newer(*sent)) {
            record.latest = Some(Latest {
                evidence: Evidence::Promoting,
                sent,
                answer: Answer::default(),
                claim: None,
            });
        }
    }
}

impl Machine {
    pub(super) fn of(node: &NodeSettings) -> Self {
        Self {
            host: node.host.to_string(),
            port: node.port,
            rest_host: node.rest_host.as_deref().map(str::to_owned),
            rest_port: node.rest_port,
        }
    }

    fn is_of(&self, node: &NodeSettings) -> bool {
        *self == Self::of(node)
    }
}

impl Changed {
    fn of(change: &LeaderChange) -> Self {
        Self {
            at: change.at,
            node: change.node.to_string(),
            address: change.address,
            epoch: change.epoch,
            timeline: change.timeline,
            was: change.was.as_deref().map(str::to_owned),
            promotion_seen: change.promotion_seen,
            first_proof: change.first_proof,
            first_session: change.first_session,
        }
    }

    fn back(&self) -> LeaderChange {
        LeaderChange {
            at: self.at,
            node: self.node.as_str().into(),
            address: self.address,
            epoch: self.epoch,
            timeline: self.timeline,
            was: self.was.as_deref().map(Into::into),
            promotion_seen: self.promotion_seen,
            first_proof: self.first_proof,
            first_session: self.first_session,
        }
    }
}

impl Said {
    fn of(dynamic: Dynamic) -> Self {
        Self {
            ttl: dynamic.ttl,
            loop_wait: dynamic.loop_wait,
            failsafe: dynamic.failsafe,
            paused: dynamic.paused,
        }
    }
}

impl From<Said> for Dynamic {
    fn from(said: Said) -> Self {
        Self {
            ttl: said.ttl,
            loop_wait: said.loop_wait,
            failsafe: said.failsafe,
            paused: said.paused,
        }
    }
}

fn provider(decider: &Decider) -> String {
    format!("{:?}", decider.settings.provider)
}
