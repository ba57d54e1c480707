//! Pause mode without a DCS: Patroni keeps every primary that runs and answers 200 on each, so the timeline decides.

use std::{
    thread,
    time::{Duration, Instant},
};

use super::{
    guests::Guests,
    stage::{SOON, Stage},
};
use crate::lab::{Lab, Node};

#[test]
fn in_pause_without_a_dcs_the_leader_stays_and_of_several_primaries_the_timeline_decides() {
    let Some(stage) = Stage::set("pause", || Lab::builder().fast().up(), "") else {
        return;
    };
    stage.lab.maintenance(true).unwrap();
    stage.wait_for_gauge("paused", 1.0);
    let leader = stage.settle();
    let [second, third] = stage.lab.replicas()[..] else {
        panic!("two replicas");
    };

    without_a_dcs_the_leader_stays(&stage, leader);
    a_second_primary_on_a_higher_timeline_leads(&stage, second);
    a_third_on_the_same_timeline_makes_it_nobody(&stage, second, third);
}

fn without_a_dcs_the_leader_stays(stage: &Stage, leader: Node) {
    let what = "pause without a DCS";
    let (epoch, revoked) = (stage.epoch(), stage.revoked());
    let ttl = Duration::from_secs(stage.lab.timings().ttl.into());
    let guests = Guests::arrive(stage.proxy.listens, 5, 1, ttl);
    let writers = stage.writers();

    let stopped = Instant::now();
    stage.lab.stop_dcs();
    while stopped.elapsed() < ttl + Duration::from_secs(5) {
        assert_eq!(stage.epoch(), epoch, "{what}");
        thread::sleep(Duration::from_millis(500));
    }
    let attempts = writers.stop();

    guests.assert_undisturbed(what);
    let others: Vec<_> = attempts.iter().filter(|a| !a.is_written()).collect();
    assert!(others.is_empty(), "{what}: {others:?}");
    assert_eq!(stage.write_one(), stage.written_at(leader), "{what}");
    assert_eq!((stage.epoch(), stage.revoked()), (epoch, revoked), "{what}");
}

fn a_second_primary_on_a_higher_timeline_leads(stage: &Stage, second: Node) {
    let what = "a second primary";
    let epoch = stage.epoch();
    let guests = Guests::arrive(stage.proxy.listens, 5, 0, Duration::ZERO);

    promote(stage, second);

    stage.proxy.wait_for_leader(&stage.lab, second).unwrap();
    for end in guests.all_gone(SOON) {
        assert!(end.words.starts_with("FATAL 57P01"), "{what}: {end:?}");
    }
    assert_eq!(stage.write_one(), stage.written_at(second), "{what}");
    assert_eq!(stage.epoch(), epoch + 1, "{what}");
    assert!(stage.conflicts() > 0.0, "{what}");
    assert!(stage.proxy_log().contains("conflict"), "{what}");
}

/// A client that comes meanwhile is held until it is one leader again.
fn a_third_on_the_same_timeline_makes_it_nobody(stage: &Stage, second: Node, third: Node) {
    let what = "a third primary";
    let epoch = stage.epoch();
    let guests = Guests::arrive(stage.proxy.listens, 5, 0, Duration::ZERO);

    promote(stage, third);

    stage.wait("conflict in words", || {
        let reason = stage.proxy.topology()?["reason"].clone();
        reason.as_str()?.contains("more than one").then_some(())
    });
    assert_eq!(guests.all_gone(SOON).len(), 5, "{what}");
    let written = thread::scope(|scope| {
        let held = scope.spawn(|| stage.write_one());
        stage.wait_for_gauge("held_clients", 1.0);
        thread::sleep(Duration::from_secs(2));
        assert_eq!(stage.proxy.metric("held_clients"), Some(1.0), "{what}");
        stage.lab.kill(third);
        held.join().unwrap()
    });
    assert_eq!(written, stage.written_at(second), "{what}");
    assert_eq!(stage.epoch(), epoch + 1, "{what}");
}

/// By hand, as Patroni would not: and until its word of that is heard.
fn promote(stage: &Stage, node: Node) {
    stage.lab.sql(node, "SELECT pg_promote()").unwrap();
    stage.wait("word of a promoted node", || {
        let said = stage.lab.rest(node, "GET", "/primary", None).ok()?;
        (said.status == 200 && said.json()["timeline"] == 2).then_some(())
    });
}

impl Stage {
    fn conflicts(&self) -> f64 {
        let name = "topology_conflicting_primaries_total";
        self.proxy.metric(name).unwrap()
    }
}
