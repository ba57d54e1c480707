//! What the tracker of one process leaves to the next one: who leads, until when, and what must not begin anew.

use std::net::SocketAddr;
use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};
use tokio::sync::oneshot;

use super::gap::LeaderChange;
use super::record::{Latest, Record};
use crate::clock::BootTime;
use crate::topology::{Answer, Dynamic, Evidence, Found, NodeSettings};

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
    pub(super) changes: Vec<LeaderChange>,
    pub(super) pinned: Pinned,
    /// What the cluster has said of itself.
    pub(super) dynamic: Option<Dynamic>,
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
    pub(super) forced: bool,
    /// One node is one machine: it is asked where it has answered.
    pub(super) found: Found,
}

/// Where a node is asked and dialled.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Machine {
    host: String,
    port: u16,
    rest_host: Option<String>,
    rest_port: u16,
}

impl Heir {
    /// No fault is played on: for a process in which nobody could end it.
    pub(crate) fn without_faults(mut self) -> Self {
        self.nodes.iter_mut().for_each(|node| node.forced = false);
        self
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
    pub(super) fn of(record: &Record, forced: bool, found: Found) -> Self {
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
            forced,
            found,
        }
    }

    /// What the record has heard itself is newer than what the other one had.
    pub(super) fn impress(&self, record: &mut Record) {
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

    /// Whoever leads by an older word does not; what the node itself says next decides.
    pub(super) fn promote(&self, record: &mut Record) {
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

    pub(super) fn is_of(&self, node: &NodeSettings) -> bool {
        *self == Self::of(node)
    }
}
