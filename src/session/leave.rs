//! Out of this process: a session or a waiting client becomes a parcel, and goes on here when it comes back.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::rc::Rc;

use tokio::net::TcpStream;
use tokio::time::Instant;

use super::client::Client;
use super::forward::{Forward, Scan, Way};
use super::hearing::Hearing;
use super::pack::{Tries, Turn, Verdict};
use super::parcel::{Bytes, Head, Held, Parcel, Session, What};
use super::relay::{Relay, Tokens};
use super::stay::{Stage, Stay};
use super::stream::Stream;
use super::worker::Worker;

/// A relay that nobody runs: all it needs to go on.
struct Resting {
    /// Before the descriptors, as in [`Relay`].
    tokens: Tokens,
    worker: Rc<Worker>,
    hearing: Hearing,
    up: Way,
    down: Way,
    scan: Option<Scan>,
    client: OwnedFd,
    server: OwnedFd,
}

impl Relay {
    /// Between two of its polls a session is nothing but this value. Ends when it is in good hands, here or there.
    pub(super) async fn leave(self) {
        let place = Rc::clone(&self.tokens.seat.place);
        let Some(turn) = place.take_turn() else {
            return self.spawn();
        };
        let parcel = match self.parcel() {
            Ok(parcel) => parcel,
            // No descriptor is left: there may be one later.
            Err(error) => {
                tracing::debug!(client = %place.peer, %error, "a session cannot be packed");
                return self.ask_again();
            }
        };
        let stayed = match self.rest() {
            Ok(resting) => resting.hand_over(turn, parcel).await,
            Err(error) => Err(error),
        };
        match stayed {
            Ok(Some(relay)) => relay.ask_again(),
            Ok(None) => {}
            Err(error) => {
                tracing::error!(client = %place.peer, %error, "a session was lost while it was packed");
            }
        }
    }

    fn ask_again(self) {
        Tries::again(&self.worker.packer, &self.tokens.seat.place);
        self.spawn();
    }

    fn parcel(&self) -> io::Result<Parcel> {
        let (place, forward) = (&self.tokens.seat.place, &self.forward);
        let ear = self.hearing.ear.as_ref().map(|ear| ear.listening());
        let (listening, part) = ear.unzip();
        let key = self.hearing.key.as_ref();
        let session = Session {
            placed: place.placed(),
            up: forward.up.reached,
            down: forward.down.reached,
            scan: forward.scan,
            ear: listening,
            cancel_key: key.map(|key| key.bytes().to_vec()),
        };
        Ok(Parcel {
            head: Head {
                listener: place.listener.address.clone(),
                intent: place.intent,
                peer: place.peer,
                what: What::Session(Box::new(session)),
            },
            bytes: Bytes {
                up: forward.up.rest().to_vec(),
                down: forward.down.rest().to_vec(),
                part: part.unwrap_or_default().to_vec(),
            },
            client: copy(&forward.client)?,
            server: Some(copy(&forward.server)?),
        })
    }

    /// Takes the connections from the runtime: from here on nothing of them is read or written here.
    fn rest(self) -> io::Result<Resting> {
        let Forward {
            client,
            server,
            up,
            down,
            scan,
        } = self.forward;
        Ok(Resting {
            tokens: self.tokens,
            worker: self.worker,
            hearing: self.hearing,
            up,
            down,
            scan,
            client: client.into_descriptor()?,
            server: server.into_std()?.into(),
        })
    }
}

impl Resting {
    /// The relay again, if the session stays here.
    async fn hand_over(self, turn: Turn, parcel: Parcel) -> io::Result<Option<Relay>> {
        let place = &self.tokens.seat.place;
        place.on_its_way.set(true);
        let verdict = turn.hand_over_session(parcel, place, &self.server).await;
        place.on_its_way.set(false);
        match verdict {
            Verdict::Taken => {
                tracing::debug!(client = %place.peer, node = %place.node, "session moved");
                Ok(None)
            }
            Verdict::GivenBack(why) => {
                tracing::debug!(client = %place.peer, node = %place.node, "session given back: {why}");
                self.go_on().map(Some)
            }
        }
    }

    fn go_on(self) -> io::Result<Relay> {
        let forward = Forward {
            client: Stream::from_descriptor(self.client, self.tokens.seat.place.peer)?,
            server: TcpStream::from_std(self.server.into())?,
            up: self.up,
            down: self.down,
            scan: self.scan,
        };
        Ok(Relay::resume(
            self.worker,
            forward,
            self.hearing,
            self.tokens,
        ))
    }
}

impl Stay {
    /// Hands a client that waits to another process. Otherwise it goes on waiting here.
    pub(super) async fn leave(self, turn: Turn, stage: Stage) -> Option<(Self, Stage)> {
        let peer = self.client.peer;
        let parcel = match self.parcel(&stage) {
            Ok(parcel) => parcel,
            Err(error) => {
                tracing::debug!(client = %peer, %error, "a client cannot be packed");
                self.tries.add();
                return Some((self, stage));
            }
        };
        let Self {
            worker,
            listener,
            client,
            settings,
            tries,
        } = self;
        let Client {
            stream,
            inbox,
            told,
            shied,
            ..
        } = client;
        let awake = async {
            let descriptor = stream.into_descriptor()?;
            match turn.hand_over(parcel).await {
                Verdict::Taken => Ok(None),
                Verdict::GivenBack(why) => {
                    tracing::debug!(client = %peer, "client given back: {why}");
                    Stream::from_descriptor(descriptor, peer).map(Some)
                }
            }
        };
        let stream: io::Result<Option<Stream>> = awake.await;
        match stream {
            Ok(Some(stream)) => {
                tries.add();
                let client = Client {
                    stream,
                    peer,
                    inbox,
                    told,
                    shied,
                };
                let stay = Self {
                    worker,
                    listener,
                    client,
                    settings,
                    tries,
                };
                return Some((stay, stage));
            }
            Ok(None) => tracing::debug!(client = %peer, "client moved"),
            Err(error) => {
                tracing::error!(client = %peer, %error, "a client was lost while it was packed");
            }
        }
        stage.leave();
        None
    }

    fn parcel(&self, stage: &Stage) -> io::Result<Parcel> {
        let client = &self.client;
        let what = match stage {
            Stage::Greeting { deadline } => What::Greeting {
                left: *deadline - Instant::now(),
            },
            Stage::Held(waiting) => What::Held(Box::new(Held {
                told: client.told.clone(),
                shied: client.shied,
                waited: waiting.ticket.waited(),
            })),
        };
        Ok(Parcel {
            head: Head {
                listener: self.listener.address.clone(),
                intent: self.listener.intent.get(),
                peer: client.peer,
                what,
            },
            bytes: Bytes {
                up: client.inbox.clone(),
                ..Bytes::default()
            },
            client: copy(&client.stream)?,
            server: None,
        })
    }
}

/// Its own, so that whatever becomes of the parcel, the connection stays open here.
fn copy(stream: &impl AsFd) -> io::Result<OwnedFd> {
    stream.as_fd().try_clone_to_owned()
}
