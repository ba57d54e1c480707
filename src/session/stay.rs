//! A client's way from its first byte to the relay: greet, route, dial, prologue, and again until its time is up.

use std::rc::Rc;
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::Instant;

use super::client::{Client, Next};
use super::dial::{dial, welcome};
use super::ear::Ear;
use super::error::{DialError, End, Setback};
use super::forward::{Forward, Scan, Way};
use super::limits::Counted;
use super::listener::Listener;
use super::prologue::{Introduced, Prologue, Road, broken};
use super::registry::Seat;
use super::relay::{Relay, Tokens};
use super::worker::Worker;
use super::{SessionSettings, cancel, goodbye};
use crate::metrics;
use crate::protocol::{Code, Refusal};
use crate::routing::{RouteError, Routed, Ticket};

/// Between two attempts of a client that was held at a node that says 53300.
const FULL_PAUSE: Duration = Duration::from_millis(250);

/// Serves one client to its end.
pub(super) async fn stay(
    worker: Rc<Worker>,
    listener: Rc<Listener>,
    client: Client,
    descriptor: OwnedSemaphorePermit,
) {
    let alive = worker.alive();
    welcome(&client.stream);
    let settings = worker.shared.settings.borrow().clone();
    let mut stay = Stay {
        worker: Rc::clone(&worker),
        listener,
        client,
        settings,
    };
    let end = match stay.begin().await {
        Ok(begun) => {
            let tokens = Tokens {
                seat: begun.seat,
                _counted: begun.counted,
                _descriptors: [descriptor, begun.descriptor],
                _alive: alive,
            };
            let forward = stay.into_forward(begun.server, begun.introduced);
            let relay = Relay::new(worker, forward, begun.ear, tokens);
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

/// A client and a server that have found each other.
struct Begun {
    server: TcpStream,
    introduced: Introduced,
    ear: Ear,
    seat: Seat,
    counted: Counted,
    descriptor: OwnedSemaphorePermit,
}

/// As far as one attempt comes.
struct Attempt {
    server: TcpStream,
    introduced: Introduced,
    ear: Ear,
    seat: Seat,
    descriptor: OwnedSemaphorePermit,
}

impl Stay {
    async fn begin(&mut self) -> Result<Begun, End> {
        match self.client.next(self.settings.startup_timeout).await? {
            Next::Cancel { length } => return Err(End::Cancel { length }),
            Next::Broken => return Err(broken()),
            Next::Hello | Next::Request(_) | Next::Startup { .. } => {}
        }
        let counted = self.count()?;
        let mut ticket = self.worker.shared.router.ticket();
        loop {
            let attempt = self.attempt(&mut ticket).await;
            match attempt {
                Ok(attempt) => {
                    return Ok(Begun {
                        server: attempt.server,
                        introduced: attempt.introduced,
                        ear: attempt.ear,
                        seat: attempt.seat,
                        counted,
                        descriptor: attempt.descriptor,
                    });
                }
                Err(setback) => self.set_back(setback, &mut ticket).await?,
            }
            if ticket.deadline() <= Instant::now() {
                let router = &self.worker.shared.router;
                return Err(late(&router.give_up(self.listener.route, &ticket)));
            }
        }
    }

    fn count(&self) -> Result<Counted, End> {
        let limits = &self.worker.shared.limits;
        let most = self.settings.max_connections;
        let most_here = self.listener.max_connections.get();
        limits
            .count(&self.listener.count, most, most_here)
            .map_err(|most| {
                full(format!(
                    "too many connections: helios-proxy's max_connections is {most}"
                ))
            })
    }

    /// Waits for a target and its slot, dials, and introduces the client.
    async fn attempt(&mut self, ticket: &mut Ticket) -> Result<Attempt, Setback> {
        let worker = Rc::clone(&self.worker);
        let router = &worker.shared.router;
        let routed = tokio::select! {
            biased;
            routed = router.route(self.listener.route, ticket) => routed,
            end = self.client.left() => return Err(end.into()),
        };
        let Routed { target, slot } = routed.map_err(|error| late(&error))?;
        let descriptor = worker.shared.limits.descriptor().ok_or_else(|| {
            full("too many connections: no file descriptor is left for another one".into())
        })?;

        let limit = self.settings.connect_timeout;
        let dialled = async {
            let dial = dial(target.addr, limit, self.settings.dead_peer);
            let (server, ()) = tokio::join!(dial, router.fresh(&target));
            server
        };
        let mut server = tokio::select! {
            biased;
            _ = target.revocation.revoked() => return Err(Setback::Moved),
            end = self.client.left() => return Err(end.into()),
            dialled = dialled => dialled?,
        };
        // Nothing of the client has reached a server yet: this is where the lease counts.
        if !router.still_valid(&target) {
            return Err(Setback::Moved);
        }
        let seat = worker
            .registry
            .seat(&worker.shared, &self.listener, self.client.peer, &target)
            .ok_or(Setback::Moved)?;

        let mut prologue = Prologue {
            router,
            target: &target,
            client: &mut self.client,
            server: &mut server,
            deadline: ticket.deadline(),
            startup_timeout: self.settings.startup_timeout,
        };
        let introduced = tokio::select! {
            biased;
            _ = target.revocation.revoked() => return Err(Setback::Moved),
            introduced = prologue.run() => introduced,
        };
        let introduced = match introduced {
            // Whoever never waited may as well know.
            Err(Setback::Full { heard, node }) if !ticket.was_held() => {
                router.node_is_full(node);
                Introduced {
                    heard,
                    sent: self.client.inbox.len(),
                    road: Road::Clear,
                }
            }
            introduced => introduced?,
        };
        let ear = match introduced.road {
            Road::Clear => Ear::clear(slot),
            Road::Opaque { hello } => Ear::opaque(slot, hello),
        };
        Ok(Attempt {
            server,
            introduced,
            ear,
            seat,
            descriptor,
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
                router.dial_failed(ticket, failed_at(&error), words);
            }
            Setback::Shy { .. } => router.attempt_failed(ticket, setback.to_string()),
            Setback::Full { node, .. } => {
                router.node_is_full(node);
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

fn failed_at(error: &DialError) -> std::net::SocketAddr {
    match error {
        DialError::Connect { node, .. }
        | DialError::TimedOut { node, .. }
        | DialError::Broke { node, .. }
        | DialError::Closed { node }
        | DialError::Refused { node, .. }
        | DialError::Mute { node }
        | DialError::Nonsense { node, .. } => *node,
    }
}

fn late(error: &RouteError) -> End {
    let refusal = Refusal::new(Code::CannotConnectNow, error.to_string())
        .detail(error.detail())
        .hint(error.hint());
    End::Refused {
        refusal: Box::new(refusal),
        reason: Some(error.reason()),
    }
}

fn full(words: String) -> End {
    End::Refused {
        refusal: Box::new(Refusal::new(Code::TooManyConnections, words)),
        reason: Some(metrics::Refusal::full),
    }
}
