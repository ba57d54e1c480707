//! A leader by somebody's word: what ends it, and what does not.

use super::Arena;
use crate::primary_tracker::{TrackerSettings, WhyNobody};
use crate::topology::{NodeId, Provider};

/// Nobody is named.
fn arena() -> Arena {
    let mut arena = Arena::with(TrackerSettings {
        provider: Provider::Manual,
        ..TrackerSettings::default()
    });
    arena.pass(0);
    assert_eq!(arena.decider.why, Some(WhyNobody::NobodyNamed));
    arena
}

fn name(arena: &mut Arena, node: u64) {
    let dial = format!("127.0.1.{node}:5432").parse().unwrap();
    arena.decider.propose(NodeId(node), dial, arena.now);
    arena.pass(0);
}

fn confirm(arena: &mut Arena) {
    arena.decider.reign.as_mut().unwrap().open = true;
    arena.pass(0);
}

#[test]
fn a_named_leader_waits_for_its_confirmation() {
    let mut arena = arena();

    name(&mut arena, 1);
    assert_eq!(arena.routed(), None);
    assert_eq!(arena.decider.why, Some(WhyNobody::Unconfirmed));

    confirm(&mut arena);
    assert_eq!(arena.routed(), Some(1));
    assert_eq!(arena.decider.why, None);
}

#[test]
fn it_has_no_lease_and_neither_silence_nor_anybodys_claim_ends_it() {
    let mut arena = arena();
    name(&mut arena, 1);
    confirm(&mut arena);

    for _ in 0..20 {
        arena.silent(1);
        arena.leads(2, 9);
        arena.follows(1, 5);
        arena.pass(60_000);
    }

    assert_eq!(arena.routed(), Some(1));
    let lease = arena.lease().unwrap();
    assert_eq!((lease.until, lease.epoch), (None, 1));
}

#[test]
fn its_nodes_answers_are_news_of_it() {
    let mut arena = arena();
    name(&mut arena, 1);
    confirm(&mut arena);
    arena.pass(5_000);

    arena.follows(1, 5);

    assert_eq!(arena.lease().unwrap().proved, arena.now);
}

#[test]
fn another_name_ends_its_sessions_and_the_same_one_changes_nothing() {
    let mut arena = arena();
    name(&mut arena, 1);
    confirm(&mut arena);
    let sessions = arena.lease().unwrap().revocation;

    name(&mut arena, 1);
    assert_eq!(arena.routed(), Some(1));
    assert!(!sessions.is_revoked());

    name(&mut arena, 2);
    assert!(sessions.is_revoked());
    assert_eq!(arena.routed(), None);
    assert_eq!(arena.decider.epoch, 2);
}

#[test]
fn a_disabled_node_that_is_named_gets_nobody() {
    let mut arena = arena();
    name(&mut arena, 1);
    confirm(&mut arena);

    arena.decider.records[0].settings.enabled = false;
    arena.pass(0);

    assert_eq!(arena.decider.why, Some(WhyNobody::Disabled));
}

#[test]
fn a_node_that_is_removed_leads_no_more() {
    let mut arena = arena();
    name(&mut arena, 1);
    confirm(&mut arena);

    arena.decider.remove(NodeId(1));
    arena.pass(0);

    assert_eq!(arena.routed(), None);
    assert_eq!(arena.decider.why, Some(WhyNobody::NobodyNamed));
}
