//! Each rule of authority, as a sentence.

use std::time::Duration;

use super::{Arena, DOWN_AFTER, UP_AFTER, body, of_cluster};
use crate::metrics::RevokeReason;
use crate::primary_tracker::{OnLeaseExpired, TrackerSettings, WhyNobody};
use crate::topology::Provider;

#[test]
fn nodes_start_down_and_a_leader_is_proved_by_its_second_answer() {
    let mut arena = Arena::new();
    assert_eq!(arena.why(), Some(WhyNobody::NoProof));

    arena.leads(1, 5);
    assert_eq!(arena.routed(), None);

    arena.leads(1, 5);
    assert_eq!((arena.routed(), arena.epoch()), (Some(1), 1));
}

#[test]
fn nobody_begins_to_lead_while_a_node_that_is_not_up_yet_claims_a_higher_timeline() {
    let mut arena = Arena::new();
    arena.leads(2, 6);

    for _ in 0..3 {
        arena.leads(1, 5);
        assert_eq!(arena.routed(), None);
    }

    arena.leads(2, 6);
    assert_eq!((arena.routed(), arena.epoch()), (Some(2), 1));
}

#[test]
fn leadership_has_no_hysteresis_a_new_leader_is_used_on_its_first_proof() {
    let mut arena = Arena::settled();
    let session = arena.session();

    arena.leads(2, 6);

    assert_eq!((arena.routed(), arena.epoch()), (Some(2), 2));
    assert_eq!(session.reason(), Some(RevokeReason::moved));
}

#[test]
fn silence_closes_nothing_before_the_lease_ends_and_nothing_after_it_by_default() {
    let mut arena = Arena::settled();
    let session = arena.session();

    for _ in 0..DOWN_AFTER * 2 {
        arena.pass(990);
        arena.silent(1);
    }
    assert_eq!(arena.routed(), Some(1), "a leased leader that is down");

    arena.pass(200);
    assert_eq!(arena.routed(), None);
    assert_eq!(arena.why(), Some(WhyNobody::LeaseEnded));
    assert!(!session.is_revoked());

    // It fell silent only: the same epoch comes back, as soon as the node is heard.
    arena.leads(1, 5);
    arena.leads(1, 5);
    assert_eq!((arena.routed(), arena.epoch()), (Some(1), 1));
    assert!(!session.is_revoked());
}

#[test]
fn the_end_of_a_lease_closes_sessions_where_that_is_configured() {
    let mut arena = Arena::with(TrackerSettings {
        on_lease_expired: OnLeaseExpired::Close,
        ..TrackerSettings::default()
    });
    arena.settle();
    let session = arena.session();

    arena.pass(9_999);
    assert!(!session.is_revoked());
    arena.pass(1);
    assert_eq!(session.reason(), Some(RevokeReason::lease));

    arena.leads(1, 5);
    assert_eq!(arena.epoch(), 2, "a revoked epoch never comes back");
}

#[test]
fn the_lease_counts_from_the_question() {
    let mut arena = Arena::settled();
    let asked = arena.now;
    arena.pass(6_000);

    arena.say_at(1, 200, &body("primary", "running", 5), asked, None);

    arena.pass(4_000);
    assert_eq!(arena.routed(), None);
}

#[test]
fn of_two_answers_the_one_asked_later_counts() {
    let mut arena = Arena::settled();
    let early = arena.now;
    arena.pass(1_000);
    arena.follows(1, 5);

    arena.say_at(1, 200, &body("primary", "running", 5), early, None);

    assert_eq!(arena.routed(), None);
    assert_eq!(arena.why(), Some(WhyNobody::NobodyLeads));
}

#[test]
fn a_hung_question_that_ends_after_a_later_answer_makes_no_node_down() {
    let mut arena = Arena::settled();
    let early = arena.now;
    arena.pass(1_000);
    arena.leads(1, 5);
    for _ in 0..DOWN_AFTER {
        arena.silent_at(1, early);
    }
    assert!(arena.decider.records[0].up);
}

#[test]
fn a_leader_that_follows_ends_its_sessions_at_once() {
    let mut arena = Arena::settled();
    let session = arena.session();

    arena.follows(1, 5);

    assert_eq!(arena.routed(), None);
    assert_eq!(session.reason(), Some(RevokeReason::follows));
}

#[test]
fn the_same_leader_after_a_revocation_is_the_next_epoch() {
    let mut arena = Arena::settled();
    arena.follows(1, 5);
    arena.leads(1, 5);
    assert_eq!((arena.routed(), arena.epoch()), (Some(1), 2));
}

#[test]
fn a_to_b_to_a_between_two_polls_is_seen_by_the_timeline() {
    let mut arena = Arena::settled();
    let session = arena.session();

    arena.leads(1, 7);

    assert_eq!((arena.routed(), arena.epoch()), (Some(1), 2));
    assert!(session.is_revoked());
}

#[test]
fn a_retiring_leader_gets_no_new_sessions_and_keeps_the_open_ones() {
    let mut arena = Arena::settled();
    let session = arena.session();
    for state in ["stopping", "stopping", "starting", "crashed"] {
        arena.say(
            1,
            200,
            &format!(r#"{{"role":"primary","state":"{state}"}}"#),
        );
        assert_eq!(arena.routed(), None, "{state}");
        assert_eq!(arena.why(), Some(WhyNobody::Retiring));
    }
    arena.leads(1, 5);
    assert_eq!((arena.routed(), arena.epoch()), (Some(1), 1));
    assert!(!session.is_revoked());
}

#[test]
fn a_follower_knows_a_lock_until_it_says_that_it_is_free_or_says_nothing() {
    let mut arena = Arena::settled();
    let knows = |arena: &Arena| [0, 1].map(|at| arena.decider.records[at].knows_a_lock());
    assert_eq!(knows(&arena), [false, true]);

    arena.pass(100);
    arena.sees_no_lock(2, 5);
    assert_eq!(knows(&arena), [false, false]);

    arena.pass(100);
    arena.follows(1, 5);
    arena.follows(2, 5);
    assert_eq!(knows(&arena), [true, true]);

    arena.pass(100);
    arena.say(1, 200, &body("replica", "running", 5));
    arena.silent(2);
    assert_eq!(knows(&arena), [false, false]);
}

#[test]
fn an_unlocked_leader_keeps_its_sessions_until_its_lease_ends() {
    let mut arena = Arena::settled();
    let session = arena.session();
    arena.pass(1_000);
    arena.say(1, 503, &body("primary", "running", 5));
    assert_eq!(arena.routed(), None);
    assert_eq!(arena.why(), Some(WhyNobody::Unlocked));
    assert!(!session.is_revoked());

    arena.pass(8_999);
    assert!(!session.is_revoked());
    arena.pass(1);
    assert_eq!(session.reason(), Some(RevokeReason::lease));
}

#[test]
fn an_unlocked_leader_that_locks_again_is_the_same_epoch() {
    let mut arena = Arena::settled();
    arena.say(1, 503, &body("primary", "running", 5));
    arena.leads(1, 5);
    assert_eq!((arena.routed(), arena.epoch()), (Some(1), 1));
}

#[test]
fn a_promoting_node_takes_authority_from_everybody_else() {
    let mut arena = Arena::settled();
    let session = arena.session();

    arena.say(2, 200, &body("replica", "running", 5));
    arena.leads(1, 5);

    assert_eq!(arena.routed(), None);
    assert_eq!(arena.why(), Some(WhyNobody::Promoting));
    assert_eq!(session.reason(), Some(RevokeReason::promoting));
}

#[test]
fn a_promotion_that_is_never_heard_of_again_counts_as_long_as_a_lease() {
    let mut arena = Arena::settled();
    arena.say(2, 200, &body("replica", "running", 5));
    arena.pass(9_000);
    arena.leads(1, 5);
    assert_eq!(arena.routed(), None);
    arena.pass(1_000);
    assert_eq!((arena.routed(), arena.epoch()), (Some(1), 2));
}

#[test]
fn two_leaders_on_one_timeline_are_none() {
    let mut arena = Arena::settled();
    let session = arena.session();

    arena.leads(2, 5);

    assert_eq!(arena.routed(), None);
    assert_eq!(arena.why(), Some(WhyNobody::Conflict));
    assert_eq!(session.reason(), Some(RevokeReason::conflict));
    assert_eq!(arena.conflicts(), 1);

    arena.leads(1, 5);
    assert_eq!(arena.conflicts(), 2);

    arena.follows(2, 5);
    assert_eq!((arena.routed(), arena.epoch()), (Some(1), 2));
}

#[test]
fn of_two_leaders_the_strictly_higher_timeline_wins_and_it_is_counted() {
    let mut arena = Arena::settled();
    arena.leads(2, 6);
    assert_eq!(arena.conflicts(), 1);

    arena.leads(1, 5);
    assert_eq!((arena.routed(), arena.conflicts()), (Some(2), 2));
}

#[test]
fn a_leader_that_names_no_timeline_loses_against_one_that_does() {
    let mut arena = Arena::settled();
    arena.say(2, 200, r#"{"role":"primary","state":"running"}"#);
    assert_eq!((arena.routed(), arena.epoch()), (Some(1), 1));
}

#[test]
fn a_leader_on_an_older_timeline_is_stale() {
    let mut arena = Arena::settled();
    arena.leads(2, 6);
    arena.follows(2, 6);
    arena.pass(11_000);

    arena.leads(1, 5);

    assert_eq!(arena.routed(), None);
}

#[test]
fn a_dead_leaders_last_word_is_not_called_stale_but_its_next_one_is() {
    let mut arena = Arena::settled();
    let is_called_stale = |arena: &Arena| arena.decider.records[0].said.stale;
    arena.pass(500);
    arena.leads(2, 6);
    arena.silent(1);
    assert!(!is_called_stale(&arena));

    arena.pass(500);
    arena.leads(1, 5);
    assert!(is_called_stale(&arena));
}

#[test]
fn a_claim_needs_its_node_to_be_up_but_a_denial_does_not() {
    let mut arena = Arena::settled();
    for _ in 0..DOWN_AFTER {
        arena.silent(2);
    }
    arena.leads(2, 6);
    assert_eq!(arena.routed(), Some(1), "one answer does not make it up");
    arena.leads(2, 6);
    assert_eq!(arena.routed(), Some(2));
}

#[test]
fn another_scope_is_silence() {
    let mut arena = Arena::settled();
    arena.say(2, 200, &of_cluster("primary", "running", 9, "other", "8"));
    assert_eq!((arena.routed(), arena.conflicts()), (Some(1), 0));
}

#[test]
fn two_clusters_before_anything_is_pinned_are_a_conflict() {
    let mut arena = Arena::new();
    arena.say(2, 200, &of_cluster("primary", "running", 9, "other", "8"));
    arena.leads(1, 5);
    arena.leads(1, 5);
    assert_eq!(arena.why(), Some(WhyNobody::Conflict));
}

#[test]
fn a_configured_scope_decides_between_two_clusters() {
    let mut arena = Arena::with(TrackerSettings {
        scope: Some("main".into()),
        ..TrackerSettings::default()
    });
    for _ in 0..2 {
        arena.say(2, 200, &of_cluster("primary", "running", 9, "other", "8"));
        arena.leads(1, 5);
    }
    assert_eq!(arena.routed(), Some(1));
}

#[test]
fn a_learnt_identifier_gives_way_after_30_s_to_exactly_one_other() {
    let mut arena = Arena::settled();
    let upgraded = of_cluster("primary", "running", 1, "main", "8");
    for _ in 0..29 {
        arena.pass(1_000);
        arena.say(1, 200, &upgraded);
        assert_eq!(arena.epoch(), 1);
    }
    for _ in 0..4 {
        arena.pass(1_000);
        arena.say(1, 200, &upgraded);
    }
    assert_eq!((arena.routed(), arena.epoch()), (Some(1), 2));
}

#[test]
fn a_configured_identifier_never_gives_way() {
    let mut arena = Arena::with(TrackerSettings {
        system_identifier: Some("7".into()),
        ..TrackerSettings::default()
    });
    arena.settle();
    for _ in 0..60 {
        arena.pass(1_000);
        arena.say(1, 200, &of_cluster("primary", "running", 1, "main", "8"));
    }
    assert_eq!(arena.routed(), None);
}

#[test]
fn the_age_of_the_lock_shortens_the_lease_and_never_proves() {
    let mut arena = Arena::settled();
    let date = "Mon, 30 Nov 2026 05:25:51 GMT";
    let seen = |age: u64| {
        body("primary", "running", 5).replacen(
            '{',
            &format!(r#"{{"dcs_last_seen":{},"#, 1_796_016_351 - age),
            1,
        )
    };
    arena.say_at(1, 200, &seen(25), arena.now, Some(date));
    let left = |arena: &Arena| arena.lease().unwrap().remaining(arena.now).unwrap();
    assert_eq!(left(&arena), Duration::from_secs(30 - 25 - 1));

    arena.say_at(1, 200, &seen(2), arena.now, Some(date));
    assert_eq!(left(&arena), Duration::from_secs(10));

    let session = arena.session();
    arena.say_at(1, 200, &seen(40), arena.now, Some(date));
    assert_eq!(
        (arena.routed(), arena.why()),
        (None, Some(WhyNobody::LockAge))
    );
    assert!(!session.is_revoked());

    let failsafe = seen(40).replacen('{', r#"{"failsafe_mode_is_active":true,"#, 1);
    arena.say_at(1, 200, &failsafe, arena.now, Some(date));
    assert_eq!(left(&arena), Duration::from_secs(10));
}

#[test]
fn a_standby_clusters_leader_is_no_leader_and_the_reason_says_so() {
    let mut arena = Arena::new();
    for _ in 0..2 {
        arena.say(1, 503, &body("standby_leader", "running", 1));
    }
    assert_eq!(
        (arena.routed(), arena.why()),
        (None, Some(WhyNobody::StandbyCluster))
    );
    arena.leads(1, 2);
    assert_eq!(arena.routed(), Some(1));
}

#[test]
fn an_odd_answer_beside_a_good_leader_harms_nothing() {
    let mut arena = Arena::settled();
    for odd in [
        "",
        "null",
        "[]",
        r#"{"role":null,"state":7}"#,
        r#"{"role":"primary","state":{},"timeline":"x"}"#,
        r#"{"state":"running","timeline":99999999999999999999}"#,
        &format!(r#"{{"role":"{}"}}"#, "x".repeat(300_000)),
    ] {
        arena.say(2, 503, odd);
        assert_eq!((arena.routed(), arena.epoch()), (Some(1), 1), "{odd:.60}");
    }
    for status in [301, 404, 500, 204] {
        arena.say(3, status, "<html>");
        assert_eq!((arena.routed(), arena.epoch()), (Some(1), 1), "{status}");
    }
}

#[test]
fn a_cluster_of_one_living_node_is_served() {
    let mut arena = Arena::new();
    for _ in 0..2 {
        arena.silent(2);
        arena.silent(3);
        arena.leads(1, 1);
    }
    assert_eq!(arena.routed(), Some(1));
}

#[test]
fn a_removed_leader_is_no_leader_and_its_sessions_drain_until_another_leads() {
    let mut arena = Arena::settled();
    let session = arena.session();

    arena.decider.remove(crate::topology::NodeId(1));
    arena.pass(0);
    assert_eq!(arena.routed(), None);
    assert!(!session.is_revoked());

    arena.leads(2, 6);
    assert_eq!(arena.routed(), Some(2));
    assert!(session.is_revoked());
}

#[test]
fn a_leader_that_a_reload_names_or_asks_otherwise_is_the_same_epoch() {
    let mut arena = Arena::settled();
    let session = arena.session();
    arena.decider.remove(crate::topology::NodeId(1));
    arena.pass(0);

    arena.add_again(1);
    arena.leads(1, 5);
    arena.leads(1, 5);

    assert_eq!((arena.routed(), arena.epoch()), (Some(1), 1));
    assert!(!session.is_revoked());
}

#[test]
fn a_promotion_ends_the_sessions_of_a_removed_leader_too() {
    let mut arena = Arena::settled();
    let session = arena.session();
    arena.decider.remove(crate::topology::NodeId(1));
    arena.say(2, 200, &body("replica", "running", 5));
    assert_eq!(session.reason(), Some(RevokeReason::promoting));
}

#[test]
fn an_old_claim_of_another_cluster_is_no_successor() {
    let mut arena = Arena::settled();
    arena.say(3, 200, &of_cluster("primary", "running", 1, "main", "8"));
    let session = arena.session();

    arena.pass(86_400_000);

    assert!(!session.is_revoked());
    arena.say(3, 200, &of_cluster("primary", "running", 1, "main", "8"));
    assert!(!session.is_revoked(), "nobody was heard in that day");
}

#[test]
fn a_start_with_an_aged_lock_says_so() {
    let mut arena = Arena::new();
    let date = "Mon, 30 Nov 2026 05:25:51 GMT";
    let old = body("primary", "running", 5).replacen('{', r#"{"dcs_last_seen":1796016300,"#, 1);
    for _ in 0..2 {
        arena.say_at(1, 200, &old, arena.now, Some(date));
    }
    assert_eq!(
        (arena.routed(), arena.why()),
        (None, Some(WhyNobody::LockAge))
    );
}

/// n1 is declared to lead and disabled, n2 is declared to lead.
fn declared() -> Arena {
    let mut arena = Arena::with(TrackerSettings {
        provider: Provider::Static,
        ..TrackerSettings::default()
    });
    arena.decider.records[0].switch = Some(false);
    for _ in 0..UP_AFTER {
        arena.leads(1, 1);
        arena.leads(2, 1);
    }
    assert_eq!(arena.routed(), Some(2));
    arena
}

#[test]
fn a_declared_leader_that_is_disabled_takes_the_place_of_no_silent_one() {
    let mut arena = declared();
    let (session, epoch) = (arena.session(), arena.epoch());
    for _ in 0..20 {
        arena.pass(1_000);
        arena.silent(2);
        arena.leads(1, 1);
    }
    assert_eq!(
        (arena.routed(), arena.why()),
        (None, Some(WhyNobody::LeaseEnded))
    );
    assert!(!session.is_revoked());

    arena.leads(2, 1);
    assert_eq!((arena.routed(), arena.epoch()), (Some(2), epoch));
}

#[test]
fn a_declared_leader_that_is_disabled_keeps_its_sessions_beside_another_disabled_one() {
    let mut arena = declared();
    let session = arena.session();

    arena.decider.records[1].switch = Some(false);
    arena.leads(1, 1);

    assert_eq!(arena.why(), Some(WhyNobody::Disabled));
    assert!(!session.is_revoked());
}

#[test]
fn facts_are_told_and_repetitions_are_not() {
    let mut arena = Arena::settled();
    assert!(!arena.leads(1, 5));
    assert!(!arena.follows(2, 5));
    assert!(arena.say(2, 503, &body("replica", "stopping", 5)));
    assert!(arena.sees_no_lock(3, 5));
    assert!(!arena.follows(3, 5), "turning false is no fact");
}
