//! Which cluster this is, and how an operator makes the proxy forget it.

use super::{Arena, body, of_cluster};
use crate::metrics::RevokeReason;
use crate::primary_tracker::{TrackerSettings, WhyNobody};

impl Arena {
    fn unpin(&mut self) {
        self.decider.unpin();
        self.decider.decide(self.now);
    }
}

#[test]
fn an_unpin_lets_an_older_timeline_lead_at_once() {
    let mut arena = Arena::settled();
    arena.leads(2, 6);
    arena.follows(2, 6);
    arena.pass(11_000);
    arena.leads(1, 5);
    assert_eq!(arena.routed(), None, "restored to an older timeline");

    arena.unpin();

    assert_eq!((arena.routed(), arena.epoch()), (Some(1), 3));
    assert!(!arena.decider.records[0].said.stale);
}

#[test]
fn an_unpin_lets_a_renamed_cluster_lead_and_that_is_another_epoch() {
    let mut arena = Arena::settled();
    let session = arena.session();
    let renamed = of_cluster("primary", "running", 5, "renamed", "7");
    for _ in 0..12 {
        arena.pass(1_000);
        arena.say(1, 200, &renamed);
    }
    assert_eq!(arena.why(), Some(WhyNobody::LeaseEnded));

    arena.unpin();
    assert_eq!(arena.routed(), None, "it has to say so once more");
    arena.say(1, 200, &renamed);
    arena.say(1, 200, &renamed);

    assert_eq!((arena.routed(), arena.epoch()), (Some(1), 2));
    assert_eq!(session.reason(), Some(RevokeReason::moved));
    arena.leads(1, 5);
    assert_eq!(
        arena.routed(),
        Some(1),
        "the old name is the foreign one now"
    );
    arena.pass(10_000);
    assert_eq!(arena.routed(), None);
}

#[test]
fn after_an_unpin_another_identifier_at_the_same_address_and_timeline_is_another_epoch() {
    let mut arena = Arena::settled();
    let session = arena.session();
    arena.unpin();

    arena.say(1, 200, &of_cluster("primary", "running", 5, "main", "8"));
    assert_eq!(arena.epoch(), 1, "its last word has pinned it again");

    arena.pass(10_000);
    arena.unpin();
    for _ in 0..2 {
        arena.say(1, 200, &of_cluster("primary", "running", 5, "main", "8"));
    }
    assert_eq!((arena.routed(), arena.epoch()), (Some(1), 2));
    assert_eq!(session.reason(), Some(RevokeReason::moved));
}

#[test]
fn the_last_word_of_a_leader_that_is_gone_pins_nothing_again_after_an_unpin() {
    let mut arena = Arena::settled();
    let restored = of_cluster("primary", "running", 3, "renamed", "7");
    arena.pass(1_000);
    arena.silent(1);
    for _ in 0..3 {
        arena.say(2, 200, &restored);
    }

    arena.unpin();

    for _ in 0..8 {
        arena.pass(1_000);
        arena.silent(1);
        arena.say(2, 200, &restored);
        assert_ne!(arena.routed(), Some(2), "the old one's claim still counts");
    }
    arena.pass(1_000);
    assert_eq!(arena.routed(), Some(2));
}

#[test]
fn an_unpin_disturbs_no_session_of_a_leader_that_goes_on() {
    let mut arena = Arena::settled();
    let session = arena.session();

    arena.unpin();
    arena.leads(1, 5);

    assert_eq!((arena.routed(), arena.epoch()), (Some(1), 1));
    assert!(!session.is_revoked());
    arena.say(2, 200, &of_cluster("primary", "running", 9, "other", "8"));
    assert_eq!(arena.routed(), Some(1), "pinned again");
}

#[test]
fn an_unpin_forgets_nothing_that_is_configured() {
    let mut arena = Arena::with(TrackerSettings {
        scope: Some("main".into()),
        system_identifier: Some("7".into()),
        ..TrackerSettings::default()
    });
    arena.settle();
    arena.pass(10_000);
    arena.unpin();
    for _ in 0..2 {
        arena.say(2, 200, &of_cluster("primary", "running", 9, "other", "7"));
        arena.say(3, 200, &of_cluster("primary", "running", 9, "main", "8"));
    }
    assert_eq!(arena.routed(), None);
    arena.say(1, 200, &body("primary", "running", 5));
    assert_eq!(arena.routed(), Some(1));
}

#[test]
fn another_clusters_leader_at_a_known_address_is_ignored_as_long_as_anybody_shows_the_known_one() {
    let mut arena = Arena::settled();
    for _ in 0..120 {
        arena.pass(1_000);
        arena.say(3, 200, &of_cluster("primary", "running", 9, "main", "8"));
        arena.follows(2, 5);
        arena.silent(1);
    }
    assert_eq!((arena.routed(), arena.epoch()), (None, 1));
}

#[test]
fn two_other_identifiers_that_lead_are_no_successor() {
    let mut arena = Arena::settled();
    for _ in 0..120 {
        arena.pass(1_000);
        arena.say(1, 200, &of_cluster("primary", "running", 1, "main", "8"));
        arena.say(2, 200, &of_cluster("primary", "running", 1, "main", "9"));
    }
    assert_eq!((arena.routed(), arena.epoch()), (None, 1));
}

#[test]
fn another_scope_never_succeeds_however_long_it_leads_alone() {
    let mut arena = Arena::settled();
    for _ in 0..120 {
        arena.pass(1_000);
        arena.say(1, 200, &of_cluster("primary", "running", 1, "other", "8"));
    }
    assert_eq!((arena.routed(), arena.epoch()), (None, 1));
}
