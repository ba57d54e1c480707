//! Ending by plan: the idle go first, the busy have their time.

use std::time::{Duration, Instant};

use super::stand::*;
use crate::net::Address;
use crate::session::Command;

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
