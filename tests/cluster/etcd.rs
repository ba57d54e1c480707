//! The DCS is gone: with failsafe mode the leader stays, without it nobody leads until it is back.

use std::{
    thread,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use serde_json::json;

use super::{
    change::GRACE,
    guests::Guests,
    stage::{SOON, Stage},
};
use crate::lab::{Lab, NODES, observer::Observer};

#[test]
fn a_dead_etcd_moves_nobody_in_failsafe_mode_and_holds_everybody_without() {
    let up = || Lab::builder().fast().failsafe().up();
    let Some(stage) = Stage::set("etcd", up, "") else {
        return;
    };
    in_failsafe_mode_the_leader_and_its_sessions_stay(&stage);
    without_failsafe_mode_clients_are_held_until_etcd_is_back(&stage);
}

fn in_failsafe_mode_the_leader_and_its_sessions_stay(stage: &Stage) {
    let what = "failsafe mode";
    let leader = stage.settle();
    let epoch = stage.epoch();
    assert_eq!(stage.proxy.metric("failsafe_mode"), Some(0.0));
    let ttl = Duration::from_secs(stage.lab.timings().ttl.into());
    let guests = Guests::arrive(stage.proxy.listens, 10, 2, ttl);
    let writers = stage.writers();

    let stopped = Instant::now();
    stage.lab.stop_dcs();
    stage.wait_for_gauge("failsafe_mode", 1.0);
    // The lock has run out by then, wherever it is counted.
    while stopped.elapsed() < ttl + Duration::from_secs(3) {
        assert_eq!(stage.epoch(), epoch);
        thread::sleep(Duration::from_millis(500));
    }
    assert_eq!(stage.proxy.metric("failsafe_mode"), Some(1.0));
    let attempts = writers.stop();
    guests.assert_undisturbed(what);
    stage.lab.start_dcs().unwrap();

    stage.wait_for_gauge("failsafe_mode", 0.0);
    stage.assert_undisturbed(what, &attempts);
    assert_eq!(stage.settle(), leader);
    assert_eq!(stage.epoch(), epoch);
}

fn without_failsafe_mode_clients_are_held_until_etcd_is_back(stage: &Stage) {
    let what = "etcd away";
    stage
        .lab
        .patch_config(&json!({ "failsafe_mode": false }))
        .unwrap();
    // Each node reads it at its next turn; the one that is under way may have read before.
    let patched = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap()
        .as_secs();
    for node in NODES {
        stage.wait("turn of each node", || {
            let said = stage.lab.rest(node, "GET", "/patroni", None).ok()?.json();
            (said["dcs_last_seen"].as_u64()? >= patched + 2).then_some(())
        });
    }
    thread::sleep(Duration::from_secs(1));
    let leader = stage.settle();
    let epoch = stage.epoch();
    let observer = Observer::of(&stage.lab);
    let guests = Guests::arrive(stage.proxy.listens, 10, 2, Duration::from_secs(600));
    let writers = stage.writers();

    let stopped = Instant::now();
    stage.lab.stop_dcs();
    let demoted = stage.wait("demotion of the leader", || {
        observer.first_demoted(stopped, leader)
    });
    for end in guests.all_gone(SOON) {
        assert!(end.at <= demoted.heard + GRACE, "{what}: {end:?}");
        assert!(end.words.starts_with("FATAL 57P01"), "{what}: {end:?}");
    }
    thread::sleep((demoted.heard + GRACE).saturating_duration_since(Instant::now()));
    let left = stage.wait("reads on the old leader", || stage.backends_at(leader));
    assert_eq!(left, 0, "{what}: sessions on {leader}");
    assert!(stage.proxy.metric("held_clients").unwrap() > 0.0);
    stage.lab.start_dcs().unwrap();
    stage.settle();
    thread::sleep(Duration::from_millis(500));

    stage.assert_all_served(what, &writers.stop());
    assert_eq!(stage.epoch(), epoch + 1);
}
