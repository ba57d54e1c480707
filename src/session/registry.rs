//! Who sits at which node: how a revocation, the dead-peer sweep, a drain and an unreadable cancel find sessions.

use std::cell::{Cell, RefCell};
use std::collections::{HashMap, HashSet};
use std::net::SocketAddr;
use std::os::fd::RawFd;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use super::listener::Listener;
use super::pack::{Tries, Turn};
use super::shared::Shared;
use super::stream::Peer;
use super::sweep::Looks;
use crate::metrics::{RevokeReason, SessionLabel};
use crate::net::Address;
use crate::routing::{Inside, Intent, OpenGuard, Placed, Revocation, Target};

/// The sessions of one worker.
#[derive(Debug, Default)]
pub(super) struct Registry {
    places: RefCell<HashMap<u64, Rc<Place>>>,
    next: Cell<u64>,
    /// Revocations that a task of this worker awaits: one each, however many sessions they would end.
    watched: RefCell<HashSet<usize>>,
}

/// What others must know of a session.
#[derive(Debug)]
pub(super) struct Place {
    pub(super) listener: Rc<Listener>,
    pub(super) peer: Peer,
    pub(super) node: Arc<str>,
    pub(super) addr: SocketAddr,
    /// What its listener's clients wanted when it came.
    pub(super) intent: Intent,
    /// The node was chosen as the leader.
    pub(super) leads: bool,
    pub(super) epoch: u64,
    /// Which revocation ends it. Kept, not only its id: another one could come to lie where this one lay.
    ends_with: Revocation,
    /// Its bytes cannot be read: TLS or GSS encryption.
    pub(super) opaque: Cell<bool>,
    /// The socket of the server, once the session is relayed.
    pub(super) server: Cell<Option<RawFd>>,
    /// What the sweep has seen of it.
    pub(super) looks: Cell<Looks>,
    order: Cell<Option<Order>>,
    /// It may be packed now.
    turn: RefCell<Option<Turn>>,
    pub(super) tries: Tries,
    /// Nobody knows yet which process goes on with it.
    pub(super) on_its_way: Cell<bool>,
    waker: RefCell<Option<Waker>>,
}

/// What a relay is told by others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    Revoked(RevokeReason),
    /// The server's kernel answers nothing any more.
    DeadPeer,
}

/// A session's own end of its place: the place is free when this is dropped.
pub(super) struct Seat {
    pub(super) place: Rc<Place>,
    registry: Rc<Registry>,
    shared: Arc<Shared>,
    id: u64,
    _open: Option<OpenGuard>,
    _inside: Inside,
}

impl Registry {
    /// `None` when the epoch is over, or the node takes no readers any more. On this thread nothing can happen between
    /// that look and the entry, so a revocation cannot miss a session.
    pub(super) fn seat(
        self: &Rc<Self>,
        shared: &Arc<Shared>,
        listener: &Rc<Listener>,
        peer: Peer,
        target: &Target,
        inside: Inside,
    ) -> Option<Seat> {
        if target.revocation.is_revoked() {
            return None;
        }
        let place = Rc::new(Place {
            listener: Rc::clone(listener),
            peer,
            node: Arc::clone(&target.name),
            addr: target.addr,
            intent: target.intent,
            leads: target.leads,
            epoch: target.epoch,
            ends_with: target.revocation.clone(),
            opaque: Cell::new(false),
            server: Cell::new(None),
            looks: Cell::default(),
            order: Cell::new(None),
            turn: RefCell::new(None),
            tries: Tries::default(),
            on_its_way: Cell::new(false),
            waker: RefCell::new(None),
        });
        let id = self.next.get();
        self.next.set(id + 1);
        self.places.borrow_mut().insert(id, Rc::clone(&place));
        self.watch(target);
        let seat = Seat {
            place,
            registry: Rc::clone(self),
            shared: Arc::clone(shared),
            id,
            _open: shared.router.open(target),
            _inside: inside,
        };
        shared.metrics.sessions.get_or_create(&seat.label()).inc();
        Some(seat)
    }

    /// Wakes every relay, so that it looks at what has changed for all of them.
    pub(super) fn wake_all(&self) {
        self.each(|place| place.wake());
    }

    pub(super) fn each(&self, mut look: impl FnMut(&Rc<Place>)) {
        for place in self.places.borrow().values() {
            look(place);
        }
    }

    /// The distinct nodes of the unreadable sessions that a client's address has on a listener.
    pub(super) fn opaque_neighbours(
        &self,
        listener: &Address,
        peer: &Peer,
        most: usize,
    ) -> Vec<SocketAddr> {
        let mut nodes = Vec::new();
        self.each(|place| {
            let belongs = place.opaque.get()
                && place.listener.address == *listener
                && place.peer.is_neighbour(peer);
            if belongs && nodes.len() < most && !nodes.contains(&place.addr) {
                nodes.push(place.addr);
            }
        });
        nodes
    }

    fn watch(self: &Rc<Self>, target: &Target) {
        let id = target.revocation.id();
        if !self.watched.borrow_mut().insert(id) {
            return;
        }
        let (registry, revocation) = (Rc::clone(self), target.revocation.clone());
        tokio::task::spawn_local(async move {
            let reason = revocation.revoked().await;
            registry.watched.borrow_mut().remove(&id);
            let Some(reason) = reason else { return };
            registry.each(|place| {
                if place.ends_with.id() == id {
                    place.give(Order::Revoked(reason));
                }
            });
        });
    }
}

impl Place {
    /// The first order stands.
    pub(super) fn give(&self, order: Order) {
        if self.order.get().is_none() {
            self.order.set(Some(order));
        }
        self.wake();
    }

    /// What the relay was told; else it is woken when it is.
    pub(super) fn order(&self, cx: &Context<'_>) -> Option<Order> {
        let order = self.order.get();
        if order.is_none() {
            let mut waker = self.waker.borrow_mut();
            match &mut *waker {
                Some(waker) => waker.clone_from(cx.waker()),
                None => *waker = Some(cx.waker().clone()),
            }
        }
        order
    }

    /// Ends when there is an order; what it is, the relay asks.
    pub(super) fn poll_ordered(&self, cx: &mut Context<'_>) -> Poll<()> {
        match self.order(cx) {
            Some(_) => Poll::Ready(()),
            None => Poll::Pending,
        }
    }

    pub(super) fn pack(&self, turn: Turn) {
        self.turn.replace(Some(turn));
        self.wake();
    }

    pub(super) fn has_turn(&self) -> bool {
        self.turn.borrow().is_some()
    }

    pub(super) fn take_turn(&self) -> Option<Turn> {
        self.turn.take()
    }

    /// Where it sits, for another process.
    pub(super) fn placed(&self) -> Placed {
        Placed {
            node: self.node.to_string(),
            addr: self.addr,
            epoch: self.epoch,
            leads: self.leads,
            intent: self.intent,
        }
    }

    fn wake(&self) {
        if let Some(waker) = &*self.waker.borrow() {
            waker.wake_by_ref();
        }
    }
}

impl Seat {
    fn label(&self) -> SessionLabel {
        SessionLabel {
            node: self.place.node.to_string(),
            route: self.place.intent.route.word(),
        }
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.registry.places.borrow_mut().remove(&self.id);
        let sessions = &self.shared.metrics.sessions;
        sessions.get_or_create(&self.label()).dec();
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::watch;
    use tokio::task::LocalSet;
    use tokio_util::sync::CancellationToken;

    use super::*;
    use crate::clock::Clock;
    use crate::routing::RoutingSettings;
    use crate::routing::testing::Script;
    use crate::session::SessionSettings;

    fn listener() -> Rc<Listener> {
        Rc::new(Listener {
            address: Address::Unix("/nowhere".into()),
            intent: Cell::default(),
            max_connections: Cell::default(),
            count: Arc::default(),
            stop: CancellationToken::new(),
            leaves_queue: Cell::new(false),
        })
    }

    #[tokio::test(start_paused = true)]
    async fn a_session_that_stays_after_its_node_was_removed_is_ended_with_no_other() {
        let script = Script::new(Clock::paused(), RoutingSettings::default());
        script.leads(([127, 0, 0, 1], 1).into());
        let (_settings, settings) = watch::channel(SessionSettings::default());
        let (router, metrics) = (Arc::clone(&script.router), Arc::clone(&script.metrics));
        let shared = Shared::new(router, metrics, settings, 100);
        let registry = Rc::new(Registry::default());
        let stay = async {
            let mut ticket = script.router.ticket(Default::default());
            let routed = script.router.route(&mut ticket).await.unwrap();
            let (mut target, inside) = (routed.target, routed.inside);
            target.revocation = Revocation::default();
            let seat = registry.seat(&shared, &listener(), Peer::Local, &target, inside);
            let seat = seat.unwrap();
            let id = target.revocation.id();

            target.revocation.retire();
            drop((target, ticket));
            while !registry.watched.borrow().is_empty() {
                tokio::task::yield_now().await;
            }
            tokio::task::yield_now().await;

            let others = [(); 64].map(|()| Revocation::default());
            assert!(others.iter().all(|other| other.id() != id));
            assert_eq!(seat.place.order.get(), None);
        };
        LocalSet::new().run_until(stay).await;
    }
}
