//! The current epoch: who leads, how long that may be relied on, and what ends its sessions.

use std::sync::Arc;
use std::time::Duration;

use uuid::Uuid;

use super::heir::{Machine, Reigning};
use super::record::{Claim, NODE_NAMESPACE, Record};
use super::{Leader, Lease, Revocation};
use crate::clock::BootTime;
use crate::topology::NodeId;

/// A leader that is no node of this configuration.
const GONE: NodeId = NodeId(u64::MAX);

/// Lives from the first proof of a leader until its epoch is over. A reign that only fell silent comes back;
/// one that was revoked never does.
pub(super) struct Reign {
    pub(super) id: NodeId,
    pub(super) leader: Leader,
    /// The cluster that it leads: after an unpin, another one may lead at the same address on the same timeline.
    identifier: Option<Arc<str>>,
    scope: Option<Arc<str>>,
    pub(super) epoch: u64,
    pub(super) until: BootTime,
    /// When the question was sent that the leader itself last answered with proof.
    pub(super) proved: BootTime,
    /// The same, also where it was a witness who answered.
    heard: BootTime,
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
            identifier: claim.identifier.clone(),
            scope: claim.scope.clone(),
            epoch,
            until: claim.ends(),
            proved: claim.sent,
            heard: claim.heard(),
            open: true,
            revocation: Revocation::default(),
            lock_ends: claim.lock_ends,
        }
    }

    /// (timeline, address) is compared, and the cluster, but not the name: A → B → A is two changes. What one of them
    /// leaves out is the same.
    pub(super) fn is_same(&self, claim: &Claim) -> bool {
        self.leader.addr == claim.dial
            && agree(&self.leader.timeline, &claim.timeline)
            && agree(&self.identifier, &claim.identifier)
            && agree(&self.scope, &claim.scope)
    }

    /// Hears the same leader again: only the time moves, the epoch and its sessions stay.
    pub(super) fn extend(&mut self, claim: &Claim) {
        self.until = claim.ends();
        self.proved = claim.sent;
        self.heard = claim.heard();
        self.open = true;
        self.leader.timeline = self.leader.timeline.or(claim.timeline);
        self.identifier = self.identifier.take().or(claim.identifier.clone());
        self.scope = self.scope.take().or(claim.scope.clone());
        self.lock_ends = claim.lock_ends.or(self.lock_ends);
    }

    /// Its node has answered, which extends nothing: the reign stands by somebody's word.
    pub(super) fn is_well(&mut self, sent: BootTime) {
        self.proved = self.proved.max(sent);
        self.heard = self.heard.max(sent);
    }

    /// As a plain value, for the next process.
    pub(super) fn leave(&self, record: &Record) -> Reigning {
        Reigning {
            node: self.leader.name.to_string(),
            machine: Machine::of(&record.settings),
            addr: self.leader.addr,
            timeline: self.leader.timeline,
            epoch: self.epoch,
            identifier: self.identifier.as_deref().map(str::to_owned),
            scope: self.scope.as_deref().map(str::to_owned),
            until: self.until,
            proved: self.proved,
            heard: self.heard,
            open: self.open,
            said: record.answered,
            lock_ends: self.lock_ends,
        }
    }

    /// Back from that value; `record` is the node that it is here, if it is one.
    pub(super) fn inherited(
        left: &Reigning,
        record: Option<&Record>,
        lease_timeout: Duration,
    ) -> Self {
        Self {
            id: record.map_or(GONE, |record| record.id),
            leader: Leader {
                name: left.node.as_str().into(),
                node_id: Uuid::new_v5(&NODE_NAMESPACE, left.node.as_bytes()),
                addr: left.addr,
                timeline: left.timeline,
            },
            identifier: left.identifier.as_deref().map(Into::into),
            scope: left.scope.as_deref().map(Into::into),
            epoch: left.epoch,
            until: left.ends(lease_timeout),
            proved: left.proved,
            heard: left.heard,
            open: left.open,
            revocation: Revocation::default(),
            lock_ends: left.lock_ends,
        }
    }

    /// The other process has heard the same leader too, perhaps later.
    pub(super) fn take_if_newer(&mut self, left: &Reigning, lease_timeout: Duration) {
        if left.heard > self.heard {
            self.until = left.ends(lease_timeout);
            self.proved = self.proved.max(left.proved);
            self.heard = left.heard;
            self.open = left.open;
            self.lock_ends = left.lock_ends.or(self.lock_ends);
        }
    }

    pub(super) fn lease(&self, usual: Duration, enabled: bool) -> Lease {
        Lease {
            leader: self.leader.clone(),
            epoch: self.epoch,
            until: Some(self.until).filter(|until| *until != BootTime::NEVER),
            proved: self.heard,
            usual,
            open: self.open && enabled,
            revocation: self.revocation.clone(),
        }
    }
}

fn agree<T: PartialEq>(a: &Option<T>, b: &Option<T>) -> bool {
    a.is_none() || b.is_none() || a == b
}
