//! What sessions and their listeners may be told.

use std::time::Duration;

use crate::net::Address;
use crate::routing::Intent;

/// One `[[listeners]]` of the configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ListenerSettings {
    pub(crate) address: Address,
    pub(crate) intent: Intent,
    pub(crate) max_connections: Option<usize>,
    /// Unix sockets: permission bits, default 0777.
    pub(crate) mode: Option<u32>,
    /// Unix sockets: the group's name.
    pub(crate) group: Option<String>,
}

/// Limits of a session's life.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SessionSettings {
    pub(crate) connect_timeout: Duration,
    pub(crate) startup_timeout: Duration,
    /// `None` = off.
    pub(crate) dead_peer: Option<Duration>,
    pub(crate) max_connections: usize,
}

impl Default for SessionSettings {
    fn default() -> Self {
        Self {
            connect_timeout: Duration::from_secs(3),
            startup_timeout: Duration::from_secs(15),
            dead_peer: Some(Duration::from_secs(30)),
            max_connections: 10_000,
        }
    }
}
