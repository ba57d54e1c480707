//! What the tracker publishes: the lease, or why there is none, and what is known of each node.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use uuid::Uuid;

use super::{LeaderChange, Lease, Readers, Verdict};
use crate::clock::BootTime;
use crate::metrics::CheckResult;
use crate::topology::{Feed, Provider};

/// One consistent look at the cluster and at what was decided from it. Published by the tracker through a
/// `watch`, its only writer.
#[derive(Clone, Debug)]
pub(crate) struct Picture {
    /// Whose word this is.
    pub(crate) provider: Provider,
    /// The lease of the current epoch, also while it is closed or has run out: ask [`Lease::is_valid`]. `None`
    /// when nobody leads.
    pub(crate) lease: Option<Lease>,
    /// Why nobody is routable, when that is so.
    pub(crate) why: Option<WhyNobody>,
    pub(crate) epoch: u64,
    /// The node that the cluster names and that has not spoken itself yet, while nobody is routable.
    pub(crate) pending: Option<Pending>,
    /// Configured, else pinned, else what the answers name.
    pub(crate) scope: Option<Arc<str>>,
    pub(crate) nodes: Arc<[NodePicture]>,
    /// When the leader last changed from one node to another (the first leader is no failover).
    pub(crate) last_failover: Option<SystemTime>,
    /// The last changes of leader, newest first.
    pub(crate) changes: Arc<[LeaderChange]>,
    /// The newest failed dial of the leader that no good one has followed: until the next proof nobody dials.
    pub(crate) dial_failed: Option<BootTime>,
    /// True once each node was asked and answered, or was given up, or two seconds passed.
    pub(crate) first_round_done: bool,
    pub(crate) conflicts: u64,
    pub(crate) failsafe: bool,
    pub(crate) paused: bool,
    /// How long a proof lasts, as configured.
    pub(crate) lease_timeout: Duration,
}

impl Picture {
    /// Before anything was asked.
    pub(crate) fn blank() -> Self {
        Self {
            provider: Provider::default(),
            lease: None,
            why: Some(WhyNobody::NoProof),
            epoch: 0,
            pending: None,
            scope: None,
            nodes: Arc::from([]),
            last_failover: None,
            changes: Arc::from([]),
            dial_failed: None,
            first_round_done: false,
            conflicts: 0,
            failsafe: false,
            paused: false,
            lease_timeout: Duration::ZERO,
        }
    }

    /// The lease, if a read-write session may start now.
    pub(crate) fn valid_lease(&self, now: BootTime) -> Option<&Lease> {
        self.lease.as_ref().filter(|lease| lease.is_valid(now))
    }

    /// Does this change who may be written to or read from, or how fresh that is? Each follower's answer changes a
    /// picture: a crowd of held clients must not be woken by them.
    pub(crate) fn is_news_after(&self, before: &Self) -> bool {
        let lease = |picture: &Self| {
            let lease = picture.lease.as_ref()?;
            Some((lease.epoch, lease.proved, lease.until, lease.open))
        };
        let change = |picture: &Self| {
            let newest = picture.changes.first()?;
            Some((newest.epoch, newest.first_session))
        };
        lease(self) != lease(before)
            || change(self) != change(before)
            || self.why != before.why
            || self.pending != before.pending
            || self.scope != before.scope
            || self.first_round_done != before.first_round_done
            || self.nodes.len() != before.nodes.len()
            || self
                .nodes
                .iter()
                .zip(before.nodes.iter())
                .any(|(now, before)| now.reads() != before.reads())
    }

    /// `<scope>` for people.
    pub(crate) fn cluster(&self) -> &str {
        self.scope.as_deref().unwrap_or("the cluster")
    }
}

/// A leader by hearsay: never routable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Pending {
    pub(crate) node_id: Uuid,
    /// As [`NodePicture::address`].
    pub(crate) address: Arc<str>,
    pub(crate) timeline: Option<u32>,
}

/// Why no node may be written to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WhyNobody {
    /// No node has proved anything yet, or all that was proved has run out.
    NoProof,
    /// A leader was there and fell silent until its lease ended.
    LeaseEnded,
    Promoting,
    /// The cluster names a leader whose own word is not heard yet.
    Pending,
    Retiring,
    Unlocked,
    Conflict,
    /// The best there is leads a standby cluster.
    StandbyCluster,
    /// Nodes answer, none leads.
    NobodyLeads,
    /// The leader is disabled by the operator.
    Disabled,
    /// The leader's lock runs out by Patroni's own ttl.
    LockAge,
    /// Provider `manual`, and nobody was named.
    NobodyNamed,
    /// A leader was named and is still to be confirmed.
    Unconfirmed,
}

impl WhyNobody {
    pub(crate) fn in_words(self) -> &'static str {
        match self {
            Self::NoProof => "no node has proved that it leads",
            Self::LeaseEnded => "the leader fell silent and its lease ended",
            Self::Promoting => "a node is being promoted",
            Self::Pending => "no leader is both named by the cluster and confirmed by itself yet",
            Self::Retiring => "the leader is stopping or restarting",
            Self::Unlocked => "the leader runs without its lock",
            Self::Conflict => "more than one node claims to lead",
            Self::StandbyCluster => "the cluster is a standby cluster: its leader is read-only",
            Self::NobodyLeads => "no node leads",
            Self::Disabled => "the leader is disabled",
            Self::LockAge => "the leader has not renewed its lock within Patroni's ttl",
            Self::NobodyNamed => "nobody was named to lead (topology.provider = \"manual\")",
            Self::Unconfirmed => "the named leader is not confirmed yet",
        }
    }
}

/// What is known of one node.
#[derive(Clone, Debug)]
pub(crate) struct NodePicture {
    pub(crate) name: Arc<str>,
    pub(crate) node_id: Uuid,
    /// `host:port` as configured, `[v6]:port` where the host is an IPv6 address.
    pub(crate) address: Arc<str>,
    /// May get sessions.
    pub(crate) enabled: bool,
    /// Ends the read sessions that start at it now.
    pub(crate) readers: Readers,
    /// Played silent by `/api/chaos`.
    pub(crate) forced: bool,
    pub(crate) up: bool,
    pub(crate) leader: bool,
    /// Patroni's words in the latest answer.
    pub(crate) role: Option<Arc<str>>,
    pub(crate) state: Option<Arc<str>>,
    pub(crate) timeline: Option<u32>,
    pub(crate) lag_bytes: Option<u64>,
    /// Silences in a row.
    pub(crate) failures: u32,
    /// When the latest question that has ended was sent, by the wall clock.
    pub(crate) last_check: Option<SystemTime>,
    /// The same by our clock, only for answers.
    pub(crate) last_answer: Option<BootTime>,
    /// From question to answer, connecting included.
    pub(crate) latency: Option<Duration>,
    pub(crate) last_error: Option<Arc<str>>,
    /// The latest evidence in words: `200 running primary 5`, or the error.
    pub(crate) words: Arc<str>,
    pub(crate) verdict: Verdict,
    pub(crate) reading: Reading,
    /// The last checks, oldest first.
    pub(crate) checks: Arc<[Check]>,
}

/// What the read pool needs of a node.
#[derive(Clone, Debug)]
pub(crate) struct Reading {
    /// The IP address that gave the evidence, with PostgreSQL's port.
    pub(crate) addr: Option<SocketAddr>,
    /// Its share of new read sessions; 0 = none.
    pub(crate) weight: u32,
    /// `None` while it is no replica that runs.
    pub(crate) feed: Option<Feed>,
    pub(crate) noloadbalance: bool,
    /// When the question was sent that the latest evidence answers.
    pub(crate) asked: BootTime,
}

impl Default for Reading {
    fn default() -> Self {
        Self {
            addr: None,
            weight: 100,
            feed: None,
            noloadbalance: false,
            asked: BootTime::ZERO,
        }
    }
}

impl NodePicture {
    /// All that decides whether it may be read from, positions and times left out.
    fn reads(&self) -> impl PartialEq + '_ {
        let reading = &self.reading;
        let place = (&self.name, reading.addr, self.enabled, self.up, self.leader);
        (place, reading.weight, reading.feed, reading.noloadbalance)
    }
}

/// One question to a node, once it has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Check {
    pub(crate) sent: BootTime,
    pub(crate) took: Duration,
    pub(crate) result: CheckResult,
}
