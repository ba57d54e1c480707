//! What the router may be told.

use std::time::Duration;

/// The word of a listener: which nodes its clients may be sent to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) enum Route {
    #[default]
    Primary,
}

impl Route {
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Primary => "primary",
        }
    }
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
