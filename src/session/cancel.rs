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
use super::errand::Cancel;
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
pub(super) async fn serve(worker: &Worker, listener: &Listener, client: &Client, length: usize) {
    let Some(packet) = client.inbox.get(..length) else {
        return;
    };
    let cancel = Cancel {
        listener: listener.address.clone(),
        peer: client.peer,
        packet: packet.to_vec(),
    };
    run(worker, &cancel).await;
}

/// Neither the lease nor the line matters: the node that issued the key gets the cancel, also after a switch. Says
/// whether somebody knew the key.
pub(super) async fn run(worker: &Worker, cancel: &Cancel) -> bool {
    let (table, key) = (&worker.shared.cancels, key_of_cancel(&cancel.packet));
    let mut issuer = table.node(key);
    if issuer.is_none() {
        let asked = worker.shared.elder.knows(cancel.clone());
        // It may wait for its turn there, and then for the node.
        if tokio::time::timeout(2 * limit(worker), asked).await == Ok(true) {
            return true;
        }
        // The session may have come from there meanwhile.
        issuer = table.node(key);
    }
    let nodes = match issuer {
        Some(node) => vec![node],
        // The key may have been issued inside of TLS.
        None => worker
            .registry
            .opaque_neighbours(&cancel.listener, &cancel.peer, NODES),
    };
    match nodes.is_empty() {
        true => {
            tracing::debug!(client = %cancel.peer, "a cancel with a key that nobody here issued")
        }
        false => send(worker, cancel, nodes).await,
    }
    issuer.is_some()
}

async fn send(worker: &Worker, cancel: &Cancel, nodes: Vec<SocketAddr>) {
    let (peer, packet) = (&cancel.peer, &cancel.packet);
    let connect_timeout = worker.shared.settings.borrow().connect_timeout;
    let limit = limit(worker);
    let turn = worker.shared.cancels.turn.acquire();
    // Whoever waits holds a descriptor.
    let Ok(Ok(_turn)) = tokio::time::timeout(limit, turn).await else {
        return tracing::debug!(client = %peer, "too many cancels are under way");
    };
    for node in nodes {
        let Some(_descriptor) = worker.shared.limits.descriptor() else {
            return;
        };
        let sent = tokio::time::timeout(limit, forward(node, packet, connect_timeout)).await;
        match sent {
            Ok(Ok(())) => tracing::debug!(client = %peer, %node, "cancel passed on"),
            Ok(Err(error)) => tracing::debug!(client = %peer, %node, %error, "cancel lost"),
            Err(_late) => tracing::debug!(client = %peer, %node, "cancel not acknowledged"),
        }
    }
}

/// For a turn, and then for each node.
fn limit(worker: &Worker) -> Duration {
    worker.shared.settings.borrow().connect_timeout + CLOSES_WITHIN
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
