//! A client's way from its first byte to the relay: greet, route, dial, prologue, and again until its time is up.

use std::rc::Rc;
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::Instant;

use super::attempt::{Attempt, Met};
use super::client::{Client, Next};
use super::dial::welcome;
use super::error::{End, Setback};
use super::forward::{Forward, Scan, Way};
use super::limits::Counted;
use super::listener::Listener;
use super::pack::{Tries, Turn};
use super::prologue::{Introduced, Road};
use super::relay::{Relay, Tokens};
use super::worker::{Alive, Worker};
use super::{SessionSettings, cancel, goodbye};
use crate::protocol::key_of_cancel;
use crate::routing::Ticket;

/// For the first packet while the process drains.
const GREET_IN_DRAIN: Duration = Duration::from_secs(1);
/// Between two attempts of a client that was held at a node that says 53300.
const FULL_PAUSE: Duration = Duration::from_millis(250);

/// Serves one client to its end.
pub(super) async fn stay(
    worker: Rc<Worker>,
    listener: Rc<Listener>,
    client: Client,
    descriptor: OwnedSemaphorePermit,
    alive: Alive,
) {
    welcome(&client.stream);
    let limit = worker.shared.settings.borrow().startup_timeout;
    let deadline = Instant::now() + limit;
    let stage = Stage::Greeting { deadline };
    go_on(worker, listener, client, stage, descriptor, alive).await;
}

/// The same from a later stage on.
pub(super) async fn go_on(
    worker: Rc<Worker>,
    listener: Rc<Listener>,
    client: Client,
    mut stage: Stage,
    descriptor: OwnedSemaphorePermit,
    alive: Alive,
) {
    let settings = worker.shared.settings.borrow().clone();
    let mut stay = Stay {
        worker: Rc::clone(&worker),
        listener,
        client,
        settings,
        tries: Tries::default(),
    };
    let end = loop {
        match stay.begin(stage).await {
            Ok(Turned::Met(met, waiting)) => {
                let tokens = Tokens {
                    seat: met.seat,
                    _counted: waiting.counted,
                    _descriptors: [descriptor, waiting.for_server],
                    _alive: alive,
                };
                let forward = stay.into_forward(met.server, met.introduced);
                return Relay::new(worker, forward, met.ear, tokens).spawn();
            }
            // Boxed: few need it.
            Ok(Turned::Leaves(turn, left)) => match Box::pin(stay.leave(turn, left)).await {
                Some(back) => (stay, stage) = back,
                None => return,
            },
            Err(end) => break end,
        }
    };
    stay.end(end).await;
    drop((descriptor, alive));
}

pub(super) struct Stay {
    pub(super) worker: Rc<Worker>,
    pub(super) listener: Rc<Listener>,
    pub(super) client: Client,
    pub(super) settings: SessionSettings,
    /// To go on in another process.
    pub(super) tries: Tries,
}

/// How far a client has come between two attempts: from each of them another process may go on.
pub(super) enum Stage {
    /// Its first packet is to come.
    Greeting {
        deadline: Instant,
    },
    Held(Box<Waiting>),
}

/// What a client has of others once it has spoken.
pub(super) struct Waiting {
    pub(super) ticket: Ticket,
    pub(super) counted: Counted,
    /// Now, not at the dial: of a crowd that is held nobody could go on if each had only its own.
    pub(super) for_server: OwnedSemaphorePermit,
}

/// Where a client's way has led.
enum Turned {
    Met(Met, Box<Waiting>),
    Leaves(Turn, Stage),
}

impl Stage {
    /// Another process goes on with it.
    pub(super) fn leave(self) {
        if let Self::Held(waiting) = self {
            waiting.ticket.leave();
        }
    }
}

impl Stay {
    async fn begin(&mut self, stage: Stage) -> Result<Turned, End> {
        let mut waiting = match stage {
            Stage::Held(waiting) => waiting,
            Stage::Greeting { deadline } => match self.greet(deadline).await? {
                Ok(Next::Cancel { length }) => match self.belongs_elsewhere(length).await {
                    Some(turn) => return Ok(Turned::Leaves(turn, stage)),
                    None => return Err(End::Cancel { length }),
                },
                Ok(next) => self.spoke(next)?,
                Err(turn) => return Ok(Turned::Leaves(turn, stage)),
            },
        };
        loop {
            let attempt = Attempt {
                worker: &self.worker,
                listener: &self.listener,
                settings: &self.settings,
                client: &mut self.client,
                ticket: &mut waiting.ticket,
                tries: &self.tries,
            };
            match attempt.run().await {
                Ok(met) => return Ok(Turned::Met(met, waiting)),
                Err(Setback::Leaves(turn)) => {
                    return Ok(Turned::Leaves(turn, Stage::Held(waiting)));
                }
                Err(setback) => self.set_back(setback, &mut waiting.ticket).await?,
            }
            if waiting.ticket.deadline() <= Instant::now() {
                let router = &self.worker.shared.router;
                return Err(End::late(&router.give_up(&waiting.ticket)));
            }
        }
    }

    /// While sessions leave, a key that is not known here has probably left as well.
    async fn belongs_elsewhere(&self, length: usize) -> Option<Turn> {
        let packet = self.client.inbox.get(..length)?;
        let packer = &self.worker.packer;
        let is_known = self.worker.shared.cancels.node(key_of_cancel(packet));
        if is_known.is_some() || !packer.is_on() || !self.tries.is_first() {
            return None;
        }
        let turn = packer.turn(&self.tries);
        let limit = self.settings.startup_timeout;
        tokio::time::timeout(limit, turn).await.ok()
    }

    fn spoke(&self, next: Next) -> Result<Box<Waiting>, End> {
        match next {
            Next::Cancel { length } => return Err(End::Cancel { length }),
            Next::Broken => return Err(End::broken()),
            Next::Hello | Next::Request(_) | Next::Startup { .. } => {}
        }
        let shared = &self.worker.shared;
        let counted = self.count()?;
        let for_server = shared.limits.descriptor().ok_or_else(|| {
            End::full("too many connections: no file descriptor is left for another one")
        })?;
        Ok(Box::new(Waiting {
            ticket: shared.router.ticket(self.listener.intent.get()),
            counted,
            for_server,
        }))
    }

    /// The first packet. Whoever has not spoken is no session yet, so a drain does not wait for it long.
    async fn greet(&mut self, deadline: Instant) -> Result<Result<Next, Turn>, End> {
        let drained = async {
            self.worker.drain.cancelled().await;
            tokio::time::sleep(GREET_IN_DRAIN).await;
        };
        tokio::select! {
            biased;
            next = self.client.next(deadline - Instant::now()) => Ok(Ok(next?)),
            turn = self.worker.packer.turn(&self.tries) => Ok(Err(turn)),
            () = drained => Err(End::Silent(GREET_IN_DRAIN)),
        }
    }

    fn count(&self) -> Result<Counted, End> {
        let limits = &self.worker.shared.limits;
        let most = self.settings.max_connections;
        let most_here = self.listener.max_connections.get();
        limits
            .count(&self.listener.count, most, most_here)
            .map_err(|most| {
                End::full(format!(
                    "too many connections: helios-proxy's max_connections is {most}"
                ))
            })
    }

    /// Tells the router what an attempt has met; the client may try again.
    async fn set_back(&mut self, setback: Setback, ticket: &mut Ticket) -> Result<(), End> {
        tracing::debug!(client = %self.client.peer, %setback, "attempt failed");
        let router = &self.worker.shared.router;
        match setback {
            Setback::Moved | Setback::Leaves(_) => {}
            Setback::Failed(error) => {
                let words = error.to_string();
                router.dial_failed(ticket, error.node(), words);
            }
            Setback::Shy { .. } => router.attempt_failed(ticket, setback.to_string()),
            Setback::Late(error) => ticket.note_failure(error.to_string()),
            Setback::Full { node, .. } => {
                router.node_is_full(node);
                ticket.note_failure(setback.to_string());
                let end = tokio::select! {
                    () = tokio::time::sleep(FULL_PAUSE) => None,
                    end = self.client.left() => Some(end),
                };
                if let Some(end) = end {
                    return Err(end);
                }
            }
            Setback::End(end) => return Err(end),
        }
        Ok(())
    }

    fn into_forward(self, server: TcpStream, introduced: Introduced) -> Forward {
        let Introduced { heard, sent, road } = introduced;
        let mut inbox = self.client.inbox;
        let mut scan = match road {
            Road::Clear => Some(Scan::default()),
            Road::Opaque { .. } => None,
        };
        if let Some(scan) = &mut scan {
            // What came after the startup message.
            let startup = inbox
                .first_chunk()
                .map_or(0, |length| u32::from_be_bytes(*length) as usize);
            scan.pass_up(inbox.get(startup..).unwrap_or_default());
        }
        inbox.drain(..sent);
        inbox.shrink_to_fit();
        Forward {
            client: self.client.stream,
            server,
            up: Way::new(inbox),
            down: Way::new(heard),
            scan,
        }
    }

    async fn end(mut self, end: End) {
        let end = match end {
            End::Refused { refusal, reason } => {
                if let Some(reason) = reason {
                    self.worker.shared.metrics.refuse(reason);
                    self.worker.tally.refused(reason, &refusal.message);
                }
                let limit = self.settings.startup_timeout;
                match self.client.refuse(&refusal, limit).await {
                    Ok(()) => return goodbye::close(self.client.stream).await,
                    Err(end) => end,
                }
            }
            end => end,
        };
        match end {
            End::Cancel { length } => {
                cancel::serve(&self.worker, &self.listener, &self.client, length).await;
            }
            end => {
                let listener = &self.listener.address;
                tracing::debug!(client = %self.client.peer, %listener, "no session: {end}");
            }
        }
    }
}
