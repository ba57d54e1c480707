//! How a node is asked: the one door for everything that can prove who leads.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use super::answer::Answer;
use super::question::{Question, ask};
use super::rest::Rest;
use super::{NoAnswer, Place, Silence};
use crate::clock::Clock;

/// Asks a node what it is.
///
/// Whoever asks decides nothing: an answer is told as [`Answer`], whose status, role and state `judge` weighs in the
/// words of Patroni (200 claims, 503 follows). When the question was sent is the poller's to note, before it asks.
pub(crate) trait Observe {
    /// Asks once, at `place` and within its limit. Dropped half-way, it leaves nothing behind.
    fn observe(&self, place: Place) -> impl Future<Output = Result<Told, NoAnswer>> + Send;
}

/// What came back from a node, whatever it is worth.
#[derive(Debug)]
pub(crate) struct Told {
    /// Who answered; the port does not count.
    pub(crate) from: SocketAddr,
    /// The node's own time, connecting left out: the brake is measured by it.
    pub(crate) own_time: Duration,
    pub(crate) said: Result<Answer, Silence>,
}

/// How all nodes are asked, by configuration.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum SourceSettings {
    /// `GET /primary` of each node's own Patroni.
    #[default]
    Check,
}

/// How one node is asked.
#[derive(Clone, Debug)]
pub(crate) enum Source {
    Check(Check),
}

impl Source {
    pub(crate) fn new(settings: &SourceSettings, rest: &Arc<Rest>, clock: Clock) -> Self {
        match settings {
            SourceSettings::Check => Self::Check(Check {
                rest: Arc::clone(rest),
                clock,
            }),
        }
    }
}

impl Source {
    /// Has the node a Patroni that can be asked for its view of the cluster?
    pub(super) fn has_views(&self) -> bool {
        match self {
            Self::Check(_) => true,
        }
    }
}

impl Observe for Source {
    async fn observe(&self, place: Place) -> Result<Told, NoAnswer> {
        match self {
            Self::Check(check) => check.observe(place).await,
        }
    }
}

/// Asks a node's Patroni.
#[derive(Clone, Debug)]
pub(crate) struct Check {
    rest: Arc<Rest>,
    clock: Clock,
}

impl Observe for Check {
    async fn observe(&self, place: Place) -> Result<Told, NoAnswer> {
        let path = "/primary";
        let rest = Arc::clone(&self.rest);
        let reply = ask(Question { place, rest, path }, self.clock).await?;
        let status = reply.status;
        Ok(Told {
            from: reply.from,
            own_time: reply.own_time,
            said: Answer::read(status, reply.date.as_deref(), &reply.body)
                .ok_or(Silence::NotPatroni { status }),
        })
    }
}
