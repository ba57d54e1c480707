//! A machine that is gone without a word, in a network namespace of its own where packets can be lost.

use std::net::IpAddr;
use std::process::Command;
use std::time::{Duration, Instant};

use nix::sched::{CloneFlags, unshare};

use super::scene::{PATIENCE, is_held};
use crate::fakes::binary::Proxy;
use crate::fakes::client::Client;
use crate::fakes::cluster::{Cluster, Tempo};
use crate::fakes::{eventually, ms, wire, within};

/// This thread, and what it starts, in a namespace of its own. False (and a line that says so) where that is not
/// allowed.
fn alone(test: &str) -> bool {
    let entered = unshare(CloneFlags::CLONE_NEWNET);
    let up = entered.is_ok() && ip(&["link", "set", "lo", "up"]);
    assert!(
        up || std::env::var_os("CI").is_none(),
        "{test}: no network namespace: {entered:?}"
    );
    if !up {
        eprintln!("skipped {test}: no network namespace of its own: {entered:?}");
    }
    up
}

fn ip(words: &[&str]) -> bool {
    let done = Command::new("ip").args(words).status();
    done.is_ok_and(|status| status.success())
}

/// From now on what is sent to this address is lost.
fn lose(address: IpAddr) {
    assert!(ip(&[
        "route",
        "add",
        "blackhole",
        &address.to_string(),
        "table",
        "local"
    ]));
}

async fn led(nodes: u8, tempo: &Tempo) -> (Cluster, Proxy) {
    let mut cluster = Cluster::start(nodes);
    cluster.lead(0, 1);
    let at = std::net::SocketAddr::new(cluster.beside(), 25_432);
    let proxy = Proxy::start(&cluster.toml_with(tempo), at).await;
    (cluster, proxy)
}

fn on_this_thread<F: Future>(future: F) -> F::Output {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(future)
}

#[test]
fn a_server_that_vanished_is_given_up_in_its_time_and_one_that_only_does_not_read_is_not() {
    if !alone("vanished servers") {
        return;
    }
    on_this_thread(async {
        let tempo = Tempo {
            lease_timeout_secs: 60,
            top: "dead_peer_secs = 2".to_owned(),
            ..Tempo::default()
        };
        let (cluster, proxy) = led(1, &tempo).await;
        let mut deaf = within(PATIENCE, "a login", Client::login(proxy.addr))
            .await
            .unwrap();
        deaf.send(&wire::query("slow 8000")).await.unwrap();
        // More than all buffers between hold: the server's window closes, and stays closed.
        let flood = vec![b'x'; 64 << 20];
        assert!(
            tokio::time::timeout(ms(500), deaf.send(&flood))
                .await
                .is_err()
        );
        let lives = is_held(&deaf, Duration::from_secs(6)).await;
        assert!(lives, "a server that only does not read was given up");

        let mut asking = within(PATIENCE, "a login", Client::login(proxy.addr))
            .await
            .unwrap();
        let mut idle = within(PATIENCE, "a login", Client::login(proxy.addr))
            .await
            .unwrap();
        lose(cluster.nodes[0].ip);
        let since = Instant::now();
        asking.send(&wire::query("lost")).await.unwrap();
        let last = within(PATIENCE, "the end of the asking one", asking.last_words()).await;
        assert!(
            (ms(1500)..ms(8000)).contains(&since.elapsed()),
            "{:?}: {last:?}",
            since.elapsed()
        );
        // Here it takes a probe: each 2 s, and 5 s apart.
        let last = within(
            Duration::from_secs(20),
            "the end of the idle one",
            idle.last_words(),
        )
        .await;
        assert_eq!(last.code(), "08006", "{last:?}");
    });
}

#[test]
fn a_leader_whose_machine_vanished_loses_its_sessions_to_the_new_one_at_once() {
    if !alone("vanished leaders") {
        return;
    }
    on_this_thread(async {
        let (mut cluster, proxy) = led(2, &Tempo::default()).await;
        let mut client = within(PATIENCE, "a login", Client::login(proxy.addr))
            .await
            .unwrap();
        lose(cluster.nodes[0].ip);
        tokio::time::sleep(ms(200)).await;

        cluster.lead(1, 2);

        let since = Instant::now();
        let last = within(PATIENCE, "the end", client.last_words()).await;
        assert_eq!(last.code(), "57P01", "{last:?}");
        let mut client = within(PATIENCE, "a login", Client::login(proxy.addr))
            .await
            .unwrap();
        assert_eq!(client.node().await.unwrap(), "n2");
        assert!(since.elapsed() < ms(5000), "{:?}", since.elapsed());
        assert!(eventually(PATIENCE, || proxy.descriptors() < 40).await);
    });
}
