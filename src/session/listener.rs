//! One listener as a worker sees it: a set of sockets that accept, and their clients' common facts.

use std::cell::Cell;
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::net::{TcpListener, UnixListener};
use tokio_util::sync::CancellationToken;

use super::client::Client;
use super::stay;
use super::stream::{Peer, Stream};
use super::worker::Worker;
use crate::net::{Address, Socket};
use crate::routing::Route;

/// After the kernel itself has run out of descriptors.
const NO_DESCRIPTORS: Duration = Duration::from_millis(100);

#[derive(Debug)]
pub(super) struct Listener {
    pub(super) address: Address,
    pub(super) route: Route,
    /// May change with a reload.
    pub(super) max_connections: Cell<Option<usize>>,
    /// Shared with the other workers that serve this address.
    pub(super) count: Arc<AtomicUsize>,
    /// Ends the accepting, not the sessions.
    pub(super) stop: CancellationToken,
}

/// A socket that belongs to this worker's runtime.
#[derive(Debug)]
pub(super) enum Acceptor {
    Tcp(TcpListener),
    Unix(UnixListener),
}

impl Acceptor {
    pub(super) fn new(socket: Socket) -> io::Result<Self> {
        Ok(match socket {
            Socket::Tcp(socket) => {
                socket.set_nonblocking(true)?;
                Self::Tcp(TcpListener::from_std(socket)?)
            }
            Socket::Unix(socket) => {
                socket.set_nonblocking(true)?;
                Self::Unix(UnixListener::from_std(socket)?)
            }
        })
    }

    fn poll_accept(&self, cx: &mut Context<'_>) -> Poll<io::Result<(Stream, Peer)>> {
        match self {
            Self::Tcp(socket) => socket
                .poll_accept(cx)
                .map_ok(|(stream, peer)| (Stream::Tcp(stream), Peer::Tcp(peer))),
            Self::Unix(socket) => socket
                .poll_accept(cx)
                .map_ok(|(stream, _)| (Stream::Unix(stream), Peer::Local)),
        }
    }
}

/// Accepts until the listener is stopped. A client's session runs on the worker that accepted it.
pub(super) async fn accept(worker: Rc<Worker>, listener: Rc<Listener>, acceptor: Acceptor) {
    let descriptors = &worker.shared.limits.descriptors;
    let mut is_last_look = false;
    loop {
        let descriptor = tokio::select! {
            biased;
            () = listener.stop.cancelled(), if !is_last_look => {
                is_last_look = true;
                continue;
            }
            descriptor = Arc::clone(descriptors).acquire_owned() => descriptor,
        };
        let Ok(descriptor) = descriptor else { return };
        let accepted = std::future::poll_fn(|cx| match acceptor.poll_accept(cx) {
            // Who is already in the queue would be reset by the close.
            Poll::Pending if is_last_look => Poll::Ready(None),
            polled => polled.map(Some),
        });
        let accepted = tokio::select! {
            biased;
            accepted = accepted => accepted,
            () = listener.stop.cancelled(), if !is_last_look => {
                is_last_look = true;
                continue;
            }
        };
        match accepted {
            None => return,
            Some(Ok((stream, peer))) => {
                let client = Client::new(stream, peer);
                let stay = stay::stay(Rc::clone(&worker), Rc::clone(&listener), client, descriptor);
                tokio::task::spawn_local(stay);
            }
            Some(Err(error)) if is_shortage(&error) => {
                worker.tally.accept_failed(&listener.address, &error);
                tokio::time::sleep(NO_DESCRIPTORS).await;
            }
            // The client was gone before it was accepted.
            Some(Err(error)) => {
                tracing::debug!(listener = %listener.address, %error, "accept");
            }
        }
    }
}

fn is_shortage(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(libc::EMFILE | libc::ENFILE | libc::ENOBUFS | libc::ENOMEM)
    )
}
