//! Patroni or PostgreSQL dies alone and is put right in place: nothing has moved.

use std::{
    thread,
    time::{Duration, Instant},
};

use super::{guests::Guests, stage::Stage};
use crate::lab::{Lab, observer::Observer, poll, proxy::Proxy};

/// Polled as fast as the brake allows, so that no passing word of a node is missed, and so that Patroni's logs show
/// what thousands of questions do to them.
const EAGER: &str = "[health]\ncheck_interval_ms = 20\nactive_interval_ms = 20\n";

const QUESTIONS: f64 = 2000.0;

#[test]
fn what_is_repaired_in_place_changes_no_epoch_and_thousands_of_questions_leave_no_traceback() {
    let Some(mut stage) = Stage::set("repairs", || Lab::builder().fast().up(), "") else {
        return;
    };
    a_crash_of_postgresql_is_ridden_out_on_the_same_leader(&stage);

    stage.proxy = Proxy::start(&stage.lab, EAGER).unwrap();
    thousands_of_questions_leave_nothing_in_the_logs(&stage);
    patroni_killed_and_back_within_seconds_disturbs_nobody(&stage, "Patroni killed");
    a_crash_of_postgresql_is_ridden_out_on_the_same_leader(&stage);
    stage.assert_no_answer_failed();
}

/// Of a healthy cluster: a PostgreSQL that dies makes Patroni write tracebacks of its own.
fn thousands_of_questions_leave_nothing_in_the_logs(stage: &Stage) {
    let asked = || stage.proxy.metric("checks_total").unwrap();
    let logs = stage.log_lengths();
    let (began, before) = (Instant::now(), asked());
    // The brake makes a busy machine ask less.
    poll(Duration::from_secs(30), Duration::from_millis(500), || {
        (asked() - before >= QUESTIONS).then_some(())
    });
    let questions = asked() - before;
    eprintln!("{questions} questions in {:?}", began.elapsed());
    assert!(questions >= QUESTIONS / 4.0, "only {questions} questions");
    stage.assert_logs_without(&["Traceback", "BrokenPipe", "ConnectionReset"], logs);
}

/// As when systemd restarts it. Also in maintenance.
pub fn patroni_killed_and_back_within_seconds_disturbs_nobody(stage: &Stage, what: &str) {
    let leader = stage.settle();
    let (epoch, revoked) = (stage.epoch(), stage.revoked());
    let guests = Guests::arrive(stage.proxy.listens, 10, 3, Duration::from_secs(6));
    let observer = Observer::of(&stage.lab);
    let writers = stage.writers();

    let killed = Instant::now();
    stage.lab.kill_only_patroni(leader);
    thread::sleep(Duration::from_secs(2));
    stage.lab.start(leader).unwrap();
    stage.wait("leader's own word again", || {
        observer.writable_again(killed, leader)
    });
    thread::sleep(Duration::from_secs(1));
    let attempts = writers.stop();

    guests.assert_undisturbed(what);
    stage.assert_undisturbed(what, &attempts);
    assert_eq!(stage.settle(), leader, "{what}");
    assert_eq!(stage.epoch(), epoch, "{what}");
    assert_eq!(stage.revoked(), revoked, "{what}: ended by the proxy");
}

fn a_crash_of_postgresql_is_ridden_out_on_the_same_leader(stage: &Stage) {
    let what = "PostgreSQL killed";
    let leader = stage.settle();
    let (epoch, revoked) = (stage.epoch(), stage.revoked());
    let observer = Observer::of(&stage.lab);
    let writers = stage.writers();

    let killed = Instant::now();
    stage.lab.kill_only_postgres(leader);
    stage.wait("repaired PostgreSQL", || {
        observer.writable_again(killed, leader)
    });
    thread::sleep(Duration::from_secs(1));
    let attempts = writers.stop();

    stage.assert_all_served(what, &attempts);
    assert_eq!(stage.settle(), leader, "{what}");
    assert_eq!(stage.epoch(), epoch, "{what}");
    assert_eq!(stage.revoked(), revoked, "{what}: ended by the proxy");
}
