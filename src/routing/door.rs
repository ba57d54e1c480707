//! A node's door: how many may dial it at once, and when the last attempt failed.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::clock::BootTime;

/// The right to dial a node, given back when dropped.
#[derive(Debug)]
pub(crate) struct Slot {
    _permit: OwnedSemaphorePermit,
}

/// How long a node that said 53300 is left alone by those who can wait.
pub(super) const FULL_PAUSE: Duration = Duration::from_millis(250);

/// More addresses than any cluster has: the unused ones are forgotten.
const DOORS: usize = 64;

#[derive(Debug)]
struct Door {
    slots: Arc<Semaphore>,
    /// How many `slots` had at the start: a reload may want others.
    size: usize,
    /// The latest failed dial.
    failed: BootTime,
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

    /// How long the node should be left alone because it is full.
    pub(super) fn pause(&self, addr: SocketAddr, now: BootTime) -> Duration {
        self.with(addr, |door| {
            door.full
                .map_or(Duration::ZERO, |at| (at + FULL_PAUSE).saturating_sub(now))
        })
    }

    fn with<T>(&self, addr: SocketAddr, use_door: impl FnOnce(&mut Door) -> T) -> T {
        let mut doors = self.doors.lock().unwrap_or_else(PoisonError::into_inner);
        if doors.len() >= DOORS && !doors.contains_key(&addr) {
            doors.retain(|_, door| door.slots.available_permits() < door.size);
        }
        use_door(doors.entry(addr).or_insert_with(|| Door {
            slots: Arc::new(Semaphore::new(0)),
            size: 0,
            failed: BootTime::ZERO,
            ready: None,
            full: None,
        }))
    }
}

impl Slot {
    pub(super) fn new(permit: OwnedSemaphorePermit) -> Self {
        Self { _permit: permit }
    }
}
