//! The cluster behind the addresses is not the one it was: begun anew under the same name, or another one.

use std::{
    thread,
    time::{Duration, Instant},
};

use super::{
    guests::Guests,
    stage::{SOON, Stage},
};
use crate::lab::{
    Lab, Node,
    client::{self, Outcome},
    http,
};

#[test]
fn a_cluster_begun_anew_is_followed_by_itself_and_another_one_never() {
    let up = || Lab::builder().fast().up();
    let Some(stage) = Stage::set("reinit", up, "admin_allow_insecure = true\n") else {
        return;
    };
    another_cluster_at_a_known_address_is_never_followed(&stage);
    begun_anew_it_is_followed_once_nobody_shows_the_old_one_for_30_s(&stage);
    begun_anew_it_is_followed_at_once_after_an_unpin(&stage);
}

fn another_cluster_at_a_known_address_is_never_followed(stage: &Stage) {
    let what = "another cluster";
    let leader = stage.settle();
    let defector = stage.lab.replicas()[1];
    let (epoch, revoked) = (stage.epoch(), stage.revoked());
    let guests = Guests::arrive(stage.proxy.listens, 5, 1, Duration::from_secs(50));
    let writers = stage.writers();

    stage.lab.defect(defector, true).unwrap();
    stage.wait("leader of another cluster", || leads(stage, defector));
    // Longer than a learnt identifier needs to give way.
    thread::sleep(Duration::from_secs(35));
    assert!(leads(stage, defector).is_some());
    assert!(stage.proxy.metric("wrong_cluster_total") > Some(5.0));
    assert_eq!(stage.sessions_at(defector), 0.0);
    let attempts = writers.stop();
    stage.lab.defect(defector, false).unwrap();

    guests.assert_undisturbed(what);
    stage.assert_undisturbed(what, &attempts);
    assert_eq!(stage.settle(), leader, "{what}");
    assert_eq!((stage.epoch(), stage.revoked()), (epoch, revoked), "{what}");
    let log = stage.proxy_log();
    let said = log.matches("with another system identifier").count();
    assert_eq!(said, 1, "{what}: {log}");
}

/// As after a `pg_upgrade`, or a bootstrap from nothing.
fn begun_anew_it_is_followed_once_nobody_shows_the_old_one_for_30_s(stage: &Stage) {
    let what = "begun anew";
    stage.settle();
    let epoch = stage.epoch();
    let guests = Guests::arrive(stage.proxy.listens, 5, 0, Duration::ZERO);

    let began = Instant::now();
    let leader = begin_anew(stage);
    let leading = Instant::now();
    assert_eq!(guests.all_gone(SOON).len(), 5);
    assert_eq!(
        stage.proxy.topology().unwrap()["currentPrimary"],
        serde_json::Value::Null
    );
    stage.wait("new cluster", || {
        let said = &stage.proxy.topology()?["authoritative"];
        (said["valid"] == true).then_some(())
    });
    eprintln!(
        "{what}: followed {:?} after it was healthy, {:?} after the old one was stopped",
        leading.elapsed(),
        began.elapsed()
    );

    assert!(began.elapsed() > Duration::from_secs(30), "{what}");
    assert_eq!(stage.settle(), leader, "{what}");
    assert_eq!(stage.epoch(), epoch + 1, "{what}");
    assert_eq!(stage.write_one(), stage.written_at(leader), "{what}");
    let log = stage.proxy_log();
    let said = log.matches("upgraded or re-initialised").count();
    assert_eq!(said, 1, "{what}: {log}");
}

fn begun_anew_it_is_followed_at_once_after_an_unpin(stage: &Stage) {
    let what = "unpin";
    let epoch = stage.epoch();
    let leader = begin_anew(stage);
    assert_eq!(unpin(stage), 200);

    let unpinned = Instant::now();
    assert_eq!(stage.write_one(), stage.written_at(leader), "{what}");
    eprintln!("{what}: followed {:?} later", unpinned.elapsed());
    assert!(unpinned.elapsed() < Duration::from_secs(5));
    assert_eq!(stage.settle(), leader, "{what}");
    assert_eq!(stage.epoch(), epoch + 1, "{what}");

    // Of a leader that goes on it takes nothing.
    let (revoked, guests) = (
        stage.revoked(),
        Guests::arrive(stage.proxy.listens, 5, 1, Duration::from_secs(2)),
    );
    assert_eq!(unpin(stage), 200);
    thread::sleep(Duration::from_secs(2));
    guests.assert_undisturbed(what);
    assert_eq!(
        (stage.epoch(), stage.revoked()),
        (epoch + 1, revoked),
        "{what}"
    );
    assert!(matches!(stage.write_one(), Outcome::Written(_)));
}

/// With the table, and before the proxy can have followed it: its leader.
fn begin_anew(stage: &Stage) -> Node {
    stage.lab.reinitialise().unwrap();
    let leader = stage.lab.wait_healthy().unwrap();
    client::make_table(&stage.lab, leader).unwrap();
    leader
}

fn unpin(stage: &Stage) -> u16 {
    let limit = Duration::from_secs(2);
    http::ask(stage.proxy.admin, "POST", "/topology/unpin", None, limit)
        .unwrap()
        .status
}

fn leads(stage: &Stage, node: Node) -> Option<()> {
    let said = stage.lab.rest(node, "GET", "/primary", None).ok()?;
    (said.status == 200 && said.json()["state"] == "running").then_some(())
}
