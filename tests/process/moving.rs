//! Who is here when a new binary takes over: sessions and waiting clients go along, and what stays is watched.

use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::process::Command;

use super::daemon::PATIENCE;
use super::dynasty::{BINARY, Dynasty};
use crate::fakes::binary::is_gone;
use crate::fakes::client::{Client, cancel};
use crate::fakes::cluster::Cluster;
use crate::fakes::{eventually, wire, within};

fn led() -> Cluster {
    let mut cluster = Cluster::start(2);
    cluster.lead(0, 5);
    cluster
}

/// The next process does not know the leader, so that nobody who is there can go along.
async fn leaves_everybody(dynasty: &mut Dynasty, cluster: &Cluster) {
    dynasty.replace(Some(&format!("exec {BINARY} \"$@\"")));
    let (both, second) = (cluster.node_tables(), cluster.node_tables_of(&[1]));
    dynasty.rewrite(|toml| toml.replace(&both, &second));
    dynasty.hands_over(Signal::SIGHUP).await;
}

#[tokio::test]
async fn sessions_go_along_whatever_they_are_at() {
    let cluster = led();
    let mut dynasty = Dynasty::start(&cluster).await;
    let mut idle = Vec::new();
    for _ in 0..20 {
        idle.push(Client::login(dynasty.listen).await.unwrap());
    }
    let mut within = Client::login(dynasty.listen).await.unwrap();
    within.query("begin").await.unwrap();
    let mut slow = Client::login(dynasty.listen).await.unwrap();
    slow.send(&wire::query("slow 700")).await.unwrap();
    // More than all buffers on the way hold: most of it is still at the server.
    let mut many = Client::login(dynasty.listen).await.unwrap();
    many.send(&wire::query("rows 40000 1000")).await.unwrap();

    dynasty.hands_over(Signal::SIGUSR2).await;

    assert_eq!(dynasty.daemon.ended().await.code(), Some(0));
    for client in idle.iter_mut().chain([&mut within]) {
        assert_eq!(client.node().await.unwrap(), "n1");
    }
    assert_eq!(slow.result().await.unwrap(), "n1");
    assert_eq!(many.result().await.unwrap(), "r".repeat(1000));
    let postgres = &cluster.nodes[0].postgres;
    assert_eq!((postgres.accepted(), postgres.sessions()), (23, 23));
    drop(idle);
    assert!(eventually(PATIENCE, || postgres.sessions() == 3).await);
}

#[tokio::test]
async fn sessions_move_on_from_process_to_process() {
    let cluster = led();
    let mut dynasty = Dynasty::start(&cluster).await;
    let mut client = Client::login(dynasty.listen).await.unwrap();

    for _ in 0..3 {
        let old = dynasty.head();
        dynasty.hands_over(Signal::SIGUSR2).await;
        dynasty.gone(old).await;
        assert_eq!(client.node().await.unwrap(), "n1");
    }
    assert_eq!(cluster.nodes[0].postgres.accepted(), 1);
}

#[tokio::test]
async fn a_client_that_waits_is_served_by_the_next_process() {
    let mut cluster = led();
    let mut dynasty = Dynasty::start(&cluster).await;
    dynasty.daemon.forget_notices();
    cluster.nobody();
    dynasty.daemon.says("no leader of demo").await;
    let mut held = Client::connect(dynasty.listen).await.unwrap();
    held.send(&wire::usual_startup()).await.unwrap();
    // And one that has not said what it wants.
    let mut mute = Client::connect(dynasty.listen).await.unwrap();
    tokio::time::sleep(Duration::from_millis(200)).await;

    dynasty.hands_over(Signal::SIGUSR2).await;
    assert_eq!(dynasty.daemon.ended().await.code(), Some(0));
    cluster.lead(1, 6);

    held.until_ready().await.unwrap();
    assert_eq!(held.node().await.unwrap(), "n2");
    mute.send(&wire::usual_startup()).await.unwrap();
    mute.until_ready().await.unwrap();
}

#[tokio::test]
async fn a_unix_socket_goes_along_with_its_file_and_its_clients() {
    let cluster = led();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(".s.PGSQL.5432");
    let top = format!("[[listeners]]\naddress = '{}'\n", path.display());
    let mut dynasty = Dynasty::start_with(&cluster, &top, |path| Command::new(path)).await;
    let enter = async || {
        let mut client = UnixStream::connect(&path).await.unwrap();
        client.write_all(&wire::usual_startup()).await.unwrap();
        let mut heard = [0];
        client.read_exact(&mut heard).await.unwrap();
        assert_eq!(heard, *b"R");
        client
    };
    let mut client = enter().await;

    for _ in 0..2 {
        let old = dynasty.head();
        dynasty.hands_over(Signal::SIGUSR2).await;
        dynasty.gone(old).await;
        client.write_all(&wire::query("where am I")).await.unwrap();
        let mut heard = vec![0; 4096];
        let mut all = Vec::new();
        while !all.windows(2).any(|part| part == b"n1") {
            let count = client.read(&mut heard).await.unwrap();
            assert!(count > 0, "the connection has ended");
            all.extend_from_slice(&heard[..count]);
        }
        enter().await;
    }

    drop(client);
    dynasty.signal(Signal::SIGTERM);
    dynasty.gone(dynasty.head()).await;
    assert!(!path.exists());
}

#[tokio::test]
async fn a_change_of_leader_after_a_hand_over_ends_what_moved() {
    let mut cluster = led();
    let mut dynasty = Dynasty::start(&cluster).await;
    let mut client = Client::login(dynasty.listen).await.unwrap();
    dynasty.hands_over(Signal::SIGUSR2).await;

    cluster.lead(1, 6);

    assert_eq!(client.last_words().await.code(), "57P01");
    let mut client = Client::login(dynasty.listen).await.unwrap();
    assert_eq!(client.node().await.unwrap(), "n2");
    assert_eq!(dynasty.daemon.ended().await.code(), Some(0));
}

#[tokio::test]
async fn what_stays_lives_on_without_a_limit_and_a_change_of_leader_ends_it() {
    let mut cluster = led();
    let top = "drain_timeout_secs = 0.5\n";
    let mut dynasty = Dynasty::start_with(&cluster, top, |path| Command::new(path)).await;
    let mut client = Client::login(dynasty.listen).await.unwrap();
    leaves_everybody(&mut dynasty, &cluster).await;

    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(client.node().await.unwrap(), "n1");
    assert!(!is_gone(dynasty.daemon.id()));

    cluster.lead(1, 6);
    assert_eq!(client.last_words().await.code(), "57P01");
    assert_eq!(dynasty.daemon.ended().await.code(), Some(0));
    let mut client = Client::login(dynasty.listen).await.unwrap();
    assert_eq!(client.node().await.unwrap(), "n2");
}

#[tokio::test]
async fn a_process_that_was_left_ends_with_its_last_session_and_with_sigterm_drains() {
    for by_signal in [false, true] {
        let cluster = led();
        let mut dynasty = Dynasty::start(&cluster).await;
        let mut client = Client::login(dynasty.listen).await.unwrap();
        leaves_everybody(&mut dynasty, &cluster).await;

        if by_signal {
            let old = Pid::from_raw(dynasty.daemon.id());
            kill(old, Signal::SIGTERM).unwrap();
            assert_eq!(client.last_words().await.code(), "57P01");
        } else {
            client.terminate().await;
        }

        assert_eq!(dynasty.daemon.ended().await.code(), Some(0));
        assert!(!is_gone(dynasty.head()));
    }
}

#[tokio::test]
async fn a_process_that_was_left_twice_is_no_hindrance() {
    let cluster = led();
    let mut dynasty = Dynasty::start(&cluster).await;
    let mut stays = Client::login(dynasty.listen).await.unwrap();
    leaves_everybody(&mut dynasty, &cluster).await;
    let (both, second) = (cluster.node_tables(), cluster.node_tables_of(&[1]));
    dynasty.rewrite(|toml| toml.replace(&second, &both));

    let heir = dynasty.head();
    dynasty.hands_over(Signal::SIGUSR2).await;
    dynasty.gone(heir).await;

    assert_eq!(stays.node().await.unwrap(), "n1");
    let mut client = Client::login(dynasty.listen).await.unwrap();
    assert_eq!(client.node().await.unwrap(), "n1");
    stays.terminate().await;
    assert_eq!(dynasty.daemon.ended().await.code(), Some(0));
}

#[tokio::test]
async fn what_stays_outlives_the_process_that_took_over() {
    let cluster = led();
    let mut dynasty = Dynasty::start(&cluster).await;
    let mut client = Client::login(dynasty.listen).await.unwrap();
    leaves_everybody(&mut dynasty, &cluster).await;

    dynasty.signal(Signal::SIGKILL);
    dynasty
        .daemon
        .logs("the process that took over has ended")
        .await;

    assert_eq!(client.node().await.unwrap(), "n1");
    client.terminate().await;
    assert_eq!(dynasty.daemon.ended().await.code(), Some(0));
}

#[tokio::test]
async fn a_cancel_for_a_session_that_stays_finds_it() {
    let cluster = led();
    let mut dynasty = Dynasty::start(&cluster).await;
    let mut client = Client::login(dynasty.listen).await.unwrap();
    leaves_everybody(&mut dynasty, &cluster).await;
    client.send(&wire::query("hang")).await.unwrap();
    let key = client.key.clone().unwrap();

    cancel(dynasty.listen, client.process, &key).await.unwrap();

    let result = within(PATIENCE, "the cancel", client.result()).await;
    assert_eq!(result.unwrap_err().code(), "57014");
}
