//! A node's door: how many may dial it at once, how many are inside, and when the last attempt failed.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::clock::BootTime;

/// The right to dial a node, given back when dropped.
#[derive(Debug)]
pub(crate) struct Slot {
    _permit: OwnedSemaphorePermit,
}

/// One connection to a node, from the dial to its end.
#[derive(Debug)]
pub(crate) struct Inside(Arc<AtomicUsize>);

/// How long readers pass by a node whose dial failed.
const ASIDE: Duration = Duration::from_secs(5);
/// How long a node that said 53300 is left alone by those who can wait.
pub(super) const FULL_PAUSE: Duration = Duration::from_millis(250);

/// More addresses than any cluster has: the unused ones are forgotten.
const DOORS: usize = 64;

#[derive(Debug)]
struct Door {
    slots: Arc<Semaphore>,
    /// How many `slots` had at the start: a reload may want others.
    size: usize,
    inside: Arc<AtomicUsize>,
    /// The latest failed dial.
    failed: BootTime,
    /// Readers pass by until then.
    aside: BootTime,
    /// The epoch of which the tracker knows that dials succeed, unless one has failed since.
    ready: Option<u64>,
    /// The latest 53300.
    full: Option<BootTime>,
}

/// All doors, by address: a node that moves to another address starts anew.
#[derive(Debug, Default)]
pub(super) struct Doors {
    /// Tiny and never held across an await: each use reads or writes one entry.
    doors: Mutex<HashMap<SocketAddr, Door>>,
}

impl Doors {
    /// The semaphore of a node's slots. Those given out under another size stay out until they are dropped.
    pub(super) fn slots(&self, addr: SocketAddr, size: usize) -> Arc<Semaphore> {
        self.with(addr, |door| {
            if door.size != size {
                door.slots = Arc::new(Semaphore::new(size));
                door.size = size;
            }
            Arc::clone(&door.slots)
        })
    }

    pub(super) fn note_failed(&self, addr: SocketAddr, at: BootTime) {
        self.with(addr, |door| {
            door.failed = door.failed.max(at);
            door.aside = door.aside.max(at + ASIDE);
            door.ready = None;
        });
    }

    /// A dial has succeeded: is that worth a word?
    pub(super) fn is_ready_news(&self, addr: SocketAddr, epoch: u64) -> bool {
        self.with(addr, |door| door.ready.replace(epoch) != Some(epoch))
    }

    pub(super) fn note_full(&self, addr: SocketAddr, at: BootTime) {
        self.with(addr, |door| door.full = door.full.max(Some(at)));
    }

    /// An address is dialled again only after a proof whose question was sent later than the failure: one answer
    /// releases everybody, and nobody hammers a closed port.
    pub(super) fn failed_since(&self, addr: SocketAddr, proved: BootTime) -> bool {
        self.with(addr, |door| proved <= door.failed)
    }

    /// Until when the node is to be left alone because it is full, if that is to come.
    pub(super) fn full_until(&self, addr: SocketAddr, now: BootTime) -> Option<BootTime> {
        let until = self.with(addr, |door| door.full.map(|at| at + FULL_PAUSE));
        until.filter(|until| now < *until)
    }

    /// Until when readers pass by, if that is to come.
    pub(super) fn aside_until(&self, addr: SocketAddr, now: BootTime) -> Option<BootTime> {
        Some(self.with(addr, |door| door.aside)).filter(|until| now < *until)
    }

    pub(super) fn enter(&self, addr: SocketAddr) -> Inside {
        let inside = self.with(addr, |door| Arc::clone(&door.inside));
        inside.fetch_add(1, Ordering::Relaxed);
        Inside(inside)
    }

    pub(super) fn inside(&self, addr: SocketAddr) -> usize {
        self.with(addr, |door| door.inside.load(Ordering::Relaxed))
    }

    /// Are as many dials under way as may be?
    pub(super) fn is_busy(&self, addr: SocketAddr) -> bool {
        self.with(addr, |door| {
            door.size > 0 && door.slots.available_permits() == 0
        })
    }

    fn with<T>(&self, addr: SocketAddr, use_door: impl FnOnce(&mut Door) -> T) -> T {
        let mut doors = self.doors.lock().unwrap_or_else(PoisonError::into_inner);
        if doors.len() >= DOORS && !doors.contains_key(&addr) {
            doors.retain(|_, door| Arc::strong_count(&door.inside) > 1);
        }
        use_door(doors.entry(addr).or_insert_with(|| Door {
            slots: Arc::new(Semaphore::new(0)),
            size: 0,
            inside: Arc::default(),
            failed: BootTime::ZERO,
            aside: BootTime::ZERO,
            ready: None,
            full: None,
        }))
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Slot {
    pub(super) fn new(permit: OwnedSemaphorePermit) -> Self {
        Self { _permit: permit }
    }
}
