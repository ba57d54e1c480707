//! Each rule of the witness, as a sentence: the first extends a lease, every other one forbids it.

use std::time::Duration;

use super::{Arena, body, of_cluster};
use crate::clock::BootTime;
use crate::metrics::RevokeReason;
use crate::primary_tracker::{Rule, WhyNobody};
use crate::topology::{NodeId, Sight, View};

const DATE: &str = "Mon, 30 Nov 2026 05:25:51 GMT";
const SECOND: u64 = 1_796_016_351;

/// n1 is silent since its last word, 5 s ago; n2 has just said that it follows and has seen the DCS a second ago.
fn silent() -> Arena {
    let mut arena = Arena::settled();
    arena.pass(5_000);
    arena.silent(1);
    sees_the_dcs(&mut arena, 2, 1);
    arena
}

fn sees_the_dcs(arena: &mut Arena, node: u64, age: u64) {
    let said = with(&format!(r#""dcs_last_seen":{}"#, SECOND - age));
    arena.say_at(node, 503, &said, arena.now, Some(DATE));
}

/// A replica's word, with more members.
fn with(more: &str) -> String {
    body("replica", "running", 5).replacen('{', &format!("{{{more},"), 1)
}

fn view(text: &str) -> View {
    View::read(200, text.as_bytes()).unwrap()
}

/// n1 leads on timeline 5, by the others' view.
fn healthy() -> View {
    names(r#""name":"n1","role":"leader","state":"running","timeline":5"#)
}

fn names(leader: &str) -> View {
    view(&format!(
        r#"{{"members":[{{{leader}}},{{"name":"n2","role":"replica","state":"streaming","timeline":5}}],"scope":"main"}}"#
    ))
}

impl Arena {
    fn testify(&mut self, witness: u64, view: &View) {
        self.testify_at(witness, view, self.now);
    }

    fn testify_at(&mut self, witness: u64, view: &View, asked: BootTime) {
        let sight = Sight {
            node: NodeId(witness),
            sent: asked,
            view: view.clone(),
        };
        self.decider.testify(&sight, self.now);
    }

    fn vouched(&self) -> u64 {
        self.decider.metrics.witness.get()
    }

    fn left(&self) -> Duration {
        self.lease().unwrap().remaining(self.now).unwrap()
    }
}

fn assert_no_witness(arena: &Arena) {
    assert_eq!(arena.vouched(), 0);
    assert!(arena.left() <= Duration::from_secs(5));
}

#[test]
fn a_witness_extends_the_lease_of_a_silent_leader_from_its_own_question() {
    let mut arena = silent();
    let (asked, session) = (arena.now, arena.session());
    arena.pass(400);

    arena.testify_at(2, &healthy(), asked);

    assert_eq!(arena.left(), Duration::from_millis(9_600));
    assert_eq!(arena.lease().unwrap().proved, asked, "as fresh as its word");
    arena.pass(9_599);
    assert_eq!((arena.routed(), arena.epoch()), (Some(1), 1));
    assert_eq!(arena.rule_of(1), Rule::Witnessed);
    arena.pass(1);
    assert_eq!(arena.why(), Some(WhyNobody::LeaseEnded));
    assert!(
        !session.is_revoked(),
        "sessions are not a witness's business"
    );
}

#[test]
fn half_an_hour_of_silence_is_bridged_and_said_once() {
    let mut arena = silent();
    for _ in 0..600 {
        arena.testify(2, &healthy());
        assert!(arena.decider.records[0].said.vouched);
        arena.pass(3_000);
        arena.silent(1);
        sees_the_dcs(&mut arena, 2, 1);
        assert_eq!((arena.routed(), arena.epoch()), (Some(1), 1));
    }
    assert_eq!((arena.vouched(), arena.conflicts()), (600, 0));

    arena.leads(1, 5);
    assert!(
        !arena.decider.records[0].said.vouched,
        "the episode is over"
    );
}

#[test]
fn the_others_are_asked_once_the_leader_is_silent_or_late_by_a_third_of_the_lease() {
    let mut arena = Arena::settled();
    let (usual, word) = (Duration::from_millis(50), arena.now);
    let since = |arena: &Arena| arena.decider.silent_since(usual, arena.now);
    let third = Duration::from_secs(10) / 3;
    assert_eq!(since(&arena), Some(word + third + usual * 4));

    let slow = arena
        .decider
        .silent_since(Duration::from_secs(1), arena.now);
    let sixth = Duration::from_secs(10) / 6;
    assert_eq!(slow, Some(word + third + sixth), "never later");

    arena.pass(1_000);
    arena.silent(1);
    assert_eq!(since(&arena), Some(word));

    arena.leads(1, 5);
    assert_eq!(since(&arena), Some(arena.now + third + usual * 4));
    arena.silent(1);
    arena.pass(10_000);
    assert_eq!(since(&arena), None, "there is no lease to extend any more");
}

#[test]
fn a_witness_never_creates_a_lease() {
    let mut arena = silent();
    arena.pass(5_000);
    assert_eq!(arena.routed(), None);
    sees_the_dcs(&mut arena, 2, 1);

    arena.testify(2, &healthy());

    assert_eq!((arena.routed(), arena.vouched()), (None, 0));

    let mut fresh = Arena::new();
    sees_the_dcs(&mut fresh, 2, 1);
    sees_the_dcs(&mut fresh, 2, 1);
    fresh.testify(2, &healthy());
    assert_eq!((fresh.routed(), fresh.vouched()), (None, 0));
}

#[test]
fn a_witness_never_speaks_against_what_the_leader_said_last() {
    for (status, said) in [
        (200, body("primary", "stopping", 5)),
        (503, body("primary", "running", 5)),
        (503, body("replica", "running", 5)),
        (200, body("replica", "running", 5)),
    ] {
        let mut arena = Arena::settled();
        sees_the_dcs(&mut arena, 2, 1);
        arena.say(1, status, &said);
        arena.pass(100);
        arena.silent(1);

        arena.testify(2, &healthy());

        assert_eq!(
            (arena.routed(), arena.vouched()),
            (None, 0),
            "{status} {said}"
        );
    }
}

#[test]
fn a_view_that_names_another_leader_is_no_witness() {
    for another in [
        r#""name":"n3","role":"leader","state":"running","timeline":5"#,
        r#""name":"x","host":"127.0.1.3","role":"leader","state":"running","timeline":5"#,
    ] {
        let mut arena = silent();
        arena.testify(2, &names(another));
        assert_no_witness(&arena);
    }
}

#[test]
fn a_leader_is_the_same_by_its_name_or_by_its_address() {
    for same in [
        r#""name":"n1","host":"10.0.0.1","role":"leader","state":"running","timeline":5"#,
        r#""name":"pg-one","host":"127.0.1.1","role":"leader","state":"running","timeline":5"#,
    ] {
        let mut arena = silent();
        arena.testify(2, &names(same));
        assert_eq!(arena.vouched(), 1, "{same}");
    }
}

#[test]
fn another_node_of_that_name_is_not_the_same_leader() {
    let mut arena = silent();
    let swapped =
        r#""name":"n1","host":"127.0.1.3","role":"leader","state":"running","timeline":5"#;
    arena.testify(2, &names(swapped));
    assert_no_witness(&arena);
}

#[test]
fn a_view_whose_leader_does_not_run_is_no_witness() {
    for state in ["stopping", "starting", "crashed", "stopped"] {
        let mut arena = silent();
        let leader = format!(r#""name":"n1","role":"leader","state":"{state}","timeline":5"#);
        arena.testify(2, &names(&leader));
        assert_no_witness(&arena);
    }
}

#[test]
fn a_view_of_another_timeline_is_no_witness() {
    for timeline in [
        r#","timeline":4"#,
        r#","timeline":6"#,
        r#","timeline":"x""#,
        "",
    ] {
        let mut arena = silent();
        let leader = format!(r#""name":"n1","role":"leader","state":"running"{timeline}"#);
        arena.testify(2, &names(&leader));
        assert_no_witness(&arena);
    }
}

#[test]
fn a_view_that_names_nobody_or_two_is_no_witness() {
    let member = |name: &str, role: &str| {
        format!(r#"{{"name":"{name}","role":"{role}","state":"running","timeline":5}}"#)
    };
    let view = |members: [String; 2]| view(&format!(r#"{{"members":[{}]}}"#, members.join(",")));
    for members in [
        [member("n1", "replica"), member("n2", "replica")],
        [member("n1", "standby_leader"), member("n2", "replica")],
        [member("n1", "leader"), member("n2", "leader")],
    ] {
        let mut arena = silent();
        arena.testify(2, &view(members));
        assert_no_witness(&arena);
    }
}

#[test]
fn a_view_of_another_cluster_is_no_witness() {
    let mut arena = silent();
    let mut foreign = healthy();
    foreign.scope = Some("other".into());
    arena.testify(2, &foreign);
    assert_no_witness(&arena);

    // Patroni before 4 names none.
    foreign.scope = None;
    arena.testify(2, &foreign);
    assert_eq!(arena.vouched(), 1);
}

#[test]
fn a_witness_whose_own_word_is_older_than_a_lease_is_none() {
    let mut arena = Arena::settled();
    sees_the_dcs(&mut arena, 2, 1);
    arena.pass(5_000);
    arena.leads(1, 5);
    arena.pass(5_000);
    arena.silent(1);
    arena.testify(2, &healthy());
    assert_eq!(arena.vouched(), 1, "just as old as a lease");

    arena.pass(1);
    arena.testify(2, &healthy());
    assert_eq!(arena.vouched(), 1);
}

#[test]
fn at_rest_a_witnesss_own_word_may_be_as_old_as_two_questions() {
    let mut arena = Arena::settled();
    arena.decider.check_interval = Duration::from_secs(30);
    sees_the_dcs(&mut arena, 2, 1);
    for _ in 0..11 {
        arena.pass(5_000);
        arena.leads(1, 5);
    }
    arena.pass(5_000);
    arena.silent(1);
    arena.testify(2, &healthy());
    assert_eq!(arena.vouched(), 1);

    arena.pass(1);
    arena.testify(2, &healthy());
    assert_eq!(arena.vouched(), 1);
}

#[test]
fn a_witness_that_was_never_heard_or_said_something_useless_last_is_none() {
    let mut arena = silent();
    arena.testify(3, &healthy());
    assert_no_witness(&arena);

    arena.pass(1);
    arena.say(2, 200, &body("primary", "unknown", 5));
    arena.testify(2, &healthy());
    assert_no_witness(&arena);

    let mut arena = silent();
    arena.say(2, 503, &of_cluster("replica", "running", 5, "other", "8"));
    arena.testify(2, &healthy());
    assert_no_witness(&arena);
}

#[test]
fn a_witness_that_sees_no_lock_is_none() {
    let mut arena = silent();
    let unlocked = with(&format!(
        r#""cluster_unlocked":true,"dcs_last_seen":{SECOND}"#
    ));
    arena.say_at(2, 503, &unlocked, arena.now, Some(DATE));
    arena.testify(2, &healthy());
    assert_no_witness(&arena);
}

#[test]
fn a_witness_that_saw_the_dcs_longer_ago_than_loop_wait_and_2_s_is_none() {
    let mut arena = silent();
    sees_the_dcs(&mut arena, 2, 13);
    arena.testify(2, &healthy());
    assert_no_witness(&arena);

    sees_the_dcs(&mut arena, 2, 12);
    arena.testify(2, &healthy());
    assert_eq!(arena.vouched(), 1);
}

#[test]
fn a_witness_that_does_not_say_when_it_saw_the_dcs_is_none() {
    let mut arena = silent();
    arena.follows(2, 5);
    arena.testify(2, &healthy());
    assert_no_witness(&arena);

    let seen = with(&format!(r#""dcs_last_seen":{SECOND}"#));
    arena.say_at(2, 503, &seen, arena.now, None);
    arena.testify(2, &healthy());
    assert_no_witness(&arena);
}

#[test]
fn the_leader_is_no_witness_of_itself() {
    let mut arena = silent();
    arena.testify(1, &healthy());
    assert_no_witness(&arena);
}

#[test]
fn what_was_asked_before_the_leader_spoke_itself_says_nothing_new() {
    let mut arena = silent();
    let asked = arena.now;
    arena.pass(10);
    arena.leads(1, 5);
    arena.testify_at(2, &healthy(), asked);
    assert_eq!(arena.vouched(), 0);
}

#[test]
fn a_leader_whose_address_answers_for_another_cluster_has_no_witness() {
    let mut arena = silent();
    arena.say(1, 200, &of_cluster("primary", "running", 5, "other", "8"));
    arena.testify(2, &healthy());
    assert_no_witness(&arena);
    assert_eq!(arena.decider.silent_since(Duration::ZERO, arena.now), None);
}

#[test]
fn the_age_of_the_lock_does_not_cut_a_witness_and_the_leaders_next_own_word_decides_again() {
    let mut arena = Arena::settled();
    let aged = |age: u64| {
        let seen = format!(r#"{{"dcs_last_seen":{},"#, SECOND - age);
        body("primary", "running", 5).replacen('{', &seen, 1)
    };
    arena.say_at(1, 200, &aged(25), arena.now, Some(DATE));
    assert_eq!(arena.left(), Duration::from_secs(4));
    arena.pass(1_000);
    arena.silent(1);
    sees_the_dcs(&mut arena, 2, 1);

    arena.testify(2, &healthy());
    assert_eq!(arena.left(), Duration::from_secs(10));

    arena.pass(100);
    arena.say_at(1, 200, &aged(27), arena.now, Some(DATE));
    assert_eq!(arena.left(), Duration::from_secs(2));
}

#[test]
fn a_witness_keeps_no_other_node_from_leading() {
    let mut arena = silent();
    let session = arena.session();
    for _ in 0..3 {
        arena.testify(2, &healthy());
        arena.pass(4_000);
        sees_the_dcs(&mut arena, 2, 1);
    }

    arena.say(2, 200, &body("replica", "running", 5));
    assert_eq!(arena.why(), Some(WhyNobody::Promoting));
    assert_eq!(session.reason(), Some(RevokeReason::promoting));

    arena.leads(2, 6);
    assert_eq!((arena.routed(), arena.epoch()), (Some(2), 2));
    assert_eq!(
        arena.conflicts(),
        0,
        "a dead leader's lock is no second leader"
    );
}

#[test]
fn a_second_leader_on_the_timeline_of_one_that_is_only_vouched_for_is_a_conflict() {
    let mut arena = silent();
    arena.testify(3, &healthy());
    sees_the_dcs(&mut arena, 3, 1);
    arena.testify(3, &healthy());
    arena.pass(6_000);
    assert_eq!(arena.routed(), Some(1));

    arena.leads(2, 5);

    assert_eq!(
        (arena.routed(), arena.why()),
        (None, Some(WhyNobody::Conflict))
    );
}
