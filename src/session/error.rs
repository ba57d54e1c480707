//! How a stay may end before its relay begins, and what may set an attempt back.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use super::pack::Turn;
use crate::metrics;
use crate::protocol::{Code, Refusal};
use crate::routing::RouteError;

/// A stay that came to nothing. Only [`End::Refused`] is told to anybody.
#[derive(Debug, thiserror::Error)]
pub(super) enum End {
    /// Port scans, probes, clients that gave up: nobody's fault.
    #[error("the client left")]
    ClientLeft,

    #[error("the client's connection broke")]
    ClientLost(#[from] io::Error),

    #[error("the client did not speak within {0:?}")]
    Silent(Duration),

    #[error("the client does not speak PostgreSQL")]
    NotPostgres,

    /// PostgreSQL before 17 closes when TLS comes unasked, and nothing can be said inside of TLS.
    #[error("the server does not take TLS without an SSLRequest")]
    NoDirectTls,

    #[error("refused: {}", refusal.message)]
    Refused {
        refusal: Box<Refusal>,
        /// `None` for what is the client's own fault.
        reason: Option<metrics::Refusal>,
    },

    /// The client wanted no session: the packet is the front of its inbox.
    #[error("a cancel request")]
    Cancel { length: usize },
}

/// An attempt at a server that came to nothing; the client does not know of it, so another one may follow.
#[derive(Debug, thiserror::Error)]
pub(super) enum Setback {
    /// The leader changed, or the replica is none any more.
    #[error("the node is not to be used any more")]
    Moved,

    /// The server's or the network's fault: a doubt for everybody.
    #[error("{0}")]
    Failed(#[from] DialError),

    /// The client's time ended first: that says nothing about the server.
    #[error("{0}")]
    Late(DialError),

    /// Probably this client's own doing, so only its own wait.
    #[error("{node} closed on TLS that came without an SSLRequest")]
    Shy { node: SocketAddr },

    #[error("{node} has no connection left")]
    Full { node: SocketAddr, heard: Vec<u8> },

    /// The client has not met anything: it may go on in another process.
    #[error("the client leaves for another process")]
    Leaves(Turn),

    #[error(transparent)]
    End(#[from] End),
}

/// Why a server could not be used.
#[derive(Debug, thiserror::Error)]
pub(super) enum DialError {
    #[error("{node}: connection failed: {source}")]
    Connect { node: SocketAddr, source: io::Error },

    /// This host's doing.
    #[error("no connection to {node} can be made from this host: {source}")]
    Local { node: SocketAddr, source: io::Error },

    #[error("{node}: not connected within {limit:?}")]
    TimedOut { node: SocketAddr, limit: Duration },

    #[error("{node}: the connection broke: {source}")]
    Broke { node: SocketAddr, source: io::Error },

    #[error("{node} closed before it said anything")]
    Closed { node: SocketAddr },

    #[error("{node} refused with {code}")]
    Refused { node: SocketAddr, code: String },

    #[error("{node} did not answer in time")]
    Mute { node: SocketAddr },

    #[error("{node} answered {answer:#04x} to {request}")]
    Nonsense {
        node: SocketAddr,
        request: &'static str,
        answer: u8,
    },
}

impl DialError {
    pub(super) fn node(&self) -> SocketAddr {
        match self {
            Self::Connect { node, .. }
            | Self::Local { node, .. }
            | Self::TimedOut { node, .. }
            | Self::Broke { node, .. }
            | Self::Closed { node }
            | Self::Refused { node, .. }
            | Self::Mute { node }
            | Self::Nonsense { node, .. } => *node,
        }
    }
}

impl End {
    /// No server came in time.
    pub(super) fn late(error: &RouteError) -> Self {
        let refusal = Refusal::new(Code::CannotConnectNow, error.to_string())
            .detail(error.detail())
            .hint(error.hint());
        Self::Refused {
            refusal: Box::new(refusal),
            reason: Some(error.reason()),
        }
    }

    pub(super) fn full(words: impl Into<String>) -> Self {
        Self::Refused {
            refusal: Box::new(Refusal::new(Code::TooManyConnections, words)),
            reason: Some(metrics::Refusal::full),
        }
    }

    /// A startup packet that cannot be read is the client's fault.
    pub(super) fn broken() -> Self {
        let words = "invalid startup packet layout: the parameter list cannot be read";
        Self::Refused {
            refusal: Box::new(Refusal::new(Code::ProtocolViolation, words)),
            reason: None,
        }
    }
}
