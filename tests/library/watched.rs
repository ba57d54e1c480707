//! With a provider: what ends a leader and what does not, leases under paused time, providers that die.

use std::sync::Arc;
use std::time::Duration;

use heliosdb_proxy::primary_tracker::{
    PrimaryChangeEvent, PrimaryTracker, Sighting, TopologyEvent, TopologyNodeInfo,
    TopologyProvider, TrackerStatus,
};
use tokio::sync::broadcast;
use uuid::Uuid;

use crate::mock::{LEASE, Mock, Watched, changed, id, lost, node};

const SECOND: Duration = Duration::from_secs(1);

#[tokio::test(start_paused = true)]
async fn a_move_is_told_once_however_often_it_is_heard() {
    let mut watched = Watched::plain(Mock::new()).await;
    assert_eq!(watched.told(), []);

    watched.mock.answers(Some(1));
    watched.mock.moves_to(1);
    watched.mock.moves_to(1);
    watched.pass(LEASE * 10).await;
    assert_eq!(watched.told(), [changed(None, 1)]);
    assert!(watched.tracker.authority_valid());

    watched.mock.answers(Some(2));
    watched.mock.moves_to(2);
    watched.pass(LEASE * 10).await;
    assert_eq!(watched.told(), [changed(Some(1), 2)]);
    assert_eq!(watched.leads(), Some((id(2), 2)));
}

#[tokio::test(start_paused = true)]
async fn the_periodic_look_finds_what_no_event_told() {
    let mut watched = Watched::plain(Mock::new()).await;

    watched.mock.answers(Some(1));
    watched.pass(SECOND).await;
    assert_eq!(watched.told(), [changed(None, 1)]);

    watched.mock.answers(Some(2));
    watched.pass(SECOND).await;
    assert_eq!(watched.told(), [changed(Some(1), 2)]);
}

#[tokio::test(start_paused = true)]
async fn a_provider_without_an_answer_ends_its_leader_with_the_lease_and_once() {
    let mut watched = Watched::plain(Mock::new()).await;
    watched.mock.moves_to(1);
    watched.settle().await;
    assert_eq!(
        watched.tracker.lease_remaining(),
        Some(LEASE - SECOND / 1000)
    );

    watched.pass(LEASE - SECOND / 100).await;
    assert!(watched.tracker.authority_valid());
    watched.pass(SECOND).await;
    assert!(!watched.tracker.authority_valid());
    watched.pass(LEASE * 3).await;

    assert_eq!(watched.told(), [changed(None, 1), lost(1)]);
    assert!(watched.tracker.get_primary().is_none());
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_only_fell_silent_comes_back_with_its_epoch() {
    let mut watched = Watched::plain(Mock::new()).await;
    watched.mock.moves_to(1);
    watched.pass(LEASE * 2).await;
    assert_eq!(watched.told(), [changed(None, 1), lost(1)]);

    watched.mock.answers(Some(1));
    watched.pass(SECOND).await;

    assert_eq!(watched.told(), [changed(None, 1)]);
    assert_eq!(watched.leads(), Some((id(1), 1)));
}

#[tokio::test(start_paused = true)]
async fn the_reader_sees_the_end_of_a_lease_before_anybody_was_woken() {
    let mock = Mock::new();
    let mut watched = Watched::plain(Arc::clone(&mock)).await;
    mock.moves_to(1);
    watched.settle().await;
    watched.running.abort();
    watched.pass(LEASE).await;
    assert_eq!(watched.tracker.status(), TrackerStatus::Stopped);

    assert!(!watched.tracker.authority_valid());
    assert!(watched.tracker.get_primary().is_none());

    assert_eq!(watched.told(), [changed(None, 1), lost(1)]);
}

#[tokio::test(start_paused = true)]
async fn an_id_that_cannot_be_resolved_is_no_leader() {
    let mut watched = Watched::plain(Mock::new()).await;
    watched.mock.moves_to(1);
    watched.mock.moves_to(99);
    watched.settle().await;

    assert_eq!(watched.told(), [changed(None, 1), lost(1)]);
    assert!(watched.tracker.get_primary().is_none());
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_leaves_is_lost_and_not_believed_before_something_else_was_said() {
    let mut watched = Watched::plain(Mock::new()).await;
    watched.mock.answers(Some(1));
    watched.pass(SECOND).await;

    watched
        .mock
        .sends(TopologyEvent::NodeLeft { node_id: id(2) });
    watched.settle().await;
    assert_eq!(watched.told(), [changed(None, 1)]);
    watched
        .mock
        .sends(TopologyEvent::NodeLeft { node_id: id(1) });
    watched.pass(SECOND * 5).await;
    assert_eq!(watched.told(), [lost(1)]);

    watched.mock.answers(None);
    watched.pass(SECOND).await;
    watched.mock.answers(Some(1));
    watched.pass(SECOND).await;
    assert_eq!(watched.told(), [changed(None, 1)]);
    assert_eq!(watched.leads(), Some((id(1), 2)));
}

#[tokio::test(start_paused = true)]
async fn a_lost_check_closes_nothing() {
    let mut watched = Watched::plain(Mock::new()).await;
    watched.mock.answers(Some(1));
    watched.pass(SECOND).await;

    watched.mock.sends(TopologyEvent::HealthChanged {
        node_id: id(1),
        is_healthy: false,
    });
    watched.pass(LEASE * 2).await;

    assert_eq!(watched.told(), [changed(None, 1)]);
    assert!(watched.tracker.authority_valid());
}

#[tokio::test(start_paused = true)]
async fn a_tracker_that_lagged_reads_the_state() {
    let mut watched = Watched::plain(Mock::new()).await;
    for n in 1..=9 {
        watched.mock.moves_to(n);
    }
    watched.mock.answers(Some(3));
    watched.settle().await;

    // The last four events are still there to be read, and after them the state.
    watched.pass(SECOND).await;
    assert_eq!(watched.told().last(), Some(&changed(Some(9), 3)));
    assert_eq!(watched.leads().unwrap().0, id(3));
}

#[tokio::test(start_paused = true)]
async fn a_provider_that_died_extends_nothing_and_the_run_ends_with_the_lease() {
    let mut watched = Watched::plain(Mock::new()).await;
    watched.mock.answers(Some(1));
    watched.pass(SECOND).await;

    watched.mock.dies();
    watched.settle().await;
    assert_eq!(watched.tracker.status(), TrackerStatus::ProviderGone);
    assert!(watched.tracker.authority_valid());
    assert!(!watched.running.is_finished());
    watched.pass(LEASE).await;

    assert!(watched.running.is_finished());
    assert_eq!(watched.told(), [changed(None, 1), lost(1)]);
}

/// Its source is broken in a way that it did not expect.
struct Panics;

impl TopologyProvider for Panics {
    fn subscribe(&self) -> broadcast::Receiver<TopologyEvent> {
        broadcast::channel(1).1
    }

    fn get_primary(&self) -> Option<TopologyNodeInfo> {
        panic!("not what it expected")
    }

    fn get_node(&self, _id: Uuid) -> Option<TopologyNodeInfo> {
        None
    }
}

#[tokio::test]
async fn a_provider_that_panics_takes_the_run_with_it_and_is_no_cluster_without_a_leader() {
    let tracker = Arc::new(PrimaryTracker::with_provider(Arc::new(Panics)));
    let running = Arc::clone(&tracker);

    let ended = tokio::spawn(async move { running.run().await }).await;

    assert!(ended.unwrap_err().is_panic());
    assert_eq!(tracker.status(), TrackerStatus::Stopped);
    assert!(tracker.get_primary().is_none() && !tracker.authority_valid());
}

#[tokio::test(start_paused = true)]
async fn a_provider_nobody_listens_to_does_not_look_like_a_cluster_without_a_leader() {
    let mock = Mock::new();
    mock.answers(Some(1));
    let tracker = Arc::new(PrimaryTracker::with_provider(mock));
    assert!(tracker.get_primary().is_none());
    assert_eq!(tracker.status(), TrackerStatus::NotStarted);

    let running = Arc::clone(&tracker);
    tokio::spawn(async move { running.run().await });
    tokio::time::sleep(SECOND / 1000).await;

    assert_eq!(tracker.status(), TrackerStatus::Running);
    assert_eq!(tracker.get_primary().unwrap().node_id, id(1));
    // It is run already: this one has nothing to do.
    tracker.run().await;
}

#[tokio::test(start_paused = true)]
async fn what_a_provider_names_is_not_for_others_to_name() {
    let mut watched = Watched::plain(Mock::new()).await;
    watched.mock.answers(Some(1));
    watched.pass(SECOND).await;
    watched.told();

    watched.tracker.set_primary(id(2), node(2).client_addr);
    watched.tracker.clear_primary();

    assert_eq!(watched.told(), []);
    assert_eq!(watched.leads(), Some((id(1), 1)));
}

#[tokio::test(start_paused = true)]
async fn through_the_second_trait_the_lease_counts_from_the_question() {
    let mock = Mock::new();
    let mut watched = Watched::observing(Arc::clone(&mock)).await;
    assert_eq!(watched.tracker.status(), TrackerStatus::Starting);
    let seen = watched.sighted(1);
    watched.pass(SECOND * 4).await;

    mock.sees(Some(seen));
    watched.pass(SECOND).await;
    assert_eq!(watched.tracker.status(), TrackerStatus::Running);
    assert_eq!(watched.tracker.lease_remaining(), Some(LEASE - SECOND * 5));
    // The same look again and again extends nothing.
    watched.pass(LEASE).await;

    assert_eq!(watched.told(), [changed(None, 1), lost(1)]);
}

#[tokio::test(start_paused = true)]
async fn two_leaders_are_none_at_once_and_the_old_epoch_stays_over() {
    let mock = Mock::new();
    let mut watched = Watched::observing(Arc::clone(&mock)).await;
    mock.sees(Some(watched.sighted(1)));
    watched.pass(SECOND).await;
    assert_eq!(watched.told(), [changed(None, 1)]);

    mock.sees(Some(Sighting {
        conflict: true,
        ..watched.sighted(1)
    }));
    mock.sends(TopologyEvent::HealthChanged {
        node_id: id(2),
        is_healthy: true,
    });
    watched.settle().await;
    assert_eq!(watched.told(), [lost(1)]);

    mock.sees(Some(watched.sighted(1)));
    watched.pass(SECOND).await;
    assert_eq!(watched.told(), [changed(None, 1)]);
    assert_eq!(watched.leads(), Some((id(1), 2)));
}

#[tokio::test(start_paused = true)]
async fn a_pending_leader_is_confirmed_by_its_own_word() {
    let mock = Mock::new();
    let mut watched = Watched::observing(Arc::clone(&mock)).await;
    let mut pending = watched.sighted(1);
    pending.leader.as_mut().unwrap().confirmed = false;

    mock.sees(Some(pending));
    watched.pass(SECOND).await;
    assert!(!watched.tracker.authority_valid());
    mock.sees(Some(watched.sighted(1)));
    watched.pass(SECOND).await;
    assert!(watched.tracker.authority_valid());

    let confirmed = PrimaryChangeEvent::Confirmed { node_id: id(1) };
    assert_eq!(watched.told(), [changed(None, 1), confirmed]);
}
