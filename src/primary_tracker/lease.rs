//! Permission to start read-write sessions at the leader, until a time.

use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::clock::BootTime;
use crate::metrics::RevokeReason;

/// The node that leads, as sessions need it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Leader {
    pub(crate) name: Arc<str>,
    pub(crate) node_id: Uuid,
    /// PostgreSQL's address: the IP address that gave the proof (or that configuration binds to it).
    pub(crate) addr: SocketAddr,
    pub(crate) timeline: Option<u32>,
}

/// Who leads, and until when that may be relied on.
///
/// A lease is a value and not a flag: whoever uses it brings its own `now`, so nobody can act on a `true` that
/// was computed before the process was suspended.
#[derive(Clone, Debug)]
pub(crate) struct Lease {
    pub(crate) leader: Leader,
    pub(crate) epoch: u64,
    /// Counts from when the question was *sent*: the answer may have been on its way for seconds. `None` stands
    /// until changed (manual mode).
    pub(crate) until: Option<BootTime>,
    /// When the question was sent whose answer, the leader's or a witness's, last proved the leader.
    pub(crate) proved: BootTime,
    /// How long this node usually takes to answer: a session's news may be older by twice that.
    pub(crate) usual: Duration,
    /// False while the leader retires or has lost its lock: open sessions stay, no new ones start.
    pub(crate) open: bool,
    /// Ends the sessions of this epoch. Kept together with `leader`, so that no session can belong to one leader
    /// and be ended with another.
    pub(crate) revocation: Revocation,
}

impl Lease {
    /// May a read-write session start now?
    pub(crate) fn is_valid(&self, now: BootTime) -> bool {
        self.open && !self.revocation.is_revoked() && self.until.is_none_or(|until| now < until)
    }

    /// Time left at `now`, zero when over; `None` when the lease has no end.
    pub(crate) fn remaining(&self, now: BootTime) -> Option<Duration> {
        self.until.map(|until| until.saturating_sub(now))
    }
}

/// The token that ends the sessions of one epoch, or the read sessions of one node, and why it did. A session holds it from before it dials.
#[derive(Clone, Debug, Default)]
pub(crate) struct Revocation {
    token: CancellationToken,
    /// Written once, before the token is cancelled.
    reason: Arc<OnceLock<RevokeReason>>,
}

impl Revocation {
    pub(crate) fn revoke(&self, reason: RevokeReason) {
        let _ = self.reason.set(reason);
        self.token.cancel();
    }

    /// Nobody new may come under it, and nobody who is there is ended by it.
    pub(crate) fn retire(&self) {
        self.token.cancel();
    }

    /// Tells two apart.
    pub(crate) fn id(&self) -> usize {
        Arc::as_ptr(&self.reason) as usize
    }

    pub(crate) fn is_revoked(&self) -> bool {
        self.token.is_cancelled()
    }

    /// Why the epoch is over, once it is.
    pub(crate) fn reason(&self) -> Option<RevokeReason> {
        self.reason.get().copied()
    }

    /// Ends when no session may start under it any more, at once when that is so already: with the reason to end those
    /// that have, `None` where they stay.
    pub(crate) async fn revoked(&self) -> Option<RevokeReason> {
        self.token.cancelled().await;
        self.reason()
    }
}
