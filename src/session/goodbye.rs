//! Last words: what a client reads when its session is ended by us.

use std::time::Duration;

use tokio::io::AsyncWriteExt;

use super::stream::Stream;
use crate::metrics::RevokeReason;
use crate::protocol::{Code, Refusal};
use crate::routing::Route;

/// A close while the client's bytes are unread resets the connection, and the words are lost with it.
const LINGER: Duration = Duration::from_secs(1);

pub(super) fn revoked(node: &str, route: Route, reason: RevokeReason) -> Refusal {
    let (why, hint) = match (route.writes(), reason) {
        (true, _) => (
            reason.in_words(),
            "Connect again: a new connection lands on the present leader.",
        ),
        (false, RevokeReason::moved) => (
            "it became the leader",
            "Connect again: a new connection lands on a replica.",
        ),
        (false, _) => (
            reason.in_words(),
            "Connect again: a new connection lands on another node.",
        ),
    };
    Refusal::new(
        Code::AdminShutdown,
        format!("terminating connection to {node} because {why}"),
    )
    .hint(hint)
}

pub(super) fn draining() -> Refusal {
    Refusal::new(
        Code::AdminShutdown,
        "terminating connection because helios-proxy is shutting down",
    )
}

pub(super) fn server_lost(node: &str) -> Refusal {
    Refusal::new(
        Code::ConnectionFailure,
        format!("the connection to {node} was lost"),
    )
}

pub(super) fn in_recovery(node: &str) -> Refusal {
    Refusal::new(
        Code::CannotConnectNow,
        format!("{node} is in recovery, though it was proved to lead"),
    )
    .hint("Connect again: the cluster is changing its leader.")
}

/// Closes so that the client can read what it was sent last.
pub(super) async fn close(mut stream: Stream) {
    let _ = stream.shutdown().await;
    let mut rest = Vec::new();
    let drain = async {
        while matches!(stream.read_into(&mut rest, 4096).await, Ok(1..)) {
            rest.clear();
        }
    };
    let _ = tokio::time::timeout(LINGER, drain).await;
}
