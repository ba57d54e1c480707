//! Which nodes there are and how often they are asked.

use std::sync::Arc;
use std::time::Duration;

/// One configured PostgreSQL member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NodeSettings {
    pub(crate) name: Arc<str>,
    /// A name or an IP address, without brackets.
    pub(crate) host: Arc<str>,
    /// PostgreSQL's port.
    pub(crate) port: u16,
    /// Where the REST API is when not on `host`: then `host` is bound to it by configuration.
    pub(crate) rest_host: Option<Arc<str>>,
    pub(crate) rest_port: u16,
    /// What the configuration says it is.
    pub(crate) role: NodeRole,
    /// A disabled node is asked and tracked, but gets no session.
    pub(crate) enabled: bool,
    pub(crate) weight: u32,
}

impl NodeSettings {
    /// Is it asked and dialled at the same addresses? Else a reload removes one node and adds another.
    pub(crate) fn is_same_machine(&self, other: &Self) -> bool {
        let addresses = |node: &Self| {
            let rest_host = node.rest_host.clone();
            (Arc::clone(&node.host), node.port, rest_host, node.rest_port)
        };
        addresses(self) == addresses(other)
    }

    /// `host:port`, `[v6]:port` where the host is an IPv6 address.
    pub(crate) fn address(&self) -> String {
        if self.host.contains(':') {
            format!("[{}]:{}", self.host, self.port)
        } else {
            format!("{}:{}", self.host, self.port)
        }
    }
}

/// What a node is by configuration; only provider `static` relies on it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum NodeRole {
    /// The node says it itself.
    #[default]
    Auto,
    Primary,
    /// Follows, as a replica does: which of the two may be promoted is nothing to a proxy.
    Standby,
    Replica,
}

impl NodeRole {
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Primary => "primary",
            Self::Standby => "standby",
            Self::Replica => "replica",
        }
    }
}

/// `[health]` of the configuration: see README for the meaning of each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HealthSettings {
    pub(crate) check_interval: Duration,
    pub(crate) check_timeout: Duration,
    pub(crate) failure_threshold: u32,
    pub(crate) success_threshold: u32,
    pub(crate) active_interval: Duration,
    pub(crate) fast_interval: Duration,
}

impl Default for HealthSettings {
    fn default() -> Self {
        Self {
            check_interval: Duration::from_secs(5),
            check_timeout: Duration::from_secs(8),
            failure_threshold: 5,
            success_threshold: 2,
            active_interval: Duration::from_secs(1),
            fast_interval: Duration::from_millis(100),
        }
    }
}
