//! READY, and everything that prevents it.

use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use tokio::net::{TcpListener, TcpStream};
use tokio::process::Command;

use super::daemon::{Daemon, free, get, toml};
use crate::fakes::cluster::Cluster;

/// Accepts connections and says nothing: Patroni with all its threads taken.
async fn mute() -> TcpListener {
    TcpListener::bind("127.0.0.1:0").await.unwrap()
}

#[tokio::test]
async fn ready_means_that_clients_can_connect_and_the_status_names_the_leader() {
    let mut cluster = Cluster::start(3);
    cluster.lead(1, 5);
    let listen = free();
    let toml = cluster.toml().replace("127.0.0.1:0", &listen.to_string());

    let daemon = Daemon::start(&toml);
    let ready = daemon.notice().await;

    assert_eq!(ready.get("READY"), Some("1"), "{ready:?}");
    TcpStream::connect(listen).await.unwrap();
    daemon_names_leader(&daemon, ready.get("STATUS").unwrap(), "n2").await;
    daemon.logs(&listen.to_string()).await;

    cluster.flip();
    daemon.says("n3").await;
}

async fn daemon_names_leader(daemon: &Daemon, status: &str, name: &str) {
    if !status.contains(name) {
        daemon.says(name).await;
    }
}

#[tokio::test]
async fn a_cluster_that_does_not_answer_delays_ready_by_two_seconds_at_most() {
    let node = mute().await;
    let began = Instant::now();

    let daemon = Daemon::start(&toml("", free(), node.local_addr().unwrap()));
    let ready = daemon.told("READY").await;

    assert!(
        began.elapsed() < Duration::from_secs(4),
        "{:?}",
        began.elapsed()
    );
    assert!(
        ready
            .get("STATUS")
            .unwrap()
            .starts_with("no leader of the cluster"),
        "{ready:?}"
    );
}

#[tokio::test]
async fn a_reload_during_the_start_waits_for_its_end() {
    let node = mute().await;
    let daemon = Daemon::start(&toml("", free(), node.local_addr().unwrap()));
    daemon.logs("listening").await;

    daemon.signal(Signal::SIGHUP);

    let mut order = Vec::new();
    for _ in 0..3 {
        let notice = daemon.notice().await;
        order.extend(
            ["READY", "RELOADING"]
                .into_iter()
                .filter(|key| notice.get(key).is_some()),
        );
    }
    assert_eq!(order, ["READY", "RELOADING", "READY"]);
}

#[tokio::test]
async fn a_stop_during_the_start_is_not_delayed() {
    let node = mute().await;
    let mut daemon = Daemon::start(&toml("", free(), node.local_addr().unwrap()));
    daemon.logs("listening").await;
    let began = Instant::now();

    daemon.signal(Signal::SIGTERM);

    assert_eq!(daemon.ended().await.code(), Some(0));
    assert!(
        began.elapsed() < Duration::from_millis(1500),
        "{:?}",
        began.elapsed()
    );
}

#[tokio::test]
async fn an_address_in_use_is_named_also_when_another_helios_proxy_has_it() {
    let listen = free();
    let toml = toml("", listen, free());
    let first = Daemon::start(&toml);
    first.told("READY").await;

    let mut second = Daemon::start(&toml);

    assert_eq!(second.ended().await.code(), Some(1));
    let log = second.log();
    assert!(
        log.contains("ERROR") && log.contains(&listen.to_string()),
        "{log}"
    );
    assert!(log.contains("in use"), "{log}");
    TcpStream::connect(listen).await.unwrap();
}

#[tokio::test]
async fn an_admin_address_in_use_is_named() {
    let taken = mute().await;
    let taken = taken.local_addr().unwrap();
    let toml = toml("", free(), free()).replace("''", &format!("'{taken}'"));

    let mut daemon = Daemon::start(&toml);

    assert_eq!(daemon.ended().await.code(), Some(1));
    assert!(
        daemon.log().contains(&taken.to_string()),
        "{}",
        daemon.log()
    );
}

#[tokio::test]
async fn a_wrong_file_and_an_unset_variable_end_the_start_with_code_2_and_one_line() {
    for (top, words) in [
        (
            "max_conections = 5",
            "max_conections: unknown key; did you mean max_connections?",
        ),
        (
            "max_connections = '${HELIOS_NO}'",
            "max_connections = \"${HELIOS_NO}\": the environment variable HELIOS_NO is not set",
        ),
    ] {
        let mut daemon = Daemon::start(&toml(top, free(), free()));

        assert_eq!(daemon.ended().await.code(), Some(2));
        let log = daemon.log();
        assert!(
            log.contains(words) && log.contains("helios-proxy.toml: "),
            "{log}"
        );
        assert_eq!(log.lines().count(), 1, "{log}");
    }
}

#[tokio::test]
async fn variables_are_taken_from_the_environment() {
    let listen = free();
    let toml = toml("max_connections = '${HELIOS_MAX}'", listen, free());
    let toml = toml.replace(&listen.to_string(), "127.0.0.1:${HELIOS_PORT}");

    let daemon = Daemon::start_with(&toml, |command| {
        command
            .env("HELIOS_MAX", "7")
            .env("HELIOS_PORT", listen.port().to_string());
    });

    daemon.told("READY").await;
    TcpStream::connect(listen).await.unwrap();
}

#[tokio::test]
async fn status_prints_what_the_running_proxy_knows() {
    let mut cluster = Cluster::start(2);
    cluster.lead(0, 5);
    let admin = free();
    let toml = cluster.toml().replace(
        "admin_address = \"\"",
        &format!("admin_address = '{admin}'"),
    );
    let daemon = Daemon::start(&toml);
    daemon.told("READY").await;
    let status = async |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_helios-proxy"));
        let out = command
            .arg("status")
            .args(arguments)
            .output()
            .await
            .unwrap();
        let said = [out.stdout, out.stderr].map(|bytes| String::from_utf8(bytes).unwrap());
        (out.status.code(), said)
    };

    assert!(get(admin, "/topology").await.contains("200 OK"));
    let (code, [table, _]) = status(&["--config", daemon.file.to_str().unwrap()]).await;
    assert_eq!(code, Some(0));
    assert!(table.contains("n1") && table.contains("n2"), "{table}");

    let (code, [json, _]) = status(&["--admin", &admin.to_string(), "--json"]).await;
    assert_eq!(code, Some(0));
    assert!(serde_json::from_str::<serde_json::Value>(&json).unwrap()["topology"].is_object());

    let nobody = free().to_string();
    let (code, [_, error]) = status(&["--admin", &nobody]).await;
    assert_eq!(code, Some(1));
    assert!(
        error.contains(&nobody) && error.contains("not running"),
        "{error}"
    );
}

#[tokio::test]
async fn without_a_file_the_nodes_on_the_command_line_are_enough() {
    let mut cluster = Cluster::start(1);
    cluster.lead(0, 1);
    let node = &cluster.nodes[0];
    let listen = free();
    let mut command = Command::new(env!("CARGO_BIN_EXE_helios-proxy"));
    command
        .arg(format!(
            "--node=n1={}:{}",
            node.ip,
            node.postgres.addr().port()
        ))
        .arg(format!("--listen={listen}"))
        .arg("--admin=")
        .env_remove("NOTIFY_SOCKET")
        .env_remove("RUST_LOG")
        .stderr(std::process::Stdio::null())
        .kill_on_drop(true);
    let _child = command.spawn().unwrap();

    let connected = async {
        while TcpStream::connect(listen).await.is_err() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    crate::fakes::within(super::daemon::PATIENCE, "listening", connected).await;
}

#[tokio::test]
async fn a_command_line_that_says_nothing_useful_is_answered_with_code_2() {
    for (arguments, words) in [
        (&[][..], "give --config FILE, or --node NAME=HOST"),
        (&["--node", "pg1"], "--node pg1: allowed is NAME=HOST"),
        (
            &["--node", "a=b", "--read-listen", "nowhere"],
            "listeners[1].address = \"nowhere\"",
        ),
        (&["--listen", "127.0.0.1:1"], "--node"),
        (&["--confg", "x"], "--config"),
        (&["check"], "--config"),
    ] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_helios-proxy"));
        let out = command
            .args(arguments)
            .env_remove("RUST_LOG")
            .output()
            .await
            .unwrap();

        assert_eq!(out.status.code(), Some(2), "{arguments:?}");
        let said = String::from_utf8(out.stderr).unwrap();
        assert!(said.contains(words), "{arguments:?}: {said}");
    }
}
