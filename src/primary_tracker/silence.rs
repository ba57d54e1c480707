//! Nobody claims to lead: what becomes of the epoch, and why nobody is routable.

use super::decider::Decider;
use super::record::Latest;
use super::{OnLeaseExpired, WhyNobody};
use crate::clock::BootTime;
use crate::metrics::RevokeReason;
use crate::topology::{Evidence, Role};

impl Decider {
    /// Nobody claims to lead: what the present leader said last decides what becomes of its epoch.
    pub(super) fn without_a_claim(&mut self, now: BootTime) {
        let Some(reign) = &mut self.reign else {
            self.why = Some(self.why_nobody_leads(now));
            return;
        };
        let latest = self
            .records
            .iter()
            .find(|r| r.id == reign.id && r.dial == Some(reign.leader.addr))
            .and_then(|r| r.latest.as_ref());
        let too_old = latest
            .and_then(|l| l.claim.as_ref())
            .is_some_and(|c| c.lock_too_old);
        if let Some(newest) = latest.and_then(|l| l.claim.as_ref()) {
            reign.until = newest.ends();
        }
        let over = now >= reign.until;
        self.dead_lock_ends = reign.lock_ends;
        let close = self.settings.on_lease_expired == OnLeaseExpired::Close;
        let (why, revoke) = match latest.map(|l| l.evidence) {
            Some(Evidence::Follows) => (WhyNobody::NobodyLeads, Some(RevokeReason::follows)),
            Some(Evidence::Promoting) => (WhyNobody::Promoting, Some(RevokeReason::promoting)),
            Some(Evidence::Unlocked) => (WhyNobody::Unlocked, over.then_some(RevokeReason::lease)),
            Some(Evidence::Retiring) => (
                WhyNobody::Retiring,
                (over && close).then_some(RevokeReason::lease),
            ),
            Some(Evidence::Leads) | None => {
                if !over {
                    // Its address has changed under it: the proof of the old one stands until it ends.
                    return;
                }
                let why = if too_old {
                    WhyNobody::LockAge
                } else {
                    WhyNobody::LeaseEnded
                };
                (why, close.then_some(RevokeReason::lease))
            }
        };
        reign.open = false;
        if let Some(reason) = revoke {
            self.end_reign(reason);
        }
        self.why = Some(why);
    }

    fn why_nobody_leads(&self, now: BootTime) -> WhyNobody {
        let answers = |wanted: fn(&Latest) -> bool| {
            self.records
                .iter()
                .any(|r| r.latest.as_ref().is_some_and(wanted))
        };
        if self.pending(now).is_some() {
            WhyNobody::Pending
        } else if answers(|l| l.claim.as_ref().is_some_and(|claim| claim.lock_too_old)) {
            WhyNobody::LockAge
        } else if answers(|l| l.answer.role == Some(Role::StandbyLeader)) {
            WhyNobody::StandbyCluster
        } else if answers(|l| l.evidence != Evidence::Leads) {
            WhyNobody::NobodyLeads
        } else {
            WhyNobody::NoProof
        }
    }
}
