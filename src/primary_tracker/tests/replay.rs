//! Real failovers, replayed answer by answer in their order.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value;

use super::Arena;
use crate::metrics::RevokeReason;
use crate::primary_tracker::WhyNobody;

struct Said {
    node: u64,
    status: u16,
    body: String,
    /// Seconds since the first question.
    asked: f64,
    date: Option<String>,
}

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/patroni/4.1.5")
}

fn recorded(transition: &str) -> Vec<Said> {
    let folder = fixtures().join("transitions").join(transition);
    let index = std::fs::read_to_string(folder.join("index.jsonl")).unwrap();
    let (mut first, mut last) = (None, 0.0);
    let mut all = Vec::new();
    for line in index.lines() {
        let entry: Value = serde_json::from_str(line).unwrap();
        if entry["path"] != "/primary" {
            continue;
        }
        let text = |key: &str| entry[key].as_str().map(str::to_owned);
        // No time of its own means: between its neighbours.
        if let Some(at) = entry["asked"].as_f64() {
            last = at - *first.get_or_insert(at);
        }
        all.push(Said {
            node: text("node").unwrap()[1..].parse().unwrap(),
            status: u16::try_from(entry["status"].as_u64().unwrap()).unwrap(),
            body: std::fs::read_to_string(folder.join(text("file").unwrap())).unwrap(),
            asked: last,
            date: text("date"),
        });
    }
    assert!(all.len() > 4, "{transition} is recorded");
    all
}

impl Said {
    fn word(&self, key: &str) -> String {
        let body: Value = serde_json::from_str(&self.body).unwrap();
        body[key].as_str().unwrap_or_default().to_owned()
    }

    fn state(&self) -> String {
        self.word("state")
    }

    fn leads(&self) -> bool {
        self.status == 200 && self.word("role") == "primary" && self.state() == "running"
    }

    /// Holds the lock, and its PostgreSQL is a replica still.
    fn is_promoting(&self) -> bool {
        self.status == 200 && self.word("role") == "replica"
    }
}

/// Replays a transition onto a settled arena; checks after each answer that nobody is routed to who does not say
/// that it leads, that nobody leads while a promotion is in progress, and that the leader stays where only Patroni's
/// own SQL has failed. Returns the arena, and what was said.
fn replay(transition: &str) -> (Arena, Vec<Said>) {
    let all = recorded(transition);
    let mut arena = Arena::new();
    for first in (1..=3).filter_map(|n| all.iter().find(|said| said.node == n)) {
        arena.say(first.node, first.status, &first.body);
    }
    let start = arena.now;
    for said in &all {
        let now = start + Duration::from_secs_f64(said.asked.max(0.0));
        if now > arena.now {
            arena.now = now;
            arena.decider.decide(now);
        }
        arena.say_at(
            said.node,
            said.status,
            &said.body,
            arena.now,
            said.date.as_deref(),
        );
        if said.is_promoting() {
            assert_eq!(arena.routed(), None, "{transition}");
            assert_eq!(arena.why(), Some(WhyNobody::Promoting), "{transition}");
        }
        if said.state() == "unknown" {
            assert_eq!(arena.routed(), Some(said.node), "{transition}");
        }
        if let Some(routed) = arena.routed() {
            let newest = arena.decider.records.iter().find(|r| r.id.0 == routed);
            let newest = newest.and_then(|r| r.latest.as_ref()).unwrap();
            assert_eq!(newest.answer.status, 200, "{transition}");
            assert_eq!(newest.answer.role.as_ref().unwrap().word(), "primary");
        }
    }
    (arena, all)
}

fn leader_at_the_end(all: &[Said]) -> u64 {
    all.iter().rev().find(|said| said.leads()).unwrap().node
}

#[test]
fn every_switchover_stop_and_kill_ends_at_the_new_leader_with_one_change() {
    for transition in [
        "switchover_0",
        "switchover_1",
        "switchover_2",
        "switchover_3",
        "switchover_4",
        "stop_0",
        "stop_1",
        "stop_2",
        "kill_0",
        "kill_1",
        "kill_2",
        "kill_3",
    ] {
        let (arena, all) = replay(transition);
        let before = all.iter().find(|said| said.leads()).unwrap().node;
        let after = leader_at_the_end(&all);

        assert!(all.iter().any(Said::is_promoting), "{transition}");
        assert_ne!(before, after, "{transition}");
        assert_eq!(arena.routed(), Some(after), "{transition}");
        assert_eq!(arena.epoch(), 2, "{transition}");
    }
}

#[test]
fn a_crash_of_postgresql_that_patroni_repairs_changes_no_epoch() {
    let (arena, all) = replay("postgres_kill_0");

    assert!(all.iter().any(|said| said.state() == "unknown"));
    assert_eq!(arena.routed(), Some(leader_at_the_end(&all)));
    assert_eq!(arena.epoch(), 1);
}

#[test]
fn patroni_restarted_under_a_running_postgresql_changes_no_epoch() {
    for transition in [
        "patroni_killed_0",
        "patroni_killed_in_maintenance_0",
        "patroni_stopped_in_maintenance_0",
    ] {
        let (arena, all) = replay(transition);

        assert_eq!(
            arena.routed(),
            Some(leader_at_the_end(&all)),
            "{transition}"
        );
        assert_eq!(arena.epoch(), 1, "{transition}");
    }
}

/// What each node said in a recorded situation.
fn situation(name: &str) -> Vec<Said> {
    let folder = fixtures().parent().unwrap().join(name);
    let index: Value =
        serde_json::from_str(&std::fs::read_to_string(folder.join("index.json")).unwrap()).unwrap();
    let mut all = Vec::new();
    for answer in index["answers"].as_array().unwrap() {
        if answer["method"] != "GET" || answer["path"] != "/primary" || answer["file"].is_null() {
            continue;
        }
        let status = answer["status"].as_str().unwrap();
        let file = answer["file"].as_str().unwrap();
        let mut headers = answer["headers"].as_array().unwrap().iter();
        all.push(Said {
            node: answer["node"].as_str().unwrap()[1..].parse().unwrap(),
            status: status.split(' ').nth(1).unwrap().parse().unwrap(),
            body: std::fs::read_to_string(folder.join(file)).unwrap(),
            asked: 0.0,
            date: headers.find_map(|h| Some(h.as_str()?.strip_prefix("Date: ")?.to_owned())),
        });
    }
    all
}

/// All nodes have said twice what was recorded.
fn after(name: &str) -> Arena {
    let mut arena = Arena::new();
    for _ in 0..2 {
        say_all(&mut arena, &situation(name));
    }
    arena
}

fn say_all(arena: &mut Arena, all: &[Said]) {
    for said in all {
        let date = said.date.as_deref();
        arena.say_at(said.node, said.status, &said.body, arena.now, date);
    }
}

#[test]
fn every_recorded_situation_routes_to_its_leader_or_to_nobody() {
    for (situation, leader) in [
        ("4.1.5/healthy", Some(1)),
        ("4.0.7/healthy", Some(1)),
        ("3.0.2/healthy", Some(1)),
        ("4.1.5/synchronous_mode", Some(3)),
        ("4.1.5/quorum_mode", Some(3)),
        ("4.1.5/maintenance", Some(1)),
        ("4.1.5/maintenance_etcd_down", Some(1)),
        ("4.1.5/failsafe_etcd_down", Some(2)),
        ("4.1.5/etcd_down_first_seconds", None),
        ("4.1.5/maintenance_leader_postgres_down", None),
        ("4.1.5/etcd_down", None),
        ("4.1.5/standby_cluster", None),
    ] {
        assert_eq!(after(situation).routed(), leader, "{situation}");
    }
}

#[test]
fn without_its_dcs_a_leader_stays_in_failsafe_mode_and_follows_without_it() {
    let mut arena = after("4.1.5/failsafe_etcd_down");
    assert!(arena.decider.failsafe);
    let session = arena.session();
    for _ in 0..60 {
        arena.pass(1_000);
        say_all(&mut arena, &situation("4.1.5/failsafe_etcd_down"));
        assert_eq!((arena.routed(), arena.epoch()), (Some(2), 1));
    }

    say_all(&mut arena, &situation("4.1.5/etcd_down"));

    assert!(!arena.decider.failsafe);
    assert_eq!(arena.why(), Some(WhyNobody::NobodyLeads));
    assert_eq!(session.reason(), Some(RevokeReason::follows));
}

#[test]
fn in_pause_without_the_dcs_the_leader_stays_however_old_its_lock_is() {
    let mut arena = after("4.1.5/maintenance_etcd_down");
    for _ in 0..60 {
        arena.pass(1_000);
        say_all(&mut arena, &situation("4.1.5/maintenance_etcd_down"));
        assert_eq!((arena.routed(), arena.epoch()), (Some(1), 1));
    }
    assert!(arena.decider.paused);
}

/// Patroni answers 200 on every running primary then.
#[test]
fn in_pause_without_the_dcs_a_second_primary_is_a_conflict_and_the_timeline_decides() {
    let all = situation("4.1.5/maintenance_etcd_down");
    let leader = all.iter().find(|said| said.leads()).unwrap();
    let date = leader.date.as_deref();
    let second = |arena: &mut Arena, timeline: u32| {
        let on = leader
            .body
            .replace("\"timeline\": 1,", &format!("\"timeline\": {timeline},"));
        arena.say_at(2, 200, &on, arena.now, date);
    };

    let mut arena = after("4.1.5/maintenance_etcd_down");
    let session = arena.session();
    second(&mut arena, 1);
    assert_eq!(arena.why(), Some(WhyNobody::Conflict));
    assert_eq!(session.reason(), Some(RevokeReason::conflict));
    assert!(arena.conflicts() > 0);

    second(&mut arena, 2);
    assert_eq!(arena.routed(), Some(2));
    arena.say_at(1, 200, &leader.body, arena.now, date);
    assert_eq!(arena.routed(), Some(2), "the old one is stale");
}
