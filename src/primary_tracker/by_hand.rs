//! Provider `manual`: somebody outside says who leads, and it stands until they say otherwise.

use std::net::SocketAddr;
use std::sync::Arc;

use super::decider::Decider;
use super::record::Claim;
use super::{Refused, Tracker, WhyNobody};
use crate::clock::BootTime;
use crate::metrics::RevokeReason;
use crate::topology::{NodeId, Provider};

impl Tracker {
    /// Names the leader: pending, until it is confirmed.
    pub(super) fn propose(&mut self, node: &Arc<str>) -> Result<(), Refused> {
        self.only_by_hand()?;
        let id = self.record(node)?.id;
        let dial = self.poller.address(id);
        let dial = dial.ok_or_else(|| Refused::NoAddress(Arc::clone(node)))?;
        self.decider.propose(id, dial, self.clock.now());
        Ok(())
    }

    pub(super) fn confirm(&mut self) -> Result<(), Refused> {
        self.only_by_hand()?;
        match &mut self.decider.reign {
            Some(reign) => {
                reign.open = true;
                Ok(())
            }
            None => Err(Refused::NobodyToConfirm),
        }
    }

    pub(super) fn clear(&mut self) -> Result<(), Refused> {
        self.only_by_hand()?;
        self.decider.end_reign(RevokeReason::moved);
        Ok(())
    }

    fn only_by_hand(&self) -> Result<(), Refused> {
        match self.decider.settings.provider {
            Provider::Manual => Ok(()),
            _ => Err(Refused::NotByThisProvider),
        }
    }
}

impl Decider {
    /// Whoever was named stands until that is changed, also when the sessions of its epoch were ended.
    pub(super) fn name_again(&mut self, id: NodeId, dial: SocketAddr, open: bool, now: BootTime) {
        if self.settings.provider != Provider::Manual {
            return;
        }
        self.propose(id, dial, now);
        if let Some(reign) = &mut self.reign {
            reign.open = open;
        }
    }

    /// The node that leads already is named again without a change; any other begins an epoch, and ends the old one.
    pub(super) fn propose(&mut self, id: NodeId, dial: SocketAddr, now: BootTime) {
        if self.reign.as_ref().is_some_and(|reign| reign.id == id) {
            return;
        }
        let claim = Claim::by_hand(dial, now);
        self.begin_reign(id, &claim, now);
        if let Some(reign) = &mut self.reign {
            reign.open = false;
        }
    }

    /// Who was named leads. That its node answers is only news of it: whoever waits for a new dial hears it.
    pub(super) fn decide_by_hand(&mut self) {
        let Some(reign) = &mut self.reign else {
            self.why = Some(WhyNobody::NobodyNamed);
            return;
        };
        let Some(record) = self.records.iter().find(|r| r.id == reign.id) else {
            return;
        };
        if let Some(latest) = &record.latest {
            reign.is_well(latest.sent);
        }
        self.why = if !reign.open {
            Some(WhyNobody::Unconfirmed)
        } else if !record.is_enabled() {
            Some(WhyNobody::Disabled)
        } else {
            None
        };
    }
}
