//! What sessions tell the tracker: how many wait, how many are open, what a dial met, who wants news.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::Notify;

use crate::clock::{BootTime, Clock};

/// One thing a session wants the tracker to know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wish {
    /// An answer of the leader to a question sent not before this.
    Fresh(BootTime),
    /// A dial failed at this time: refused, reset, timed out, FATAL 57P01–57P03, `in_hot_standby`.
    DialFailed(SocketAddr, BootTime),
    /// A dial to the leader reached its first ReadyForQuery.
    DialReady(SocketAddr, BootTime),
    /// A server closed an established session that its client did not end.
    ServerClosed(BootTime),
    /// A replica was not to be reached, or has ended a session: one answer to a question sent not before this.
    Look(SocketAddr, BootTime),
}

/// Shared by all sessions of a house (who write) and its tracker (who reads).
#[derive(Debug)]
pub(crate) struct Demand {
    clock: Clock,
    held: AtomicUsize,
    /// Open read-write sessions.
    open: AtomicUsize,
    /// When a read-write session was last open, in milliseconds of the clock; 0 = never.
    last_open: AtomicU64,
    /// Tiny and never held across an await: one entry is written, or all are taken.
    wishes: Mutex<Wishes>,
    changed: Notify,
}

/// The newest wish of each kind: an older one says nothing more, and a crowd's are one.
#[derive(Debug, Default)]
struct Wishes {
    failed: Option<(SocketAddr, BootTime)>,
    ready: Option<(SocketAddr, BootTime)>,
    fresh: Option<BootTime>,
    closed: Option<BootTime>,
    /// At most one for each node.
    looks: Vec<(SocketAddr, BootTime)>,
}

impl Wishes {
    fn add(&mut self, wish: Wish) {
        let later = |a: (SocketAddr, BootTime), b: Option<(SocketAddr, BootTime)>| match b {
            Some(b) if b.1 > a.1 => Some(b),
            _ => Some(a),
        };
        match wish {
            Wish::Fresh(since) => self.fresh = self.fresh.max(Some(since)),
            Wish::DialFailed(addr, at) => self.failed = later((addr, at), self.failed),
            Wish::DialReady(addr, at) => self.ready = later((addr, at), self.ready),
            Wish::ServerClosed(at) => self.closed = self.closed.max(Some(at)),
            Wish::Look(addr, at) => {
                self.looks.retain(|(other, _)| *other != addr);
                self.looks.push((addr, at));
            }
        }
    }

    /// Failures before successes: a success settles what failed before it.
    fn into_list(self) -> Vec<Wish> {
        let failed = self.failed.map(|(addr, at)| Wish::DialFailed(addr, at));
        let ready = self.ready.map(|(addr, at)| Wish::DialReady(addr, at));
        let fresh = self.fresh.map(Wish::Fresh);
        let closed = self.closed.map(Wish::ServerClosed);
        let looks = self
            .looks
            .into_iter()
            .map(|(addr, at)| Wish::Look(addr, at));
        [failed, ready, fresh, closed]
            .into_iter()
            .flatten()
            .chain(looks)
            .collect()
    }
}

impl Demand {
    pub(crate) fn new(clock: Clock) -> Arc<Self> {
        Arc::new(Self {
            clock,
            held: AtomicUsize::new(0),
            open: AtomicUsize::new(0),
            last_open: AtomicU64::new(0),
            wishes: Mutex::default(),
            changed: Notify::new(),
        })
    }

    /// A client waits for a leader, as long as the guard lives.
    pub(crate) fn hold(self: &Arc<Self>) -> HeldGuard {
        if self.held.fetch_add(1, Ordering::Relaxed) == 0 {
            self.changed.notify_one();
        }
        HeldGuard(Arc::clone(self))
    }

    /// A read-write session at the leader is open, as long as the guard lives.
    pub(crate) fn open(self: &Arc<Self>) -> OpenGuard {
        self.touch();
        if self.open.fetch_add(1, Ordering::Relaxed) == 0 {
            self.changed.notify_one();
        }
        OpenGuard(Arc::clone(self))
    }

    pub(crate) fn wish(&self, wish: Wish) {
        self.wishes
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .add(wish);
        self.changed.notify_one();
    }

    pub(crate) fn held_now(&self) -> usize {
        self.held.load(Ordering::Relaxed)
    }

    pub(crate) fn open_now(&self) -> usize {
        self.open.load(Ordering::Relaxed)
    }

    /// When a read-write session was last open: `now` while one is.
    pub(crate) fn last_open(&self, now: BootTime) -> Option<BootTime> {
        if self.open_now() > 0 {
            return Some(now);
        }
        match self.last_open.load(Ordering::Relaxed) {
            0 => None,
            ms => Some(BootTime::from_millis(ms)),
        }
    }

    /// For the tracker: what was wished since the last call.
    pub(crate) fn take_wishes(&self) -> Vec<Wish> {
        std::mem::take(&mut *self.wishes.lock().unwrap_or_else(PoisonError::into_inner)).into_list()
    }

    /// For the tracker: something above has changed.
    pub(crate) async fn changed(&self) {
        self.changed.notified().await;
    }

    fn touch(&self) {
        self.last_open
            .store(self.clock.now().as_millis(), Ordering::Relaxed);
    }
}

/// A held client.
#[derive(Debug)]
pub(crate) struct HeldGuard(Arc<Demand>);

impl Drop for HeldGuard {
    fn drop(&mut self) {
        if self.0.held.fetch_sub(1, Ordering::Relaxed) == 1 {
            self.0.changed.notify_one();
        }
    }
}

/// An open read-write session.
#[derive(Debug)]
pub(crate) struct OpenGuard(Arc<Demand>);

impl Drop for OpenGuard {
    fn drop(&mut self) {
        self.0.touch();
        if self.0.open.fetch_sub(1, Ordering::Relaxed) == 1 {
            self.0.changed.notify_one();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_crowds_wishes_are_one_and_none_crowds_out_another() {
        let demand = Demand::new(Clock::paused());
        let addr = "127.0.0.1:5432".parse().unwrap();
        let at = |ms| BootTime::ZERO + Duration::from_millis(ms);

        for ms in 0..10_000 {
            demand.wish(Wish::ServerClosed(at(ms)));
        }
        demand.wish(Wish::DialFailed(addr, at(7)));
        demand.wish(Wish::DialFailed(addr, at(5)));

        assert_eq!(
            demand.take_wishes(),
            [Wish::DialFailed(addr, at(7)), Wish::ServerClosed(at(9_999))]
        );
        assert!(demand.take_wishes().is_empty());
    }
}
