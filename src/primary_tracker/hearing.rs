//! From an answer to what it is worth: evidence, a claim with its time, or silence.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use super::Check;
use super::decider::Decider;
use super::pins::Foreign;
use super::record::{Claim, Latest};
use crate::causes::chain;
use crate::clock::BootTime;
use crate::metrics::{CheckLabel, CheckResult, NodeLabel};
use crate::topology::{Answer, Evidence, Heard, Observation, Standing, Worth, judge};

impl Decider {
    /// Takes in one answer or silence. True when a fact has changed.
    pub(super) fn observe(&mut self, seen: Observation, now: BootTime) -> bool {
        let Some(at) = self.records.iter().position(|r| r.id == seen.node) else {
            return false;
        };
        if seen.sent < self.records[at].answered {
            // The answer to a later question is here already; a hung one says nothing new when it ends.
            return false;
        }
        self.note_for_people(at, &seen, now);
        let (sent, took) = (seen.sent, seen.took);
        let before = self.records[at].fact();
        let result = match seen.heard {
            Ok(heard) => self.hear(at, heard, seen.sent, now),
            Err(silence) => {
                self.records[at].silent = seen.sent;
                self.records[at].hear_silence(self.failure_threshold);
                self.note_silence(at, &silence);
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
        let check = Check { sent, took, result };
        self.records[at].people.note(check);
        if result == CheckResult::leads && self.settings.provider.is_authoritative() {
            self.count_claim(at, now);
        }
        let ruled = self.decide(now);
        if !matches!(result, CheckResult::silent | CheckResult::wrong_cluster) {
            self.measure(at, now);
        }
        self.records[at].fact().differs_from(&before) || ruled
    }

    fn hear(&mut self, at: usize, heard: Heard, sent: BootTime, now: BootTime) -> CheckResult {
        let Heard { dial, said } = heard;
        if !self.admits(at, &said) {
            self.records[at].hear_silence(self.failure_threshold);
            return CheckResult::silent;
        }
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
        record.said.needs_hands.clear();
        record.said.vouched = false;
        record.foreign = None;
        let Worth::Proves(evidence) = worth else {
            return CheckResult::silent;
        };
        let claim = (evidence == Evidence::Leads).then(|| self.claim(&said, dial, sent, now));
        self.note_lock_age(at, claim.as_ref());
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
            vouched: None,
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
                    "the node answers for another cluster and is ignored; if the \
                     cluster was renamed: POST /topology/unpin"
                ),
                Foreign::Identifier(named) => tracing::warn!(
                    node, system_identifier = %named,
                    "the node answers with another system identifier and is ignored; if that is meant, it is \
                     accepted once no node shows the old one for 30 s, or after POST /topology/unpin"
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
            vouched: None,
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

    fn note_for_people(&mut self, at: usize, seen: &Observation, now: BootTime) {
        let people = &mut self.records[at].people;
        people.asked = Some(seen.sent);
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
                let words: Arc<str> = chain(silence).into();
                people.last_error = Some(Arc::clone(&words));
                people.words = Some(words);
            }
        }
    }
}
