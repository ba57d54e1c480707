//! What passes between the poller and the tracker: what was heard, and how a node stands.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use super::answer::Answer;
use super::dynamic::Dynamic;
use super::question::NoAnswer;
use super::witness::Sight;
use super::{NoView, ViewSeen};
use crate::clock::BootTime;

/// One life of a configured node: a node whose address was changed is another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct NodeId(pub(crate) u64);

/// The answer to one question, or its absence, with the time the question was sent.
#[derive(Debug)]
pub(crate) struct Observation {
    pub(crate) node: NodeId,
    pub(crate) sent: BootTime,
    pub(crate) took: Duration,
    pub(crate) heard: Result<Heard, Silence>,
}

/// A node has spoken.
#[derive(Clone, Debug)]
pub(crate) struct Heard {
    /// PostgreSQL's address: of the machine that answered, or of the one which configuration binds to it.
    pub(crate) dial: SocketAddr,
    pub(crate) said: Answer,
}

/// Why nothing usable was heard.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Silence {
    #[error(transparent)]
    NoAnswer(#[from] NoAnswer),

    /// A captive portal or another service on Patroni's port.
    #[error("answered {status}, but not as Patroni does")]
    NotPatroni { status: u16 },

    #[error("its host {host} has no known address")]
    NoAddress { host: Arc<str> },

    /// Played, not real.
    #[error("forced unhealthy by /api/chaos")]
    Forced,
}

impl Silence {
    /// Must somebody do something before it gets better?
    pub(crate) fn needs_hands(&self) -> bool {
        match self {
            Self::NoAnswer(error) => error.needs_hands(),
            Self::NotPatroni { .. } | Self::NoAddress { .. } | Self::Forced => false,
        }
    }
}

/// How a node stands, as the tracker sees it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Stands {
    /// Answers, but is not up yet.
    pub(crate) rising: bool,
    /// The node of the current epoch.
    pub(crate) leads: bool,
    /// Its lease has not run out.
    pub(crate) leased: bool,
    /// It follows, and knows that a leader's lock is held: that must be free before it leads itself.
    pub(crate) knows_a_lock: bool,
}

/// What the poller has to tell.
#[derive(Debug)]
pub(crate) enum News {
    Observed(Observation),
    /// What the cluster says about itself.
    Dynamic(Dynamic),
    /// What a node sees of the cluster, while the leader is silent.
    Saw(Sight),
    /// The cluster as one endpoint sees it; whoever takes it says whether it is of use.
    Viewed(Result<ViewSeen, NoView>),
}
