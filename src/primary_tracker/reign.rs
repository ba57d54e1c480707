//! The current epoch: who leads, how long that may be relied on, and what ends its sessions.

use std::net::SocketAddr;
use std::time::Duration;

use super::record::Claim;
use super::{Leader, Lease, Revocation};
use crate::clock::BootTime;
use crate::topology::NodeId;

/// Lives from the first proof of a leader until its epoch is over. A reign that only fell silent comes back;
/// one that was revoked never does.
pub(super) struct Reign {
    pub(super) id: NodeId,
    pub(super) leader: Leader,
    pub(super) epoch: u64,
    pub(super) until: BootTime,
    /// When the question was sent whose answer last proved it.
    pub(super) proved: BootTime,
    /// False while retiring, unlocked, or silent past the lease.
    pub(super) open: bool,
    pub(super) revocation: Revocation,
    /// When the leader's lock runs out, if it is not renewed.
    pub(super) lock_ends: Option<BootTime>,
}

impl Reign {
    pub(super) fn begin(id: NodeId, leader: Leader, epoch: u64, claim: &Claim) -> Self {
        Self {
            id,
            leader,
            epoch,
            until: claim.until,
            proved: claim.sent,
            open: true,
            revocation: Revocation::default(),
            lock_ends: claim.lock_ends,
        }
    }

    /// (timeline, address) is compared, not the name: A → B → A is two changes. A timeline that one of them leaves
    /// out is the same.
    pub(super) fn is_same(&self, dial: SocketAddr, timeline: Option<u32>) -> bool {
        self.leader.addr == dial
            && (timeline.is_none()
                || self.leader.timeline.is_none()
                || self.leader.timeline == timeline)
    }

    /// Hears the same leader again: only the time moves, the epoch and its sessions stay.
    pub(super) fn extend(&mut self, claim: &Claim) {
        self.until = claim.until;
        self.proved = claim.sent;
        self.open = true;
        self.leader.timeline = self.leader.timeline.or(claim.timeline);
        self.lock_ends = claim.lock_ends.or(self.lock_ends);
    }

    pub(super) fn lease(&self, usual: Duration, enabled: bool) -> Lease {
        Lease {
            leader: self.leader.clone(),
            epoch: self.epoch,
            until: Some(self.until),
            proved: self.proved,
            usual,
            open: self.open && enabled,
            revocation: self.revocation.clone(),
        }
    }
}
