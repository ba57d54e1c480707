//! A witness: only the leader's REST API is silent, and another node sees that the leader holds its lock.

use std::sync::Arc;
use std::time::Duration;

use super::decider::Decider;
use super::record::{Record, Vouched};
use super::reign::Reign;
use crate::clock::BootTime;
use crate::topology::{Answer, Evidence, Member, NodeId, Sight};

/// Beside loop_wait: what a node needs for its turn, and its clock for a second.
const TURN: Duration = Duration::from_secs(2);
/// An answer on its way is no silence: the leader has at least so long, or four times its usual time. But no longer
/// than half of the lease in all: a blocked API that answers at last makes the usual time long.
const ON_ITS_WAY: Duration = Duration::from_millis(100);

/// One node's word on who leads, and all that decides what it is worth.
#[derive(Clone, Copy)]
pub(super) struct Testimony<'a> {
    pub(super) sight: &'a Sight,
    /// How old the witness's own word, its newest answer to `/primary`, may be.
    pub(super) word_lasts: Duration,
    pub(super) loop_wait: Duration,
    pub(super) reign: &'a Reign,
    pub(super) records: &'a [Record],
    /// The pinned scope.
    pub(super) scope: Option<&'a str>,
    pub(super) now: BootTime,
}

/// Why a view extends no lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum NoWitness {
    #[error("there is no lease to extend")]
    NoLease,
    #[error("the leader has spoken itself since")]
    LeaderSpoke,
    #[error("the leader's address answers for another cluster")]
    LeaderIsForeign,
    #[error("the view is another cluster's")]
    WrongCluster,
    #[error("the view names no leader that runs, or several")]
    NamesNobody,
    #[error("the view names another leader")]
    NamesAnother,
    #[error("the view names another timeline, or none")]
    OtherTimeline,
    #[error("the witness has not answered for itself lately")]
    OldWord,
    #[error("the witness does not follow")]
    DoesNotFollow,
    #[error("the witness sees no lock")]
    Unlocked,
    #[error("the witness has lost the DCS")]
    LostDcs,
}

impl Testimony<'_> {
    /// A held key excludes another leader: the lease is extended as by the leader's own word. It is extended only: a
    /// lease that is over, or a leader that has said otherwise, is none of a witness's business.
    ///
    /// # Errors
    /// [`NoWitness`], when the view is worth nothing.
    pub(super) fn vouches(&self) -> Result<(), NoWitness> {
        self.is_about_a_silent_leader()?;
        self.names_the_leader()?;
        self.is_in_touch()
    }

    fn is_about_a_silent_leader(&self) -> Result<(), NoWitness> {
        let leader = self.record(self.reign.id).ok_or(NoWitness::NoLease)?;
        let word = leader.latest.as_ref().ok_or(NoWitness::NoLease)?;
        let leads = word.evidence == Evidence::Leads;
        if !leads || !self.reign.open || self.now >= self.reign.until {
            return Err(NoWitness::NoLease);
        }
        if leader.said.wrong_cluster {
            return Err(NoWitness::LeaderIsForeign);
        }
        if self.sight.node == self.reign.id || word.sent >= self.sight.sent {
            return Err(NoWitness::LeaderSpoke);
        }
        Ok(())
    }

    fn names_the_leader(&self) -> Result<(), NoWitness> {
        if let (Some(pinned), Some(named)) = (self.scope, &self.sight.view.scope)
            && pinned != &**named
        {
            return Err(NoWitness::WrongCluster);
        }
        let mut leaders = self.sight.view.leaders();
        let (Some(named), None) = (leaders.next(), leaders.next()) else {
            return Err(NoWitness::NamesNobody);
        };
        if self.whose(named) != Some(self.reign.id) {
            return Err(NoWitness::NamesAnother);
        }
        match (named.timeline, self.reign.leader.timeline) {
            (Some(named), Some(known)) if named == known => Ok(()),
            _ => Err(NoWitness::OtherTimeline),
        }
    }

    /// By its address, else by its name: behind NAT the members know each other by other addresses than we do.
    fn whose(&self, member: &Member) -> Option<NodeId> {
        let by_address = |r: &&Record| member.has_address_of(&r.settings, r.dial);
        let by_name = |r: &&Record| member.name == r.settings.name;
        let mut records = self.records.iter();
        let found = records
            .find(by_address)
            .or_else(|| self.records.iter().find(by_name));
        found.map(|record| record.id)
    }

    /// A node that is cut off from the DCS serves an old view for ever.
    fn is_in_touch(&self) -> Result<(), NoWitness> {
        let witness = self.record(self.sight.node).ok_or(NoWitness::OldWord)?;
        let word = witness.newest_word().ok_or(NoWitness::OldWord)?;
        if self.now.saturating_sub(word.sent) > self.word_lasts {
            return Err(NoWitness::OldWord);
        }
        if word.evidence != Evidence::Follows {
            return Err(NoWitness::DoesNotFollow);
        }
        if word.answer.unlocked {
            return Err(NoWitness::Unlocked);
        }
        match dcs_age(&word.answer) {
            Some(age) if age <= self.loop_wait + TURN => Ok(()),
            _ => Err(NoWitness::LostDcs),
        }
    }

    fn record(&self, id: NodeId) -> Option<&Record> {
        self.records.iter().find(|record| record.id == id)
    }
}

/// Both are times of the node's own clock.
fn dcs_age(said: &Answer) -> Option<Duration> {
    let (date, seen) = said.date.zip(said.dcs_last_seen)?;
    Some(Duration::from_secs(date.abs_diff(seen)))
}

impl Decider {
    /// Since when the leader is silent while its lease runs: then the others are asked what they see. `usual` is its
    /// usual time for an answer. A time to come: unless it answers before.
    pub(super) fn silent_since(&self, usual: Duration, now: BootTime) -> Option<BootTime> {
        let reign = self.reign.as_ref().filter(|reign| reign.open)?;
        let record = self.record(reign.id)?;
        let word = record.latest.as_ref()?;
        let may_be_extended = word.evidence == Evidence::Leads && !record.said.wrong_cluster;
        if !may_be_extended || now >= reign.until {
            return None;
        }
        if record.failures > 0 {
            return Some(word.sent);
        }
        let lease = self.settings.lease_timeout;
        let on_its_way = ON_ITS_WAY.max(usual * 4).min(lease / 6);
        Some(word.sent + lease / 3 + on_its_way)
    }

    /// Takes in what a node sees of a silent leader. True when that has extended its lease, which is no fact.
    pub(super) fn testify(&mut self, sight: &Sight, now: BootTime) -> bool {
        let Some(reign) = &self.reign else {
            return false;
        };
        let testimony = Testimony {
            sight,
            word_lasts: self.settings.lease_timeout.max(self.check_interval * 2),
            loop_wait: self.dynamic.loop_wait,
            reign,
            records: &self.records,
            scope: self.pins.scope.as_deref(),
            now,
        };
        match testimony.vouches() {
            Ok(()) => {
                let leader = reign.id;
                self.vouch(leader, sight);
                self.decide(now);
                true
            }
            Err(reason) => {
                tracing::debug!(witness = ?sight.node, %reason, "no witness for the silent leader");
                false
            }
        }
    }

    fn vouch(&mut self, leader: NodeId, sight: &Sight) {
        let asked = sight.sent;
        let find = |id| self.records.iter().position(|record| record.id == id);
        let (Some(leader), Some(witness)) = (find(leader), find(sight.node)) else {
            return;
        };
        let witness = Arc::clone(&self.records[witness].settings.name);
        let record = &mut self.records[leader];
        let Some(claim) = record.latest.as_mut().and_then(|l| l.claim.as_mut()) else {
            return;
        };
        let until = asked + self.settings.lease_timeout;
        // A slow answer may arrive after the answer to a later question.
        if claim.vouched.is_none_or(|before| before.asked < asked) {
            claim.vouched = Some(Vouched { asked, until });
        }
        self.metrics.witness.inc();
        if !std::mem::replace(&mut record.said.vouched, true) {
            tracing::warn!(
                node = &*record.settings.name,
                witness = &*witness,
                "the leader's REST API is silent, but another node sees that it holds its lock: its lease goes on"
            );
        }
    }
}
