//! Into this process: a parcel becomes a session or a waiting client again, unless it belongs where it came from.

use std::io;
use std::rc::Rc;

use tokio::net::TcpStream;
use tokio::sync::{OwnedSemaphorePermit, oneshot};
use tokio::time::Instant;

use super::client::Client;
use super::ear::Ear;
use super::forward::{Forward, Way};
use super::hearing::Hearing;
use super::listener::Listener;
use super::parcel::{Bytes, Head, Parcel, Session, What};
use super::relay::{Relay, Tokens};
use super::stay::{self, Stage, Waiting};
use super::stream::{Peer, Stream};
use super::worker::{Alive, Worker};
use crate::routing::{NotHere, Placed};

/// A parcel, and where the answer goes.
pub(crate) struct Adoption {
    pub(crate) parcel: Parcel,
    pub(crate) reply: oneshot::Sender<Result<Start, NotTaken>>,
}

/// Until this has said so, nothing of the connection is read or written here: the other process must have read before
/// that it is rid of it. Dropped, the connection is let go without a word.
#[derive(Debug)]
pub(crate) struct Start(oneshot::Sender<()>);

/// Why a parcel goes back.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NotTaken {
    #[error(transparent)]
    NotHere(#[from] NotHere),

    #[error("no file descriptor is left for it")]
    NoDescriptor,

    #[error("its connection cannot be used here: {0}")]
    Unusable(#[from] io::Error),
}

/// Ready to go on, once it may.
enum Adopted {
    Session(Box<Relay>),
    Client(Box<Newcomer>),
}

struct Newcomer {
    client: Client,
    stage: Stage,
    descriptor: OwnedSemaphorePermit,
    alive: Alive,
}

impl Start {
    /// The other process has nothing more to do with it.
    pub(crate) fn go(self) {
        // Nobody hears it once this worker has ended.
        let _ = self.0.send(());
    }
}

impl Worker {
    pub(super) fn adopt(self: &Rc<Self>, listener: &Rc<Listener>, adoption: Adoption) {
        let Adoption { parcel, reply } = adoption;
        let whose = parcel.to_string();
        let answer = self.unpack(listener, parcel).map(|adopted| {
            let (start, started) = oneshot::channel();
            let (worker, listener) = (Rc::clone(self), Rc::clone(listener));
            tokio::task::spawn_local(async move {
                // Dropped without a word, it is still open where it came from.
                if started.await.is_ok() {
                    adopted.go_on(worker, listener).await;
                }
            });
            Start(start)
        });
        if let Err(error) = &answer {
            tracing::debug!(%error, "not adopted: {whose}");
        }
        // Whatever was adopted goes with an answer that nobody hears.
        let _ = reply.send(answer);
    }

    fn unpack(
        self: &Rc<Self>,
        listener: &Rc<Listener>,
        parcel: Parcel,
    ) -> Result<Adopted, NotTaken> {
        let Parcel {
            head: Head { peer, what, .. },
            bytes,
            client,
            server,
        } = parcel;
        let descriptor = self.descriptor()?;
        let mut client = Client::new(Stream::from_descriptor(client, peer)?, peer);
        let stage = match what {
            What::Session(session) => {
                let server = server.ok_or(io::ErrorKind::NotConnected);
                let server = TcpStream::from_std(server.map_err(io::Error::from)?.into())?;
                let permits = [descriptor, self.descriptor()?];
                let tokens = self.tokens(listener, peer, &session.placed, permits)?;
                let relay = self.relay(client.stream, server, *session, bytes, tokens);
                return Ok(Adopted::Session(Box::new(relay)));
            }
            What::Greeting { left } => Stage::Greeting {
                deadline: Instant::now() + left,
            },
            What::Held(held) => {
                (client.told, client.shied) = (held.told, held.shied);
                let intent = listener.intent.get();
                Stage::Held(Box::new(Waiting {
                    ticket: self.shared.router.resume(intent, held.waited),
                    counted: self.shared.limits.adopt(&listener.count),
                    for_server: self.descriptor()?,
                }))
            }
        };
        client.inbox = bytes.up;
        Ok(Adopted::Client(Box::new(Newcomer {
            client,
            stage,
            descriptor,
            alive: self.alive(),
        })))
    }

    fn tokens(
        self: &Rc<Self>,
        listener: &Rc<Listener>,
        peer: Peer,
        placed: &Placed,
        descriptors: [OwnedSemaphorePermit; 2],
    ) -> Result<Tokens, NotTaken> {
        let shared = &self.shared;
        let (target, inside) = shared.router.adopt(placed)?;
        let seat = self
            .registry
            .seat(shared, listener, peer, &target, inside)
            .ok_or_else(|| NotHere::Closed {
                node: placed.node.clone(),
            })?;
        let counted = shared.limits.adopt(&listener.count);
        let elsewhere = &shared.elsewhere;
        elsewhere.has_come(&seat.place, &shared.limits, &shared.metrics);
        Ok(Tokens {
            seat,
            _counted: counted,
            _descriptors: descriptors,
            _alive: self.alive(),
        })
    }

    fn relay(
        self: &Rc<Self>,
        client: Stream,
        server: TcpStream,
        session: Session,
        bytes: Bytes,
        tokens: Tokens,
    ) -> Relay {
        let addr = session.placed.addr;
        let key = session.cancel_key.as_deref();
        let ear = session
            .ear
            .map(|ear| Box::new(Ear::resume(ear, bytes.part)));
        let hearing = Hearing {
            ear,
            key: key.map(|key| self.shared.cancels.issue(key, addr)),
            in_recovery: false,
        };
        let forward = Forward {
            client,
            server,
            up: Way::resume(session.up, bytes.up),
            down: Way::resume(session.down, bytes.down),
            scan: session.scan,
        };
        Relay::resume(Rc::clone(self), forward, hearing, tokens)
    }

    fn descriptor(&self) -> Result<OwnedSemaphorePermit, NotTaken> {
        self.shared
            .limits
            .descriptor()
            .ok_or(NotTaken::NoDescriptor)
    }
}

impl Adopted {
    async fn go_on(self, worker: Rc<Worker>, listener: Rc<Listener>) {
        match self {
            Self::Session(relay) => {
                worker.packer.ask(&relay.tokens.seat.place);
                relay.spawn();
            }
            Self::Client(new) => {
                let Newcomer {
                    client,
                    stage,
                    descriptor,
                    alive,
                } = *new;
                stay::go_on(worker, listener, client, stage, descriptor, alive).await;
            }
        }
    }
}
