//! One listener as a worker sees it: a set of sockets that accept, and their clients' common facts.

use std::cell::Cell;
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio::sync::OwnedSemaphorePermit;
use tokio_util::sync::CancellationToken;

use super::client::Client;
use super::dial::is_shortage;
use super::stay;
use super::stream::{Peer, Stream};
use super::worker::{Alive, Worker};
use crate::net::{Address, Socket};
use crate::routing::Intent;

/// After an accept that failed.
const PAUSE: Duration = Duration::from_millis(100);
/// As long as Linux lets a queue be: who comes after those has come too late.
const QUEUE: usize = 4096;

#[derive(Debug)]
pub(super) struct Listener {
    pub(super) address: Address,
    /// What its next clients want. May change with a reload, as may the limit.
    pub(super) intent: Cell<Intent>,
    pub(super) max_connections: Cell<Option<usize>>,
    /// Shared with the other workers that serve this address.
    pub(super) count: Arc<AtomicUsize>,
    /// Ends the accepting, not the sessions.
    pub(super) stop: CancellationToken,
    /// Who waits in the kernel's queue at the end is not ours: somebody else has the sockets.
    pub(super) leaves_queue: Cell<bool>,
}

impl Listener {
    /// Stops accepting; the kernel's queue stays as it is.
    pub(super) fn leave(&self) {
        self.leaves_queue.set(true);
        self.stop.cancel();
    }
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

    fn into_socket(self) -> io::Result<Socket> {
        Ok(match self {
            Self::Tcp(socket) => Socket::Tcp(socket.into_std()?),
            Self::Unix(socket) => Socket::Unix(socket.into_std()?),
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
pub(super) async fn accept(
    worker: Rc<Worker>,
    listener: Rc<Listener>,
    acceptor: Acceptor,
    alive: Alive,
) {
    let accepting = async {
        loop {
            let descriptor = descriptor(&worker, &listener).await;
            match std::future::poll_fn(|cx| acceptor.poll_accept(cx)).await {
                Ok((stream, peer)) => welcome(&worker, &listener, stream, peer, descriptor),
                Err(error) => pause(&worker, &listener, &error).await,
            }
        }
    };
    let stopped = listener.stop.run_until_cancelled(accepting).await;
    debug_assert!(stopped.is_none(), "it has no other end");
    if !listener.leaves_queue.get()
        && let Err(error) = last_look(&worker, &listener, acceptor).await
    {
        tracing::debug!(listener = %listener.address, %error, "the queue could not be emptied");
    }
    drop(alive);
}

/// Who is in the queue already would be reset by the close. The kernel is asked itself: the runtime hears of a
/// newcomer later.
async fn last_look(
    worker: &Rc<Worker>,
    listener: &Rc<Listener>,
    acceptor: Acceptor,
) -> io::Result<()> {
    let socket = acceptor.into_socket()?;
    for _ in 0..QUEUE {
        let descriptor = descriptor(worker, listener).await;
        match accept_now(&socket) {
            Ok((stream, peer)) => welcome(worker, listener, stream, peer, descriptor),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
            Err(error) if is_shortage(&error) => pause(worker, listener, &error).await,
            Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

fn accept_now(socket: &Socket) -> io::Result<(Stream, Peer)> {
    match socket {
        Socket::Tcp(socket) => {
            let (stream, peer) = socket.accept()?;
            stream.set_nonblocking(true)?;
            Ok((Stream::Tcp(TcpStream::from_std(stream)?), Peer::Tcp(peer)))
        }
        Socket::Unix(socket) => {
            let (stream, _) = socket.accept()?;
            stream.set_nonblocking(true)?;
            Ok((Stream::Unix(UnixStream::from_std(stream)?), Peer::Local))
        }
    }
}

/// Waits for a client's descriptor before the client: who is not accepted waits in the kernel's queue.
async fn descriptor(worker: &Worker, listener: &Listener) -> OwnedSemaphorePermit {
    let limits = &worker.shared.limits;
    if let Some(descriptor) = limits.descriptor() {
        return descriptor;
    }
    worker.tally.accept_waits(&listener.address);
    match Arc::clone(&limits.descriptors).acquire_owned().await {
        Ok(descriptor) => descriptor,
        // Nobody closes it.
        Err(_) => std::future::pending().await,
    }
}

fn welcome(
    worker: &Rc<Worker>,
    listener: &Rc<Listener>,
    stream: Stream,
    peer: Peer,
    descriptor: OwnedSemaphorePermit,
) {
    let client = Client::new(stream, peer);
    let (worker, alive) = (Rc::clone(worker), worker.alive());
    let stay = stay::stay(worker, Rc::clone(listener), client, descriptor, alive);
    tokio::task::spawn_local(stay);
}

/// Whatever has failed would fail again at once.
async fn pause(worker: &Worker, listener: &Listener, error: &io::Error) {
    if error.kind() == io::ErrorKind::ConnectionAborted {
        // The client was gone before it was accepted.
        tracing::debug!(listener = %listener.address, %error, "accept");
    } else {
        worker.tally.accept_failed(&listener.address, error);
    }
    tokio::time::sleep(PAUSE).await;
}
