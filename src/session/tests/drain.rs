//! Ending by plan: the idle go first, the busy have their time.

use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;

use super::stand::*;
use crate::clock::Clock;
use crate::net::{Address, BindOptions, Socket, bind};
use crate::routing::RoutingSettings;
use crate::routing::testing::Script;
use crate::session::{Command, SessionSettings, Shared, run};

const SOON: Duration = Duration::from_secs(3);

#[tokio::test]
async fn an_idle_session_is_closed_after_a_second_and_a_busy_one_may_finish() {
    let stand = Stand::start().await;
    let server = Server::start("a", Manner::Serves).await;
    stand.script.leads(server.addr);
    let (mut idle, mut busy) = (stand.session().await, stand.session().await);
    busy.send(&message(b'Q', b"sleep\0")).await;
    tokio::time::sleep(Duration::from_millis(50)).await;

    let start = Instant::now();
    stand.commands.send(Command::Quiet).await.unwrap();
    stand.commands.send(Command::Drain).await.unwrap();

    assert_eq!(idle.refusal().await.0, "57P01");
    assert!(start.elapsed() >= Duration::from_secs(1));
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert_eq!(stand.open(), 1);
    busy.send(&message(b'X', b"")).await;
    busy.ends().await;
    assert!(stand.ended(SOON).await);
}

#[tokio::test]
async fn a_listener_that_is_removed_refuses_newcomers_and_keeps_its_sessions() {
    let stand = Stand::start().await;
    let server = Server::start("a", Manner::Serves).await;
    stand.script.leads(server.addr);
    let mut session = stand.session().await;

    let address = Address::Tcp(stand.address);
    stand
        .commands
        .send(Command::Unlisten(address))
        .await
        .unwrap();

    let address = stand.address;
    let refused = tokio::time::timeout(SOON, async {
        while tokio::net::TcpStream::connect(address).await.is_ok() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    });
    refused.await.unwrap();
    assert_eq!(session.asks().await, "a");
}

#[tokio::test]
async fn a_client_that_never_spoke_does_not_keep_the_process() {
    let stand = Stand::start().await;
    let mut silent = stand.client().await;
    tokio::time::sleep(Duration::from_millis(50)).await;

    stand.commands.send(Command::Quiet).await.unwrap();
    stand.commands.send(Command::Drain).await.unwrap();

    silent.ends().await;
    assert!(stand.ended(SOON).await);
}

#[tokio::test]
async fn a_held_client_has_the_whole_time_of_a_drain() {
    let stand = Stand::start().await;
    let server = Server::start("a", Manner::Serves).await;
    let mut held = stand.client().await;
    held.send(STARTUP).await;
    assert!(eventually(SOON, || stand.held() == 1).await);

    stand.commands.send(Command::Quiet).await.unwrap();
    stand.commands.send(Command::Drain).await.unwrap();
    tokio::time::sleep(Duration::from_millis(1_500)).await;
    assert_eq!(stand.held(), 1);
    stand.script.leads(server.addr);

    held.until_ready().await;
    assert_eq!(held.asks().await, "a");
}

#[tokio::test]
async fn who_waits_in_the_kernels_queue_is_served_before_the_end() {
    let script = Script::new(Clock::Boot, RoutingSettings::default());
    let (_settings, watched) = watch::channel(SessionSettings::default());
    let (router, metrics) = (Arc::clone(&script.router), Arc::clone(&script.metrics));
    let shared = Shared::new(router, metrics, watched, 4096);
    let address = Address::Tcp(SocketAddr::from(([127, 0, 0, 1], 0)));
    let bound = bind(&address, &BindOptions::default()).unwrap();
    let Address::Tcp(address) = bound.address else {
        unreachable!("a TCP address was bound")
    };
    let server = Server::start("a", Manner::Serves).await;
    script.leads(server.addr);
    let stream = tokio::net::TcpStream::connect(address).await.unwrap();
    let mut client = Client { stream };
    client.send(STARTUP).await;

    let (commands, received) = mpsc::channel(8);
    let settings = listener_settings(address);
    let sockets = bound.sockets;
    for command in [
        Command::Listen { settings, sockets },
        Command::Quiet,
        Command::Drain,
    ] {
        commands.send(command).await.unwrap();
    }
    let talk = async {
        client.until_ready().await;
        client.send(&message(b'X', b"")).await;
        client.ends().await;
    };
    let work = tokio::time::timeout(SOON, run(shared, received, CancellationToken::new()));

    let (worked, ()) = tokio::join!(work, talk);

    assert!(worked.is_ok(), "it ends with its last session");
}

#[tokio::test]
async fn a_listener_with_a_broken_socket_serves_none_of_them() {
    let stand = Stand::start().await;
    let address = Address::Tcp(SocketAddr::from(([127, 0, 0, 1], 0)));
    let bound = bind(&address, &BindOptions::default()).unwrap();
    let Address::Tcp(address) = bound.address else {
        unreachable!("a TCP address was bound")
    };
    let mut sockets = bound.sockets;
    // A regular file cannot be waited for.
    let file = OwnedFd::from(tempfile::tempfile().unwrap());
    sockets.push(Socket::Tcp(file.into()));

    let settings = listener_settings(address);
    let listen = Command::Listen { settings, sockets };
    stand.commands.send(listen).await.unwrap();

    let refused = tokio::time::timeout(SOON, async {
        while tokio::net::TcpStream::connect(address).await.is_ok() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    });
    refused.await.unwrap();
}
