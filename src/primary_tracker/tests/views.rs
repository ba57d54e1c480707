//! What a view of the cluster may do and may not do, as sentences.

use std::time::Duration;

use super::{Arena, UP_AFTER, body, of_cluster, record};
use crate::clock::BootTime;
use crate::primary_tracker::WhyNobody;
use crate::primary_tracker::discovered::Discovered;
use crate::primary_tracker::views::{ByView, Heeded};
use crate::topology::{Answer, Heard, NodeId, View, ViewSeen};

/// A member of a view: node `n`, its role and its timeline.
type Listed = (u64, &'static str, u32);

const LEADER: &str = "leader";
const REPLICA: &str = "replica";

fn members(listed: &[Listed]) -> String {
    let one = |(n, role, timeline): &Listed| {
        format!(
            r#"{{"name":"n{n}","host":"127.0.1.{n}","port":5432,"role":"{role}","state":"running",
               "timeline":{timeline},"api_url":"http://127.0.1.{n}:8008/patroni"}}"#
        )
    };
    listed.iter().map(one).collect::<Vec<_>>().join(",")
}

fn seen(listed: &[Listed], scope: &str, sent: BootTime) -> ViewSeen {
    let body = format!(r#"{{"members":[{}],"scope":"{scope}"}}"#, members(listed));
    ViewSeen {
        endpoint: "http://127.0.1.1:8008".into(),
        sent,
        view: View::read(200, body.as_bytes()).unwrap(),
    }
}

impl Arena {
    /// A view that was asked for just now.
    fn view(&mut self, listed: &[Listed]) -> Heeded {
        self.decider
            .hear_view(&seen(listed, "main", self.now), self.now)
    }

    /// `leader` leads the others on `timeline`.
    fn view_of(&mut self, leader: u64, timeline: u32) -> Heeded {
        let role = |n| if n == leader { LEADER } else { REPLICA };
        self.view(&[1, 2, 3].map(|n| (n, role(n), timeline)))
    }

    fn pending(&self) -> Option<u64> {
        let (record, _) = self.decider.pending(self.now)?;
        Some(record.id.0)
    }

    fn discover(&mut self, n: u64) {
        let mut new = record(n);
        new.discovered = Some(Discovered::new(self.now));
        self.decider.records.push(new);
    }
}

#[test]
fn a_leader_that_a_view_names_is_pending_until_its_own_word() {
    let mut arena = Arena::new();

    let heeded = arena.view_of(2, 5);

    assert!(heeded.counts);
    assert_eq!(heeded.wanted, [NodeId(2)]);
    assert_eq!((arena.pending(), arena.routed()), (Some(2), None));
    assert_eq!(arena.why(), Some(WhyNobody::Pending));
    arena.pass(100);
    arena.silent(2);
    assert_eq!(arena.routed(), None, "silence confirms nothing");

    for _ in 0..UP_AFTER {
        arena.leads(2, 5);
    }
    assert_eq!((arena.pending(), arena.routed()), (None, Some(2)));
    assert_eq!(arena.epoch(), 1);
}

#[test]
fn a_promoting_leader_of_a_view_stays_pending() {
    let mut arena = Arena::settled();
    arena.follows(1, 5);
    arena.pass(100);
    arena.view_of(2, 5);

    arena.say(2, 200, &body("replica", "running", 5));

    assert_eq!((arena.pending(), arena.routed()), (Some(2), None));
    arena.leads(2, 6);
    assert_eq!(arena.routed(), Some(2));
}

#[test]
fn a_view_alone_closes_nothing_and_asks_whom_it_names() {
    let mut arena = Arena::settled();
    let session = arena.session();
    arena.pass(1000);

    let heeded = arena.view_of(2, 5);

    assert_eq!(heeded.wanted, [NodeId(2), NodeId(1)]);
    assert_eq!((arena.pending(), arena.routed()), (Some(2), Some(1)));
    assert!(!session.is_revoked());
}

#[test]
fn a_view_that_names_the_present_leader_asks_nobody() {
    let mut arena = Arena::settled();
    arena.pass(1000);
    assert!(arena.view_of(1, 5).wanted.is_empty());
}

#[test]
fn a_view_that_names_nobody_asks_the_present_leader_and_closes_nothing() {
    let mut arena = Arena::settled();
    arena.pass(1000);

    let heeded = arena.view(&[(1, REPLICA, 5), (2, REPLICA, 5)]);

    assert!(heeded.counts);
    assert_eq!((heeded.wanted, arena.routed()), (vec![NodeId(1)], Some(1)));
}

#[test]
fn a_view_with_a_lower_timeline_than_known_does_not_count() {
    let mut arena = Arena::settled();
    arena.pass(1000);

    assert!(!arena.view_of(2, 4).counts);
    assert_eq!((arena.pending(), arena.routed()), (None, Some(1)));
}

#[test]
fn a_view_with_a_lower_timeline_than_somebody_claims_does_not_count() {
    let mut arena = Arena::new();
    arena.leads(1, 6);

    assert!(!arena.view_of(2, 5).counts);
    arena.leads(1, 6);
    assert_eq!(arena.routed(), Some(1));
}

#[test]
fn of_a_leader_that_was_just_promoted_the_view_still_has_the_old_timeline() {
    let mut arena = Arena::settled();
    arena.follows(1, 5);
    arena.leads(2, 6);
    arena.pass(100);

    assert!(arena.view_of(2, 5).counts);
    assert_eq!(arena.routed(), Some(2));
}

#[test]
fn a_view_whose_leader_says_itself_that_it_follows_does_not_count() {
    let mut arena = Arena::new();
    arena.view_of(2, 5);
    assert!(!arena.decider.drop_old_view(arena.now));
    arena.pass(10);

    arena.follows(2, 5);

    assert!(arena.decider.drop_old_view(arena.now), "the next is asked");
    assert_eq!(arena.pending(), None);
    assert!(!arena.decider.drop_old_view(arena.now), "once");
}

#[test]
fn that_it_followed_before_the_view_is_no_contradiction() {
    let mut arena = Arena::settled();
    arena.follows(1, 5);
    arena.follows(2, 5);
    arena.pass(10);

    assert!(arena.view_of(2, 5).counts);
    assert_eq!(arena.pending(), Some(2));
}

#[test]
fn an_old_view_never_wins_whatever_is_heard_first() {
    // n1 led on 5 and is cut off from the DCS; n2 leads on 6.
    enum Step {
        OldView,
        NewView,
        Old,
        New,
    }
    use Step::{New, NewView, Old, OldView};
    let orders = [
        [OldView, NewView, Old, New],
        [OldView, Old, NewView, New],
        [Old, OldView, New, NewView],
        [Old, New, OldView, NewView],
        [New, Old, NewView, OldView],
        [NewView, New, Old, OldView],
    ];
    for (i, order) in orders.iter().enumerate() {
        // In pause mode it says 200; a replica in the making, it says that it follows; its machine may be gone.
        for word in ["leads", "follows", "silent"] {
            let mut arena = Arena::new();
            for round in 0..4 {
                for step in order {
                    arena.pass(50);
                    match step {
                        OldView => drop(arena.view_of(1, 5)),
                        NewView => drop(arena.view_of(2, 6)),
                        New => drop(arena.leads(2, 6)),
                        Old if word == "leads" => drop(arena.leads(1, 5)),
                        Old if word == "follows" => drop(arena.follows(1, 5)),
                        Old => drop(arena.silent(1)),
                    }
                    // Before n2 has said twice that it leads, an n1 that says so alone is all there is.
                    let heard = round > 0 || arena.decider.records[1].latest.is_some();
                    if word != "leads" || heard {
                        assert_ne!(arena.routed(), Some(1), "order {i}, {word}, round {round}");
                    }
                }
            }
            assert_eq!(arena.routed(), Some(2), "order {i}, {word}");
        }
    }
}

#[test]
fn an_old_primary_alone_is_not_believed_while_a_view_names_another() {
    let mut arena = Arena::new();
    for _ in 0..UP_AFTER {
        arena.leads(1, 5);
        arena.pass(10);
        arena.view_of(2, 6);
    }

    assert_eq!((arena.pending(), arena.routed()), (Some(2), None));
    arena.silent(2);
    arena.leads(1, 5);
    assert_eq!(arena.routed(), None, "also when that one is silent");
}

#[test]
fn a_present_leader_gives_way_to_a_higher_timeline_whose_node_cannot_be_heard() {
    let mut arena = Arena::settled();
    let session = arena.session();
    arena.pass(1000);
    arena.view_of(2, 6);
    arena.leads(1, 5);
    assert_eq!(arena.routed(), Some(1), "it may still be heard");

    arena.silent(2);

    assert_eq!(
        (arena.routed(), arena.why()),
        (None, Some(WhyNobody::Conflict))
    );
    assert!(session.is_revoked());
}

#[test]
fn a_present_leader_heard_after_the_view_contradicts_one_without_a_higher_timeline() {
    let mut arena = Arena::settled();
    arena.pass(1000);
    arena.view_of(2, 5);

    arena.leads(1, 5);

    assert!(arena.decider.drop_old_view(arena.now));
    assert_eq!((arena.pending(), arena.routed()), (None, Some(1)));
}

#[test]
fn views_that_fail_close_and_refuse_nothing() {
    let mut arena = Arena::settled();
    arena.view_of(1, 5);
    let session = arena.session();

    for _ in 0..30 {
        arena.pass(1000);
        arena.leads(1, 5);
        assert_eq!(arena.routed(), Some(1));
    }
    assert_eq!(arena.decider.by_view(arena.now), ByView::Blind);
    assert!(!session.is_revoked());
}

#[test]
fn a_first_leader_waits_until_the_first_round_of_views_has_ended() {
    let mut arena = Arena::new();
    arena.decider.expect_views(true);
    for _ in 0..UP_AFTER {
        arena.leads(1, 5);
    }
    assert_eq!(
        (arena.routed(), arena.why()),
        (None, Some(WhyNobody::Pending))
    );

    assert!(arena.decider.hear_no_view(arena.now));

    assert_eq!(arena.routed(), Some(1));
}

#[test]
fn without_any_view_a_nodes_own_word_is_enough() {
    let mut arena = Arena::new();
    for _ in 0..UP_AFTER {
        arena.leads(1, 5);
    }
    assert_eq!(arena.routed(), Some(1));
}

#[test]
fn a_standby_leader_is_never_writable() {
    let mut arena = Arena::new();
    arena.view(&[(1, "standby_leader", 5), (2, REPLICA, 5)]);
    for _ in 0..UP_AFTER {
        arena.say(1, 503, &body("standby_leader", "running", 5));
    }
    assert_eq!((arena.pending(), arena.routed()), (None, None));
    assert_eq!(arena.why(), Some(WhyNobody::StandbyCluster));
}

#[test]
fn two_running_leaders_in_one_view_are_a_conflict_at_once() {
    let mut arena = Arena::settled();
    arena.silent(2);
    let session = arena.session();
    arena.pass(1000);

    arena.view(&[(1, LEADER, 5), (2, LEADER, 6)]);

    assert_eq!(
        (arena.routed(), arena.why()),
        (None, Some(WhyNobody::Conflict))
    );
    assert!(session.is_revoked());
    assert_eq!(arena.conflicts(), 1);
}

#[test]
fn two_leaders_in_one_view_of_which_one_follows_by_its_own_word_are_no_conflict() {
    let mut arena = Arena::settled();
    let session = arena.session();
    arena.pass(1000);

    let heeded = arena.view(&[(1, LEADER, 5), (2, LEADER, 5)]);

    assert_eq!(heeded.wanted, [NodeId(2), NodeId(1)]);
    assert_eq!((arena.routed(), arena.conflicts()), (Some(1), 0));
    assert!(!session.is_revoked());
}

#[test]
fn a_stranger_in_a_view_conflicts_too_and_alone_authorises_nobody() {
    let mut arena = Arena::settled();
    arena.pass(1000);
    let heeded = arena.view(&[(1, LEADER, 5), (9, LEADER, 5)]);
    assert_eq!(heeded.strangers.len(), 1);
    assert_eq!(arena.routed(), None);

    let mut arena = Arena::new();
    arena.view(&[(1, REPLICA, 5), (9, LEADER, 5)]);
    assert_eq!((arena.pending(), arena.routed()), (None, None));
}

#[test]
fn a_view_of_another_scope_does_not_count() {
    let mut arena = Arena::settled();
    let foreign = seen(&[(2, LEADER, 9)], "other", arena.now);

    assert!(!arena.decider.hear_view(&foreign, arena.now).counts);
    assert_eq!((arena.pending(), arena.routed()), (None, Some(1)));
}

#[test]
fn a_member_is_matched_by_name_unless_another_has_the_nodes_address() {
    let mut arena = Arena::new();
    let moved = r#"{"name":"n2","host":"10.9.9.9","role":"leader","state":"running"}"#;
    let view = |members: &str| ViewSeen {
        endpoint: "x".into(),
        sent: BootTime::ZERO + Duration::from_secs(3600),
        view: View::read(200, format!(r#"{{"members":[{members}]}}"#).as_bytes()).unwrap(),
    };

    arena.decider.hear_view(&view(moved), arena.now);
    assert_eq!(arena.pending(), Some(2));

    let beside = format!(r#"{moved},{{"name":"x","host":"127.0.1.2"}}"#);
    let heeded = arena.decider.hear_view(&view(&beside), arena.now);
    assert_eq!((arena.pending(), heeded.strangers.len()), (None, 1));
}

#[test]
fn a_discovered_node_is_used_once_it_shows_the_same_scope_and_identifier() {
    let mut arena = Arena::settled();
    arena.discover(4);
    for (scope, identifier) in [("main", "8"), ("other", "7"), ("other", "8")] {
        let said = of_cluster("primary", "running", 9, scope, identifier);
        for _ in 0..UP_AFTER {
            arena.say(4, 200, &said);
        }
        assert_eq!(arena.routed(), Some(1), "{scope} {identifier}");
        assert!(!arena.decider.records[3].is_used());
    }
    arena.say(
        4,
        200,
        r#"{"role":"primary","state":"running","timeline":9}"#,
    );
    assert!(!arena.decider.records[3].is_used(), "it shows nothing");

    for _ in 0..UP_AFTER {
        arena.leads(4, 6);
    }
    assert_eq!(arena.routed(), Some(4));
}

#[test]
fn a_discovered_node_of_another_cluster_never_makes_the_known_one_give_way() {
    let mut arena = Arena::settled();
    arena.discover(4);
    for node in 1..=3 {
        arena.silent(node);
    }
    for _ in 0..60 {
        arena.pass(1000);
        arena.say(4, 200, &of_cluster("primary", "running", 9, "main", "8"));
    }
    assert_eq!(arena.routed(), None);
}

/// What node 4 says, of the machine at which n1 is.
fn as_n1(arena: &mut Arena) {
    let words = body("primary", "running", 5);
    let heard = Heard {
        dial: "127.0.1.1:5432".parse().unwrap(),
        said: Answer::read(200, None, words.as_bytes()).unwrap(),
    };
    arena.observe(4, arena.now, Ok(heard));
}

#[test]
fn a_discovered_node_that_a_configured_one_turns_out_to_be_is_no_second_leader() {
    let mut arena = Arena::settled();
    let session = arena.session();
    // The name of n1's host was not known to be this address when the view came.
    arena.discover(4);
    for _ in 0..UP_AFTER {
        as_n1(&mut arena);
        arena.leads(1, 5);
    }

    assert_eq!((arena.routed(), arena.conflicts()), (Some(1), 0));
    assert!(!session.is_revoked());
    assert_eq!(arena.decider.left_for_good(arena.now), [NodeId(4)]);
}

#[test]
fn a_discovered_leader_that_a_configured_node_turns_out_to_be_stays_in_its_epoch() {
    let mut arena = Arena::new();
    arena.discover(4);
    arena.follows(2, 5);
    for _ in 0..UP_AFTER {
        as_n1(&mut arena);
    }
    assert_eq!((arena.routed(), arena.epoch()), (Some(4), 1));
    let session = arena.session();

    for _ in 0..UP_AFTER {
        arena.leads(1, 5);
        as_n1(&mut arena);
        assert!(arena.routed().is_some());
    }

    assert_eq!((arena.routed(), arena.epoch()), (Some(1), 1));
    assert_eq!(arena.conflicts(), 0);
    assert!(!session.is_revoked());
    assert_eq!(&*arena.lease().unwrap().leader.name, "n1");
    assert_eq!(arena.decider.left_for_good(arena.now), [NodeId(4)]);
}

#[test]
fn a_discovered_node_is_known_by_a_configured_one_that_only_follows() {
    let mut arena = Arena::new();
    arena.discover(4);
    arena.leads(4, 5);
    assert!(
        !arena.decider.records[3].is_used(),
        "nothing to compare with"
    );

    arena.follows(1, 5);
    for _ in 0..UP_AFTER {
        arena.leads(4, 5);
    }
    assert_eq!(arena.routed(), Some(4));
}

#[test]
fn a_discovered_node_that_leaves_the_view_for_good_is_forgotten_and_a_configured_one_never() {
    let mut arena = Arena::settled();
    arena.discover(4);
    let mut forgotten_after = None;
    for second in 1..=60 {
        arena.pass(1000);
        arena.leads(1, 5);
        if second == 20 {
            arena.view(&[(1, LEADER, 5), (4, REPLICA, 5)]);
        }
        arena.view(&[(1, LEADER, 5)]);
        let left = arena.decider.left_for_good(arena.now);
        if !left.is_empty() {
            assert_eq!(left, [NodeId(4)]);
            forgotten_after.get_or_insert(second);
        }
    }
    assert_eq!(forgotten_after, Some(50));
}
