//! The leader moves: by plan, by a clean stop, by the death of its machine.

use std::{
    net::TcpStream,
    process::{Child, Command, Stdio},
    time::Duration,
};

use super::{
    change::GRACE,
    guests::{End, Guests},
    stage::{SOON, Stage},
};
use crate::lab::Lab;

#[test]
fn a_move_of_the_leader_turns_nobody_away_and_leaves_nobody_behind() {
    let up = || Lab::builder().fast().tls().up();
    let Some(stage) = Stage::set("moves", up, "") else {
        return;
    };
    a_switchover_ends_every_old_session_in_words(&stage);
    a_clean_stop_holds_clients_of_every_sslmode(&stage);
    a_dead_machine_loses_no_synchronous_row(&stage);
    // Nobody has spoken on an older timeline, only some were never heard again.
    let log = stage.proxy_log();
    assert!(!log.contains("older timeline"), "{log}");
}

fn a_switchover_ends_every_old_session_in_words(stage: &Stage) {
    let guests = Guests::arrive(stage.proxy.listens, 100, 10, Duration::from_secs(600));

    let change = stage.change("switchover", |lab, old| {
        let to = lab.replicas()[0];
        assert_ne!(to, old);
        lab.switchover(to).unwrap();
    });

    let ends = guests.all_gone(SOON);
    let bound = change.demoted.unwrap() + GRACE;
    let late: Vec<&End> = ends.iter().filter(|end| end.at > bound).collect();
    assert!(late.is_empty(), "too late: {late:?}");
    let wordless: Vec<&End> = ends
        .iter()
        .filter(|end| !end.words.starts_with("FATAL 57P01"))
        .collect();
    assert!(wordless.is_empty(), "without the words: {wordless:?}");
}

fn a_clean_stop_holds_clients_of_every_sslmode(stage: &Stage) {
    let mut people = Vec::new();

    let change = stage.change("clean stop", |lab, old| {
        lab.begin_stop(old).unwrap();
        // From here to the next leader everybody is held. Before, PostgreSQL may say that it is shutting down, and
        // in TLS nobody can hear it.
        stage.wait("end of the leader's PostgreSQL", || {
            TcpStream::connect(lab.postgres_at(old)).err()
        });
        for mode in ["disable", "prefer", "require"] {
            people.push((mode, psql(stage, mode)));
        }
        lab.wait_stopped(old).unwrap();
    });

    for (mode, child) in people {
        let done = child.wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&done.stdout);
        let words = String::from_utf8_lossy(&done.stderr);
        assert!(done.status.success(), "sslmode={mode}: {words}");
        let server = stage.lab.ip(change.new).to_string();
        assert_eq!(said.trim(), server, "sslmode={mode}");
    }
}

fn a_dead_machine_loses_no_synchronous_row(stage: &Stage) {
    let change = stage.in_synchronous_mode(|| {
        stage.change("kill -9", |lab, old| {
            lab.kill(old);
            // As at the end of its ttl, only sooner.
            assert!(lab.dcs_expire().unwrap());
        })
    });
    assert_ne!(change.new, change.old);
}

/// Asks who serves it, in the way of a person at a terminal.
fn psql(stage: &Stage, sslmode: &str) -> Child {
    let at = stage.proxy.listens;
    let wish = format!(
        "host={} port={} user=app dbname=app sslmode={sslmode} connect_timeout=50",
        at.ip(),
        at.port()
    );
    Command::new(stage.lab.programs().postgres("psql"))
        .args(["-XAtq", &wish, "-c", "SELECT host(inet_server_addr())"])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}
