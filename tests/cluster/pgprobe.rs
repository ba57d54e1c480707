//! Providers `postgres` and `static`: who leads is not asked of Patroni, in moves of its real cluster.

use std::{fs, thread, time::Duration};

use serde_json::Value;

use super::stage::{SOON, Stage};
use crate::lab::{Lab, NODES, Node, http, poll, proxy::Proxy};

const BY_POSTGRES: &str = "[topology]\nprovider = \"postgres\"\nuser = \"probe\"\ndatabase = \"app\"\n\
                           poll_interval_secs = 0.5\ntls_mode = \"disable\"";
const BY_FILE: &str = "[health]\ncheck_interval_ms = 500\n[topology]\nprovider = \"static\"\nuser = \"probe\"\n\
                       database = \"app\"\nlease_timeout_secs = 3";

#[test]
fn the_nodes_own_postgresql_says_who_leads() {
    let up = || {
        let lab = Lab::builder().fast().up()?;
        // Without any privilege.
        lab.sql(NODES[0], "CREATE ROLE probe LOGIN")?;
        Ok(lab)
    };
    let Some(mut stage) = Stage::set("probes", up, BY_POSTGRES) else {
        return;
    };
    let change = stage.change("switchover by probes", |lab, _old| {
        lab.switchover(lab.replicas()[0]).unwrap();
    });
    assert_ne!(change.new, change.old);
    stage.in_synchronous_mode(|| an_old_primary_that_comes_back_by_hand_is_stale(&stage));
    a_frozen_server_keeps_no_probe(&stage);
    a_declared_primary_is_waited_for(&mut stage);
    a_changed_role_and_a_reload_follow_a_switchover(&stage);
    stage.in_synchronous_mode(|| {
        a_changed_role_and_a_reload_end_the_wait_for_a_dead_primary(&stage);
    });
}

/// Gives who leads then, by PostgreSQL's own word.
fn dies_with_its_machine(stage: &Stage, old: Node) -> Node {
    let lab = &stage.lab;
    lab.kill(old);
    assert!(lab.dcs_expire().unwrap());
    stage.wait("new leader", || {
        let leader = lab.leader().filter(|leader| *leader != old)?;
        (in_recovery(lab, leader)? == "f").then_some(leader)
    })
}

/// The leader dies with its machine; then its PostgreSQL is started without Patroni, writable, on its old timeline.
fn an_old_primary_that_comes_back_by_hand_is_stale(stage: &Stage) {
    let (lab, old) = (&stage.lab, stage.settle());
    let (epoch, timeline) = (stage.epoch(), timeline(stage, old));
    let writers = stage.writers();
    let new = dies_with_its_machine(stage, old);
    stage.proxy.wait_for_leader(lab, new).unwrap();

    lab.start_only_postgres(old).unwrap();
    let writable = || (in_recovery(lab, old)? == "f").then_some(());
    let up = poll(SOON, Duration::from_millis(100), writable);
    assert!(
        up.is_some(),
        "{}",
        stage.log_of(&format!("{old}/by-hand.log"))
    );
    stage.wait("word of the old primary", || {
        let node = told(stage, old);
        (node["role"] == "primary" && node["timeline"] == timeline).then_some(())
    });
    stage.wait("stale leader counted", || {
        (stage.proxy.metric("stale_leader_total")? > 0.0).then_some(())
    });
    for _ in 0..40 {
        assert_eq!(stage.write_one(), stage.written_at(new));
        thread::sleep(Duration::from_millis(50));
    }
    assert_eq!(stage.epoch(), epoch + 1);
    assert_eq!(stage.backends_at(old), Some(0));
    assert!(
        stage.proxy_log().contains("older timeline"),
        "{}",
        stage.proxy_log()
    );

    lab.kill(old);
    lab.start(old).unwrap();
    let attempts = writers.stop();
    stage.assert_all_served("kill, and the old primary by hand", &attempts);
}

/// Each question that a frozen server did not answer has left it, once it goes on.
fn a_frozen_server_keeps_no_probe(stage: &Stage) {
    let leader = stage.settle();
    let follower = NODES.into_iter().find(|node| *node != leader).unwrap();
    stage.lab.pause(follower);
    stage.wait("silence", || {
        (told(stage, follower)["failure_count"].as_u64()? >= 2).then_some(())
    });
    assert_eq!(stage.write_one(), stage.written_at(leader));
    stage.lab.resume(follower);

    stage.settle();
    for node in NODES {
        let ours =
            "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'helios-topology'";
        let one = || (stage.lab.sql(node, ours).ok()? == "1").then_some(());
        let found = poll(SOON, Duration::from_millis(100), one);
        assert!(found.is_some(), "{node}: {:?}", stage.lab.sql(node, ours));
    }
}

/// Nobody stands in for it, and nobody is turned away.
fn a_declared_primary_is_waited_for(stage: &mut Stage) {
    let primary = NODES[0];
    if stage.settle() != primary {
        stage.lab.switchover(primary).unwrap();
    }
    stage.proxy = Proxy::start(&stage.lab, BY_FILE).unwrap();
    assert_eq!(stage.settle(), primary);
    let topology = stage.proxy.topology().unwrap();
    assert_eq!(topology.get("authoritative"), None, "{topology}");
    let writers = stage.writers();

    // Nobody repairs it before it was missed.
    stage.lab.pause_only_patroni(primary);
    stage.lab.kill_only_postgres(primary);
    stage.wait("silence", || {
        (told(stage, primary)["failure_count"].as_u64()? >= 1).then_some(())
    });
    stage.lab.resume(primary);
    stage.proxy.wait_for_leader(&stage.lab, primary).unwrap();
    stage.wait("row", || {
        (stage.write_one() == stage.written_at(primary)).then_some(())
    });

    let attempts = writers.stop();
    stage.assert_all_served("declared primary killed", &attempts);
}

fn a_changed_role_and_a_reload_follow_a_switchover(stage: &Stage) {
    let (old, epoch) = (stage.settle(), stage.proxy.metric("epoch").unwrap());
    let new = stage.lab.replicas()[0];
    stage.lab.switchover(new).unwrap();
    assert_eq!(stage.lab.wait_healthy().unwrap(), new);

    declare(stage, new);
    assert_eq!(stage.write_one(), stage.written_at(new));
    assert_eq!(stage.backends_at(old), Some(0));
    assert_eq!(stage.proxy.metric("epoch"), Some(epoch + 1.0));
}

/// Nobody is turned away: they wait for the operator.
fn a_changed_role_and_a_reload_end_the_wait_for_a_dead_primary(stage: &Stage) {
    let (lab, old) = (&stage.lab, stage.settle());
    let writers = stage.writers();
    let new = dies_with_its_machine(stage, old);
    stage.wait("end of the lease", || {
        stage.proxy.topology()?["currentPrimary"]
            .is_null()
            .then_some(())
    });

    declare(stage, new);
    assert_eq!(stage.write_one(), stage.written_at(new));
    lab.start(old).unwrap();
    let attempts = writers.stop();
    stage.assert_all_served("kill, and another declared primary", &attempts);
}

/// Writes into the proxy's file who is the primary, and reloads it.
fn declare(stage: &Stage, primary: Node) {
    let text = fs::read_to_string(&stage.proxy.file).unwrap();
    let row = |role| format!("host = \"{}\"\nrole = \"{role}\"", stage.lab.ip(primary));
    let text = text
        .replace("role = \"primary\"", "role = \"standby\"")
        .replace(&row("standby"), &row("primary"));
    fs::write(&stage.proxy.file, text).unwrap();
    stage.proxy.reload();
    stage.proxy.wait_for_leader(&stage.lab, primary).unwrap();
}

fn in_recovery(lab: &Lab, node: Node) -> Option<String> {
    lab.sql(node, "SELECT pg_is_in_recovery()").ok()
}

/// What the proxy says of a node.
fn told(stage: &Stage, node: Node) -> Value {
    let path = format!("/nodes/{node}");
    http::get(stage.proxy.admin, &path, Duration::from_secs(2))
        .unwrap()
        .json()
}

fn timeline(stage: &Stage, leader: Node) -> Value {
    let said = told(stage, leader)["timeline"].clone();
    assert!(said.is_u64(), "{said}");
    said
}
