//! Whatever happens in whatever order: one event for each transition, and none without one.

use std::sync::Arc;
use std::time::Duration;

use heliosdb_proxy::primary_tracker::{PrimaryChangeEvent, PrimaryTracker, TopologyEvent};
use uuid::Uuid;

use crate::mock::{LEASE, Mock, Watched, id, node};

/// What a subscriber knows who has only heard the events.
#[derive(Clone, Debug, Default, PartialEq)]
struct Told {
    leader: Option<(Uuid, String)>,
    /// `None` just after a change: whether a new leader is pending is the state's to tell.
    confirmed: Option<bool>,
    changes: u64,
}

impl Told {
    /// Takes in one event, which must be a transition from where the subscriber stands.
    fn hear(&mut self, event: PrimaryChangeEvent) {
        let now = self.leader.as_ref().map(|(id, _)| *id);
        match event {
            PrimaryChangeEvent::Changed { old, new, address } => {
                assert_eq!(old, now, "Changed names who led before");
                self.leader = Some((new, address));
                self.confirmed = None;
                self.changes += 1;
            }
            PrimaryChangeEvent::Lost { old } => {
                assert_eq!(Some(old), now, "Lost names who led");
                self.leader = None;
            }
            PrimaryChangeEvent::Confirmed { node_id } => {
                assert_eq!(Some(node_id), now, "Confirmed names who leads");
                assert_ne!(self.confirmed, Some(true), "confirmed twice");
                self.confirmed = Some(true);
            }
        }
    }
}

/// The tracker's state and the subscriber's must be the same after each step.
struct Checked {
    told: Told,
    epoch: u64,
}

impl Checked {
    fn step(&mut self, tracker: &PrimaryTracker, heard: Vec<PrimaryChangeEvent>, what: &str) {
        let info = tracker.get_primary();
        for event in heard {
            self.told.hear(event);
        }
        let state = info.as_ref().map(|i| (i.node_id, i.address.clone()));
        assert_eq!(self.told.leader, state, "after {what}");
        if let Some(info) = &info {
            let confirmed = *self.told.confirmed.get_or_insert(info.is_confirmed);
            assert_eq!(confirmed, info.is_confirmed, "after {what}");
            assert_eq!(info.epoch, tracker.get_epoch(), "after {what}");
        }
        assert_eq!(
            tracker.authority_valid(),
            info.is_some_and(|info| info.is_confirmed),
            "after {what}"
        );
        let epoch = tracker.get_epoch();
        assert!(
            self.epoch <= epoch && epoch <= self.told.changes,
            "epoch {epoch} after {} and {} changes, after {what}",
            self.epoch,
            self.told.changes
        );
        self.epoch = epoch;
    }
}

fn checked() -> Checked {
    Checked {
        told: Told::default(),
        epoch: 0,
    }
}

fn seeds() -> impl Iterator<Item = u64> {
    let first = match std::env::var("SEED") {
        Ok(seed) => seed.parse().unwrap(),
        Err(_unset) => fastrand::u64(..),
    };
    eprintln!("SEED={first} repeats this");
    (0..50).map(move |n| first.wrapping_add(n))
}

#[test]
fn orders_by_hand_in_any_order_are_told_once_each() {
    for seed in seeds() {
        let mut rng = fastrand::Rng::with_seed(seed);
        let tracker = PrimaryTracker::new_standalone();
        let (mut changes, mut checked) = (tracker.subscribe(), checked());
        for _ in 0..200 {
            let n = rng.u8(1..=3);
            let what = match rng.u8(..3) {
                0 => {
                    tracker.set_primary(id(n), node(n).client_addr);
                    "set"
                }
                1 => {
                    tracker.confirm_primary();
                    "confirm"
                }
                _ => {
                    tracker.clear_primary();
                    "clear"
                }
            };
            let heard: Vec<_> = std::iter::from_fn(|| changes.try_recv().ok()).collect();
            assert!(heard.len() <= 1, "seed {seed}: {what} told {heard:?}");
            checked.step(&tracker, heard, &format!("seed {seed}: {what} {n}"));
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_providers_words_in_any_order_are_told_once_each() {
    for seed in seeds() {
        let mut rng = fastrand::Rng::with_seed(seed);
        let mut watched = Watched::plain(Mock::new()).await;
        let mut checked = checked();
        for _ in 0..100 {
            let n = rng.u8(1..=4);
            let what = rng.u8(..6);
            match what {
                0 => watched.mock.answers(Some(n)),
                1 => watched.mock.answers(None),
                2 => watched.mock.moves_to(if n == 4 { 99 } else { n }),
                3 => watched
                    .mock
                    .sends(TopologyEvent::NodeLeft { node_id: id(n) }),
                4 => watched.mock.sends(TopologyEvent::HealthChanged {
                    node_id: id(n),
                    is_healthy: rng.bool(),
                }),
                _ => {
                    let most = u64::try_from(LEASE.as_millis()).unwrap() * 2;
                    watched.pass(Duration::from_millis(rng.u64(..most))).await;
                }
            }
            watched.settle().await;
            // Whoever reads first finds a lease that ends in this very moment, and tells it.
            watched.tracker.get_epoch();
            let told = watched.told();
            let what = format!("seed {seed}: {what} {n}");
            checked.step(&Arc::clone(&watched.tracker), told, &what);
        }
        watched.running.abort();
    }
}

#[tokio::test(start_paused = true)]
async fn sightings_in_any_order_are_told_once_each() {
    for seed in seeds() {
        let mut rng = fastrand::Rng::with_seed(seed);
        let mut watched = Watched::observing(Mock::new()).await;
        let mut checked = checked();
        for _ in 0..100 {
            let n = rng.u8(1..=3);
            let mut sighting = watched.sighted(n);
            if let Some(leader) = &mut sighting.leader {
                leader.confirmed = rng.u8(..4) > 0;
                leader.timeline = [None, Some(5), Some(6)][rng.usize(..3)];
                leader.ends = (rng.u8(..4) == 0).then(|| leader.asked + LEASE / 3);
            }
            sighting.conflict = rng.u8(..6) == 0;
            if rng.u8(..6) == 0 {
                sighting.leader = None;
            }
            let late = Duration::from_millis(rng.u64(..12_000));
            watched.pass(late).await;
            watched.mock.sees(Some(sighting));
            watched.pass(Duration::from_millis(rng.u64(..6_000))).await;
            // Whoever reads first finds a lease that ends in this very moment, and tells it.
            watched.tracker.get_epoch();
            let told = watched.told();
            let what = format!("seed {seed}: sighting of {n}, {late:?} old");
            checked.step(&Arc::clone(&watched.tracker), told, &what);
        }
        watched.running.abort();
    }
}
