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
use super::prologue::{Introduced, Road};
use super::relay::{Relay, Tokens};
use super::worker::{Alive, Worker};
use super::{SessionSettings, cancel, goodbye};
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
    let settings = worker.shared.settings.borrow().clone();
    let mut stay = Stay {
        worker: Rc::clone(&worker),
        listener,
        client,
        settings,
    };
    let end = match stay.begin().await {
        Ok((met, counted, for_server)) => {
            let tokens = Tokens {
                seat: met.seat,
                _counted: counted,
                _descriptors: [descriptor, for_server],
                _alive: alive,
            };
            let forward = stay.into_forward(met.server, met.introduced);
            let relay = Relay::new(worker, forward, met.ear, tokens);
            // A task of its own: this future is large and ends here.
            tokio::task::spawn_local(relay.run());
            return;
        }
        Err(end) => end,
    };
    stay.end(end).await;
    drop((descriptor, alive));
}

struct Stay {
    worker: Rc<Worker>,
    listener: Rc<Listener>,
    client: Client,
    settings: SessionSettings,
}

impl Stay {
    async fn begin(&mut self) -> Result<(Met, Counted, OwnedSemaphorePermit), End> {
        match self.greet().await? {
            Next::Cancel { length } => return Err(End::Cancel { length }),
            Next::Broken => return Err(End::broken()),
            Next::Hello | Next::Request(_) | Next::Startup { .. } => {}
        }
        let counted = self.count()?;
        // Now, not at the dial: of a crowd that is held nobody could go on if each had only its own.
        let for_server = self.worker.shared.limits.descriptor().ok_or_else(|| {
            End::full("too many connections: no file descriptor is left for another one")
        })?;
        let intent = self.listener.intent.get();
        let mut ticket = self.worker.shared.router.ticket(intent);
        loop {
            let attempt = Attempt {
                worker: &self.worker,
                listener: &self.listener,
                settings: &self.settings,
                client: &mut self.client,
                ticket: &mut ticket,
            };
            match attempt.run().await {
                Ok(met) => return Ok((met, counted, for_server)),
                Err(setback) => self.set_back(setback, &mut ticket).await?,
            }
            if ticket.deadline() <= Instant::now() {
                let router = &self.worker.shared.router;
                return Err(End::late(&router.give_up(&ticket)));
            }
        }
    }

    /// The first packet. Whoever has not spoken is no session yet, so a drain does not wait for it long.
    async fn greet(&mut self) -> Result<Next, End> {
        let drained = async {
            self.worker.drain.cancelled().await;
            tokio::time::sleep(GREET_IN_DRAIN).await;
        };
        tokio::select! {
            biased;
            next = self.client.next(self.settings.startup_timeout) => next,
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
            Setback::Moved => {}
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
