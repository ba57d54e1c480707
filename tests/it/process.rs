//! What only shows from outside: descriptors, memory and log lines of the running binary.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;

use super::scene::PATIENCE;
use crate::fakes::answer::Answer;
use crate::fakes::binary::Proxy;
use crate::fakes::body::Body;
use crate::fakes::client::Client;
use crate::fakes::cluster::{Cluster, Tempo};
use crate::fakes::{eventually, ms, wire, within};

async fn start(cluster: &Cluster, tempo: &Tempo) -> Proxy {
    // The cluster's subnet is its own, also for the proxy.
    Proxy::start(
        &cluster.toml_with(tempo),
        SocketAddr::new(cluster.beside(), 25_432),
    )
    .await
}

async fn led(nodes: u8) -> (Cluster, Proxy) {
    let mut cluster = Cluster::start(nodes);
    cluster.lead(0, 1);
    let proxy = start(&cluster, &Tempo::default()).await;
    login(&proxy).await.terminate().await;
    (cluster, proxy)
}

async fn login(proxy: &Proxy) -> Client {
    within(PATIENCE, "a login", Client::login(proxy.addr))
        .await
        .unwrap()
}

#[tokio::test]
async fn probes_scans_and_ordinary_clients_leave_no_line_in_the_log() {
    let (_cluster, proxy) = led(1).await;
    tokio::time::sleep(ms(300)).await;
    let before = proxy.log().len();
    for i in 0..300 {
        let mut client = Client::connect(proxy.addr).await.unwrap();
        match i % 4 {
            0 => drop(client),
            1 => client.vanish(),
            2 => {
                client.send(b"GET / HTTP/1.1\r\n\r\n").await.unwrap();
                let _ = client.rest().await;
            }
            _ => {
                client.send(&wire::usual_startup()).await.unwrap();
                client.until_ready().await.unwrap();
                client.terminate().await;
            }
        }
    }
    tokio::time::sleep(ms(1200)).await;

    let log = proxy.log();
    assert_eq!(log[before..], [""; 0]);
}

#[tokio::test]
async fn a_conflict_is_said_once_and_names_the_claimants() {
    let (cluster, proxy) = led(2).await;
    cluster.nodes[1]
        .rest
        .says(Answer::new(200, Body::primary("n2", 1)));
    let conflicts = || {
        let lines = proxy.log();
        lines
            .into_iter()
            .filter(|line| line.contains("conflict"))
            .collect::<Vec<_>>()
    };
    assert!(eventually(PATIENCE, || !conflicts().is_empty()).await);
    cluster.nodes[1].rest.after_questions(20).await;

    let named = conflicts()
        .into_iter()
        .filter(|line| line.contains("n1") && line.contains("n2"))
        .count();
    assert_eq!(named, 1, "{:?}", proxy.log());
}

#[tokio::test]
async fn some_thousand_rounds_leave_no_descriptor_and_no_memory_behind() {
    let (_cluster, proxy) = led(1).await;
    let round = async |count: usize| {
        for i in 0..count {
            let mut client = match i % 4 {
                0 => Client::connect(proxy.addr).await.unwrap(),
                _ => login(&proxy).await,
            };
            match i % 4 {
                0 => drop(client),
                1 => client.vanish(),
                2 => client.terminate().await,
                _ => {
                    let _ = client.send(&wire::query("hang")).await;
                    drop(client);
                }
            }
        }
    };
    round(1000).await;
    tokio::time::sleep(ms(500)).await;
    let (descriptors, memory) = (proxy.descriptors(), proxy.memory());
    round(3000).await;

    let back = eventually(Duration::from_secs(5), || {
        proxy.descriptors() <= descriptors + 2
    })
    .await;
    assert!(
        back,
        "{} descriptors, {descriptors} before",
        proxy.descriptors()
    );
    assert!(
        proxy.memory() <= memory + 1024,
        "{} KiB, {memory} before",
        proxy.memory()
    );
}

#[tokio::test]
async fn a_slow_reader_of_a_gigabyte_costs_no_memory() {
    let (_cluster, proxy) = led(1).await;
    let mut client = login(&proxy).await;
    client.query("rows 10 1000000").await.unwrap();
    let before = proxy.memory();
    client
        .send(&wire::query("rows 1000 1000000"))
        .await
        .unwrap();
    let mut most = 0;
    let mut buffer = vec![0; 1 << 20];
    let since = Instant::now();
    // The first hundred megabytes slowly, so that everything between has filled up; the rest as it comes.
    let mut read = 0_usize;
    while read < 1_000_000_000 {
        read += within(PATIENCE, "the next bytes", client.stream.read(&mut buffer))
            .await
            .unwrap();
        if read < 100_000_000 {
            tokio::time::sleep(ms(1)).await;
        }
        most = most.max(proxy.memory());
    }
    assert!(most < before + 1024, "{most} KiB, {before} before");
    println!(
        "1 GB in {:?}, {before} KiB before, at most {most} KiB",
        since.elapsed()
    );
}

#[tokio::test]
async fn idle_sessions_own_no_buffer() {
    let (_cluster, proxy) = led(1).await;
    let mut some = Vec::new();
    for _ in 0..100 {
        some.push(login(&proxy).await);
    }
    let before = proxy.memory();
    for _ in 0..500 {
        some.push(login(&proxy).await);
    }
    let each = (proxy.memory().saturating_sub(before)) * 1024 / 500;
    // A task, two sockets, a cancel key; a copy buffer alone would be 8 KiB and more.
    assert!(each < 8 * 1024, "{each} bytes each");
}

#[tokio::test]
async fn a_storm_of_clients_without_a_leader_is_no_storm_in_the_log() {
    let mut cluster = Cluster::start(1);
    let tempo = Tempo {
        write_timeout_secs: 1,
        ..Tempo::default()
    };
    let proxy = start(&cluster, &tempo).await;
    let since = Instant::now();
    let mut storm = tokio::task::JoinSet::new();
    for _ in 0..500 {
        let addr = proxy.addr;
        storm.spawn(async move {
            loop {
                match Client::login(addr).await {
                    Ok(client) => return client,
                    Err(_) => tokio::time::sleep(ms(1)).await,
                }
            }
        });
    }
    tokio::time::sleep(Duration::from_secs(3)).await;
    cluster.lead(0, 1);
    let led = Instant::now();
    let sessions = within(PATIENCE, "everybody", storm.join_all()).await;

    assert!(
        led.elapsed() < Duration::from_secs(5),
        "{:?}",
        led.elapsed()
    );
    assert_eq!(sessions.len(), 500);
    let seconds = since.elapsed().as_secs_f64();
    let lines = proxy.log().len();
    assert!(
        (lines as f64) < 10.0 * seconds,
        "{lines} lines in {seconds:.1} s"
    );
}

#[tokio::test]
async fn a_wrong_cluster_is_said_once_and_named() {
    let (cluster, proxy) = led(2).await;
    cluster.nodes[1]
        .rest
        .says(Answer::new(503, Body::replica("n2", 1).scope("another")));
    cluster.nodes[1].rest.after_questions(10).await;

    let log = proxy.log();
    let named: Vec<_> = log
        .iter()
        .filter(|line| line.contains("another") && line.contains("n2"))
        .collect();
    assert_eq!(named.len(), 1, "{log:?}");
    assert!(TcpStream::connect(proxy.addr).await.is_ok());
}

#[tokio::test]
async fn numbers_of_the_cluster_that_do_not_fit_ours_are_named_and_others_are_not() {
    for (ttl, held, doubts) in [(12, 26, 2), (30, 45, 0)] {
        let mut cluster = Cluster::start(1);
        cluster.lead(0, 1);
        let config = format!("{{\"ttl\": {ttl}, \"loop_wait\": 10}}");
        let rest = &cluster.nodes[0].rest;
        rest.answers("/config", Answer::bytes(200, config));
        let tempo = Tempo {
            write_timeout_secs: held,
            ..Tempo::default()
        };
        let since = Instant::now();
        let proxy = start(&cluster, &tempo).await;
        assert!(eventually(PATIENCE, || rest.asked("/config", since) > 0).await);
        rest.after_questions(3).await;

        let log = proxy.log();
        let lease = [
            "topology.lease_timeout_secs",
            "lease_timeout_secs=2",
            "ttl=12",
            "loop_wait=10",
        ];
        let hold = ["write_timeout_secs=26", "failover_secs=27"];
        let said = |words: &[&str]| {
            let all = |line: &&String| words.iter().all(|word| line.contains(word));
            log.iter().filter(all).count()
        };
        assert_eq!(said(&lease) + said(&hold), doubts, "{log:?}");
        assert_eq!(
            said(&["ttl="]) + said(&["failover_secs"]),
            doubts,
            "{log:?}"
        );
    }
}

#[tokio::test]
async fn a_standby_cluster_and_failsafe_mode_are_said_once_in_plain_words() {
    let cluster = Cluster::start(1);
    let rest = &cluster.nodes[0].rest;
    let standby = Body::primary("n1", 1).role("standby_leader");
    rest.says(Answer::new(503, standby));
    let proxy = start(&cluster, &Tempo::default()).await;
    let said = |words: &str| {
        let log = proxy.log();
        log.iter().filter(|line| line.contains(words)).count()
    };
    let standby = "the cluster is a standby cluster: its leader is read-only";
    assert!(eventually(PATIENCE, || said(standby) > 0).await);
    rest.after_questions(3).await;

    let failsafe = Body::primary("n1", 1).with("failsafe_mode_is_active", true.into());
    rest.says(Answer::new(200, failsafe));
    login(&proxy).await.terminate().await;
    rest.after_questions(5).await;

    let lived = "lives in failsafe mode: the leader stays";
    assert_eq!((said(standby), said(lived)), (1, 1), "{:?}", proxy.log());
}

#[tokio::test]
async fn a_member_that_the_file_does_not_name_is_said_once() {
    let mut cluster = Cluster::start(3);
    cluster.lead_openly(0, 1);
    let tempo = Tempo {
        topology: "provider = \"patroni\"\npoll_interval_secs = 0.05".to_owned(),
        ..Tempo::default()
    };
    let text = tempo.toml() + &cluster.node_tables_of(&[0, 1]);
    let since = Instant::now();
    let proxy = Proxy::start(&text, SocketAddr::new(cluster.beside(), 25_432)).await;
    let views = || cluster.nodes[0].rest.asked("/cluster", since);
    assert!(eventually(PATIENCE, || views() > 10).await);

    let log = proxy.log();
    let third = cluster.nodes[2].postgres.addr().to_string();
    let of_it: Vec<_> = log.iter().filter(|line| line.contains(&third)).collect();
    assert_eq!(of_it.len(), 1, "{log:?}");
    assert!(of_it[0].contains("no configured node"), "{log:?}");
}

#[tokio::test]
async fn a_held_client_that_floods_is_not_remembered() {
    let cluster = Cluster::start(1);
    let proxy = start(&cluster, &Tempo::default()).await;
    let mut client = Client::connect(proxy.addr).await.unwrap();
    client.send(&wire::usual_startup()).await.unwrap();
    tokio::time::sleep(ms(200)).await;
    let before = proxy.memory();
    let flood = wire::query(&"x".repeat(50 << 20));

    let sent = tokio::time::timeout(Duration::from_secs(1), client.send(&flood)).await;

    assert!(
        sent.is_err(),
        "fifty megabytes were taken while there is no leader"
    );
    assert!(
        proxy.memory() <= before + 1024,
        "{} KiB, {before} before",
        proxy.memory()
    );
}

#[tokio::test]
async fn a_thousand_connections_that_say_nothing_are_gone_with_their_time() {
    let mut cluster = Cluster::start(1);
    cluster.lead(0, 1);
    let tempo = Tempo {
        top: "startup_timeout_secs = 1".to_owned(),
        ..Tempo::default()
    };
    let proxy = start(&cluster, &tempo).await;
    login(&proxy).await.terminate().await;
    tokio::time::sleep(ms(200)).await;
    let (descriptors, memory) = (proxy.descriptors(), proxy.memory());
    let mut silent = Vec::new();
    for _ in 0..1000 {
        silent.push(Client::connect(proxy.addr).await.unwrap());
    }
    let grown = proxy.memory().saturating_sub(memory);
    assert!(grown < 8 * 1024, "{grown} KiB for a thousand");

    let gone = eventually(Duration::from_secs(4), || {
        proxy.descriptors() <= descriptors + 2
    })
    .await;
    assert!(
        gone,
        "{} descriptors, {descriptors} before",
        proxy.descriptors()
    );
    login(&proxy).await.terminate().await;
    assert_eq!(cluster.nodes[0].postgres.accepted(), 2);
}
