//! What the log says of a cluster, once an episode.

use super::WhyNobody;
use super::claims::Weighed;
use super::decider::Decider;
use super::record::Claim;
use crate::causes::chain;
use crate::clock::BootTime;
use crate::topology::Silence;

/// A node that is refused in more ways than these has been spoken of enough.
const WAYS: usize = 8;

impl Decider {
    pub(super) fn note_words_of_the_cluster(&mut self) {
        let leader = self
            .reign
            .as_ref()
            .and_then(|reign| self.record(reign.id))
            .and_then(|record| record.latest.as_ref());
        let failsafe = leader.is_some_and(|latest| latest.answer.failsafe);
        if failsafe && !self.failsafe {
            tracing::warn!("Patroni has lost its DCS and lives in failsafe mode: the leader stays");
        }
        self.failsafe = failsafe;
        let mut latest = self.records.iter().filter_map(|r| r.latest.as_ref());
        self.paused = latest.any(|latest| latest.answer.paused);
        let standby = self.reign.is_none() && self.why == Some(WhyNobody::StandbyCluster);
        if standby && !self.standby_said {
            tracing::warn!("{}", WhyNobody::StandbyCluster.in_words());
        }
        self.standby_said = standby;
    }

    /// What waits for somebody is said once, in each of its words, until the node answers; the rest mends itself.
    pub(super) fn note_silence(&mut self, at: usize, silence: &Silence) {
        let record = &mut self.records[at];
        let (node, said) = (&*record.settings.name, &mut record.said.needs_hands);
        let words = chain(silence);
        if !silence.needs_hands() || said.contains(&words) || said.len() >= WAYS {
            tracing::debug!(node, "no answer: {words}");
            return;
        }
        tracing::warn!(node, "the node cannot be asked: {words}");
        said.push(words);
    }

    pub(super) fn note_conflict(&mut self, weighed: Weighed, now: BootTime) {
        let claims: Vec<_> = self
            .records
            .iter()
            .filter(|r| r.standing_claim(now).is_some())
            .collect();
        let several = self.settings.provider.is_authoritative()
            && (self.claims(now).len() > 1 || weighed == Weighed::Conflict);
        if several && !self.conflict_said {
            let names: Vec<String> = claims
                .iter()
                .filter_map(|r| {
                    let claim = r.standing_claim(now)?;
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

    pub(super) fn note_stale(&mut self, now: BootTime) {
        for record in &mut self.records {
            let stale = record.latest.as_ref().and_then(|l| l.claim.as_ref());
            let Some(claim) = stale.filter(|c| now < c.until && self.pins.contradicts(c)) else {
                record.said.stale = false;
                continue;
            };
            if !std::mem::replace(&mut record.said.stale, true) {
                tracing::warn!(
                    node = &*record.settings.name,
                    timeline = claim.timeline,
                    known = self.pins.highest_timeline,
                    "the node claims to lead on an older timeline than the last leader and is ignored; if the \
                     cluster was restored to an older timeline: POST /topology/unpin"
                );
            }
        }
    }

    /// A leader that is refused by the age of its lock alone.
    pub(super) fn note_lock_age(&mut self, at: usize, claim: Option<&Claim>) {
        let ttl = self.settings.patroni_ttl.unwrap_or(self.dynamic.ttl);
        let record = &mut self.records[at];
        let too_old = claim.is_some_and(|claim| claim.lock_too_old);
        if too_old && !record.said.lock_too_old {
            tracing::warn!(
                node = &*record.settings.name,
                ttl_secs = ttl.as_secs(),
                "the node says that it leads, but it has not renewed its lock within Patroni's ttl"
            );
        }
        record.said.lock_too_old = too_old;
    }
}
