//! What the router may be told.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// The word of a listener: which nodes its clients may be sent to.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub(crate) enum Route {
    #[default]
    Primary,
    Replica,
    /// The leader and the replicas.
    Any,
}

impl Route {
    pub(crate) const ALL: [Self; 3] = [Self::Primary, Self::Replica, Self::Any];

    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Primary => "primary",
            Self::Replica => "replica",
            Self::Any => "any",
        }
    }

    /// Are its sessions the lease's, to write with?
    pub(crate) fn writes(self) -> bool {
        self == Self::Primary
    }
}

/// What the clients of a listener want. Those who want the same wait in one line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) struct Intent {
    pub(crate) route: Route,
    pub(crate) reads: ReadSettings,
}

/// How a read port chooses. Without meaning for [`Route::Primary`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) struct ReadSettings {
    pub(crate) policy: Policy,
    pub(crate) fallback: Fallback,
    pub(crate) on_promotion: OnPromotion,
    /// Nobody who does not stream, not even when nobody does.
    pub(crate) require_streaming: bool,
    /// Also those that live on the archive.
    pub(crate) archive_recovery: bool,
    pub(crate) max_lag_bytes: Option<u64>,
}

/// Which of several nodes a read client gets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) enum Policy {
    #[default]
    RoundRobin,
    LeastConnections,
}

/// Who serves reads when no replica does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) enum Fallback {
    #[default]
    Leader,
    None,
}

/// What becomes of the read sessions of a node that starts to lead.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) enum OnPromotion {
    #[default]
    Keep,
    Close,
}

/// Limits of waiting and of dialling.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RoutingSettings {
    /// How long a client is held without a leader.
    pub(crate) write_timeout: Duration,
    /// Dials under way to one node.
    pub(crate) dial_concurrency: usize,
    pub(crate) max_staleness: Duration,
    pub(crate) freshness_wait: Duration,
}

impl Default for RoutingSettings {
    fn default() -> Self {
        Self {
            write_timeout: Duration::from_secs(45),
            dial_concurrency: 20,
            max_staleness: Duration::from_millis(1500),
            freshness_wait: Duration::from_millis(500),
        }
    }
}
