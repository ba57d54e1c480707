//! Patroni or PostgreSQL dies alone and is put right in place: nothing has moved.

use std::{thread, time::Duration};

use super::{
    guests::Guests,
    manners::{EAGER, LEFT_EARLY, Overheard, thousands_of_questions_leave_nothing_in_the_logs},
    stage::Stage,
};
use crate::lab::{Lab, Node, proxy::Proxy};

#[test]
fn what_is_repaired_in_place_changes_no_epoch_and_thousands_of_questions_leave_no_traceback() {
    let Some(mut stage) = Stage::set("repairs", || Lab::builder().fast().up(), "") else {
        return;
    };
    a_crash_of_postgresql_is_ridden_out_on_the_same_leader(&stage);

    stage.proxy = Proxy::start(&stage.lab, EAGER).unwrap();
    // They stay to the end: one that is told to go may leave in the middle of a question.
    let others = [(); 2].map(|()| Proxy::start(&stage.lab, EAGER).unwrap());
    let logs = Overheard::begin(&stage.lab);
    thousands_of_questions_leave_nothing_in_the_logs(&stage, &others, &logs);
    patroni_killed_and_back_within_seconds_disturbs_nobody(&stage, "Patroni killed");
    a_crash_of_postgresql_is_ridden_out_on_the_same_leader(&stage);
    logs.assert_without(LEFT_EARLY);
    logs.assert_that_leaving_early_is_seen();
}

/// As when systemd restarts it. Also in maintenance.
pub fn patroni_killed_and_back_within_seconds_disturbs_nobody(stage: &Stage, what: &str) {
    let leader = stage.settle();
    let (epoch, revoked) = (stage.epoch(), stage.revoked());
    let guests = Guests::arrive(stage.proxy.listens, 10, 3, Duration::from_secs(6));
    let writers = stage.writers();

    stage.lab.kill_only_patroni(leader);
    thread::sleep(Duration::from_secs(2));
    stage.lab.start(leader).unwrap();
    wait_for_its_own_word(stage, leader);
    thread::sleep(Duration::from_secs(1));
    let attempts = writers.stop();

    guests.assert_undisturbed(what);
    stage.assert_undisturbed(what, &attempts);
    assert_eq!(stage.settle(), leader, "{what}");
    assert_eq!(stage.epoch(), epoch, "{what}");
    assert_eq!(stage.revoked(), revoked, "{what}: ended by the proxy");
}

/// Asked calmly: a Patroni that is left before it has answered says so in its log.
fn wait_for_its_own_word(stage: &Stage, leader: Node) {
    stage.wait("leader's own word again", || {
        stage.lab.says_yes(leader, "/primary").then_some(())
    });
}

fn a_crash_of_postgresql_is_ridden_out_on_the_same_leader(stage: &Stage) {
    let what = "PostgreSQL killed";
    let leader = stage.settle();
    let (epoch, revoked) = (stage.epoch(), stage.revoked());
    let writers = stage.writers();

    let started = || stage.lab.sql(leader, "SELECT pg_postmaster_start_time()");
    let before = started().unwrap();
    stage.lab.kill_only_postgres(leader);
    stage.wait("repaired PostgreSQL", || {
        started().is_ok_and(|at| at != before).then_some(())
    });
    wait_for_its_own_word(stage, leader);
    thread::sleep(Duration::from_secs(1));
    let attempts = writers.stop();

    stage.assert_all_served(what, &attempts);
    assert_eq!(stage.settle(), leader, "{what}");
    assert_eq!(stage.epoch(), epoch, "{what}");
    assert_eq!(stage.revoked(), revoked, "{what}: ended by the proxy");
}
