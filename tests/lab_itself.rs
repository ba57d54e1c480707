//! The lab, tried before anything else is tried on it.

#[path = "lab/mod.rs"]
mod lab;

use std::time::Instant;

use lab::{Lab, NODES, observer::Observer};

#[test]
fn a_cluster_comes_up_changes_its_leader_twice_and_leaves_nothing_behind() {
    if lab::require("lab").is_none() {
        return;
    }
    let began = Instant::now();
    let lab = Lab::builder().fast().up().unwrap();
    eprintln!(
        "up after {:?} in {}",
        began.elapsed(),
        lab.folder().display()
    );
    let folder = lab.folder().to_path_buf();
    let first = lab.wait_healthy().unwrap();
    assert_eq!(first, NODES[0]);
    assert_eq!(lab.sql(first, "SELECT pg_is_in_recovery()").unwrap(), "f");
    let observer = Observer::of(&lab);

    let asked = Instant::now();
    lab.switchover(NODES[1]).unwrap();
    assert_eq!(lab.leader(), Some(NODES[1]));
    let writable = observer.first_writable(asked, Some(first)).unwrap();
    eprintln!("switchover: writable after {:?}", writable.heard - asked);
    lab.wait_healthy().unwrap();

    let killed = Instant::now();
    lab.kill(NODES[1]);
    assert!(lab.dcs_expire().unwrap());
    let heir = lab::poll(
        std::time::Duration::from_secs(20),
        std::time::Duration::from_millis(20),
        || observer.first_writable(killed, Some(NODES[1])),
    )
    .unwrap();
    eprintln!(
        "kill: {} writable after {:?}",
        heir.node,
        heir.heard - killed
    );
    lab.start(NODES[1]).unwrap();
    assert_eq!(lab.wait_healthy().unwrap(), heir.node);
    eprintln!("healthy again after {:?}", killed.elapsed());

    drop(observer);
    lab.down();
    assert!(!folder.exists());
    assert!(lab::process::in_folder(&folder).is_empty());
}
