//! The lab, tried before anything else is tried on it.

#[path = "lab/mod.rs"]
mod lab;

use std::{
    fs,
    path::Path,
    sync::mpsc,
    thread,
    time::{Duration, Instant},
};

use lab::{Lab, LabError, NODES, Net, client, install, observer::Observer};

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
    let writable = soon(|| observer.first_writable(asked, Some(first))).unwrap();
    eprintln!("switchover: writable after {:?}", writable.heard - asked);
    lab.wait_healthy().unwrap();

    let killed = Instant::now();
    lab.kill(NODES[1]);
    assert!(lab.dcs_expire().unwrap());
    let heir = soon(|| observer.first_writable(killed, Some(NODES[1]))).unwrap();
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

#[test]
fn a_cluster_speaks_ipv6_alone() {
    if lab::require("ipv6").is_none() || !lab::require_root("ipv6") {
        return;
    }
    let lab = Lab::builder()
        .net(Net::Loopback6)
        .fast()
        .tls()
        .up()
        .unwrap();
    let leader = lab.wait_healthy().unwrap();
    assert!(lab.ip(leader).is_ipv6());
    client::make_table(&lab, leader).unwrap();

    let stay = client::write_once(
        client::config_scram(lab.postgres_at(leader)),
        client::new_id(),
        || (),
    );
    let outcome = tokio::runtime::Runtime::new().unwrap().block_on(stay);

    assert_eq!(outcome, client::Outcome::Written(lab.ip(leader)));
    assert_eq!(lab.sql(leader, "SHOW ssl").unwrap(), "on");
}

#[test]
fn a_leader_that_is_cut_off_gives_way_and_comes_back() {
    if lab::require("partition").is_none() || !lab::require_root("partition") {
        return;
    }
    let lab = Lab::builder().net(Net::Netns).fast().up().unwrap();
    let leader = lab.wait_healthy().unwrap();
    let observer = Observer::of(&lab);

    let cut = Instant::now();
    lab.partition(leader).unwrap();
    let heir = soon(|| observer.first_writable(cut, Some(leader))).unwrap();
    assert!(lab.rest(leader, "GET", "/primary", None).is_err());
    lab.heal(leader).unwrap();

    assert_eq!(lab.wait_healthy().unwrap(), heir.node);
}

fn soon<T>(probe: impl FnMut() -> Option<T>) -> Option<T> {
    lab::poll(Duration::from_secs(120), Duration::from_millis(20), probe)
}

#[test]
fn what_is_fetched_may_need_other_things_that_are_fetched() {
    let make = |folder: &Path| fs::create_dir(folder).map_err(LabError::io("cannot make a folder"));
    let (done, told) = mpsc::channel();
    thread::spawn(move || {
        let outer = install::ensure_folder("test-outer", |folder| {
            install::ensure_folder("test-inner", make)?;
            install::ensure_program("sh")?;
            make(folder)
        });
        done.send(outer.map_err(|missing| missing.to_string()))
    });

    let outer = told.recv_timeout(Duration::from_secs(60));
    let outer = outer.expect("it does not wait for itself").unwrap();
    assert!(outer.ends_with("test-outer"));
    for name in ["test-outer", "test-inner"] {
        let _ = fs::remove_dir_all(install::kept().join(name));
    }
}
