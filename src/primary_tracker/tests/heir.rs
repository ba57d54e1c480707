//! What one process leaves to the next: the same authority, never more of it.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

use super::{UP_AFTER, body, record};
use crate::clock::{BootTime, Clock};
use crate::metrics::Metrics;
use crate::primary_tracker::{
    Demand, Fault, Heir, Order, Orders, Picture, Progress, Tracker, TrackerSettings,
};
use crate::topology::{
    Answer, HealthSettings, Heard, NodeId, NodeSettings, Observation, Provider, Rest, RestSettings,
    Sources,
};

/// The tracker of one process, with its nodes' words in hand.
struct Life {
    tracker: Tracker,
    picture: watch::Receiver<Picture>,
}

const LEASE: Duration = Duration::from_secs(10);

fn nodes() -> Vec<NodeSettings> {
    (1..=2).map(|n| record(n).settings).collect()
}

impl Life {
    fn with(clock: Clock, nodes: Vec<NodeSettings>, tracker: TrackerSettings) -> Self {
        let (publish, picture) = watch::channel(Picture::blank());
        let orders = Orders {
            nodes,
            health: HealthSettings::default(),
            source: Arc::new(Sources::Check),
            rest: Arc::new(Rest::open(RestSettings::default()).unwrap()),
            tracker,
        };
        let (demand, metrics) = (Demand::new(clock), Arc::new(Metrics::new()));
        let progress = Progress::default();
        let tracker = Tracker::new(clock, orders, demand, metrics, publish, progress);
        Self { tracker, picture }
    }

    fn new(clock: Clock) -> Self {
        Self::with(clock, nodes(), TrackerSettings::default())
    }

    /// n1 leads on timeline 5 in epoch 1, n2 follows.
    fn settled(clock: Clock) -> Self {
        let mut life = Self::new(clock);
        for _ in 0..UP_AFTER {
            life.leads(0, 5);
            life.follows(1, 5);
        }
        assert_eq!(life.routed(), Some(("n1".to_owned(), 1)));
        life
    }

    /// Over the wire to a process with these settings, and into it.
    fn next_with(&self, nodes: Vec<NodeSettings>, settings: TrackerSettings) -> Self {
        let mut next = Self::with(self.tracker.clock, nodes, settings);
        next.tracker = next.tracker.inheriting(&self.leave());
        next
    }

    fn next(&self) -> Self {
        self.next_with(nodes(), TrackerSettings::default())
    }

    fn leave(&self) -> Heir {
        let sent = serde_json::to_string(&self.tracker.leave()).unwrap();
        serde_json::from_str(&sent).unwrap()
    }

    fn inherit(&mut self, heir: &Heir) {
        let now = self.tracker.clock.now();
        self.tracker.inherit(heir, now);
        self.tracker.publish(now);
    }

    fn says(&mut self, node: u64, status: u16, role: &str, timeline: u32, sent: BootTime) {
        let now = self.tracker.clock.now();
        let words = body(role, "running", timeline);
        let seen = Observation {
            node: NodeId(node),
            sent,
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

    fn leads(&mut self, node: u64, timeline: u32) {
        self.says(node, 200, "primary", timeline, self.tracker.clock.now());
    }

    fn follows(&mut self, node: u64, timeline: u32) {
        self.says(node, 503, "replica", timeline, self.tracker.clock.now());
    }

    /// Where a new session would go now, and in which epoch.
    fn routed(&self) -> Option<(String, u64)> {
        let picture = self.picture.borrow();
        let lease = picture.valid_lease(self.tracker.clock.now())?;
        Some((lease.leader.name.to_string(), lease.epoch))
    }

    fn until(&self) -> Option<BootTime> {
        self.picture.borrow().lease.as_ref()?.until
    }
}

#[tokio::test(start_paused = true)]
async fn the_next_process_starts_with_the_lease_and_the_epoch_of_the_last_one() {
    let mut old = Life::settled(Clock::paused());
    old.follows(0, 5);
    old.leads(1, 6);
    assert_eq!(old.routed(), Some(("n2".to_owned(), 2)));
    let (until, failover) = (old.until(), old.picture.borrow().last_failover);
    assert!(failover.is_some());
    tokio::time::sleep(Duration::from_secs(3)).await;

    let mut new = old.next();

    assert_eq!(
        (new.routed(), new.until()),
        (Some(("n2".to_owned(), 2)), until)
    );
    let picture = new.picture.borrow().clone();
    assert_eq!(picture.last_failover, failover);
    let changes = old.picture.borrow().changes.clone();
    assert_eq!(picture.changes, changes);
    assert_eq!(new.tracker.metrics.leader_changes.get(), 2);
    // Its own question extends the same epoch.
    new.leads(1, 6);
    assert_eq!(new.routed(), Some(("n2".to_owned(), 2)));
    assert!(new.until() > until);
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_has_ended_is_handed_over_as_ended_and_its_epoch_comes_back() {
    let old = Life::settled(Clock::paused());
    tokio::time::sleep(LEASE).await;

    let mut new = old.next();

    assert_eq!(new.routed(), None);
    new.leads(0, 5);
    assert_eq!(new.routed(), Some(("n1".to_owned(), 1)));
}

#[tokio::test(start_paused = true)]
async fn an_epoch_that_was_revoked_never_comes_back_in_the_next_process() {
    let mut old = Life::settled(Clock::paused());
    old.follows(0, 5);
    assert_eq!(old.routed(), None);

    let mut new = old.next();

    assert_eq!(new.routed(), None);
    new.leads(0, 5);
    assert_eq!(new.routed(), Some(("n1".to_owned(), 2)));
}

#[tokio::test(start_paused = true)]
async fn a_shorter_lease_of_the_next_configuration_holds_for_what_is_inherited() {
    let old = Life::settled(Clock::paused());
    let settings = TrackerSettings {
        lease_timeout: Duration::from_secs(4),
        ..TrackerSettings::default()
    };

    let new = old.next_with(nodes(), settings);
    assert!(new.routed().is_some());

    tokio::time::sleep(Duration::from_secs(4)).await;
    assert!(old.routed().is_some());
    assert_eq!(new.routed(), None);
}

#[tokio::test(start_paused = true)]
async fn another_provider_s_word_is_no_authority() {
    let old = Life::settled(Clock::paused());
    let settings = TrackerSettings {
        provider: Provider::Postgres,
        ..TrackerSettings::default()
    };

    let new = old.next_with(nodes(), settings);

    assert_eq!(new.routed(), None);
    assert_eq!(new.picture.borrow().epoch, 1);
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_is_another_machine_now_is_no_leader() {
    let old = Life::settled(Clock::paused());
    let mut elsewhere = nodes();
    elsewhere[0].host = "127.0.1.9".into();

    let new = old.next_with(elsewhere, TrackerSettings::default());

    assert_eq!(new.routed(), None);
}

#[tokio::test(start_paused = true)]
async fn a_node_that_was_up_need_not_rise_again() {
    let old = Life::settled(Clock::paused());

    let mut new = old.next();
    new.follows(0, 5);
    new.leads(1, 6);

    assert_eq!(new.routed(), Some(("n2".to_owned(), 2)));
}

#[tokio::test(start_paused = true)]
async fn which_cluster_it_is_and_its_highest_timeline_are_not_learnt_anew() {
    let mut old = Life::settled(Clock::paused());
    old.follows(0, 5);
    old.leads(1, 6);
    tokio::time::sleep(LEASE).await;

    let mut new = old.next();
    for _ in 0..UP_AFTER {
        new.leads(0, 5);
    }

    assert_eq!(new.routed(), None, "timeline 5 is history");
}

#[tokio::test(start_paused = true)]
async fn an_operator_s_word_outlives_the_process_unless_the_file_says_something_new() {
    let mut old = Life::settled(Clock::paused());
    let node = Arc::from("n1");
    old.tracker
        .follow(Order::Disable { node, close: false })
        .unwrap();

    let new = old.next();
    assert_eq!(new.routed(), None);
    assert!(!new.picture.borrow().nodes[0].enabled);

    let mut written = nodes();
    written[0].enabled = false;
    let off = old.next_with(written, TrackerSettings::default());
    let on = off.next();
    assert!(on.picture.borrow().nodes[0].enabled);
    assert!(on.routed().is_some());
}

#[tokio::test(start_paused = true)]
async fn a_silence_that_is_played_is_played_on() {
    let mut old = Life::settled(Clock::paused());
    let node = Arc::from("n2");
    old.tracker
        .follow(Order::Chaos(Fault::ForceUnhealthy { node }))
        .unwrap();

    let new = old.next();

    assert!(new.picture.borrow().nodes[1].forced);
}

#[tokio::test(start_paused = true)]
async fn what_both_processes_have_heard_meanwhile_stands() {
    let mut old = Life::settled(Clock::paused());
    let mut new = old.next();
    tokio::time::sleep(Duration::from_secs(1)).await;
    new.leads(0, 5);
    let until = new.until();
    old.leads(0, 5);

    new.inherit(&old.leave());

    assert_eq!(
        (new.routed(), new.until()),
        (Some(("n1".to_owned(), 1)), until)
    );
}

#[tokio::test(start_paused = true)]
async fn a_revocation_during_the_hand_over_is_stronger_than_an_older_proof() {
    let mut old = Life::settled(Clock::paused());
    let mut new = old.next();
    new.leads(0, 5);
    tokio::time::sleep(Duration::from_millis(10)).await;
    let asked = new.tracker.clock.now();
    old.follows(0, 5);

    new.inherit(&old.leave());
    assert_eq!(new.routed(), None);

    // A question that was under way before is no answer to that.
    tokio::time::sleep(Duration::from_millis(10)).await;
    new.says(0, 200, "primary", 5, asked.back(Duration::from_millis(5)));
    assert_eq!(new.routed(), None);
    // A later one is, and is another epoch.
    new.leads(0, 5);
    assert_eq!(new.routed(), Some(("n1".to_owned(), 2)));
}

#[tokio::test(start_paused = true)]
async fn a_change_that_only_the_older_process_has_seen_is_its_epoch() {
    let mut old = Life::settled(Clock::paused());
    let mut new = old.next();
    new.leads(0, 5);
    old.follows(0, 5);
    old.leads(1, 6);

    new.inherit(&old.leave());

    assert_eq!(new.routed(), Some(("n2".to_owned(), 2)));
}

#[tokio::test(start_paused = true)]
async fn a_change_that_only_the_newer_process_has_seen_gets_no_epoch_of_another_leader() {
    let old = Life::settled(Clock::paused());
    let mut new = old.next();
    new.follows(0, 5);
    new.leads(1, 6);

    new.inherit(&old.leave());
    tokio::time::sleep(Duration::from_millis(1)).await;
    new.follows(0, 5);
    new.leads(1, 6);

    assert_eq!(new.routed(), Some(("n2".to_owned(), 3)));
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_has_lost_its_lock_during_the_hand_over_gets_nobody_on_an_older_word() {
    let mut old = Life::settled(Clock::paused());
    let mut new = old.next();
    let mut silent = old.next();
    tokio::time::sleep(Duration::from_secs(1)).await;
    let before = new.tracker.clock.now();
    new.leads(0, 5);
    tokio::time::sleep(Duration::from_millis(1)).await;
    let now = old.tracker.clock.now();
    old.says(0, 503, "primary", 5, now);
    assert_eq!(old.routed(), None);
    for next in [&mut new, &mut silent] {
        assert!(next.routed().is_some());

        next.inherit(&old.leave());

        assert_eq!(next.routed(), None);
        // An answer that was on its way is as old.
        next.says(0, 200, "primary", 5, before);
        assert_eq!(next.routed(), None);
        next.leads(0, 5);
        assert_eq!(next.routed(), Some(("n1".to_owned(), 1)));
    }
}

#[tokio::test(start_paused = true)]
async fn what_the_newer_process_has_heard_of_the_leader_later_stands() {
    let mut old = Life::settled(Clock::paused());
    let mut new = old.next();
    let now = old.tracker.clock.now();
    old.says(0, 503, "primary", 5, now);
    tokio::time::sleep(Duration::from_secs(1)).await;
    new.leads(0, 5);

    new.inherit(&old.leave());

    assert_eq!(new.routed(), Some(("n1".to_owned(), 1)));
}

#[tokio::test(start_paused = true)]
async fn a_silence_that_nobody_could_end_is_not_played_on() {
    let mut old = Life::settled(Clock::paused());
    let fault = Order::Chaos(Fault::ForceUnhealthy { node: "n1".into() });
    old.tracker.follow(fault).unwrap();

    let mut new = Life::new(old.tracker.clock);
    new.tracker = new.tracker.inheriting(&old.leave().without_faults());
    new.leads(0, 5);

    assert_eq!(new.routed(), Some(("n1".to_owned(), 1)));
}

#[tokio::test(start_paused = true)]
async fn as_long_as_a_node_is_promoting_nobody_else_leads_in_the_next_process_either() {
    let mut old = Life::settled(Clock::paused());
    let mut new = old.next();
    new.leads(0, 5);
    tokio::time::sleep(Duration::from_millis(10)).await;
    let now = old.tracker.clock.now();
    old.says(1, 200, "replica", 5, now);
    assert_eq!(old.routed(), None);

    new.inherit(&old.leave());
    let mut late = old.next();

    for next in [&mut new, &mut late] {
        assert_eq!(next.routed(), None);
        next.leads(0, 5);
        assert_eq!(next.routed(), None);
        next.leads(1, 6);
        assert_eq!(next.routed(), Some(("n2".to_owned(), 2)));
    }
}
