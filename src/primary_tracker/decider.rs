//! From evidence to authority: one state machine, fed with observations, asked for a picture.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use super::claims::{Weighed, same_cluster, weigh};
use super::gap::Gap;
use super::pins::{Foreign, Pins};
use super::record::{Claim, Latest, Record};
use super::reign::Reign;
use super::{Leader, OnLeaseExpired, TrackerSettings, WhyNobody};
use crate::clock::BootTime;
use crate::metrics::{CheckLabel, CheckResult, Metrics, NodeLabel, RevokeReason};
use crate::topology::{
    Answer, Dynamic, Evidence, Heard, NodeId, Observation, Role, Silence, Standing, Worth, judge,
};

/// Decides. Holds no socket and no clock: `now` is an argument.
pub(super) struct Decider {
    pub(super) settings: TrackerSettings,
    success_threshold: u32,
    failure_threshold: u32,
    pub(super) records: Vec<Record>,
    pub(super) pins: Pins,
    pub(super) reign: Option<Reign>,
    pub(super) epoch: u64,
    pub(super) why: Option<WhyNobody>,
    /// What the cluster says about itself; Patroni's defaults until it was asked.
    pub(super) dynamic: Dynamic,
    /// Epochs whose node was removed by a reload: their sessions drain, until another node leads.
    removed: Vec<Reign>,
    pub(super) last_failover: Option<SystemTime>,
    /// When the lock of a leader that is gone runs out.
    pub(super) dead_lock_ends: Option<BootTime>,
    /// The last leader, the promotion seen since, the first proof of the next: for the line in the log.
    pub(super) gap: Gap,
    conflict_said: bool,
    standby_said: bool,
    pub(super) failsafe: bool,
    pub(super) paused: bool,
    metrics: Arc<Metrics>,
}

impl Decider {
    pub(super) fn new(
        settings: TrackerSettings,
        success_threshold: u32,
        failure_threshold: u32,
        metrics: Arc<Metrics>,
    ) -> Self {
        Self {
            pins: Pins::new(settings.scope.clone(), settings.system_identifier.clone()),
            settings,
            success_threshold,
            failure_threshold,
            records: Vec::new(),
            reign: None,
            epoch: 0,
            why: Some(WhyNobody::NoProof),
            dynamic: Dynamic::default(),
            removed: Vec::new(),
            last_failover: None,
            dead_lock_ends: None,
            gap: Gap::default(),
            conflict_said: false,
            standby_said: false,
            failsafe: false,
            paused: false,
            metrics,
        }
    }

    pub(super) fn reconfigure(&mut self, settings: TrackerSettings, success: u32, failure: u32) {
        self.pins
            .reconfigure(settings.scope.clone(), settings.system_identifier.clone());
        self.settings = settings;
        self.success_threshold = success;
        self.failure_threshold = failure;
    }

    /// A removed node gets no new sessions and its old ones drain; a removed leader is no leader.
    pub(super) fn remove(&mut self, id: NodeId) {
        self.records.retain(|record| record.id != id);
        if self.reign.as_ref().is_some_and(|reign| reign.id == id) {
            self.removed.extend(self.reign.take());
        }
    }

    /// Takes in one answer or silence. True when a fact has changed.
    pub(super) fn observe(&mut self, seen: Observation, now: BootTime) -> bool {
        let Some(at) = self.records.iter().position(|r| r.id == seen.node) else {
            return false;
        };
        self.note_for_people(at, &seen, now);
        let before = self.records[at].fact();
        let result = match seen.heard {
            Ok(heard) if seen.sent < self.records[at].answered => {
                // The answer to a later question is here already.
                tracing::trace!(answer = heard.said.in_words(), "late answer left out");
                return false;
            }
            Ok(heard) => self.hear(at, heard, seen.sent, now),
            Err(silence) => {
                self.records[at].hear_silence(self.failure_threshold);
                tracing::debug!(node = %self.records[at].settings.name, %silence, "no answer");
                CheckResult::silent
            }
        };
        self.metrics
            .checks
            .get_or_create(&CheckLabel {
                node: self.records[at].settings.name.to_string(),
                result,
            })
            .inc();
        if result == CheckResult::leads {
            self.count_claim(at, now);
        }
        let ruled = self.decide(now);
        self.records[at].fact().differs_from(&before) || ruled
    }

    fn hear(&mut self, at: usize, heard: Heard, sent: BootTime, now: BootTime) -> CheckResult {
        let Heard { dial, said } = heard;
        if let Some(foreign) = self.pins.foreign(&said, now) {
            return self.hear_foreign(at, &foreign, &said, dial, sent);
        }
        let standing = self.standing(at, dial);
        let record = &mut self.records[at];
        let worth = judge(&said, standing);
        if worth == Worth::Silent {
            record.hear_silence(self.failure_threshold);
            return CheckResult::silent;
        }
        record.answers_from(dial);
        record.hear_answer(self.success_threshold);
        record.answered = sent;
        record.said.wrong_cluster = false;
        record.foreign = None;
        let Worth::Proves(evidence) = worth else {
            return CheckResult::silent;
        };
        let claim = (evidence == Evidence::Leads).then(|| self.claim(&said, dial, sent, now));
        if evidence == Evidence::Promoting {
            self.gap
                .promotion(Arc::clone(&self.records[at].settings.name), now);
        }
        self.records[at].latest = Some(Latest {
            evidence,
            sent,
            answer: said,
            claim,
        });
        match evidence {
            Evidence::Leads => CheckResult::leads,
            Evidence::Promoting => CheckResult::promoting,
            Evidence::Retiring => CheckResult::retiring,
            Evidence::Unlocked => CheckResult::unlocked,
            Evidence::Follows => CheckResult::follows,
        }
    }

    /// Another cluster's answer is silence; said once an episode.
    fn hear_foreign(
        &mut self,
        at: usize,
        foreign: &Foreign,
        said: &Answer,
        dial: SocketAddr,
        sent: BootTime,
    ) -> CheckResult {
        let claim = Claim {
            dial,
            timeline: said.timeline,
            identifier: said.system_identifier.clone(),
            scope: said.scope.clone(),
            sent,
            until: sent + self.settings.lease_timeout,
            lock_too_old: false,
            lock_ends: None,
        };
        let leads = judge(said, Standing::Other) == Worth::Proves(Evidence::Leads);
        let record = &mut self.records[at];
        record.foreign = (leads && matches!(foreign, Foreign::Identifier(_))).then_some(claim);
        record.hear_silence(self.failure_threshold);
        let node = record.settings.name.to_string();
        if !std::mem::replace(&mut record.said.wrong_cluster, true) {
            match foreign {
                Foreign::Scope(named) => tracing::warn!(
                    node, scope = %named, expected = self.pins.scope.as_deref(),
                    "the node answers for another cluster and is ignored; if the cluster was renamed, restart"
                ),
                Foreign::Identifier(named) => tracing::warn!(
                    node, system_identifier = %named,
                    "the node answers with another system identifier and is ignored; if that is meant, it is \
                     accepted once no node shows the old one for 30 s, or after a restart"
                ),
            }
        }
        self.metrics
            .wrong_cluster
            .get_or_create(&NodeLabel { node })
            .inc();
        CheckResult::wrong_cluster
    }

    /// The lease counts from the question. The age of the leader's lock, where the answer tells it, only
    /// shortens: a lock that was not renewed within the ttl may be another node's already.
    fn claim(&self, said: &Answer, dial: SocketAddr, sent: BootTime, now: BootTime) -> Claim {
        let lease_ends = sent + self.settings.lease_timeout;
        let ttl = self.settings.patroni_ttl.unwrap_or(self.dynamic.ttl);
        let age = said
            .date
            .zip(said.dcs_last_seen)
            .map(|(date, seen)| Duration::from_secs(date.saturating_sub(seen)));
        let lock_ends = age.map(|age| (sent + ttl).back(age));
        let bound = lock_ends
            .filter(|_| !said.failsafe && !said.paused)
            .map(|ends| ends.back(Duration::from_secs(1)));
        let until = bound.map_or(lease_ends, |bound| bound.min(lease_ends));
        Claim {
            dial,
            timeline: said.timeline,
            identifier: said.system_identifier.clone(),
            scope: said.scope.clone(),
            sent,
            until,
            lock_too_old: until <= now && lease_ends > now,
            lock_ends,
        }
    }

    /// A node that answers from another address is not the machine that leads.
    fn standing(&self, at: usize, dial: SocketAddr) -> Standing {
        let id = self.records[at].id;
        match &self.reign {
            Some(reign) if reign.id == id && reign.leader.addr == dial => Standing::PresentLeader {
                timeline: reign.leader.timeline,
            },
            _ => Standing::Other,
        }
    }

    /// The claims that count: not over, and of a node that is up, or that leads already (a lease is never
    /// shortened by *down*).
    fn claims(&self, now: BootTime) -> Vec<(NodeId, &Claim)> {
        self.records
            .iter()
            .filter_map(|record| {
                let claim = record.claim(now)?;
                let reigns = self.reign.as_ref().is_some_and(|reign| {
                    reign.id == record.id && reign.is_same(claim.dial, claim.timeline)
                });
                (record.up || reigns).then_some((record.id, claim))
            })
            .collect()
    }

    /// Each answer of a claimant counts while more than one claim does, also when a timeline decides.
    fn count_claim(&self, at: usize, now: BootTime) {
        let claims = self.claims(now);
        let record = &self.records[at];
        let Some((_, claim)) = claims.iter().find(|(id, _)| *id == record.id) else {
            return;
        };
        if claims.len() > 1 {
            self.metrics.conflicting_primaries.inc();
        }
        if self.pins.is_stale(claim) {
            let node = record.settings.name.to_string();
            self.metrics
                .stale_leader
                .get_or_create(&NodeLabel { node })
                .inc();
        }
    }

    /// Draws the conclusion. True when authority has changed hands or has ended.
    pub(super) fn decide(&mut self, now: BootTime) -> bool {
        self.note_words_of_the_cluster();
        let before = (self.epoch, self.reign.is_some(), self.why);
        if let Some((old, new)) = self
            .pins
            .give_way(self.records.iter().filter_map(|r| r.foreign.as_ref()), now)
        {
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
            .claims(now)
            .into_iter()
            .filter(|(_, claim)| !self.pins.is_stale(claim))
            .collect();
        let weighed = if self.two_unpinned_clusters(now) {
            Weighed::Conflict
        } else {
            weigh(&claims)
        };
        self.note_conflict(weighed, now);
        match weighed {
            _ if promoting => self.nobody(WhyNobody::Promoting, RevokeReason::promoting),
            Weighed::Conflict => self.nobody(WhyNobody::Conflict, RevokeReason::conflict),
            Weighed::One(id) => self.leads(id, now),
            Weighed::Nobody => self.without_a_claim(now),
        }
        before != (self.epoch, self.reign.is_some(), self.why)
    }

    fn nobody(&mut self, why: WhyNobody, reason: RevokeReason) {
        self.end_reign(reason);
        self.why = Some(why);
    }

    /// One claim is authorised: the same reign goes on, or a new one begins.
    fn leads(&mut self, id: NodeId, now: BootTime) {
        let Some(record) = self.records.iter().find(|r| r.id == id) else {
            return;
        };
        let Some(claim) = record.claim(now).cloned() else {
            return;
        };
        self.why = (!record.settings.enabled).then_some(WhyNobody::Disabled);
        self.pins.learn(&claim, now);
        match &mut self.reign {
            Some(reign) if reign.id == id && reign.is_same(claim.dial, claim.timeline) => {
                reign.extend(&claim);
                self.gap.proof(claim.sent);
            }
            _ => self.begin_reign(id, &claim, now),
        }
    }

    fn begin_reign(&mut self, id: NodeId, claim: &Claim, now: BootTime) {
        let Some(record) = self.records.iter().find(|r| r.id == id) else {
            return;
        };
        let leader = Leader {
            name: Arc::clone(&record.settings.name),
            node_id: record.node_id,
            addr: claim.dial,
            timeline: claim.timeline,
        };
        self.end_reign(RevokeReason::moved);
        for removed in self.removed.drain(..) {
            removed.revocation.revoke(RevokeReason::moved);
        }
        self.epoch += 1;
        self.metrics.leader_changes.inc();
        if self.epoch > 1 {
            self.last_failover = Some(SystemTime::now());
        }
        self.dead_lock_ends = None;
        self.gap.begin(&leader, self.epoch, claim.sent, now);
        self.reign = Some(Reign::begin(id, leader, self.epoch, claim));
    }

    /// Nobody claims to lead: what the present leader said last decides what becomes of its epoch.
    fn without_a_claim(&mut self, now: BootTime) {
        let Some(reign) = &mut self.reign else {
            self.why = Some(self.why_nobody_leads());
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
            reign.until = newest.until;
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
        if too_old {
            self.note_lock_too_old();
        }
        if let Some(reason) = revoke {
            self.end_reign(reason);
        }
        self.why = Some(why);
    }

    fn why_nobody_leads(&self) -> WhyNobody {
        let answers = |wanted: fn(&Latest) -> bool| {
            self.records
                .iter()
                .any(|r| r.latest.as_ref().is_some_and(wanted))
        };
        if answers(|l| l.answer.role == Some(Role::StandbyLeader)) {
            WhyNobody::StandbyCluster
        } else if answers(|l| l.evidence != Evidence::Leads) {
            WhyNobody::NobodyLeads
        } else {
            WhyNobody::NoProof
        }
    }

    fn end_reign(&mut self, reason: RevokeReason) {
        if let Some(reign) = self.reign.take() {
            self.dead_lock_ends = reign.lock_ends;
            self.gap.lost(&reign.leader.name, reign.proved);
            reign.revocation.revoke(reason);
            tracing::info!(
                node = &*reign.leader.name,
                epoch = reign.epoch,
                reason = reason.in_words(),
                "the epoch is over, its sessions are ended"
            );
        }
    }

    /// Before anything is pinned, two clusters that lead are a conflict, also when one of them is not up yet.
    fn two_unpinned_clusters(&self, now: BootTime) -> bool {
        let mut claims = self.records.iter().filter_map(|r| r.claim(now));
        let Some(first) = claims.next() else {
            return false;
        };
        claims.any(|claim| !same_cluster(first, claim))
    }

    /// When this machine has to think again without having heard anything.
    pub(super) fn next_deadline(&self, now: BootTime) -> Option<BootTime> {
        let claims = self
            .records
            .iter()
            .filter_map(|r| r.claim(now))
            .map(|c| c.until);
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

    fn note_for_people(&mut self, at: usize, seen: &Observation, now: BootTime) {
        let people = &mut self.records[at].people;
        people.last_check = SystemTime::now().checked_sub(now.saturating_sub(seen.sent));
        match &seen.heard {
            Ok(heard) => {
                people.last_answer = Some(seen.sent);
                people.latency = Some(seen.took);
                people.last_error = None;
                people.words = Some(heard.said.in_words().into());
                self.metrics.check_seconds.observe(seen.took.as_secs_f64());
            }
            Err(silence) => {
                let words: Arc<str> = with_sources(silence).into();
                people.last_error = Some(Arc::clone(&words));
                people.words = Some(words);
            }
        }
    }

    fn note_words_of_the_cluster(&mut self) {
        let leader = self
            .reign
            .as_ref()
            .and_then(|reign| self.records.iter().find(|r| r.id == reign.id))
            .and_then(|record| record.latest.as_ref());
        if let Some(latest) = leader {
            let failsafe = latest.answer.failsafe;
            self.paused = latest.answer.paused;
            if failsafe && !self.failsafe {
                tracing::warn!(
                    "Patroni has lost its DCS and lives in failsafe mode: the leader stays"
                );
            }
            self.failsafe = failsafe;
        }
        let standby = self.reign.is_none() && self.why == Some(WhyNobody::StandbyCluster);
        if standby && !self.standby_said {
            tracing::warn!("{}", WhyNobody::StandbyCluster.in_words());
        }
        self.standby_said = standby;
    }

    fn note_conflict(&mut self, weighed: Weighed, now: BootTime) {
        let claims: Vec<_> = self
            .records
            .iter()
            .filter(|r| r.claim(now).is_some())
            .collect();
        let several = self.claims(now).len() > 1 || weighed == Weighed::Conflict;
        if several && !self.conflict_said {
            let names: Vec<String> = claims
                .iter()
                .filter_map(|r| {
                    let claim = r.claim(now)?;
                    Some(format!(
                        "{} ({} timeline {} scope {})",
                        r.settings.name,
                        claim.dial,
                        claim
                            .timeline
                            .map_or("unknown".to_owned(), |t| t.to_string()),
                        claim.scope.as_deref().unwrap_or("unknown"),
                    ))
                })
                .collect();
            let claimants = names.join(", ");
            if self.two_unpinned_clusters(now) {
                tracing::error!(
                    claimants,
                    "conflict: two clusters lead; set topology.scope to the right one"
                );
            } else if weighed == Weighed::Conflict {
                tracing::error!(
                    claimants,
                    "conflict: several nodes claim to lead; nobody is routed to"
                );
            } else {
                tracing::warn!(
                    claimants,
                    "conflict: several nodes claim to lead; the highest timeline decides"
                );
            }
        }
        self.conflict_said = several;
    }

    fn note_stale(&mut self, now: BootTime) {
        for record in &mut self.records {
            let stale = record.latest.as_ref().and_then(|l| l.claim.as_ref());
            let Some(claim) = stale.filter(|c| now < c.until && self.pins.is_stale(c)) else {
                record.said.stale = false;
                continue;
            };
            if !std::mem::replace(&mut record.said.stale, true) {
                tracing::warn!(
                    node = &*record.settings.name,
                    timeline = claim.timeline,
                    known = self.pins.highest_timeline,
                    "the node claims to lead on an older timeline than the last leader and is ignored; if the \
                     cluster was restored to an older timeline, restart"
                );
            }
        }
    }

    fn note_lock_too_old(&mut self) {
        let ttl = self.settings.patroni_ttl.unwrap_or(self.dynamic.ttl);
        let id = self.reign.as_ref().map(|r| r.id);
        if let Some(record) = self.records.iter_mut().find(|r| Some(r.id) == id)
            && !std::mem::replace(&mut record.said.lock_too_old, true)
        {
            tracing::warn!(
                node = &*record.settings.name,
                ttl_secs = ttl.as_secs(),
                "the node says that it leads, but it has not renewed its lock within Patroni's ttl"
            );
        }
    }
}

#[cfg(test)]
impl Decider {
    pub(super) fn metrics(&self) -> &Metrics {
        &self.metrics
    }
}

/// An error and what caused it, on one line.
fn with_sources(silence: &Silence) -> String {
    let mut text = silence.to_string();
    let mut source = std::error::Error::source(silence);
    while let Some(cause) = source {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        source = cause.source();
    }
    text
}
