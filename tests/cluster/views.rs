//! The provider `patroni`: the cluster's own view names the leader, also while one member shows an old one for ever.

use std::{
    fs,
    io::{Read, Write},
    net::{SocketAddr, TcpListener},
    thread,
    time::{Duration, Instant},
};

use nix::{sys::signal::Signal, unistd::Pid};
use serde_json::json;

use super::{
    guests::Guests,
    stage::{SOON, Stage},
};
use crate::lab::{self, Lab, Net, Node, process, proxy::Proxy};

const PATRONI: &str = "[topology]\nprovider = \"patroni\"\npoll_interval_secs = 1\n";

#[test]
fn the_clusters_view_names_the_leader_through_moves_deaths_and_new_members() {
    let more = format!("{PATRONI}discover = true\n");
    let Some(stage) = Stage::set("views", || Lab::builder().fast().up(), &more) else {
        return;
    };
    assert_eq!(
        stage.proxy.topology().unwrap()["authoritative"]["confirmed"],
        true
    );
    stage.change("switchover by the view", |lab, _| {
        lab.switchover(lab.replicas()[0]).unwrap();
    });
    stage.in_synchronous_mode(|| {
        stage.change("kill -9 by the view", |lab, old| {
            lab.kill(old);
            assert!(lab.dcs_expire().unwrap());
        })
    });
    a_member_that_the_file_does_not_name_is_used(&stage);
}

#[test]
fn a_member_that_is_cut_off_from_the_dcs_never_wins() {
    if !lab::require_root("cut off from the DCS") {
        return;
    }
    let up = || Lab::builder().net(Net::Netns).fast().up();
    let Some(mut stage) = Stage::set("old view", up, PATRONI) else {
        return;
    };
    // Patroni shows an old view as long as its cache of the DCS lives, and then closes; this one never forgets.
    let shown = stage.lab.rest(stage.settle(), "GET", "/cluster", None);
    let frozen = show_for_ever(&stage.lab, shown.unwrap().body);
    let (old, new) = an_old_primary_goes_on_beside_the_new_one(&stage);
    let [a, b, c] = [frozen, stage.lab.rest_at(old), stage.lab.rest_at(new)];
    for order in [
        [a, b, c],
        [a, c, b],
        [b, a, c],
        [b, c, a],
        [c, a, b],
        [c, b, a],
    ] {
        // A new proxy knows nothing of what was before.
        let urls = order.map(|at| format!("\"http://{at}\""));
        let more = format!("{PATRONI}patroni_endpoints = [{}]\n", urls.join(", "));
        stage.proxy = Proxy::start(&stage.lab, &more).unwrap();
        stage.proxy.wait_for_leader(&stage.lab, new).unwrap();
        nobody_lands_on(&stage, old, new, &format!("{order:?}"));
    }
    stage.lab.cut_from_dcs(old, false).unwrap();
    stage.lab.maintenance(false).unwrap();

    assert_eq!(stage.settle(), new, "the old one follows");
}

/// The file loses a node, which the views go on to list.
fn a_member_that_the_file_does_not_name_is_used(stage: &Stage) {
    let third = stage.lab.replicas()[1];
    let text = fs::read_to_string(&stage.proxy.file).unwrap();
    let table = format!(
        "\n[[nodes]]\nname = \"{third}\"\nhost = \"{}\"\n",
        stage.lab.ip(third)
    );
    assert!(text.contains(&table));
    fs::write(&stage.proxy.file, text.replace(&table, "")).unwrap();
    process::signal(
        &[Pid::from_raw(stage.proxy.pid().cast_signed())],
        Signal::SIGHUP,
    );
    stage.wait("discovery", || {
        let words = format!("the discovered node is used node=\"{third}\"");
        stage.proxy_log().contains(&words).then_some(())
    });

    stage.change("switchover to a discovered member", |lab, _| {
        lab.switchover(third).unwrap();
    });
}

/// In pause mode a primary without a DCS goes on as if nothing were, and another one is promoted.
fn an_old_primary_goes_on_beside_the_new_one(stage: &Stage) -> (Node, Node) {
    let what = "two primaries";
    let old = stage.settle();
    let new = stage.lab.replicas()[0];
    let epoch = stage.epoch();
    stage.lab.maintenance(true).unwrap();
    let guests = Guests::arrive(stage.proxy.listens, 10, 0, Duration::ZERO);
    stage.lab.cut_from_dcs(old, true).unwrap();
    for _ in 0..25 {
        assert_eq!(
            stage.write_one(),
            stage.written_at(old),
            "{what}: nothing has moved"
        );
        thread::sleep(Duration::from_millis(200));
    }

    stage.wait("end of the lock", || {
        stage.lab.dcs_expire().unwrap();
        stage.lab.leader().is_none().then_some(())
    });
    let wish = json!({ "candidate": new.to_string() });
    let done = stage
        .lab
        .rest(new, "POST", "/failover", Some(&wish))
        .unwrap();
    assert_eq!(done.status, 200, "{what}: {}", done.body);
    stage.proxy.wait_for_leader(&stage.lab, new).unwrap();

    for end in guests.all_gone(SOON) {
        assert!(end.words.starts_with("FATAL 57P01"), "{what}: {end:?}");
    }
    assert_eq!(stage.epoch(), epoch + 1, "{what}");
    nobody_lands_on(stage, old, new, what);
    (old, new)
}

/// An endpoint that shows this view to whoever asks.
fn show_for_ever(lab: &Lab, view: String) -> SocketAddr {
    let listener = TcpListener::bind(SocketAddr::new(lab.client_ip(), 0)).unwrap();
    let at = listener.local_addr().unwrap();
    thread::spawn(move || {
        for stream in listener.incoming().take(10_000) {
            let answer = format!("HTTP/1.0 200 OK\r\nContent-Type: application/json\r\n\r\n{view}");
            // Whoever goes away before has asked enough.
            let _ = stream.and_then(|mut stream| {
                stream.set_read_timeout(Some(Duration::from_secs(1)))?;
                let _ = stream.read(&mut [0; 4096])?;
                stream.write_all(answer.as_bytes())
            });
        }
    });
    at
}

/// The old primary is alive and says that it leads, and every session is on the new one.
fn nobody_lands_on(stage: &Stage, old: Node, new: Node, what: &str) {
    let said = stage.lab.rest(old, "GET", "/primary", None).unwrap();
    assert_eq!(said.status, 200, "{what}: {}", said.body);
    let view = stage.lab.rest(old, "GET", "/cluster", None);
    eprintln!("{what}: {old} shows {view:?}");
    let epoch = stage.epoch();
    let since = Instant::now();
    while since.elapsed() < Duration::from_secs(3) {
        assert_eq!(stage.write_one(), stage.written_at(new), "{what}");
        assert_eq!(stage.backends_at(old), Some(0), "{what}");
        thread::sleep(Duration::from_millis(100));
    }
    assert_eq!(stage.epoch(), epoch, "{what}");
}
