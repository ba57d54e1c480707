//! By hand: pending, confirmed, cleared, each told once.

use std::sync::Arc;
use std::time::Duration;

use heliosdb_proxy::clock::Clock;
use heliosdb_proxy::primary_tracker::{
    NoHealthyNodes, PrimaryChangeEvent, PrimaryTracker, TrackerStatus,
};
use tokio::sync::broadcast::error::TryRecvError;

use crate::mock::{changed, id, lost, node};

fn set(tracker: &PrimaryTracker, n: u8) {
    tracker.set_primary(id(n), node(n).client_addr);
}

#[test]
fn a_primary_is_pending_until_it_is_confirmed_and_stands_until_it_is_cleared() {
    let tracker = PrimaryTracker::new_standalone();
    let mut changes = tracker.subscribe();
    assert_eq!(tracker.status(), TrackerStatus::Standalone);
    assert_eq!((tracker.get_epoch(), tracker.authority_valid()), (0, false));

    set(&tracker, 1);
    let pending = tracker.get_primary().unwrap();
    assert_eq!(
        (pending.node_id, &*pending.address, pending.is_confirmed),
        (id(1), "10.0.0.1:5432", false)
    );
    assert_eq!(pending.epoch, 1);
    assert!(!tracker.authority_valid());

    tracker.confirm_primary();
    assert!(tracker.get_primary().unwrap().is_confirmed);
    assert!(tracker.authority_valid());
    assert_eq!(tracker.lease_remaining(), None);

    tracker.clear_primary();
    assert!(tracker.get_primary().is_none() && !tracker.authority_valid());
    set(&tracker, 2);
    set(&tracker, 1);

    for event in [
        changed(None, 1),
        PrimaryChangeEvent::Confirmed { node_id: id(1) },
        lost(1),
        changed(None, 2),
        changed(Some(2), 1),
    ] {
        assert_eq!(changes.try_recv(), Ok(event));
    }
    assert_eq!(changes.try_recv(), Err(TryRecvError::Empty));
    assert_eq!(tracker.get_epoch(), 3);
}

#[test]
fn without_a_primary_there_is_nothing_to_confirm_or_to_clear() {
    let tracker = PrimaryTracker::new_standalone();
    let mut changes = tracker.subscribe();

    tracker.confirm_primary();
    tracker.clear_primary();
    set(&tracker, 1);
    tracker.confirm_primary();
    tracker.confirm_primary();
    tracker.clear_primary();
    tracker.clear_primary();

    let told: Vec<_> = std::iter::from_fn(|| changes.try_recv().ok()).collect();
    assert_eq!(
        told,
        [
            changed(None, 1),
            PrimaryChangeEvent::Confirmed { node_id: id(1) },
            lost(1)
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn a_primary_set_by_hand_has_no_lease_and_nothing_to_run() {
    let tracker = PrimaryTracker::new_standalone().with_clock(Clock::tokio());
    set(&tracker, 1);
    tracker.confirm_primary();

    tracker.run().await;
    tokio::time::sleep(Duration::from_secs(86_400)).await;

    assert!(tracker.authority_valid());
}

#[tokio::test(start_paused = true)]
async fn a_subscriber_that_lagged_reads_the_state() {
    let tracker = PrimaryTracker::new_standalone();
    let mut changes = tracker.subscribe();
    for n in 1..=200 {
        set(&tracker, n);
    }

    assert!(matches!(changes.try_recv(), Err(TryRecvError::Lagged(_))));
    let state = tracker.get_primary().unwrap();

    assert_eq!((state.node_id, state.epoch), (id(200), 200));
}

#[tokio::test(start_paused = true)]
async fn a_writer_waits_for_a_confirmed_primary_and_not_for_ever() {
    let tracker = Arc::new(PrimaryTracker::new_standalone().with_clock(Clock::tokio()));
    let limit = Duration::from_secs(45);
    set(&tracker, 1);
    let none = tracker.primary_within(limit).await.unwrap_err();
    assert_eq!(none, NoHealthyNodes { waited: limit });
    assert_eq!(
        none.to_string(),
        "no healthy nodes: nobody had the authority of a leader within 45s"
    );

    let waiting = tokio::spawn({
        let tracker = Arc::clone(&tracker);
        async move { tracker.primary_within(limit).await }
    });
    tokio::time::sleep(Duration::from_secs(5)).await;
    tracker.confirm_primary();

    assert_eq!(waiting.await.unwrap().unwrap().node_id, id(1));
}
