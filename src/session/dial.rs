//! A connection to a server, in bounded time.

use std::net::SocketAddr;
use std::time::Duration;

use tokio::net::TcpStream;

use super::error::DialError;
use crate::net::{keepalive, nodelay};

const BACKEND_IDLE: Duration = Duration::from_secs(15);
const CLIENT_IDLE: Duration = Duration::from_secs(60);
const INTERVAL: Duration = Duration::from_secs(5);
const PROBES: u32 = 3;

pub(super) async fn dial(
    node: SocketAddr,
    limit: Duration,
    dead_peer: Option<Duration>,
) -> Result<TcpStream, DialError> {
    let connect = tokio::time::timeout(limit, TcpStream::connect(node)).await;
    let stream = connect
        .map_err(|_late| DialError::TimedOut { node, limit })?
        .map_err(|source| DialError::Connect { node, source })?;
    let idle = dead_peer.map_or(BACKEND_IDLE, |dead| dead.min(BACKEND_IDLE));
    // The kernel takes whole seconds.
    let told = nodelay(&stream)
        .and_then(|()| keepalive(&stream, idle.max(Duration::from_secs(1)), INTERVAL, PROBES));
    told.map_err(|source| DialError::Connect { node, source })?;
    Ok(stream)
}

/// What a client's socket is told. It fails only when the client is already gone: the next read shows that.
pub(super) fn welcome(client: &super::stream::Stream) {
    if let super::stream::Stream::Tcp(stream) = client {
        let _ = nodelay(stream).and_then(|()| keepalive(stream, CLIENT_IDLE, INTERVAL, PROBES));
    }
}
