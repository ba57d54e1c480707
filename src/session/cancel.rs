//! Cancel requests: which node issued which key, and how a request gets there.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::Semaphore;

use super::client::Client;
use super::listener::Listener;
use super::worker::Worker;
use crate::protocol::key_of_cancel;

/// Cancels under way at once; they count nowhere else, so that a full proxy can still be cancelled.
const AT_ONCE: usize = 64;
/// Nodes that one unreadable key is sent to.
const NODES: usize = 8;
/// PostgreSQL closes once the signal is sent.
const CLOSES_WITHIN: Duration = Duration::from_secs(5);

/// Keys seen in clear text, as long as their sessions live.
#[derive(Debug)]
pub(super) struct CancelTable {
    /// Tiny and never held across an await: one entry is read or written.
    keys: Arc<Mutex<HashMap<Box<[u8]>, Issued>>>,
    next: AtomicU64,
    turn: Arc<Semaphore>,
}

/// A key is bytes; who issued it is all that matters.
#[derive(Clone, Copy, Debug)]
struct Issued {
    node: SocketAddr,
    /// A server may issue the same key again before its first session is forgotten here.
    id: u64,
}

/// Forgets its key when the session ends.
#[derive(Debug)]
pub(super) struct CancelKey {
    keys: Arc<Mutex<HashMap<Box<[u8]>, Issued>>>,
    key: Box<[u8]>,
    id: u64,
}

impl Default for CancelTable {
    fn default() -> Self {
        Self {
            keys: Arc::default(),
            next: AtomicU64::new(0),
            turn: Arc::new(Semaphore::new(AT_ONCE)),
        }
    }
}

impl CancelTable {
    pub(super) fn issue(&self, key: &[u8], node: SocketAddr) -> CancelKey {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let key: Box<[u8]> = key.into();
        let mut keys = self.keys.lock().unwrap_or_else(PoisonError::into_inner);
        keys.insert(key.clone(), Issued { node, id });
        drop(keys);
        CancelKey {
            keys: Arc::clone(&self.keys),
            key,
            id,
        }
    }

    pub(super) fn node(&self, key: &[u8]) -> Option<SocketAddr> {
        let keys = self.keys.lock().unwrap_or_else(PoisonError::into_inner);
        keys.get(key).map(|issued| issued.node)
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.keys.lock().unwrap().len()
    }
}

impl CancelKey {
    pub(super) fn bytes(&self) -> &[u8] {
        &self.key
    }
}

impl Drop for CancelKey {
    fn drop(&mut self) {
        let mut keys = self.keys.lock().unwrap_or_else(PoisonError::into_inner);
        if keys
            .get(&self.key)
            .is_some_and(|issued| issued.id == self.id)
        {
            keys.remove(&self.key);
        }
    }
}

/// Sends the cancel at the front of the inbox to where it belongs, then closes as PostgreSQL does: without a word.
/// Neither the lease nor the line matters: the node that issued the key gets it, also after a switch.
pub(super) async fn serve(worker: &Worker, listener: &Listener, client: &Client, length: usize) {
    let Some(packet) = client.inbox.get(..length) else {
        return;
    };
    let table = &worker.shared.cancels;
    let nodes = match table.node(key_of_cancel(packet)) {
        Some(node) => vec![node],
        // The key may have been issued inside of TLS.
        None => worker
            .registry
            .opaque_neighbours(listener, &client.peer, NODES),
    };
    if nodes.is_empty() {
        return tracing::debug!(client = %client.peer, "a cancel with a key that nobody here issued");
    }
    let connect_timeout = worker.shared.settings.borrow().connect_timeout;
    let limit = connect_timeout + CLOSES_WITHIN;
    // Whoever waits holds a descriptor.
    let Ok(Ok(_turn)) = tokio::time::timeout(limit, table.turn.acquire()).await else {
        return tracing::debug!(client = %client.peer, "too many cancels are under way");
    };
    for node in nodes {
        let Some(_descriptor) = worker.shared.limits.descriptor() else {
            return;
        };
        let sent = tokio::time::timeout(limit, forward(node, packet, connect_timeout)).await;
        match sent {
            Ok(Ok(())) => tracing::debug!(client = %client.peer, %node, "cancel passed on"),
            Ok(Err(error)) => tracing::debug!(client = %client.peer, %node, %error, "cancel lost"),
            Err(_late) => tracing::debug!(client = %client.peer, %node, "cancel not acknowledged"),
        }
    }
}

async fn forward(node: SocketAddr, packet: &[u8], limit: Duration) -> std::io::Result<()> {
    let mut server = tokio::time::timeout(limit, TcpStream::connect(node)).await??;
    server.write_all(packet).await?;
    // PostgreSQL answers nothing and closes when it has sent the signal: the client may rely on that.
    let mut rest = [0; 64];
    while server.read(&mut rest).await? > 0 {}
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn addr(port: u16) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], port))
    }

    #[test]
    fn a_key_of_any_length_is_known_until_its_session_ends() {
        let table = CancelTable::default();
        let short = table.issue(&[7; 8], addr(1));
        let long = table.issue(&[7; 260], addr(2));

        assert_eq!(table.node(&[7; 8]), Some(addr(1)));
        assert_eq!(table.node(&[7; 260]), Some(addr(2)));
        assert_eq!(table.node(&[7; 9]), None);

        drop((short, long));
        assert_eq!(table.len(), 0);
    }

    #[test]
    fn a_key_issued_twice_survives_the_end_of_the_first_session() {
        let table = CancelTable::default();
        let first = table.issue(&[1; 8], addr(1));
        let _second = table.issue(&[1; 8], addr(2));

        drop(first);

        assert_eq!(table.node(&[1; 8]), Some(addr(2)));
    }
}
