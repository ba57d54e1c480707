//! By which rule a node counts as it does, for people who ask why.

use std::sync::Arc;
use std::time::Duration;

use super::WhyNobody;
use super::decider::Decider;
use super::record::{Latest, Record};
use crate::clock::BootTime;
use crate::topology::{Evidence, Role};

/// What was made of a node: nothing is decided by this.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Verdict {
    /// When the latest question that has ended was sent.
    pub(crate) asked: Option<BootTime>,
    /// The newest evidence in words, and when its question was sent. Silence leaves it.
    pub(crate) evidence: Option<(Arc<str>, BootTime)>,
    pub(crate) rule: Rule,
}

/// The rule that decided, in the words of the evidence table and of the tracker.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Rule {
    #[default]
    NotAsked,
    /// Silent ever since it was first asked, or since its address changed.
    NoEvidence,
    WrongCluster,
    /// This claim is the one that is authorised.
    Leads,
    /// Its own claim has run out, and the other nodes' word has extended its lease.
    Witnessed,
    /// A claim needs its node to be up.
    NotUp {
        answers: u32,
        needed: u32,
    },
    /// Claimed after a leader of a higher timeline had.
    Stale {
        known: Option<u32>,
    },
    LowerTimeline {
        leader: Arc<str>,
    },
    Conflict,
    /// It claims to lead, but another node holds the lock.
    AnotherPromotes,
    /// It claims to lead, but the cluster's newest view does not name it.
    NotNamed,
    LockTooOld,
    /// Nothing was heard from it for as long as a proof lasts.
    ClaimEnded,
    Promoting,
    PromotionEnded,
    Retiring,
    Unlocked,
    StandbyLeader,
    Follows,
}

impl Rule {
    pub(crate) fn in_words(&self) -> String {
        match self {
            Self::NotAsked => "nothing is known yet".into(),
            Self::NoEvidence => "silent, no evidence".into(),
            Self::WrongCluster => "another cluster: silent, no evidence".into(),
            Self::Leads => "leads".into(),
            Self::Witnessed => "leads still, by the word of the other nodes".into(),
            Self::NotUp { answers, needed } => {
                format!("claims to lead, but is not up yet: {answers} of {needed} answers in a row")
            }
            Self::Stale { known } => {
                let known = known.map_or_else(String::new, |timeline| format!(" {timeline}"));
                format!("stale, ignored: the last leader's timeline{known} is higher")
            }
            Self::LowerTimeline { leader } => {
                format!("claims to lead, but {leader}'s timeline is higher")
            }
            Self::Conflict => "claims to lead beside another node: conflict, nobody leads".into(),
            Self::AnotherPromotes => {
                "claims to lead, but another node holds the lock and is being promoted".into()
            }
            Self::NotNamed => "claims to lead, but the cluster's own view does not name it".into(),
            Self::LockTooOld => {
                "claims to lead, but has not renewed its lock within Patroni's ttl".into()
            }
            Self::ClaimEnded => "led, but its lease has ended".into(),
            Self::Promoting => "promoting: holds the lock, not writable yet".into(),
            Self::PromotionEnded => "was promoting, too long ago to count".into(),
            Self::Retiring => "retiring: no new sessions, the open ones stay".into(),
            Self::Unlocked => "unlocked: runs without its lock, no new sessions".into(),
            Self::StandbyLeader => "follows: leads a standby cluster, which is read-only".into(),
            Self::Follows => "follows".into(),
        }
    }
}

impl Decider {
    pub(super) fn verdict(&self, record: &Record, now: BootTime) -> Verdict {
        let latest = record.latest.as_ref();
        Verdict {
            asked: record.people.asked,
            evidence: latest.map(|latest| (latest.answer.in_words().into(), latest.sent)),
            rule: match latest {
                _ if record.said.wrong_cluster => Rule::WrongCluster,
                Some(latest) => self.rule(record, latest, now),
                None if record.people.asked.is_none() => Rule::NotAsked,
                None => Rule::NoEvidence,
            },
        }
    }

    fn rule(&self, record: &Record, latest: &Latest, now: BootTime) -> Rule {
        match latest.evidence {
            Evidence::Leads => self.rule_of_a_claim(record, latest, now),
            Evidence::Promoting if record.promotes(now, self.lasts()) => Rule::Promoting,
            Evidence::Promoting => Rule::PromotionEnded,
            Evidence::Retiring => Rule::Retiring,
            Evidence::Unlocked => Rule::Unlocked,
            Evidence::Follows if latest.answer.role == Some(Role::StandbyLeader) => {
                Rule::StandbyLeader
            }
            Evidence::Follows => Rule::Follows,
        }
    }

    fn rule_of_a_claim(&self, record: &Record, latest: &Latest, now: BootTime) -> Rule {
        let reigns = self.reign.as_ref().is_some_and(|reign| {
            reign.id == record.id
                && record.dial == Some(reign.leader.addr)
                && reign.open
                && now < reign.until
        });
        let Some(claim) = record.claim(now) else {
            let too_old = latest
                .claim
                .as_ref()
                .is_some_and(|claim| claim.lock_too_old);
            return match (reigns, too_old) {
                (true, _) => Rule::Witnessed,
                (false, true) => Rule::LockTooOld,
                (false, false) => Rule::ClaimEnded,
            };
        };
        if reigns {
            return Rule::Leads;
        }
        if self.pins.contradicts(claim) {
            let known = self.pins.highest_timeline;
            return Rule::Stale { known };
        }
        if !record.up {
            return Rule::NotUp {
                answers: record.successes,
                needed: self.success_threshold,
            };
        }
        match (&self.reign, self.why) {
            (_, Some(WhyNobody::Promoting)) => Rule::AnotherPromotes,
            (_, Some(WhyNobody::Pending)) => Rule::NotNamed,
            (Some(reign), _) if reign.id != record.id => Rule::LowerTimeline {
                leader: Arc::clone(&reign.leader.name),
            },
            _ => Rule::Conflict,
        }
    }

    fn lasts(&self) -> Duration {
        self.settings.lease_timeout
    }
}
