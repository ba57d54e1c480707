//! What an operator does to a cluster that goes on: pause mode, a restart of PostgreSQL, a read-only default, a
//! standby cluster.

use std::{thread, time::Duration};

use serde_json::{Value, json};

use super::{
    guests::Guests,
    repairs::patroni_killed_and_back_within_seconds_disturbs_nobody,
    stage::{SOON, Stage},
};
use crate::lab::{Lab, client::Outcome};

#[test]
fn maintenance_changes_no_leader_and_a_standby_cluster_has_none() {
    let Some(stage) = Stage::set("maintenance", || Lab::builder().fast().up(), "") else {
        return;
    };
    assert_eq!(stage.proxy.metric("paused"), Some(0.0));
    stage.lab.maintenance(true).unwrap();
    stage.wait_for_gauge("paused", 1.0);
    patroni_killed_and_back_within_seconds_disturbs_nobody(&stage, "Patroni killed in pause");
    a_restart_of_postgresql_in_pause_holds_clients_on_the_same_leader(&stage);
    stage.lab.maintenance(false).unwrap();
    stage.wait_for_gauge("paused", 0.0);

    a_leader_whose_default_is_read_only_is_still_the_leader(&stage);
    a_standby_leader_never_leads_until_it_is_promoted(&stage);
}

fn a_restart_of_postgresql_in_pause_holds_clients_on_the_same_leader(stage: &Stage) {
    let what = "restart in pause";
    let leader = stage.settle();
    let (epoch, revoked) = (stage.epoch(), stage.revoked());
    let guests = Guests::arrive(stage.proxy.listens, 10, 2, Duration::from_secs(600));
    let writers = stage.writers();

    let done = stage.lab.rest(leader, "POST", "/restart", Some(&json!({})));
    assert_eq!(done.unwrap().status, 200);
    thread::sleep(Duration::from_secs(1));
    let attempts = writers.stop();

    for end in guests.all_gone(SOON) {
        assert!(end.words.starts_with("FATAL 57P01"), "{what}: {end:?}");
    }
    stage.assert_all_served(what, &attempts);
    assert_eq!(stage.settle(), leader, "{what}");
    assert_eq!(stage.epoch(), epoch, "{what}");
    assert_eq!(stage.revoked(), revoked, "{what}: ended by the proxy");
}

fn a_leader_whose_default_is_read_only_is_still_the_leader(stage: &Stage) {
    let leader = stage.settle();
    let epoch = stage.epoch();
    let set = |value: &str| {
        let text = format!("ALTER SYSTEM SET default_transaction_read_only = {value}");
        stage.lab.sql(leader, &text).unwrap();
        stage.lab.sql(leader, "SELECT pg_reload_conf()").unwrap();
    };
    set("on");
    stage.wait("read-only leader", || {
        (stage.write_one() == Outcome::ReadOnly).then_some(())
    });

    // Longer than a rest's interval and than what a session may rely on.
    for _ in 0..12 {
        thread::sleep(Duration::from_millis(500));
        assert_eq!(stage.write_one(), Outcome::ReadOnly);
        assert_eq!(stage.epoch(), epoch);
    }

    set("off");
    stage.wait("writable leader", || {
        (stage.write_one() == stage.written_at(leader)).then_some(())
    });
    assert_eq!(stage.epoch(), epoch);
}

fn a_standby_leader_never_leads_until_it_is_promoted(stage: &Stage) {
    stage.settle();
    let epoch = stage.epoch();
    let guests = Guests::arrive(stage.proxy.listens, 5, 0, Duration::ZERO);
    let elsewhere = json!({ "standby_cluster": { "host": "127.0.0.9", "port": 5432 } });
    stage.lab.patch_config(&elsewhere).unwrap();
    stage.wait("standby cluster in words", || {
        let reason = stage.proxy.topology()?["reason"].clone();
        reason.as_str()?.contains("standby").then_some(())
    });
    assert_eq!(guests.all_gone(SOON).len(), 5);
    let topology = stage.proxy.topology().unwrap();
    assert_eq!(topology["currentPrimary"], Value::Null);
    assert!(topology.get("authoritative").is_none(), "{topology}");

    let proxy = &stage.proxy;
    let written = thread::scope(|scope| {
        let held = scope.spawn(|| stage.write_one());
        stage.wait_for_gauge("held_clients", 1.0);
        thread::sleep(Duration::from_secs(2));
        assert_eq!(proxy.metric("held_clients"), Some(1.0));
        stage
            .lab
            .patch_config(&json!({ "standby_cluster": null }))
            .unwrap();
        held.join().unwrap()
    });

    // Any of them may have become the standby leader, and so the leader.
    let leader = stage.settle();
    assert_eq!(written, stage.written_at(leader));
    assert_eq!(stage.epoch(), epoch + 1);
    let said = stage.proxy_log().matches("standby cluster").count();
    assert_eq!(said, 1, "{}", stage.proxy_log());
}
