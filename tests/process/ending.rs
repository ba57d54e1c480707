//! SIGTERM and SIGINT: drain, and a second one that does not wait.

use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use tokio::net::TcpStream;

use super::daemon::{Daemon, free, toml};
use crate::fakes::client::Client;
use crate::fakes::cluster::Cluster;
use crate::fakes::{PATIENCE, eventually, wire};

/// Somebody who waits for a leader that never comes.
async fn held(at: std::net::SocketAddr) -> TcpStream {
    use tokio::io::AsyncWriteExt;
    let mut client = TcpStream::connect(at).await.unwrap();
    client.write_all(&wire::usual_startup()).await.unwrap();
    tokio::time::sleep(Duration::from_millis(200)).await;
    client
}

#[tokio::test]
async fn sigterm_and_sigint_say_stopping_and_end_with_0() {
    for signal in [Signal::SIGTERM, Signal::SIGINT] {
        let mut daemon = Daemon::start(&toml("", free(), free()));
        daemon.told("READY").await;

        daemon.signal(signal);

        let stopping = daemon.told("STOPPING").await;
        assert!(
            stopping.get("STATUS").unwrap().starts_with("stopping"),
            "{stopping:?}"
        );
        assert_eq!(daemon.ended().await.code(), Some(0));
        assert!(daemon.log().contains(signal.as_str()), "{}", daemon.log());
    }
}

#[tokio::test]
async fn open_sessions_have_the_drain_timeout_and_no_longer() {
    let listen = free();
    let mut daemon = Daemon::start(&toml("drain_timeout_secs = 1.5", listen, free()));
    daemon.told("READY").await;
    let _client = held(listen).await;
    let began = Instant::now();

    daemon.signal(Signal::SIGTERM);

    assert_eq!(daemon.ended().await.code(), Some(0));
    let took = began.elapsed();
    assert!((1400..4000).contains(&took.as_millis()), "{took:?}");
    assert!(TcpStream::connect(listen).await.is_err());
}

/// Ten are idle, five are in a statement, one is between two statements of a transaction.
struct Company {
    idle: Vec<Client>,
    busy: Vec<Client>,
    inside: Client,
    /// Keeps them all.
    _cluster: Cluster,
}

async fn company(top: &str) -> (Daemon, Company) {
    let mut cluster = Cluster::start(1);
    cluster.lead(0, 1);
    let listen = free();
    let toml = cluster.toml().replace("127.0.0.1:0", &listen.to_string());
    let daemon = Daemon::start(&format!("{top}\n{toml}"));
    daemon.told("READY").await;
    let (mut idle, mut busy) = (Vec::new(), Vec::new());
    for _ in 0..10 {
        idle.push(Client::login(listen).await.unwrap());
    }
    for _ in 0..5 {
        let mut client = Client::login(listen).await.unwrap();
        client.send(&wire::query("slow 5000")).await.unwrap();
        busy.push(client);
    }
    let server = &cluster.nodes[0].postgres;
    assert!(eventually(PATIENCE, || server.queries() == 5).await);
    let mut inside = Client::login(listen).await.unwrap();
    inside.query("begin").await.unwrap();
    let company = Company {
        idle,
        busy,
        inside,
        _cluster: cluster,
    };
    (daemon, company)
}

#[tokio::test]
async fn idle_sessions_go_first_and_whoever_is_busy_or_in_a_transaction_may_finish() {
    let (mut daemon, mut company) = company("drain_timeout_secs = 20").await;
    let began = Instant::now();

    daemon.signal(Signal::SIGTERM);

    for idle in &mut company.idle {
        assert_eq!(idle.last_words().await.code(), "57P01");
    }
    let idle_gone = began.elapsed();
    assert!(
        (900..4500).contains(&idle_gone.as_millis()),
        "{idle_gone:?}"
    );
    for busy in &mut company.busy {
        busy.result().await.unwrap();
    }
    // In its transaction it still is, long after the others went.
    for busy in &mut company.busy {
        assert_eq!(busy.last_words().await.code(), "57P01");
    }
    company.inside.node().await.unwrap();
    company.inside.terminate().await;

    assert_eq!(daemon.ended().await.code(), Some(0));
    assert!(began.elapsed() < Duration::from_secs(15));
}

#[tokio::test]
async fn a_second_signal_waits_for_nobody_busy() {
    let (mut daemon, mut company) = company("").await;
    daemon.signal(Signal::SIGTERM);
    daemon.told("STOPPING").await;
    let began = Instant::now();

    daemon.signal(Signal::SIGTERM);

    assert_eq!(daemon.ended().await.code(), Some(0));
    assert!(began.elapsed() < Duration::from_secs(2));
    assert!(company.inside.node().await.is_err());
}

#[tokio::test]
async fn a_second_signal_ends_at_once() {
    let listen = free();
    let mut daemon = Daemon::start(&toml("", listen, free()));
    daemon.told("READY").await;
    let _client = held(listen).await;
    daemon.signal(Signal::SIGTERM);
    daemon.told("STOPPING").await;
    tokio::time::sleep(Duration::from_millis(500)).await;
    let began = Instant::now();

    daemon.signal(Signal::SIGTERM);

    assert_eq!(daemon.ended().await.code(), Some(0));
    assert!(
        began.elapsed() < Duration::from_secs(2),
        "{:?}",
        began.elapsed()
    );
    assert!(
        daemon.log().contains("SIGTERM again: ending at once"),
        "{}",
        daemon.log()
    );
}
