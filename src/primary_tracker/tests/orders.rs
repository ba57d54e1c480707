//! What an operator orders, and what it leaves.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use tokio::sync::watch;

use super::{UP_AFTER, body, record};
use crate::clock::{BootTime, Clock};
use crate::metrics::{Metrics, RevokeReason};
use crate::primary_tracker::run::Tracker;
use crate::primary_tracker::{
    Demand, Fault, Order, Orders, Picture, Progress, Refused, TrackerSettings, WhyNobody,
};
use crate::topology::{
    Answer, HealthSettings, Heard, News, NodeId, NodeSettings, Observation, Rest, RestSettings,
    Sight, Sources, View,
};

/// A tracker that is told what its nodes say, and what it publishes.
struct Desk {
    tracker: Tracker,
    picture: watch::Receiver<Picture>,
    nodes: Vec<NodeSettings>,
}

impl Desk {
    /// n1 leads on timeline 5, n2 follows.
    fn settled() -> Self {
        let nodes: Vec<_> = (1..=2).map(|n| record(n).settings).collect();
        let clock = Clock::paused();
        let (publish, picture) = watch::channel(Picture::blank());
        let tracker = Tracker::new(
            clock,
            orders(&nodes),
            Demand::new(clock),
            Arc::new(Metrics::new()),
            publish,
            Progress::default(),
        );
        let mut desk = Self {
            tracker,
            picture,
            nodes,
        };
        for _ in 0..UP_AFTER {
            desk.says(0, 200, "primary", 5);
            desk.says(1, 503, "replica", 5);
        }
        assert_eq!(desk.routed().as_deref(), Some("n1"));
        desk
    }

    fn says(&mut self, node: u64, status: u16, role: &str, timeline: u32) {
        let now = self.tracker.clock.now();
        let words = body(role, "running", timeline);
        let seen = Observation {
            node: NodeId(node),
            sent: now,
            took: Duration::ZERO,
            heard: Ok(Heard {
                dial: format!("127.0.1.{}:5432", node + 1).parse().unwrap(),
                said: Answer::read(status, None, words.as_bytes()).unwrap(),
            }),
        };
        let seen = self.tracker.chaos.pass(seen);
        self.tracker.decider.observe(seen, now);
        self.tracker.publish(now);
    }

    fn order(&mut self, order: Order) -> Result<(), Refused> {
        let done = self.tracker.follow(order);
        self.tracker.publish(self.tracker.clock.now());
        done
    }

    fn reload(&mut self) {
        self.tracker.obey(orders(&self.nodes));
        self.tracker.publish(self.tracker.clock.now());
    }

    fn routed(&self) -> Option<String> {
        let picture = self.picture.borrow();
        let lease = picture.valid_lease(self.now())?;
        Some(lease.leader.name.to_string())
    }

    fn now(&self) -> BootTime {
        self.tracker.clock.now()
    }

    fn why(&self) -> Option<WhyNobody> {
        self.picture.borrow().why
    }

    fn is_enabled(&self, node: usize) -> bool {
        self.picture.borrow().nodes[node].enabled
    }

    fn last_failover(&self) -> Option<SystemTime> {
        self.picture.borrow().last_failover
    }
}

fn orders(nodes: &[NodeSettings]) -> Orders {
    Orders {
        nodes: nodes.to_vec(),
        health: HealthSettings::default(),
        source: Arc::new(Sources::Check),
        rest: Arc::new(Rest::open(RestSettings::default()).unwrap()),
        tracker: TrackerSettings::default(),
    }
}

fn disable(node: &str, close: bool) -> Order {
    let node = node.into();
    Order::Disable { node, close }
}

fn enable(node: &str) -> Order {
    Order::Enable { node: node.into() }
}

#[tokio::test(start_paused = true)]
async fn a_disabled_leader_gets_nobody_new_keeps_its_sessions_and_is_the_reason() {
    let mut desk = Desk::settled();
    let session = desk.picture.borrow().lease.clone().unwrap().revocation;

    desk.order(disable("n1", false)).unwrap();

    assert_eq!(desk.routed(), None);
    assert_eq!(desk.why(), Some(WhyNobody::Disabled));
    assert!(!session.is_revoked());
    desk.says(0, 200, "primary", 5);
    assert_eq!(desk.routed(), None, "it is asked and tracked as before");

    desk.order(enable("n1")).unwrap();
    assert_eq!(desk.routed().as_deref(), Some("n1"));
    assert_eq!(desk.picture.borrow().epoch, 1);
}

#[tokio::test(start_paused = true)]
async fn disabling_with_close_ends_the_sessions_of_the_leader_for_this_reason() {
    let mut desk = Desk::settled();
    let session = desk.picture.borrow().lease.clone().unwrap().revocation;

    desk.order(disable("n1", true)).unwrap();

    assert_eq!(session.reason(), Some(RevokeReason::disabled));
    assert_eq!(desk.why(), Some(WhyNobody::Disabled));

    desk.order(enable("n1")).unwrap();
    desk.says(0, 200, "primary", 5);
    assert_eq!(desk.routed().as_deref(), Some("n1"));
    let next = desk.picture.borrow().lease.clone().unwrap();
    assert!(!next.revocation.is_revoked());
    assert_eq!(next.epoch, 2, "a revoked epoch never comes back");
    assert_eq!(desk.last_failover(), None, "nobody has failed over");
}

#[tokio::test(start_paused = true)]
async fn disabling_a_follower_with_close_ends_its_readers_and_nobody_else() {
    let mut desk = Desk::settled();
    let (writer, reader, of_n1) = {
        let picture = desk.picture.borrow();
        let writer = picture.lease.clone().unwrap().revocation;
        let readers = |n: usize| picture.nodes[n].readers.whoever_leads.clone();
        (writer, readers(1), readers(0))
    };

    desk.order(disable("n2", false)).unwrap();
    assert!(!desk.is_enabled(1) && !reader.is_revoked());
    desk.order(disable("n2", true)).unwrap();

    assert_eq!(reader.reason(), Some(RevokeReason::disabled));
    assert!(!writer.is_revoked() && !of_n1.is_revoked());
    let later = desk.picture.borrow().nodes[1].readers.whoever_leads.clone();
    assert!(!later.is_revoked(), "readers that come once it is enabled");
}

#[tokio::test(start_paused = true)]
async fn the_switch_outlives_a_reload_that_says_nothing_new_of_it() {
    let mut desk = Desk::settled();
    desk.order(disable("n1", false)).unwrap();

    desk.nodes[0].weight = 7;
    desk.reload();
    assert!(!desk.is_enabled(0));

    desk.nodes[0].enabled = false;
    desk.reload();
    desk.nodes[0].enabled = true;
    desk.reload();
    assert!(desk.is_enabled(0), "the file has spoken since");
}

#[tokio::test(start_paused = true)]
async fn a_disabled_node_is_part_of_conflicts() {
    let mut desk = Desk::settled();
    desk.order(disable("n2", false)).unwrap();

    desk.says(1, 200, "primary", 5);

    assert_eq!(desk.routed(), None);
    assert_eq!(desk.why(), Some(WhyNobody::Conflict));
}

#[tokio::test(start_paused = true)]
async fn an_unknown_node_and_a_leader_by_hand_are_refused_and_change_nothing() {
    let mut desk = Desk::settled();
    let epoch = desk.picture.borrow().epoch;

    for order in [
        disable("n9", true),
        enable("n9"),
        Order::Chaos(Fault::ForceUnhealthy { node: "n9".into() }),
    ] {
        assert_eq!(desk.order(order), Err(Refused::UnknownNode("n9".into())));
    }
    let by_hand = Order::SetPrimary {
        node: Some("n2".into()),
    };
    assert_eq!(desk.order(by_hand), Err(Refused::NotByThisProvider));

    assert_eq!(desk.routed().as_deref(), Some("n1"));
    assert_eq!(desk.picture.borrow().epoch, epoch);
}

#[tokio::test(start_paused = true)]
async fn a_node_forced_unhealthy_is_down_at_once_and_its_words_are_silence() {
    let mut desk = Desk::settled();
    let node = || Arc::from("n1");

    let force = Fault::ForceUnhealthy { node: node() };
    desk.order(Order::Chaos(force)).unwrap();
    assert!(!desk.picture.borrow().nodes[0].up);
    assert!(desk.picture.borrow().nodes[0].forced);
    assert_eq!(desk.routed().as_deref(), Some("n1"), "its lease lasts");

    for _ in 0..11 {
        tokio::time::advance(Duration::from_secs(1)).await;
        desk.says(0, 200, "primary", 5);
    }
    assert_eq!(desk.routed(), None);
    assert_eq!(desk.why(), Some(WhyNobody::LeaseEnded));

    let restore = Fault::Restore { node: node() };
    desk.order(Order::Chaos(restore)).unwrap();
    for _ in 0..UP_AFTER {
        desk.says(0, 200, "primary", 5);
    }
    assert_eq!(desk.routed().as_deref(), Some("n1"));
}

#[tokio::test(start_paused = true)]
async fn no_witness_speaks_for_a_leader_that_is_forced_unhealthy() {
    let mut desk = Desk::settled();
    let view = br#"{"members":[{"name":"n1","role":"leader","state":"running","timeline":5}]}"#;
    let date = "Mon, 30 Nov 2026 05:25:51 GMT";
    let witness = body("replica", "running", 5).replacen('{', r#"{"dcs_last_seen":1796016351,"#, 1);
    let sees = |desk: &mut Desk| {
        let now = desk.now();
        let seen = Observation {
            node: NodeId(1),
            sent: now,
            took: Duration::ZERO,
            heard: Ok(Heard {
                dial: "127.0.1.2:5432".parse().unwrap(),
                said: Answer::read(503, Some(date), witness.as_bytes()).unwrap(),
            }),
        };
        desk.tracker.decider.observe(seen, now);
        desk.tracker.take_in(News::Saw(Sight {
            node: NodeId(1),
            sent: now,
            view: View::read(200, view).unwrap(),
        }));
        desk.tracker.metrics.witness.get()
    };
    tokio::time::advance(Duration::from_secs(1)).await;
    assert_eq!(sees(&mut desk), 1, "while the silence is real");

    let node = "n1".into();
    desk.order(Order::Chaos(Fault::ForceUnhealthy { node }))
        .unwrap();
    tokio::time::advance(Duration::from_secs(1)).await;
    assert_eq!(sees(&mut desk), 1, "asked before, answered after");
}

#[tokio::test(start_paused = true)]
async fn a_reset_restores_every_node() {
    let mut desk = Desk::settled();
    for node in ["n1", "n2"] {
        let node = node.into();
        desk.order(Order::Chaos(Fault::ForceUnhealthy { node }))
            .unwrap();
    }

    desk.order(Order::Chaos(Fault::Reset)).unwrap();

    let picture = desk.picture.borrow();
    assert!(picture.nodes.iter().all(|node| !node.forced));
}
