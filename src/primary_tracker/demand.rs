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
    /// Tiny and never held across an await: only pushes and one take.
    wishes: Mutex<Vec<Wish>>,
    changed: Notify,
}

/// More wishes than this at once say nothing new.
const WISHES: usize = 64;

impl Demand {
    pub(crate) fn new(clock: Clock) -> Arc<Self> {
        Arc::new(Self {
            clock,
            held: AtomicUsize::new(0),
            open: AtomicUsize::new(0),
            last_open: AtomicU64::new(0),
            wishes: Mutex::new(Vec::new()),
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
        let mut wishes = self.wishes.lock().unwrap_or_else(PoisonError::into_inner);
        if wishes.len() < WISHES {
            wishes.push(wish);
        }
        drop(wishes);
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
        std::mem::take(&mut *self.wishes.lock().unwrap_or_else(PoisonError::into_inner))
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
