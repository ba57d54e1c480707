//! What ends the read sessions of a node: never the lease, which is the writers'.

use super::Revocation;
use crate::metrics::RevokeReason;

/// Belongs to one life of a node. A read session holds one of the two from before it dials.
#[derive(Clone, Debug, Default)]
pub(crate) struct Readers {
    /// Of those that shall not stay when the node becomes leader.
    pub(crate) unless_it_leads: Revocation,
    /// Of those that stay.
    pub(crate) whoever_leads: Revocation,
}

impl Readers {
    /// The node becomes leader.
    pub(super) fn it_leads(&mut self) {
        std::mem::take(&mut self.unless_it_leads).revoke(RevokeReason::moved);
    }

    /// Ends all that are open now, and none that start later.
    pub(super) fn close(&mut self, reason: RevokeReason) {
        let Self {
            unless_it_leads,
            whoever_leads,
        } = std::mem::take(self);
        unless_it_leads.revoke(reason);
        whoever_leads.revoke(reason);
    }

    /// The node is removed: nobody new comes, and who is there stays.
    pub(super) fn drain(&self) {
        self.unless_it_leads.retire();
        self.whoever_leads.retire();
    }
}
