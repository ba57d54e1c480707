//! What was found out from this host, before anybody judges it.

use std::net::SocketAddr;
use std::time::Duration;

use crate::net::Address;
use crate::topology::{Answer, Dynamic};

/// Everything that the checks look at.
#[derive(Debug)]
pub(super) struct Facts {
    pub(super) nodes: Vec<NodeFacts>,
    /// Provider `patroni`: what each endpoint shows, in their order.
    pub(super) views: Vec<ViewFacts>,
    /// The first answer to `GET /config`, the leader's before the others'.
    pub(super) cluster: Option<ClusterFacts>,
    pub(super) here: HostFacts,
}

/// An endpoint that is asked for the cluster's view of itself.
#[derive(Debug)]
pub(super) struct ViewFacts {
    pub(super) endpoint: String,
    /// The leaders that its view names.
    pub(super) leaders: Result<Vec<String>, Failure>,
}

/// One configured node as it shows itself from here.
#[derive(Debug)]
pub(super) struct NodeFacts {
    pub(super) name: String,
    /// `host:port` of whoever proves what the node is: its REST API, or PostgreSQL itself.
    pub(super) rest_at: String,
    /// The same of PostgreSQL.
    pub(super) postgres_at: String,
    /// What each of its hosts resolves to, in words where that fails.
    pub(super) lookups: Vec<(String, Result<Vec<SocketAddr>, String>)>,
    /// By the REST API, or by a login where the provider is another.
    pub(super) rest: Result<RestFacts, Failure>,
    pub(super) postgres: Result<PostgresFacts, Failure>,
    pub(super) dynamic: Option<ClusterFacts>,
}

/// A node that answers for itself.
#[derive(Debug)]
pub(super) struct RestFacts {
    pub(super) took: Duration,
    pub(super) status: u16,
    /// `None` when the body is not Patroni's.
    pub(super) answer: Option<Answer>,
    /// The member's own name.
    pub(super) member: Option<String>,
    pub(super) version: Option<String>,
    /// By how much its clock is at least ahead of ours, in milliseconds. 0 while the two agree as far as the second
    /// of its `Date` and the time of the answer allow to say.
    pub(super) ahead_ms: Option<i64>,
}

/// A PostgreSQL that answers: nobody logs in, so this is all that can be known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PostgresFacts {
    pub(super) took: Duration,
}

/// Why there is no answer, as far as the advice depends on it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Failure {
    pub(super) kind: FailureKind,
    /// The whole error on one line.
    pub(super) words: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FailureKind {
    /// Not even refused: dropped on the way, or nobody accepts.
    TimedOut,
    Refused,
    /// No route, no such network, or another error of the connection.
    Unreachable,
    /// Connected, and then something else than an answer came.
    Broken,
    /// Its certificate is not believed, or cannot name it.
    NotBelieved,
    /// It does not believe ours, or wants one.
    NotAccepted,
    /// It speaks no TLS.
    NotTls,
    /// It wants another login, or one at all.
    TurnedAway,
    /// PostgreSQL lets us in not at all, or not as far as the question needs.
    NotLoggedIn,
    /// The host has no address.
    NoAddress,
}

/// What the cluster says about itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ClusterFacts {
    pub(super) dynamic: Dynamic,
    /// PostgreSQL's, as Patroni starts it.
    pub(super) max_connections: MaxConnections,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MaxConnections {
    Said(u64),
    /// Not in the dynamic configuration: Patroni then passes its own default, whatever a local file says.
    Default,
    /// There, but no number.
    Unknown,
}

/// This host.
#[derive(Debug)]
pub(super) struct HostFacts {
    pub(super) listeners: Vec<ListenerFacts>,
    /// The warning about open files, where there is one.
    pub(super) descriptors: Option<String>,
    /// Why the token of the admin API cannot be used, where one is configured.
    pub(super) token: Option<String>,
}

#[derive(Debug)]
pub(super) struct ListenerFacts {
    pub(super) address: Address,
    /// No interface carries the address, or the folder of the unix socket is not there.
    pub(super) missing: bool,
}
