//! What the tracker remembers of one node.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use uuid::Uuid;

use super::discovered::Discovered;
use super::lag::Mark;
use super::{Check, NodePicture, Readers, Reading, Verdict};
use crate::clock::BootTime;
use crate::metrics::RevokeReason;
use crate::net::canonical;
use crate::topology::{Answer, Evidence, NodeId, NodeSettings};

/// A node's `node_id` is the version-5 UUID of its name under this namespace, so that every process gives it the
/// same.
pub const NODE_NAMESPACE: Uuid = Uuid::from_u128(0x6865_6c69_6f73_5072_8f78_7970_6174_726f);

pub(super) struct Record {
    pub(super) id: NodeId,
    pub(super) settings: NodeSettings,
    /// `settings.address()`, made once: a picture is drawn for each answer.
    address: Arc<str>,
    pub(super) node_id: Uuid,
    /// Answers in a row made it up, silences in a row make it down.
    pub(super) up: bool,
    pub(super) successes: u32,
    pub(super) failures: u32,
    /// The address that `latest` belongs to: another one starts without proof.
    pub(super) dial: Option<SocketAddr>,
    /// The newest evidence. Silence leaves it, with its age.
    pub(super) latest: Option<Latest>,
    /// The newest claim to lead another cluster than the pinned one.
    pub(super) foreign: Option<Claim>,
    /// When the newest question that was answered had been sent: an answer to an earlier one comes too late.
    pub(super) answered: BootTime,
    /// The same of the newest one that was not.
    pub(super) silent: BootTime,
    /// Only where it comes from a view and not from the configuration.
    pub(super) discovered: Option<Discovered>,
    /// The operator's word on `settings.enabled`, until a reload changes that.
    pub(super) switch: Option<bool>,
    /// When the answer of `latest` was here.
    pub(super) heard: BootTime,
    /// What its own position is measured against.
    pub(super) mark: Option<Mark>,
    /// When the end of a session there last made us ask.
    pub(super) looked: BootTime,
    pub(super) readers: Readers,
    /// Episodes that were said once and are not over.
    pub(super) said: Said,
    pub(super) people: People,
}

/// The newest evidence of a node.
#[derive(Clone, Debug)]
pub(super) struct Latest {
    pub(super) evidence: Evidence,
    pub(super) sent: BootTime,
    pub(super) answer: Answer,
    /// Only with [`Evidence::Leads`].
    pub(super) claim: Option<Claim>,
}

/// A node's claim to lead. It counts until its time is over or the node says otherwise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Claim {
    pub(super) dial: SocketAddr,
    pub(super) timeline: Option<u32>,
    pub(super) identifier: Option<Arc<str>>,
    pub(super) scope: Option<Arc<str>>,
    pub(super) sent: BootTime,
    pub(super) until: BootTime,
    /// The age of the lock has cut `until` to before the answer was there.
    pub(super) lock_too_old: bool,
    /// When the lock runs out unless it is renewed.
    pub(super) lock_ends: Option<BootTime>,
    /// What others have said for it since: the node's own next word is a new claim without it.
    pub(super) vouched: Option<Vouched>,
}

/// A witness has seen that the leader, which is silent itself, holds its lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Vouched {
    /// When the witness was asked.
    pub(super) asked: BootTime,
    pub(super) until: BootTime,
}

impl Claim {
    /// When it ends, by the node's own word or by a witness's.
    pub(super) fn ends(&self) -> BootTime {
        self.vouched
            .map_or(self.until, |vouched| vouched.until.max(self.until))
    }

    /// When the newest question was sent whose answer spoke for it.
    pub(super) fn heard(&self) -> BootTime {
        self.vouched
            .map_or(self.sent, |vouched| vouched.asked.max(self.sent))
    }

    /// Somebody's word that stands until it is changed.
    pub(super) fn by_hand(dial: SocketAddr, now: BootTime) -> Self {
        Self {
            dial,
            timeline: None,
            identifier: None,
            scope: None,
            sent: now,
            until: BootTime::NEVER,
            lock_too_old: false,
            lock_ends: None,
            vouched: None,
        }
    }
}

/// What has been logged in an episode that still lasts.
#[derive(Clone, Debug, Default)]
pub(super) struct Said {
    /// Why it cannot be asked, in each of the words that were used.
    pub(super) needs_hands: Vec<String>,
    pub(super) wrong_cluster: bool,
    pub(super) stale: bool,
    pub(super) lock_too_old: bool,
    /// Silent, and its lease goes on by the word of a witness.
    pub(super) vouched: bool,
}

/// For people only: nothing is decided by these.
#[derive(Clone, Debug, Default)]
pub(super) struct People {
    /// When the newest question that has ended was sent.
    pub(super) asked: Option<BootTime>,
    pub(super) last_check: Option<SystemTime>,
    pub(super) last_answer: Option<BootTime>,
    pub(super) latency: Option<Duration>,
    pub(super) last_error: Option<Arc<str>>,
    pub(super) words: Option<Arc<str>>,
    /// The last [`CHECKS`], oldest first.
    pub(super) checks: Arc<[Check]>,
}

/// Enough to see a pattern, few enough to be copied with each answer.
const CHECKS: usize = 60;

impl People {
    pub(super) fn note(&mut self, check: Check) {
        let surplus = (self.checks.len() + 1).saturating_sub(CHECKS);
        let kept = self.checks.iter().skip(surplus).copied();
        self.checks = kept.chain([check]).collect();
    }
}

impl Record {
    pub(super) fn new(id: NodeId, settings: NodeSettings) -> Self {
        Self {
            id,
            node_id: Uuid::new_v5(&NODE_NAMESPACE, settings.name.as_bytes()),
            address: settings.address().into(),
            settings,
            up: false,
            successes: 0,
            failures: 0,
            dial: None,
            latest: None,
            foreign: None,
            answered: BootTime::ZERO,
            silent: BootTime::ZERO,
            discovered: None,
            switch: None,
            heard: BootTime::ZERO,
            mark: None,
            looked: BootTime::ZERO,
            readers: Readers::default(),
            said: Said::default(),
            people: People::default(),
        }
    }

    /// May it get sessions? It is asked, tracked and part of conflicts either way.
    pub(super) fn is_enabled(&self) -> bool {
        self.switch.unwrap_or(self.settings.enabled)
    }

    /// A reload's word on the same machine. What it says of `enabled` overrules the operator only where it says
    /// something new.
    pub(super) fn take_settings(&mut self, settings: NodeSettings) {
        if settings.enabled != self.settings.enabled {
            self.switch = None;
        }
        self.settings = settings;
    }

    /// Ends the read sessions that are open now, and none that start later.
    pub(super) fn end_readers(&mut self, reason: RevokeReason) {
        self.readers.close(reason);
    }

    /// Does what it says count? Not of a discovered node before it has shown where it belongs.
    pub(super) fn is_used(&self) -> bool {
        self.discovered.is_none_or(|discovered| discovered.admitted)
    }

    /// A discovered node that none of these stands for, by name or by address.
    pub(super) fn is_discovered_beside(&self, configured: &[NodeSettings]) -> bool {
        let address = |node: &NodeSettings| (canonical(&node.host), node.port);
        let own = address(&self.settings);
        let same = |node: &NodeSettings| node.name == self.settings.name || address(node) == own;
        self.discovered.is_some() && !configured.iter().any(same)
    }

    /// Answers, but is not up yet.
    pub(super) fn is_rising(&self) -> bool {
        !self.up && self.successes > 0
    }

    pub(super) fn hear_answer(&mut self, success_threshold: u32) {
        self.failures = 0;
        self.successes = self.successes.saturating_add(1);
        self.up |= self.successes >= success_threshold;
    }

    pub(super) fn hear_silence(&mut self, failure_threshold: u32) {
        self.successes = 0;
        self.failures = self.failures.saturating_add(1);
        self.up &= self.failures < failure_threshold;
    }

    /// Down at once, as after silences enough.
    pub(super) fn force_down(&mut self, failure_threshold: u32) {
        self.up = false;
        self.successes = 0;
        self.failures = self.failures.max(failure_threshold);
    }

    /// A proof belongs to the address that gave it.
    pub(super) fn answers_from(&mut self, dial: SocketAddr) {
        if self.dial.is_some_and(|before| before != dial) {
            self.up = false;
            self.successes = 0;
            self.latest = None;
            self.foreign = None;
        }
        self.dial = Some(dial);
    }

    /// Its newest answer, unless that proved nothing or was another cluster's.
    pub(super) fn newest_word(&self) -> Option<&Latest> {
        let latest = self.latest.as_ref();
        latest.filter(|latest| latest.sent == self.answered && !self.said.wrong_cluster)
    }

    /// Holds the lock but is not writable yet, said no longer than `lasts` ago.
    pub(super) fn promotes(&self, now: BootTime, lasts: Duration) -> bool {
        self.latest
            .as_ref()
            .is_some_and(|l| l.evidence == Evidence::Promoting && now < l.sent + lasts)
    }

    /// By its last word, not silent since, it follows and somebody holds the lock.
    pub(super) fn knows_a_lock(&self) -> bool {
        let word = self.newest_word().filter(|_| self.silent < self.answered);
        word.is_some_and(|l| l.evidence == Evidence::Follows && !l.answer.unlocked)
    }

    /// The claim, if its time is not over by the node's own word.
    pub(super) fn claim(&self, now: BootTime) -> Option<&Claim> {
        self.standing_claim(now).filter(|claim| now < claim.until)
    }

    /// The claim, also where only a witness still holds it up.
    pub(super) fn standing_claim(&self, now: BootTime) -> Option<&Claim> {
        let claim = self.latest.as_ref()?.claim.as_ref()?;
        (now < claim.ends()).then_some(claim)
    }

    /// What can change, as far as one node is concerned.
    pub(super) fn fact(&self) -> Fact {
        let latest = self.latest.as_ref();
        Fact {
            up: self.up,
            evidence: latest.map(|l| l.evidence),
            role: latest
                .and_then(|l| l.answer.role.as_ref())
                .map(|r| r.word().into()),
            state: latest
                .and_then(|l| l.answer.state.as_ref())
                .map(|s| s.word().into()),
            timeline: latest.and_then(|l| l.answer.timeline),
            unlocked: latest
                .is_some_and(|l| l.answer.unlocked && !l.answer.failsafe && !l.answer.paused),
        }
    }

    pub(super) fn picture(&self, leads: bool, verdict: Verdict) -> NodePicture {
        let answer = self.latest.as_ref().map(|l| &l.answer);
        NodePicture {
            name: Arc::clone(&self.settings.name),
            node_id: self.node_id,
            address: Arc::clone(&self.address),
            enabled: self.is_enabled(),
            readers: self.readers.clone(),
            forced: false,
            up: self.up,
            leader: leads,
            role: answer
                .and_then(|a| a.role.as_ref())
                .map(|r| r.word().into()),
            state: answer
                .and_then(|a| a.state.as_ref())
                .map(|s| s.word().into()),
            timeline: answer.and_then(|a| a.timeline),
            lag_bytes: self.lag(),
            failures: self.failures,
            last_check: self.people.last_check,
            last_answer: self.people.last_answer,
            latency: self.people.latency,
            last_error: self.people.last_error.clone(),
            words: self
                .people
                .words
                .clone()
                .unwrap_or_else(|| "not asked yet".into()),
            verdict,
            reading: self.reading(),
            checks: Arc::clone(&self.people.checks),
        }
    }

    /// What this node is for the read pool.
    fn reading(&self) -> Reading {
        // The answers of another cluster's node are silence, which leaves the older evidence; reads must not follow it.
        let latest = self.latest.as_ref().filter(|_| !self.said.wrong_cluster);
        Reading {
            addr: self.dial,
            weight: self.settings.weight,
            feed: latest.and_then(|l| l.answer.feed()),
            noloadbalance: latest.is_some_and(|l| l.answer.noloadbalance),
            asked: latest.map_or(BootTime::ZERO, |l| l.sent),
        }
    }
}

/// A node's share of what can change; positions and times are no facts.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Fact {
    up: bool,
    evidence: Option<Evidence>,
    role: Option<Arc<str>>,
    state: Option<Arc<str>>,
    timeline: Option<u32>,
    unlocked: bool,
}

impl Fact {
    /// `cluster_unlocked` counts only as it turns true.
    pub(super) fn differs_from(&self, before: &Self) -> bool {
        (
            self.up,
            self.evidence,
            &self.role,
            &self.state,
            self.timeline,
        ) != (
            before.up,
            before.evidence,
            &before.role,
            &before.state,
            before.timeline,
        ) || (self.unlocked && !before.unlocked)
    }
}
