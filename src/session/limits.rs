//! How many clients and how many descriptors there may be.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::net::Address;

/// Descriptors that sessions never get: checks, admin, logs and runtimes hold them.
const RESERVED: u64 = 64;

/// Shared by all workers of a house: one address may be served by several.
#[derive(Debug)]
pub(super) struct Limits {
    all: Arc<AtomicUsize>,
    /// Tiny and never held across an await: looked up when a listener is added.
    listeners: Mutex<HashMap<Address, Arc<AtomicUsize>>>,
    /// Two per client that has spoken, also while it is held. The accept loops wait for one, so that they pause
    /// rather than spin.
    pub(super) descriptors: Arc<Semaphore>,
}

/// One client, as long as it lives: counted in the house and at its listener.
#[derive(Debug)]
pub(super) struct Counted {
    all: Arc<AtomicUsize>,
    listener: Arc<AtomicUsize>,
}

impl Limits {
    pub(super) fn new(descriptor_limit: u64) -> Self {
        let usable = descriptor_limit.saturating_sub(RESERVED).max(2);
        let usable = usize::try_from(usable).unwrap_or(usize::MAX);
        Self {
            all: Arc::default(),
            listeners: Mutex::default(),
            descriptors: Arc::new(Semaphore::new(usable.min(Semaphore::MAX_PERMITS))),
        }
    }

    /// The counter of the clients of one listener.
    pub(super) fn of(&self, address: &Address) -> Arc<AtomicUsize> {
        let mut listeners = self
            .listeners
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        Arc::clone(listeners.entry(address.clone()).or_default())
    }

    /// `Err` with the limit that is reached.
    pub(super) fn count(
        &self,
        listener: &Arc<AtomicUsize>,
        most: usize,
        most_of_listener: Option<usize>,
    ) -> Result<Counted, usize> {
        if self.all.fetch_add(1, Ordering::Relaxed) >= most {
            self.all.fetch_sub(1, Ordering::Relaxed);
            return Err(most);
        }
        let before = listener.fetch_add(1, Ordering::Relaxed);
        let counted = Counted {
            all: Arc::clone(&self.all),
            listener: Arc::clone(listener),
        };
        match most_of_listener {
            Some(most) if before >= most => Err(most),
            _ => Ok(counted),
        }
    }

    /// Counts a client that another process has counted already: whoever is there is not refused.
    pub(super) fn adopt(&self, listener: &Arc<AtomicUsize>) -> Counted {
        self.all.fetch_add(1, Ordering::Relaxed);
        listener.fetch_add(1, Ordering::Relaxed);
        Counted {
            all: Arc::clone(&self.all),
            listener: Arc::clone(listener),
        }
    }

    /// So many sessions of another process count here.
    pub(super) fn more_elsewhere(&self, listener: &Address, sessions: usize) {
        self.all.fetch_add(sessions, Ordering::Relaxed);
        self.of(listener).fetch_add(sessions, Ordering::Relaxed);
    }

    /// So many of them do not any more.
    pub(super) fn fewer_elsewhere(&self, listener: &Address, sessions: usize) {
        self.all.fetch_sub(sessions, Ordering::Relaxed);
        self.of(listener).fetch_sub(sessions, Ordering::Relaxed);
    }

    pub(super) fn counted(&self) -> usize {
        self.all.load(Ordering::Relaxed)
    }

    /// A descriptor for a server, if one is left.
    pub(super) fn descriptor(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.descriptors).try_acquire_owned().ok()
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.all.fetch_sub(1, Ordering::Relaxed);
        self.listener.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refused_client_takes_no_place() {
        let limits = Limits::new(1024);
        let [a, b] = ["127.0.0.1:1", "127.0.0.1:2"]
            .map(|addr| limits.of(&Address::Tcp(addr.parse().unwrap())));

        let first = limits.count(&a, 2, Some(1)).unwrap();
        assert_eq!(limits.count(&a, 2, Some(1)).unwrap_err(), 1);
        let second = limits.count(&b, 2, None).unwrap();
        assert_eq!(limits.count(&b, 2, None).unwrap_err(), 2);
        assert_eq!(limits.counted(), 2);

        drop((first, second));
        assert_eq!(limits.counted(), 0);
        assert!(limits.count(&a, 1, Some(1)).is_ok());
    }

    #[test]
    fn reserved_descriptors_are_never_lent() {
        let limits = Limits::new(66);
        let lent = (limits.descriptor(), limits.descriptor());
        assert!(lent.0.is_some() && lent.1.is_some());
        assert!(limits.descriptor().is_none());
    }
}
