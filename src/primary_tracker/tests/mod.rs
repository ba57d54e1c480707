//! The rules of authority as sentences, and recorded failovers replayed.

mod by_hand;
mod discovery;
mod heir;
mod orders;
mod pins;
mod reading;
mod replay;
mod rules;
mod verdicts;
mod views;
mod witness;

use std::sync::Arc;
use std::time::Duration;

use super::decider::Decider;
use super::record::Record;
use super::{Lease, Revocation, TrackerSettings, WhyNobody};
use crate::clock::BootTime;
use crate::metrics::Metrics;
use crate::topology::{
    Answer, HealthSettings, Heard, NodeId, NodeRole, NodeSettings, Observation, Silence,
};

/// Three nodes and a decider, with time in hand.
struct Arena {
    decider: Decider,
    now: BootTime,
}

const UP_AFTER: u32 = 2;
const DOWN_AFTER: u32 = 5;

impl Arena {
    fn new() -> Self {
        Self::with(TrackerSettings::default())
    }

    fn with(settings: TrackerSettings) -> Self {
        let metrics = Arc::new(Metrics::new());
        let health = HealthSettings {
            success_threshold: UP_AFTER,
            failure_threshold: DOWN_AFTER,
            ..HealthSettings::default()
        };
        let mut decider = Decider::new(settings, &health, metrics);
        for n in 1..=3 {
            decider.records.push(record(n));
        }
        Self {
            decider,
            now: BootTime::ZERO + Duration::from_secs(3600),
        }
    }

    /// A node of the same address, as a reload brings it.
    fn add_again(&mut self, node: u64) {
        self.decider.records.push(record(node));
    }

    /// All three up, n1 leading on timeline 5.
    fn settled() -> Self {
        let mut arena = Self::new();
        arena.settle();
        arena
    }

    fn settle(&mut self) {
        for _ in 0..UP_AFTER {
            self.leads(1, 5);
            self.follows(2, 5);
            self.follows(3, 5);
        }
        assert_eq!(self.routed(), Some(1));
    }

    fn pass(&mut self, ms: u64) {
        self.now = self.now + Duration::from_millis(ms);
        self.decider.decide(self.now);
    }

    /// An answer to a question sent just now.
    fn say(&mut self, node: u64, status: u16, body: &str) -> bool {
        self.say_at(node, status, body, self.now, None)
    }

    fn say_at(
        &mut self,
        node: u64,
        status: u16,
        body: &str,
        sent: BootTime,
        date: Option<&str>,
    ) -> bool {
        let heard = match Answer::read(status, date, body.as_bytes()) {
            Some(said) => Ok(Heard {
                dial: format!("127.0.1.{node}:5432").parse().unwrap(),
                said,
            }),
            None => Err(Silence::NotPatroni { status }),
        };
        self.observe(node, sent, heard)
    }

    fn silent(&mut self, node: u64) -> bool {
        self.silent_at(node, self.now)
    }

    fn silent_at(&mut self, node: u64, sent: BootTime) -> bool {
        let limit = Duration::from_secs(8);
        let silence = crate::topology::NoAnswer::TimedOut { limit };
        self.observe(node, sent, Err(silence.into()))
    }

    fn observe(&mut self, node: u64, sent: BootTime, heard: Result<Heard, Silence>) -> bool {
        let seen = Observation {
            node: NodeId(node),
            sent,
            took: self.now.saturating_sub(sent),
            heard,
        };
        self.decider.observe(seen, self.now)
    }

    fn leads(&mut self, node: u64, timeline: u32) -> bool {
        self.say(node, 200, &body("primary", "running", timeline))
    }

    fn follows(&mut self, node: u64, timeline: u32) -> bool {
        self.say(node, 503, &body("replica", "running", timeline))
    }

    /// Follows, and nobody holds the lock.
    fn sees_no_lock(&mut self, node: u64, timeline: u32) -> bool {
        let follows = body("replica", "running", timeline);
        let unlocked = follows.replacen('{', r#"{"cluster_unlocked":true,"#, 1);
        self.say(node, 503, &unlocked)
    }

    fn lease(&self) -> Option<Lease> {
        let reign = self.decider.reign.as_ref()?;
        Some(reign.lease(Duration::ZERO, true))
    }

    /// The node that a new read-write session would be sent to now.
    fn routed(&self) -> Option<u64> {
        let reign = self.decider.reign.as_ref()?;
        self.lease()?.is_valid(self.now).then_some(reign.id.0)
    }

    fn why(&self) -> Option<WhyNobody> {
        self.decider.why
    }

    fn epoch(&self) -> u64 {
        self.decider.epoch
    }

    /// What ends a session that is opened now.
    fn session(&self) -> Revocation {
        self.lease().unwrap().revocation
    }

    fn conflicts(&self) -> u64 {
        self.decider.metrics.conflicting_primaries.get()
    }
}

fn record(n: u64) -> Record {
    let node = NodeSettings {
        name: format!("n{n}").into(),
        host: format!("127.0.1.{n}").into(),
        port: 5432,
        rest_host: None,
        rest_port: 8008,
        role: NodeRole::Auto,
        enabled: true,
        weight: 100,
    };
    Record::new(NodeId(n), node)
}

fn body(role: &str, state: &str, timeline: u32) -> String {
    of_cluster(role, state, timeline, "main", "7")
}

fn of_cluster(role: &str, state: &str, timeline: u32, scope: &str, id: &str) -> String {
    format!(
        r#"{{"role":"{role}","state":"{state}","timeline":{timeline},"database_system_identifier":"{id}",
           "patroni":{{"version":"4.1.5","scope":"{scope}","name":"n"}}}}"#
    )
}
