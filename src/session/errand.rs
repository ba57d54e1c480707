//! What the process that has the listening sockets asks of the one before it, as long as that lives.

use std::sync::{Mutex, PoisonError};

use serde::{Deserialize, Serialize};
use tokio::sync::{mpsc, oneshot};

use super::stream::Peer;
use crate::net::Address;

/// A cancel whose key is not known here: the session may have stayed behind.
pub(crate) struct Errand {
    pub(crate) cancel: Cancel,
    /// Was the key known there? Dropped, it says that nobody knows.
    pub(crate) done: oneshot::Sender<bool>,
}

/// A cancel request, and who has sent it where.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct Cancel {
    pub(super) listener: Address,
    pub(super) peer: Peer,
    pub(super) packet: Vec<u8>,
}

/// The process before this one, while it lives.
#[derive(Default)]
pub(super) struct Elder {
    /// Tiny and never held across an await: the sender is cloned or replaced.
    errands: Mutex<Option<mpsc::Sender<Errand>>>,
}

impl Elder {
    pub(super) fn set(&self, errands: Option<mpsc::Sender<Errand>>) {
        *self.errands.lock().unwrap_or_else(PoisonError::into_inner) = errands;
    }

    fn now(&self) -> Option<mpsc::Sender<Errand>> {
        let errands = self.errands.lock().unwrap_or_else(PoisonError::into_inner);
        errands.clone()
    }

    /// Was the key known there? Then the node that issued it has the cancel.
    pub(super) async fn knows(&self, cancel: Cancel) -> bool {
        let Some(errands) = self.now() else {
            return false;
        };
        let (done, answer) = oneshot::channel();
        errands.send(Errand { cancel, done }).await.is_ok() && answer.await.unwrap_or(false)
    }
}
