//! A connection to a server, in bounded time.

use std::io;
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
        .map_err(|source| match is_local(&source) {
            true => DialError::Local { node, source },
            false => DialError::Connect { node, source },
        })?;
    let idle = dead_peer.map_or(BACKEND_IDLE, |dead| dead.min(BACKEND_IDLE));
    // The kernel takes whole seconds.
    let told = nodelay(&stream)
        .and_then(|()| keepalive(&stream, idle.max(Duration::from_secs(1)), INTERVAL, PROBES));
    told.map_err(|source| DialError::Connect { node, source })?;
    Ok(stream)
}

/// Does a failed connect say something about this host rather than about the server? Ports and memory count too.
fn is_local(error: &io::Error) -> bool {
    let no_port = error.raw_os_error() == Some(libc::EADDRNOTAVAIL);
    no_port || is_shortage(error)
}

/// Is the kernel out of descriptors or of memory?
pub(super) fn is_shortage(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(libc::EMFILE | libc::ENFILE | libc::ENOBUFS | libc::ENOMEM)
    )
}

/// What a client's socket is told. It fails only when the client is already gone: the next read shows that.
pub(super) fn welcome(client: &super::stream::Stream) {
    if let super::stream::Stream::Tcp(stream) = client {
        let _ = nodelay(stream).and_then(|()| keepalive(stream, CLIENT_IDLE, INTERVAL, PROBES));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shortage_here_is_not_the_servers_fault() {
        let is_local = |code| is_local(&io::Error::from_raw_os_error(code));
        for here in [
            libc::EMFILE,
            libc::ENFILE,
            libc::ENOBUFS,
            libc::EADDRNOTAVAIL,
        ] {
            assert!(is_local(here), "{here}");
        }
        for there in [libc::ECONNREFUSED, libc::ECONNRESET, libc::EHOSTUNREACH] {
            assert!(!is_local(there), "{there}");
        }
    }
}
