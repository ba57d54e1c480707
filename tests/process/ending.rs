//! SIGTERM and SIGINT: drain, and a second one that does not wait.

use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use tokio::net::TcpStream;

use super::daemon::{Daemon, free, toml};
use crate::fakes::wire;

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
