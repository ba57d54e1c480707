//! One attempt to find a client its server: wait, dial, look at the lease again, introduce.

use std::future::poll_fn;
use std::rc::Rc;

use tokio::net::TcpStream;
use tokio::time::Instant;

use super::SessionSettings;
use super::client::Client;
use super::dial::dial;
use super::ear::{Ear, TimedSlot};
use super::error::{DialError, End, Setback};
use super::listener::Listener;
use super::pack::Tries;
use super::prologue::{Introduced, Prologue, Road};
use super::registry::Seat;
use super::worker::Worker;
use crate::routing::{News, Routed, Target, Ticket};

pub(super) struct Attempt<'a> {
    pub(super) worker: &'a Rc<Worker>,
    pub(super) listener: &'a Rc<Listener>,
    pub(super) settings: &'a SessionSettings,
    pub(super) client: &'a mut Client,
    pub(super) ticket: &'a mut Ticket,
    pub(super) tries: &'a Tries,
}

/// A server that has taken the client.
pub(super) struct Met {
    pub(super) server: TcpStream,
    pub(super) introduced: Introduced,
    pub(super) ear: Ear,
    pub(super) seat: Seat,
}

impl Attempt<'_> {
    pub(super) async fn run(mut self) -> Result<Met, Setback> {
        let Routed {
            target,
            slot,
            inside,
        } = self.route().await?;
        let shared = &self.worker.shared;
        let mut server = self.dial(&target).await?;
        let mut slot = TimedSlot::new(slot);
        // Nothing of the client has reached a server yet: this is where the lease counts.
        if !shared.router.still_valid(&target) {
            return Err(Setback::Moved);
        }
        let registry = &self.worker.registry;
        let seat = registry.seat(shared, self.listener, self.client.peer, &target, inside);
        let seat = seat.ok_or(Setback::Moved)?;
        let introduced = self.introduce(&target, &mut server, &mut slot).await?;
        let ear = match introduced.road {
            Road::Clear => Ear::clear(slot),
            Road::Opaque { hello } => Ear::opaque(slot, hello),
        };
        Ok(Met {
            server,
            introduced,
            ear,
            seat,
        })
    }

    async fn route(&mut self) -> Result<Routed, Setback> {
        let router = &self.worker.shared.router;
        let routed = tokio::select! {
            biased;
            routed = router.route(self.ticket) => routed,
            end = self.client.left() => return Err(end.into()),
            turn = self.worker.packer.turn(self.tries) => return Err(Setback::Leaves(turn)),
        };
        Ok(routed.map_err(|error| End::late(&error))?)
    }

    /// Connects, while a writer's leader is asked for fresh news where the last are old, and again where the dial has
    /// outlasted them.
    async fn dial(&mut self, target: &Target) -> Result<TcpStream, Setback> {
        let left = self.ticket.deadline() - Instant::now();
        let limit = self.settings.connect_timeout.min(left);
        let router = &self.worker.shared.router;
        let dialled = async {
            let dial = dial(target.addr, limit, self.settings.dead_peer);
            let (server, news) = tokio::join!(dial, router.fresh(target));
            // Silence was waited for once, and once is enough.
            if server.is_ok() && news == News::Heard {
                router.fresh(target).await;
            }
            server
        };
        tokio::select! {
            biased;
            _ = target.revocation.revoked() => Err(Setback::Moved),
            end = self.client.left() => Err(end.into()),
            dialled = dialled => dialled.map_err(|error| match error {
                DialError::TimedOut { .. } if limit < self.settings.connect_timeout => {
                    Setback::Late(error)
                }
                DialError::Local { .. } => End::full(error.to_string()).into(),
                error => error.into(),
            }),
        }
    }

    async fn introduce(
        &mut self,
        target: &Target,
        server: &mut TcpStream,
        slot: &mut TimedSlot,
    ) -> Result<Introduced, Setback> {
        let router = &self.worker.shared.router;
        let mut prologue = Prologue {
            router,
            target,
            client: self.client,
            server,
            ticket: self.ticket,
            startup_timeout: self.settings.startup_timeout,
        };
        let introduced = tokio::select! {
            biased;
            _ = target.revocation.revoked() => Err(Setback::Moved),
            introduced = prologue.run() => introduced,
            // The slot has its own time; the introduction goes on without it.
            never = poll_fn(|cx| slot.poll_late(cx)) => match never {},
        };
        match introduced {
            // Whoever never waited may as well know.
            Err(Setback::Full { heard, node }) if !self.ticket.was_held() => {
                router.node_is_full(node);
                Ok(Introduced {
                    heard,
                    sent: self.client.inbox.len(),
                    road: Road::Clear,
                })
            }
            introduced => introduced,
        }
    }
}
