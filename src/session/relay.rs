//! The long stay: both directions at once, until one side closes, the epoch is over, or the process drains.

use std::future::poll_fn;
use std::io;
use std::os::fd::AsRawFd;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::sync::OwnedSemaphorePermit;
use tokio::time::Sleep;

use super::ear::Ear;
use super::forward::{Broken, Forward, Moved, Pass};
use super::goodbye;
use super::hearing::Hearing;
use super::limits::Counted;
use super::registry::{Order, Seat};
use super::worker::{Alive, Worker};
use crate::metrics;

/// A session that stays idle for this long is closed when the process drains.
const IDLE: Duration = Duration::from_secs(1);
/// A server may still work for a session that was revoked here; for so long it can be cancelled.
const KEPT: Duration = Duration::from_secs(10);
/// A client that does not notice its server's end is given so long.
const LINGER: Duration = Duration::from_secs(10);

/// What a session holds of others; all of it is given back together.
pub(super) struct Tokens {
    pub(super) seat: Seat,
    pub(super) _counted: Counted,
    /// The client's and the server's.
    pub(super) _descriptors: [OwnedSemaphorePermit; 2],
    pub(super) _alive: Alive,
}

pub(super) struct Relay {
    /// Before `forward`, so that the place is free before the sockets close.
    pub(super) tokens: Tokens,
    pub(super) worker: Rc<Worker>,
    pub(super) forward: Forward,
    pub(super) hearing: Hearing,
    /// While draining and idle, or after the server's end.
    timer: Option<Pin<Box<Sleep>>>,
}

/// Why a relay is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Over {
    /// Both ends were passed on, or nobody listens any more.
    Closed,
    Ordered(Order),
    Drained,
    /// The client has been told that the server is a standby.
    InRecovery,
    /// Here: another process may go on.
    Packed,
}

impl Relay {
    pub(super) fn new(worker: Rc<Worker>, forward: Forward, ear: Ear, tokens: Tokens) -> Self {
        let place = &tokens.seat.place;
        tracing::debug!(client = %place.peer, node = %place.node, epoch = place.epoch, "session");
        let hearing = Hearing {
            ear: Some(Box::new(ear)),
            key: None,
            in_recovery: false,
        };
        let mut relay = Self::resume(worker, forward, hearing, tokens);
        relay.hear_first_words();
        relay.worker.packer.ask(&relay.tokens.seat.place);
        relay
    }

    /// One that was at rest.
    pub(super) fn resume(
        worker: Rc<Worker>,
        forward: Forward,
        hearing: Hearing,
        tokens: Tokens,
    ) -> Self {
        let place = &tokens.seat.place;
        place.opaque.set(forward.scan.is_none());
        place.server.set(Some(forward.server.as_raw_fd()));
        Self {
            tokens,
            worker,
            forward,
            hearing,
            timer: None,
        }
    }

    /// A task of its own: whoever began it has a large future that ends here.
    pub(super) fn spawn(self) {
        tokio::task::spawn_local(self.run());
    }

    pub(super) async fn run(mut self) {
        match poll_fn(|cx| self.poll(cx)).await {
            Over::Packed => {
                // A relay has no room for what it needs once in its life.
                tokio::task::spawn_local(self.leave());
            }
            over => self.end(over),
        }
    }

    /// What the prologue has read already is on its way down.
    fn hear_first_words(&mut self) {
        let mut first = self.forward.down.take();
        let scan = &mut self.forward.scan;
        let pass = self
            .hearing
            .hear(&first, scan, &self.tokens.seat.place, &self.worker.shared);
        if let Pass::Cut(end) = pass {
            first.truncate(end);
        }
        self.forward.down.append(&first);
        if pass != Pass::All {
            self.forward.down.reached.ended = true;
            self.server_ended();
        }
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Over> {
        if let Some(order) = self.tokens.seat.place.order(cx) {
            return Poll::Ready(Over::Ordered(order));
        }
        if self.is_to_leave() {
            return Poll::Ready(Over::Packed);
        }
        if let Some(ear) = &mut self.hearing.ear {
            ear.poll_late(cx);
        }
        let worker = Rc::clone(&self.worker);
        let mut buffer = worker.buffer.borrow_mut();
        let over = match self.poll_up(cx, &mut buffer) {
            None => self.poll_down(cx, &mut buffer),
            over => over,
        };
        match over {
            Some(over) => Poll::Ready(over),
            None => self.poll_timer(cx),
        }
    }

    /// Its turn has come. One that is only being told its end has no use for it.
    fn is_to_leave(&self) -> bool {
        let place = &self.tokens.seat.place;
        if self.hearing.in_recovery {
            drop(place.take_turn());
        }
        place.has_turn()
    }

    fn poll_up(&mut self, cx: &mut Context<'_>, buffer: &mut [u8]) -> Option<Over> {
        loop {
            match self.move_up(cx, buffer) {
                Poll::Pending => return None,
                Poll::Ready(Ok(Moved::Ended)) => {}
                // After the server's end as well there is nothing left.
                Poll::Ready(Ok(Moved::Closed)) => {
                    return self.forward.down.reached.closed.then_some(Over::Closed);
                }
                Poll::Ready(Err(Broken::Source(error))) => return Some(self.client_lost(&error)),
                Poll::Ready(Err(Broken::Sink(error))) => {
                    self.server_lost(&error);
                    // It takes nothing more, but may have said why: what it sent is still read.
                    self.forward.up.sink();
                }
            }
        }
    }

    fn move_up(&mut self, cx: &mut Context<'_>, buffer: &mut [u8]) -> Poll<Result<Moved, Broken>> {
        let Forward {
            client,
            server,
            up,
            down,
            scan,
        } = &mut self.forward;
        let (ear, timer) = (&mut self.hearing.ear, &mut self.timer);
        let bytes = &self.worker.shared.metrics.bytes_to_server;
        up.poll_move(cx, client, server, buffer, |chunk| {
            bytes.inc_by(chunk.len() as u64);
            // After the server's end the client's time runs, whatever it says.
            if !down.reached.closed {
                *timer = None;
            }
            if let Some(scan) = scan {
                scan.pass_up(chunk);
            }
            if let Some(ear) = ear {
                ear.client_spoke();
            }
            Pass::All
        })
    }

    fn poll_down(&mut self, cx: &mut Context<'_>, buffer: &mut [u8]) -> Option<Over> {
        loop {
            match self.move_down(cx, buffer) {
                Poll::Pending => return None,
                Poll::Ready(Ok(Moved::Ended)) => self.server_ended(),
                Poll::Ready(Ok(Moved::Closed)) if self.hearing.in_recovery => {
                    return Some(Over::InRecovery);
                }
                Poll::Ready(Ok(Moved::Closed)) => {
                    return self.is_client_done().then_some(Over::Closed);
                }
                Poll::Ready(Err(Broken::Source(error))) => {
                    self.server_lost(&error);
                    self.forward.down.reached.ended = true;
                    self.server_ended();
                }
                Poll::Ready(Err(Broken::Sink(error))) => return Some(self.client_lost(&error)),
            }
        }
    }

    fn move_down(
        &mut self,
        cx: &mut Context<'_>,
        buffer: &mut [u8],
    ) -> Poll<Result<Moved, Broken>> {
        let Forward {
            client,
            server,
            down,
            scan,
            ..
        } = &mut self.forward;
        let (hearing, timer) = (&mut self.hearing, &mut self.timer);
        let (place, shared) = (&self.tokens.seat.place, &self.worker.shared);
        down.poll_move(cx, server, client, buffer, |chunk| {
            *timer = None;
            hearing.hear(chunk, scan, place, shared)
        })
    }

    fn client_lost(&self, error: &io::Error) -> Over {
        tracing::debug!(client = %self.tokens.seat.place.peer, %error, "the client's connection broke");
        Over::Closed
    }

    fn server_lost(&self, error: &io::Error) {
        let place = &self.tokens.seat.place;
        tracing::debug!(client = %place.peer, node = %place.node, %error, "the server's connection broke");
    }

    /// The server's end was read, not passed on yet: the last moment for words.
    fn server_ended(&mut self) {
        self.timer = None;
        let place = &self.tokens.seat.place;
        let router = &self.worker.shared.router;
        if self.hearing.in_recovery {
            self.forward.up.sink();
            let words = goodbye::in_recovery(&place.node).encode();
            self.forward.down.append(&words);
            self.worker
                .refused(metrics::Refusal::in_recovery, &place.node);
            return router.distrust(place.addr, place.leads);
        }
        let has_begun = self.hearing.ear.is_none();
        let Some(scan) = &self.forward.scan else {
            if has_begun && !self.forward.up.reached.ended {
                router.server_closed(place.addr, place.leads);
            }
            return;
        };
        if self.is_client_done() {
            return;
        }
        if has_begun {
            router.server_closed(place.addr, place.leads);
        } else if !scan.down.has_said_why() {
            router.distrust(place.addr, place.leads);
        }
        if scan.down.at_boundary() && !scan.down.has_said_why() {
            let words = goodbye::server_lost(&place.node).encode();
            self.forward.down.append(&words);
        }
    }

    /// The client has ended its side, or has said goodbye.
    fn is_client_done(&self) -> bool {
        let has_said_goodbye = self
            .forward
            .scan
            .is_some_and(|scan| scan.up.is_terminated());
        self.forward.up.reached.ended || has_said_goodbye
    }

    fn poll_timer(&mut self, cx: &mut Context<'_>) -> Poll<Over> {
        let (up, down) = (&self.forward.up, &self.forward.down);
        let is_lingering = down.reached.closed && !up.reached.ended;
        let is_idle = self.worker.draining.get()
            && self.forward.scan.is_some_and(|scan| scan.is_idle())
            && up.is_clear()
            && down.is_clear();
        let (wait, over) = match (is_lingering, is_idle) {
            (true, _) => (LINGER, Over::Closed),
            (false, true) => (IDLE, Over::Drained),
            (false, false) => {
                self.timer = None;
                return Poll::Pending;
            }
        };
        let timer = self
            .timer
            .get_or_insert_with(|| Box::pin(tokio::time::sleep(wait)));
        timer.as_mut().poll(cx).map(|()| over)
    }

    fn end(self, over: Over) {
        let place = Rc::clone(&self.tokens.seat.place);
        let words = match over {
            Over::Closed | Over::InRecovery | Over::Packed => None,
            Over::Drained => Some(goodbye::draining()),
            Over::Ordered(Order::Revoked(reason)) => {
                self.worker.shared.metrics.revoke(reason, 1);
                Some(goodbye::revoked(&place.node, place.intent.route, reason))
            }
            Over::Ordered(Order::DeadPeer) => {
                let router = &self.worker.shared.router;
                router.server_closed(place.addr, place.leads);
                Some(goodbye::server_lost(&place.node))
            }
        };
        tracing::debug!(client = %place.peer, node = %place.node, epoch = place.epoch, ?over, "session over");
        let has_spoken =
            over == Over::InRecovery || words.is_some_and(|words| self.forward.say(&words));
        let Tokens {
            seat,
            _counted,
            _descriptors,
            _alive,
        } = self.tokens;
        let Forward { client, server, .. } = self.forward;
        if let (Over::Ordered(Order::Revoked(_)), Some(key)) = (over, self.hearing.key) {
            tokio::task::spawn_local(async move {
                tokio::time::sleep(KEPT).await;
                drop(key);
            });
        }
        // The server first: nobody stays on a node that does not lead any more.
        drop((seat, server));
        if has_spoken {
            // A task of its own, so that a session has no room for what only few of them need.
            tokio::task::spawn_local(async move {
                goodbye::close(client).await;
                drop((_counted, _descriptors, _alive));
            });
        }
    }
}
