//! What the read pool learns of a node: how far it is behind, and what ends its readers.

use std::path::Path;

use super::{Arena, of_cluster, record};
use crate::metrics::RevokeReason;
use crate::topology::{Feed, NodeId};

fn at(role: &str, position: &str) -> String {
    format!(
        r#"{{"role":"{role}","state":"running","timeline":5,"database_system_identifier":"7",
           "xlog":{position},"patroni":{{"version":"4.1.5","scope":"main","name":"n"}}}}"#
    )
}

fn written(position: u64) -> String {
    at("primary", &format!(r#"{{"location":{position}}}"#))
}

fn replayed(position: u64) -> String {
    at(
        "replica",
        &format!(r#"{{"received_location":99999,"replayed_location":{position},"paused":false}}"#),
    )
}

impl Arena {
    fn lag(&self, node: usize) -> Option<u64> {
        self.decider.records[node - 1].lag()
    }

    fn feed(&self, node: usize) -> Option<Feed> {
        let record = &self.decider.records[node - 1];
        let verdict = self.decider.verdict(record, self.now);
        record.picture(false, verdict).reading.feed
    }
}

#[test]
fn lag_is_the_leaders_position_less_what_was_replayed_and_never_below_zero() {
    let mut arena = Arena::settled();
    arena.say(1, 200, &written(5000));
    for (replayed_to, lag) in [(4000, 1000), (5000, 0), (5001, 0)] {
        arena.say(2, 503, &replayed(replayed_to));
        assert_eq!(arena.lag(2), Some(lag));
    }
    assert_eq!(arena.lag(1), None, "the leader itself");
    arena.say(3, 503, &at("replica", "{}"));
    assert_eq!(arena.lag(3), None, "it names no position");
}

#[test]
fn what_the_leader_writes_after_a_replica_answered_is_no_lag() {
    let mut arena = Arena::settled();
    arena.say(1, 200, &written(5000));
    arena.pass(100);
    arena.say(2, 503, &replayed(5000));
    arena.pass(3000);

    arena.say(1, 200, &written(900_000));

    assert_eq!(arena.lag(2), Some(0));
    arena.say(2, 503, &replayed(899_000));
    assert_eq!(arena.lag(2), Some(1000));
}

#[test]
fn a_position_that_was_asked_for_in_time_counts_also_when_it_comes_later() {
    let mut arena = Arena::settled();
    arena.say(1, 200, &written(5000));
    arena.pass(1000);
    let asked = arena.now;
    arena.pass(10);
    arena.say(2, 503, &replayed(5000));
    assert_eq!(arena.lag(2), Some(0));
    arena.pass(10);

    arena.say_at(1, 200, &written(7000), asked, None);

    assert_eq!(arena.lag(2), Some(2000));
}

#[test]
fn without_a_leader_the_last_known_position_counts() {
    let mut arena = Arena::new();
    arena.say(2, 503, &replayed(5000));
    assert_eq!(arena.lag(2), None, "no leader was ever heard");
    let mut arena = Arena::settled();
    arena.say(1, 200, &written(5000));
    arena.say(1, 503, &replayed(5000));
    assert_eq!(arena.routed(), None);

    arena.say(2, 503, &replayed(4000));

    assert_eq!(arena.lag(2), Some(1000));
}

#[test]
fn a_new_leaders_position_takes_the_place_of_the_old_ones() {
    let mut arena = Arena::settled();
    arena.say(1, 200, &written(9000));
    arena.say(1, 503, &replayed(5000));
    arena.pass(10);
    arena.say(
        2,
        200,
        &written(6000).replace("\"timeline\":5", "\"timeline\":6"),
    );
    assert_eq!(arena.routed(), Some(2));
    arena.say(3, 503, &replayed(6000));
    assert_eq!(arena.lag(3), Some(0));
}

#[test]
fn a_node_that_becomes_leader_ends_only_the_readers_that_shall_not_stay() {
    let mut arena = Arena::settled();
    let readers = |arena: &Arena, node: usize| arena.decider.records[node - 1].readers.clone();
    let (two, three) = (readers(&arena, 2), readers(&arena, 3));
    arena.follows(1, 5);
    arena.leads(2, 6);

    assert_eq!(two.unless_it_leads.reason(), Some(RevokeReason::moved));
    assert!(!two.whoever_leads.is_revoked());
    assert!(!three.unless_it_leads.is_revoked() && !three.whoever_leads.is_revoked());
    let next = readers(&arena, 2);
    assert!(
        !next.unless_it_leads.is_revoked(),
        "whoever falls back on it"
    );
    arena.leads(2, 6);
    assert!(!next.unless_it_leads.is_revoked(), "it led before");
}

#[test]
fn a_removed_node_takes_no_reader_and_ends_none() {
    let mut arena = Arena::settled();
    let readers = arena.decider.records[1].readers.clone();

    arena.decider.remove(NodeId(2));

    for revocation in [readers.unless_it_leads, readers.whoever_leads] {
        assert!(revocation.is_revoked());
        assert_eq!(revocation.reason(), None);
    }
}

#[test]
fn a_node_that_answers_for_another_cluster_is_read_from_no_more_at_once() {
    let mut arena = Arena::settled();
    assert_eq!(arena.feed(2), Some(Feed::Dry));

    arena.say(2, 503, &of_cluster("replica", "running", 5, "other", "8"));
    assert_eq!(arena.feed(2), None);

    arena.follows(2, 5);
    assert_eq!(arena.feed(2), Some(Feed::Dry));
}

#[test]
fn the_weight_and_the_address_come_from_configuration_and_proof() {
    let node = record(2);
    let mut arena = Arena::settled();
    let record = &arena.decider.records[1];
    let reading = record
        .picture(false, arena.decider.verdict(record, arena.now))
        .reading;
    assert_eq!(reading.weight, node.settings.weight);
    assert_eq!(reading.addr, Some("127.0.1.2:5432".parse().unwrap()));
    arena.silent(2);
    assert_eq!(arena.feed(2), Some(Feed::Dry), "silence is no evidence");
}

/// What each node is for readers when all have said twice what was recorded.
fn recorded(situation: &str) -> [Option<Feed>; 3] {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/fixtures/patroni")
        .join(situation);
    let mut arena = Arena::new();
    for _ in 0..2 {
        for node in 1..=3 {
            let body = std::fs::read_to_string(folder.join(format!("n{node}_primary.json")));
            let Ok(body) = body else { continue };
            let status = if body.contains("\"location\"") {
                200
            } else {
                503
            };
            arena.say(node, status, &body);
        }
    }
    [1, 2, 3].map(|node| arena.feed(node))
}

#[test]
fn recorded_clusters_of_every_version_have_two_to_read_from() {
    let both = [None, Some(Feed::Streaming), Some(Feed::Streaming)];
    for situation in ["3.0.2/healthy", "4.0.7/healthy", "4.1.5/healthy"] {
        assert_eq!(recorded(situation), both, "{situation}");
    }
    let synchronous = [Some(Feed::Streaming), Some(Feed::Streaming), None];
    for situation in ["4.1.5/synchronous_mode", "4.1.5/quorum_mode"] {
        assert_eq!(recorded(situation), synchronous, "{situation}");
    }
}
