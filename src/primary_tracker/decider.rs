//! From evidence to authority: one state machine, fed with observations, asked for a picture.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use super::claims::{Weighed, are_several_clusters, weigh};
use super::gap::Gap;
use super::lag::Mark;
use super::pins::Pins;
use super::record::{Claim, Record};
use super::reign::Reign;
use super::views::{ByView, Viewed};
use super::{Leader, TrackerSettings, WhyNobody};
use crate::clock::BootTime;
use crate::metrics::{Metrics, RevokeReason};
use crate::topology::{Dynamic, HealthSettings, NodeId, Provider};

/// Decides. Holds no socket and no clock: `now` is an argument.
pub(super) struct Decider {
    pub(super) settings: TrackerSettings,
    pub(super) success_threshold: u32,
    pub(super) failure_threshold: u32,
    /// How often a node is asked at rest: what a witness says of itself may be as old as two such questions.
    pub(super) check_interval: Duration,
    pub(super) records: Vec<Record>,
    pub(super) pins: Pins,
    pub(super) reign: Option<Reign>,
    pub(super) epoch: u64,
    pub(super) why: Option<WhyNobody>,
    /// What the cluster says about itself; Patroni's defaults until it was asked.
    pub(super) dynamic: Dynamic,
    /// Epochs whose node was removed by a reload: their sessions drain, until another node leads.
    pub(super) removed: Vec<Reign>,
    /// Whose reign began last: a leader that comes back after its epoch was ended is no failover.
    pub(super) led: Option<(SocketAddr, Option<u32>)>,
    pub(super) last_failover: Option<SystemTime>,
    /// When the lock of a leader that is gone runs out.
    pub(super) dead_lock_ends: Option<BootTime>,
    /// The leader's position as it was last heard, also after its end.
    pub(super) mark: Option<Mark>,
    /// The last leader, the promotion seen since, the first proof of the next: for the line in the log.
    pub(super) gap: Gap,
    pub(super) conflict_said: bool,
    /// The cluster's views of itself, where they are asked for.
    pub(super) viewed: Viewed,
    pub(super) standby_said: bool,
    pub(super) failsafe: bool,
    pub(super) paused: bool,
    pub(super) metrics: Arc<Metrics>,
}

impl Decider {
    pub(super) fn new(
        settings: TrackerSettings,
        health: &HealthSettings,
        metrics: Arc<Metrics>,
    ) -> Self {
        Self {
            pins: Pins::new(settings.scope.clone(), settings.system_identifier.clone()),
            settings,
            success_threshold: health.success_threshold,
            failure_threshold: health.failure_threshold,
            check_interval: health.check_interval,
            records: Vec::new(),
            reign: None,
            epoch: 0,
            why: Some(WhyNobody::NoProof),
            dynamic: Dynamic::default(),
            removed: Vec::new(),
            led: None,
            last_failover: None,
            dead_lock_ends: None,
            mark: None,
            gap: Gap::default(),
            conflict_said: false,
            viewed: Viewed::default(),
            standby_said: false,
            failsafe: false,
            paused: false,
            metrics,
        }
    }

    pub(super) fn reconfigure(&mut self, settings: TrackerSettings, health: &HealthSettings) {
        self.pins
            .reconfigure(settings.scope.clone(), settings.system_identifier.clone());
        self.settings = settings;
        self.success_threshold = health.success_threshold;
        self.failure_threshold = health.failure_threshold;
        self.check_interval = health.check_interval;
    }

    /// What was learnt is forgotten, at once; what is configured stays. A leader that goes on is learnt anew.
    pub(super) fn unpin(&mut self) {
        let configured = Pins::new(
            self.settings.scope.clone(),
            self.settings.system_identifier.clone(),
        );
        let forgotten = std::mem::replace(&mut self.pins, configured);
        for record in &mut self.records {
            record.foreign = None;
            record.said.wrong_cluster = false;
        }
        tracing::warn!(
            scope = forgotten.scope.as_deref(),
            system_identifier = forgotten.identifier(),
            timeline = forgotten.highest_timeline,
            "which cluster this is was forgotten, by POST /topology/unpin: the next that proves a leader is followed"
        );
    }

    /// A removed node gets no new sessions and its old ones drain; a removed leader is no leader.
    pub(super) fn remove(&mut self, id: NodeId) {
        for record in self.records.extract_if(.., |record| record.id == id) {
            record.readers.drain();
        }
        if self.reign.as_ref().is_some_and(|reign| reign.id == id) {
            self.removed.extend(self.reign.take());
        }
    }

    pub(super) fn record(&self, id: NodeId) -> Option<&Record> {
        self.records.iter().find(|record| record.id == id)
    }

    /// The claims that count: not over, and of a node that is up, or that leads already (a lease is never
    /// shortened by *down*).
    pub(super) fn claims(&self, now: BootTime) -> Vec<(NodeId, &Claim)> {
        let own_word = |(_, claim): &(NodeId, &Claim)| now < claim.until;
        let standing = self.standing_claims(now).into_iter();
        standing.filter(own_word).collect()
    }

    /// The same, and a leader that only a witness still holds up. It is weighed like any claim, but one that loses is
    /// no conflict: a dead leader's lock outlives its last word.
    fn standing_claims(&self, now: BootTime) -> Vec<(NodeId, &Claim)> {
        self.records
            .iter()
            .filter(|record| !self.is_double(record))
            .filter_map(|record| {
                let claim = record.standing_claim(now)?;
                let reigns = self
                    .reign
                    .as_ref()
                    .is_some_and(|reign| reign.id == record.id && reign.is_same(claim));
                (record.up || reigns).then_some((record.id, claim))
            })
            .collect()
    }

    /// Draws the conclusion. True when authority has changed hands or has ended.
    pub(super) fn decide(&mut self, now: BootTime) -> bool {
        let authority = |decider: &Self| (decider.epoch, decider.reign.is_some(), decider.why);
        self.note_words_of_the_cluster();
        let before = authority(self);
        if self.settings.provider == Provider::Manual {
            self.decide_by_hand();
        } else {
            self.decide_by_evidence(now);
        }
        before != authority(self)
    }

    fn decide_by_evidence(&mut self, now: BootTime) {
        let foreign = self.records.iter().filter_map(|r| r.foreign.as_ref());
        if let Some((old, new)) = self.pins.give_way(foreign, now) {
            tracing::warn!(
                old = &*old,
                new = &*new,
                "no node shows the old system identifier any more and exactly one other leads: the cluster was \
                 upgraded or re-initialised, the new one is followed"
            );
            self.end_reign(RevokeReason::moved);
        }
        let lasts = self.settings.lease_timeout;
        let promoting = self.records.iter().any(|r| r.promotes(now, lasts));
        self.note_stale(now);
        let claims: Vec<_> = self
            .standing_claims(now)
            .into_iter()
            .filter(|(_, claim)| !self.pins.is_stale(claim))
            .collect();
        let weighed = if !self.settings.provider.is_authoritative() {
            self.first_enabled(&claims)
        } else if self.two_unpinned_clusters(now) {
            Weighed::Conflict
        } else {
            weigh(self.settings.provider, &claims)
        };
        self.note_conflict(weighed, now);
        let by_view = self.by_view(now);
        self.note_conflict_in_view(&by_view);
        match weighed {
            _ if promoting => self.nobody(WhyNobody::Promoting, RevokeReason::promoting),
            _ if by_view == ByView::Conflict => {
                self.nobody(WhyNobody::Conflict, RevokeReason::conflict);
            }
            Weighed::Conflict => self.nobody(WhyNobody::Conflict, RevokeReason::conflict),
            Weighed::One(id) if self.is_outdone(id, now) => {
                self.nobody(WhyNobody::NoProof, RevokeReason::moved);
            }
            Weighed::One(id) => match self.contradicted(id, &by_view) {
                Some((why, reason)) => self.nobody(why, reason),
                None => self.leads(id, now),
            },
            Weighed::Nobody => self.without_a_claim(now),
        }
    }

    /// Without authority there is no conflict: of the nodes that are declared to lead, the first enabled one that is
    /// well does. One that is disabled takes the place of nobody.
    fn first_enabled(&self, claims: &[(NodeId, &Claim)]) -> Weighed {
        let is_enabled =
            |(id, _): &&(NodeId, &Claim)| self.record(*id).is_some_and(Record::is_enabled);
        let reigns = self.reign.as_ref().map(|reign| reign.id);
        let takes_no_place =
            |(id, _): &&(NodeId, &Claim)| reigns.is_none_or(|leader| leader == *id);
        let first = claims.iter().find(is_enabled);
        let first = first.or_else(|| claims.iter().find(takes_no_place));
        first.map_or(Weighed::Nobody, |(id, _)| Weighed::One(*id))
    }

    /// Nobody begins to lead while a node that is not up yet claims a higher timeline: it would be a matter of one more
    /// answer.
    fn is_outdone(&self, id: NodeId, now: BootTime) -> bool {
        let timeline = |record: &Record| record.claim(now).and_then(|claim| claim.timeline);
        let own = self.record(id).and_then(timeline);
        let reigns = self.reign.as_ref().is_some_and(|reign| reign.id == id);
        !reigns && own.is_some() && self.records.iter().any(|other| timeline(other) > own)
    }

    fn nobody(&mut self, why: WhyNobody, reason: RevokeReason) {
        self.end_reign(reason);
        self.why = Some(why);
    }

    /// One claim is authorised: the same reign goes on, or a new one begins.
    fn leads(&mut self, id: NodeId, now: BootTime) {
        // Not by `record()`: the reign is changed beside it.
        let Some(record) = self.records.iter().find(|r| r.id == id) else {
            return;
        };
        let Some(claim) = record.standing_claim(now).cloned() else {
            return;
        };
        self.why = (!record.is_enabled()).then_some(WhyNobody::Disabled);
        let is_silent = record.failures > 0;
        match &mut self.reign {
            // The name is not compared: a discovered node may turn out to be a configured one.
            Some(reign) if reign.is_same(&claim) => {
                if !is_silent {
                    // Else the last word of one that is gone would pin again what an operator has unpinned.
                    self.pins.learn(&claim, now);
                }
                reign.id = id;
                reign.leader.name = Arc::clone(&record.settings.name);
                reign.leader.node_id = record.node_id;
                reign.extend(&claim);
                self.gap.proof(claim.sent);
                if claim.vouched.is_some() {
                    // It is silent: when nobody renews its lock, the end of that is near.
                    self.dead_lock_ends = reign.lock_ends;
                }
            }
            _ => {
                self.pins.learn(&claim, now);
                self.begin_reign(id, &claim, now);
            }
        }
    }

    pub(super) fn begin_reign(&mut self, id: NodeId, claim: &Claim, now: BootTime) {
        let Some(record) = self.records.iter_mut().find(|r| r.id == id) else {
            return;
        };
        let leader = Leader {
            name: Arc::clone(&record.settings.name),
            node_id: record.node_id,
            addr: claim.dial,
            timeline: claim.timeline,
        };
        let same = |reign: &Reign| reign.is_same(claim);
        if let Some(at) = self.removed.iter().position(same) {
            // A reload that only names or asks the leader otherwise is no change of leader.
            let mut reign = self.removed.swap_remove(at);
            reign.id = id;
            reign.leader = leader;
            reign.extend(claim);
            self.reign = Some(reign);
            return;
        }
        record.readers.it_leads();
        self.end_reign(RevokeReason::moved);
        self.epoch += 1;
        self.metrics.leader_changes.inc();
        let led = self.led.replace((claim.dial, claim.timeline));
        if led.is_some_and(|led| led != (claim.dial, claim.timeline)) {
            self.last_failover = Some(SystemTime::now());
        }
        self.dead_lock_ends = None;
        self.gap.begin(&leader, self.epoch, claim.sent, now);
        self.reign = Some(Reign::begin(id, leader, self.epoch, claim));
    }

    pub(super) fn end_reign(&mut self, reason: RevokeReason) {
        for removed in self.removed.drain(..) {
            removed.revocation.revoke(reason);
        }
        if let Some(reign) = self.reign.take() {
            self.dead_lock_ends = reign.lock_ends;
            self.gap.lost(&reign.leader.name, reign.proved);
            // Readers stay.
            let sessions = self.metrics.sessions_by("primary", &reign.leader.name);
            reign.revocation.revoke(reason);
            tracing::info!(
                sessions,
                node = &*reign.leader.name,
                epoch = reign.epoch,
                reason = reason.in_words(),
                "the epoch is over, its sessions are ended"
            );
        }
    }

    /// Before anything is pinned, two clusters that lead are a conflict, also when one of them is not up yet.
    pub(super) fn two_unpinned_clusters(&self, now: BootTime) -> bool {
        are_several_clusters(self.records.iter().filter_map(|r| r.claim(now)))
    }

    /// When this machine has to think again without having heard anything.
    pub(super) fn next_deadline(&self, now: BootTime) -> Option<BootTime> {
        let claims = self
            .records
            .iter()
            .filter_map(|r| r.standing_claim(now))
            .flat_map(|c| [c.until, c.ends()])
            .filter(|at| *at > now);
        let lasts = self.settings.lease_timeout;
        let promoting = self
            .records
            .iter()
            .filter(|r| r.promotes(now, lasts))
            .filter_map(|r| r.latest.as_ref())
            .map(|l| l.sent + lasts);
        let reign = self.reign.as_ref().map(|r| r.until).filter(|at| *at > now);
        claims.chain(promoting).chain(reign).min()
    }
}
