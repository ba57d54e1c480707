//! What an operator asks first, of a real cluster: `doctor` and `status --why`.

use std::{
    fs,
    path::Path,
    process::{Command, Output},
    time::Duration,
};

use serde_json::json;

use super::stage::{SOON, Stage, patroni_log};
use crate::lab::{Lab, NODES, Node, poll};

/// A listening address of no interface, for a file that is only looked at.
const NOWHERE: &str = "192.0.2.1:5432";
/// What PostgreSQL writes of somebody who connects without logging in.
const NOTICED: &[&str] = &[
    "could not accept SSL connection",
    "incomplete startup packet",
    "unsupported frontend protocol",
    "invalid length of startup packet",
];

#[test]
fn the_doctor_finds_nothing_in_health_and_each_fault_when_it_is_there() {
    let Some(stage) = Stage::set("doctor", || Lab::builder().fast().up(), "") else {
        return;
    };
    why_is_told_in_the_words_of_the_nodes(&stage);
    health_is_called_health_and_nobody_notices_the_doctor(&stage);
    a_ttl_that_outlasts_the_hold(&stage);
    too_few_connections_at_postgresql(&stage);
    an_address_that_is_not_there(&stage);
    a_node_that_accepts_and_never_answers(&stage);
}

fn run(verb: &str, arguments: &[&str]) -> (String, Option<i32>) {
    let out: Output = Command::new(env!("CARGO_BIN_EXE_helios-proxy"))
        .arg(verb)
        .args(arguments)
        .output()
        .unwrap();
    let said = String::from_utf8(out.stdout).unwrap();
    eprintln!("{verb} {arguments:?}: {:?}\n{said}", out.status.code());
    (said, out.status.code())
}

fn doctor(file: &Path) -> (String, Option<i32>) {
    run("doctor", &["--config", file.to_str().unwrap()])
}

fn last(page: &str) -> &str {
    page.lines().last().unwrap_or_default()
}

/// Doctor until it says this: what Patroni tells of itself follows a change a moment later.
#[track_caller]
pub(super) fn assert_says(file: &Path, line: &str, first: &str, code: i32) {
    let found = poll(SOON, Duration::from_millis(300), || {
        let (page, ended) = doctor(file);
        let there = page.lines().any(|said| said.starts_with(line));
        (there && last(&page).contains(first) && ended == Some(code)).then_some(())
    });
    assert!(found.is_some(), "{line} … {first}");
}

fn why_is_told_in_the_words_of_the_nodes(stage: &Stage) {
    let admin = stage.proxy.admin.to_string();
    let leader = stage.settle();
    let to = stage.lab.replicas()[0];
    stage.lab.switchover(to).unwrap();
    stage.settle();

    let told = poll(SOON, Duration::from_millis(100), || {
        let (page, code) = run("status", &["--admin", &admin, "--why"]);
        let node = |node: Node, words: &[&str]| {
            let start = format!("{node}  ");
            let why = page.split("What each node last proved\n").nth(1)?;
            let line = why.lines().find(|line| line.starts_with(&start))?;
            words.iter().all(|w| line.contains(w)).then_some(())
        };
        node(to, &["200 running primary 2, ", " ago: leads"])?;
        node(leader, &["503 running replica", " ago: follows"])?;
        let goes = format!(
            "primary  goes to the leader {to} ({})",
            stage.lab.postgres_at(to)
        );
        let was = format!("{to}      {leader}   2 ");
        (code == Some(0) && page.contains(&goes) && page.contains(&was)).then_some(())
    });
    assert!(told.is_some());
}

fn health_is_called_health_and_nobody_notices_the_doctor(stage: &Stage) {
    let before = NODES.map(|node| stage.log_of(&patroni_log(node)).len());

    // A node that took a second on a busy machine is called slow.
    let page = stage.wait("clean bill of health", || {
        let (page, code) = doctor(&stage.proxy.file);
        (code == Some(0) && last(&page).starts_with("nothing is wrong")).then_some(page)
    });

    assert!(page.contains("room at PostgreSQL: max_connections 300, 297 for clients"));
    for node in NODES {
        for part in [
            format!("ok       {node} REST {}: ", stage.lab.rest_at(node)),
            format!(
                "ok       {node} PostgreSQL {}: answers in ",
                stage.lab.postgres_at(node)
            ),
        ] {
            assert!(page.contains(&part), "{part} in\n{page}");
        }
    }
    for (node, from) in NODES.into_iter().zip(before) {
        let log = stage.log_of(&patroni_log(node));
        let noticed = NOTICED.iter().find(|words| log[from..].contains(**words));
        assert_eq!(noticed, None, "{node}");
    }
}

fn a_ttl_that_outlasts_the_hold(stage: &Stage) {
    stage.lab.patch_config(&json!({ "ttl": 120 })).unwrap();
    let first = "write_timeout_secs = 126";
    assert_says(&stage.proxy.file, "wrong    hold: ttl 120 s", first, 1);
    stage.lab.patch_config(&json!({ "ttl": 20 })).unwrap();
    assert_says(
        &stage.proxy.file,
        "ok       hold: ttl 20 s",
        "nothing is wrong",
        0,
    );
}

/// Patroni asks for a restart before it is so, and says it at once.
fn too_few_connections_at_postgresql(stage: &Stage) {
    let set = |most: u16| {
        let parameters = json!({ "postgresql": { "parameters": { "max_connections": most } } });
        stage.lab.patch_config(&parameters).unwrap();
    };
    set(25);
    // 22 for clients, and twenty of them may be dials of one waking crowd.
    let line = "warning  room at PostgreSQL: max_connections 25";
    assert_says(&stage.proxy.file, line, "nothing is wrong", 0);
    let narrow = stage.lab.folder().join("proxy/narrow.toml");
    let text = fs::read_to_string(&stage.proxy.file).unwrap();
    fs::write(&narrow, format!("dial_concurrency = 22\n{text}")).unwrap();
    let line = "wrong    room at PostgreSQL: max_connections 25";
    assert_says(&narrow, line, "raise PostgreSQL's max_connections", 1);
    set(300);
    let line = "ok       room at PostgreSQL: max_connections 300";
    assert_says(&stage.proxy.file, line, "nothing is wrong", 0);
}

fn an_address_that_is_not_there(stage: &Stage) {
    let elsewhere = stage.lab.folder().join("proxy/elsewhere.toml");
    let text = fs::read_to_string(&stage.proxy.file).unwrap();
    let text = text.replace(&stage.proxy.listens.to_string(), NOWHERE);
    fs::write(&elsewhere, text).unwrap();

    let line = "warning  listener 192.0.2.1:5432: no interface carries";
    assert_says(&elsewhere, line, "nothing is wrong", 0);
}

fn a_node_that_accepts_and_never_answers(stage: &Stage) {
    let replica = stage.lab.replicas()[0];
    let quick = stage.lab.folder().join("proxy/quick.toml");
    let text = fs::read_to_string(&stage.proxy.file).unwrap();
    let text = format!("connect_timeout_ms = 1000\n{text}\n[health]\ncheck_timeout_ms = 1500\n");
    fs::write(&quick, text).unwrap();

    stage.lab.pause(replica);
    let at = stage.lab.rest_at(replica);
    let line = format!("wrong    {replica} REST {at}: did not answer within 1.5s");
    let first = format!("do first: {replica} REST {at}: let this host through");
    assert_says(&quick, &line, &first, 1);
    stage.lab.resume(replica);
    stage.settle();
    assert_says(&quick, "ok       leader: ", "nothing is wrong", 0);
}
