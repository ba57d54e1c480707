//! A new binary takes over: by SIGUSR2, by SIGHUP, and what is no use as one changes nothing.

use std::fs;

use nix::sys::signal::Signal;
use tokio::net::TcpStream;
use tokio::process::Command;

use super::daemon::get;
use super::dynasty::{BINARY, Dynasty};
use crate::fakes::binary::is_gone;
use crate::fakes::client::Client;
use crate::fakes::cluster::Cluster;
use crate::fakes::eventually;

fn led() -> Cluster {
    let mut cluster = Cluster::start(2);
    cluster.lead(0, 5);
    cluster
}

/// What a process of the script's own writing says over the link.
fn says(words: &str) -> String {
    let length = format!("{:03o}", words.len());
    format!(r"printf '\0\0\0\{length}\0\0\0\0\0\0\0\0{words}' >&$HELIOS_PROXY_HANDOVER")
}

#[tokio::test]
async fn sigusr2_lets_a_new_process_serve_and_the_old_one_ends_with_0() {
    let cluster = led();
    let mut dynasty = Dynasty::start(&cluster).await;
    let old = dynasty.daemon.id();
    let before = get(dynasty.admin, "/topology").await;

    let status = dynasty.hands_over(Signal::SIGUSR2).await;

    assert!(status.starts_with("leader of demo: n1"), "{status}");
    let took = format!("; took over from process {old}");
    assert!(status.ends_with(&took), "{status}");
    assert_eq!(dynasty.daemon.ended().await.code(), Some(0));
    assert!(!is_gone(dynasty.head()));
    let version = get(dynasty.admin, "/version").await;
    let pid = format!("\"pid\":{}", dynasty.head());
    assert!(version.contains(&pid), "{version}");
    let mut client = Client::login(dynasty.listen).await.unwrap();
    assert_eq!(client.node().await.unwrap(), "n1");
    let epoch = |text: &str| text.split("\"epoch\":").nth(1).unwrap()[..1].to_owned();
    let after = get(dynasty.admin, "/topology").await;
    assert_eq!(epoch(&before), epoch(&after));
    let ok = dynasty.metric("handovers_total{result=\"ok\"}").await;
    assert_eq!(ok, "1");
    let log = dynasty.daemon.log();
    for side in ["handed over to process", "took over from process"] {
        assert_eq!(log.matches(side).count(), 1, "{log}");
    }
}

#[tokio::test]
async fn several_hand_overs_follow_each_other_and_are_counted() {
    let cluster = led();
    let mut dynasty = Dynasty::start(&cluster).await;

    for n in 1..=3 {
        let old = dynasty.head();
        dynasty.hands_over(Signal::SIGUSR2).await;
        dynasty.gone(old).await;
        let ok = dynasty.metric("handovers_total{result=\"ok\"}").await;
        assert_eq!(ok, n.to_string());
    }
}

#[tokio::test]
async fn sighup_hands_over_where_the_file_behind_the_path_is_another_one_and_reloads_where_it_is_not()
 {
    let cluster = led();
    let mut dynasty = Dynasty::start(&cluster).await;
    let status = dynasty.fails(Signal::SIGHUP).await;
    assert!(status.ends_with("; reloaded"), "{status}");

    dynasty.replace(Some(&format!("exec {BINARY} \"$@\"")));
    let mut second = dynasty.listen;
    second.set_port(25_433);
    let listener = format!("[[listeners]]\naddress = \"{second}\"\n\n[health]");
    dynasty.rewrite(|toml| toml.replace("[health]", &listener));
    dynasty.hands_over(Signal::SIGHUP).await;

    for address in [dynasty.listen, second] {
        TcpStream::connect(address).await.unwrap();
    }
}

#[tokio::test]
async fn what_is_no_use_as_a_new_binary_changes_nothing() {
    let cluster = led();
    let dynasty = Dynasty::start(&cluster).await;
    let mut session = Client::login(dynasty.listen).await.unwrap();
    let hello = r#"{"protocol":1,"version":"9.9","pid":1}"#;
    let another = says(&hello.replace(":1,", ":2,"));
    let dies_when_ready = format!("{}\n{}\nsleep 0.2", says(hello), says("\"Ready\""));
    let ended = "did not become ready: the other process has ended";
    let unusable = [
        (None, "cannot be started: No such file or directory"),
        (Some("exit 3"), ended),
        (Some("kill -9 $$"), ended),
        (
            Some(&*another),
            "version 9.9 speaks hand-over protocol 2, this one 1",
        ),
        (Some(&*dies_when_ready), ended),
    ];

    for (n, (script, words)) in (1..).zip(unusable) {
        dynasty.replace(script);
        let status = dynasty.fails(Signal::SIGUSR2).await;

        assert!(
            status.contains("hand-over failed: ") && status.contains(words),
            "{status}"
        );
        let log = dynasty.daemon.log();
        let said = log.matches("hand-over failed, this process goes on: ");
        assert_eq!(said.count(), n, "{log}");
        let failed = dynasty.metric("handovers_total{result=\"failed\"}").await;
        assert_eq!(failed, n.to_string());
        assert_eq!(session.node().await.unwrap(), "n1");
        Client::login(dynasty.listen).await.unwrap();
    }
}

#[tokio::test]
async fn a_file_that_cannot_be_run_changes_nothing() {
    let cluster = led();
    let dynasty = Dynasty::start(&cluster).await;
    fs::remove_file(&dynasty.path).unwrap();
    fs::write(&dynasty.path, "#!/bin/sh\n").unwrap();

    let status = dynasty.fails(Signal::SIGHUP).await;

    assert!(
        status.contains("cannot be started: Permission denied"),
        "{status}"
    );
}

#[tokio::test]
async fn a_binary_that_hangs_is_ended_and_the_old_process_goes_on() {
    let cluster = led();
    let dynasty = Dynasty::start(&cluster).await;
    let note = dynasty.folder.path().join("pid");
    dynasty.replace(Some(&format!(
        "echo $$ > {}; exec sleep 600",
        note.display()
    )));

    let status = dynasty.fails(Signal::SIGUSR2).await;

    assert!(status.contains("was not ready within 10s"), "{status}");
    let hung = fs::read_to_string(&note).unwrap().trim().parse().unwrap();
    dynasty.gone(hung).await;
    Client::login(dynasty.listen).await.unwrap();
}

#[tokio::test]
async fn a_signal_to_end_does_not_wait_for_a_binary_that_hangs() {
    let cluster = led();
    let mut dynasty = Dynasty::start(&cluster).await;
    let note = dynasty.folder.path().join("pid");
    dynasty.replace(Some(&format!(
        "echo $$ > {}; exec sleep 600",
        note.display()
    )));
    dynasty.signal(Signal::SIGUSR2);
    let pid = || fs::read_to_string(&note).unwrap_or_default();
    assert!(eventually(super::daemon::PATIENCE, || pid().ends_with('\n')).await);

    dynasty.signal(Signal::SIGTERM);

    assert_eq!(dynasty.daemon.ended().await.code(), Some(0));
    dynasty.gone(pid().trim().parse().unwrap()).await;
}

#[tokio::test]
async fn a_configuration_that_the_new_process_refuses_leaves_the_old_one_serving() {
    let cluster = led();
    let dynasty = Dynasty::start(&cluster).await;
    dynasty.replace(Some(&format!("exec {BINARY} \"$@\"")));
    dynasty.rewrite(|toml| format!("colour = 1\n{toml}"));

    let status = dynasty.fails(Signal::SIGHUP).await;

    assert!(status.contains("refuses: "), "{status}");
    assert!(status.contains("colour: unknown key"), "{status}");
    Client::login(dynasty.listen).await.unwrap();
}

#[tokio::test]
async fn the_watchdog_is_fed_by_whoever_serves() {
    let cluster = led();
    let mut dynasty = Dynasty::start_with(&cluster, "", |path| {
        let mut command = Command::new("bash");
        let script = r#"export WATCHDOG_PID=$$ WATCHDOG_USEC=600000; exec "$0" "$@""#;
        command.arg("-c").arg(script).arg(path).arg("run");
        command
    })
    .await;
    dynasty.daemon.told("WATCHDOG").await;

    dynasty.hands_over(Signal::SIGUSR2).await;

    dynasty.daemon.ended().await;
    dynasty.daemon.forget_notices();
    dynasty.daemon.told("WATCHDOG").await;
    let environment = fs::read(format!("/proc/{}/environ", dynasty.head())).unwrap();
    let own = format!("WATCHDOG_PID={}", dynasty.head());
    let mut variables = environment.split(|byte| *byte == 0);
    assert!(variables.any(|one| one == own.as_bytes()));
}

#[tokio::test]
async fn without_a_service_manager_it_is_the_same() {
    let cluster = led();
    let mut dynasty = Dynasty::start_with(&cluster, "", |path| {
        let mut command = Command::new("env");
        command.arg("-u").arg("NOTIFY_SOCKET").arg(path).arg("run");
        command
    })
    .await;

    dynasty.signal(Signal::SIGUSR2);

    assert_eq!(dynasty.daemon.ended().await.code(), Some(0));
    let log = dynasty.daemon.logs("took over from process").await;
    let pid = log.split("handed over to process ").nth(1).unwrap();
    let pid = pid.split(' ').next().unwrap().parse().unwrap();
    dynasty.heads.push(pid);
    Client::login(dynasty.listen).await.unwrap();
}
