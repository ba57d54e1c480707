//! Both directions run until one side ends, and then nothing is left of either.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::scene::{PATIENCE, Scene, is_held};
use crate::fakes::client::Client;
use crate::fakes::cluster::Tempo;
use crate::fakes::{eventually, ms, wire, within};

#[tokio::test]
async fn a_half_close_is_passed_on_and_what_is_in_flight_still_arrives() {
    let scene = Scene::led(1).await;
    let mut client = scene.login().await;
    client.send(&wire::query("slow 300")).await.unwrap();
    client.stream.shutdown().await.unwrap();

    let (answer, in_order) = within(PATIENCE, "the answer and the end", client.rest()).await;

    let expected = [wire::one_row(b"n1"), wire::ready_for_query(b'I')].concat();
    assert_eq!(answer, expected);
    assert!(in_order);
    assert!(eventually(Duration::from_secs(1), || scene.open_at(0) == 0).await);
}

#[tokio::test]
async fn the_servers_side_ends_within_a_second_however_its_client_left() {
    let scene = Scene::led(1).await;
    for (how, query) in [
        ("idle", None),
        ("mid query", Some("hang")),
        ("mid result", Some("rows 100000 1000")),
    ] {
        for abrupt in [false, true] {
            let mut client = scene.login().await;
            if let Some(sql) = query {
                client.send(&wire::query(sql)).await.unwrap();
                tokio::time::sleep(ms(50)).await;
            }
            assert_eq!(scene.open_at(0), 1);

            if abrupt {
                client.vanish()
            } else {
                drop(client)
            }

            let gone = eventually(Duration::from_secs(1), || scene.open_at(0) == 0).await;
            assert!(gone, "{how}, abrupt: {abrupt}");
        }
    }
}

#[tokio::test]
async fn a_servers_last_words_reach_the_client() {
    let scene = Scene::led(1).await;
    let mut client = scene.login().await;
    client.send(&wire::query("die")).await.unwrap();

    let last = within(PATIENCE, "the last words", client.last_words()).await;

    assert_eq!(last.code(), "57P01");
    assert_eq!(within(PATIENCE, "the end", client.rest()).await.0, b"");
}

#[tokio::test]
async fn a_lost_server_is_named_where_words_can_be_said() {
    let scene = Scene::led(1).await;
    let mut idle = scene.login().await;
    let mut inside = scene.login().await;
    inside.send(&wire::query("half")).await.unwrap();
    let mut first = [0; 500];
    inside.stream.read_exact(&mut first).await.unwrap();

    scene.cluster.nodes[0].postgres.hang_up().await;

    let last = within(PATIENCE, "the last words", idle.last_words()).await;
    assert_eq!(last.code(), "08006", "{last:?}");
    assert_eq!(
        within(PATIENCE, "the end", inside.rest()).await.0,
        b"",
        "words inside a message"
    );
}

#[tokio::test]
async fn small_messages_are_never_kept_back() {
    let scene = Scene::led(1).await;
    let mut direct = Client::login(scene.cluster.nodes[0].postgres.addr())
        .await
        .unwrap();
    let mut through = scene.login().await;
    let direct = p90(&mut direct).await;
    let through = p90(&mut through).await;

    // Nagle against delayed acknowledgement costs 40 ms and more, nearly each time; a busy machine may cost some.
    assert!(
        through < direct + ms(25),
        "p90 {through:?}, without the proxy {direct:?}"
    );
}

/// Of 500 queries, each sent in two segments.
async fn p90(client: &mut Client) -> Duration {
    let query = wire::query("x");
    let mut took = Vec::new();
    for _ in 0..500 {
        let since = Instant::now();
        client.send(&query[..3]).await.unwrap();
        client.send(&query[3..]).await.unwrap();
        client.result().await.unwrap();
        took.push(since.elapsed());
    }
    took.sort();
    took[450]
}

#[tokio::test]
async fn a_large_result_and_a_large_query_cross_each_other_without_a_jam() {
    let scene = Scene::led(1).await;
    let mut client = scene.login().await;
    let long = wire::query(&format!("x {}", "y".repeat(20 << 20)));
    let (mut from, mut to) = client.stream.split();
    let send = async {
        to.write_all(&wire::query("rows 20000 1000")).await.unwrap();
        to.write_all(&long).await.unwrap();
    };
    let read = async {
        let mut ready = 0;
        let mut total = 0_usize;
        while ready < 2 {
            let tag = from.read_u8().await.unwrap();
            let length = from.read_u32().await.unwrap() as usize - 4;
            tokio::io::copy(&mut (&mut from).take(length as u64), &mut tokio::io::sink())
                .await
                .unwrap();
            total += length;
            ready += usize::from(tag == b'Z');
        }
        total
    };
    let (_, total) = within(PATIENCE, "both", async { tokio::join!(send, read) }).await;
    assert!(total > 20_000 * 1000);
}

#[tokio::test]
async fn idle_sessions_are_never_cut_and_both_sides_are_kept_alive_by_the_kernel() {
    // Everything that has a time limit gets a short one, so that one used in the wrong place would show.
    let tempo = Tempo {
        write_timeout_secs: 1,
        top: "startup_timeout_secs = 1\nconnect_timeout_ms = 500\ndead_peer_secs = 1\ndrain_timeout_secs = 1".to_owned(),
        ..Tempo::default()
    };
    let scene = Scene::led_with(1, &tempo).await;
    let mut idle = scene.login().await;
    let mut busy = scene.login().await;
    busy.send(&wire::query("slow 3500")).await.unwrap();

    let client_side = keepalive(scene.addr, idle.stream.local_addr().unwrap());
    let visit = scene.cluster.nodes[0]
        .postgres
        .visits()
        .into_iter()
        .rev()
        .nth(1)
        .unwrap();
    let server_side = keepalive(visit.from, scene.cluster.nodes[0].postgres.addr());
    assert!(
        client_side.is_some_and(|at_most| at_most <= Duration::from_secs(60)),
        "{client_side:?}"
    );
    assert!(
        server_side.is_some_and(|at_most| at_most <= Duration::from_secs(15)),
        "{server_side:?}"
    );

    assert!(is_held(&idle, ms(3200)).await, "an idle session was cut");
    assert_eq!(idle.node().await.unwrap(), "n1");
    assert_eq!(
        within(PATIENCE, "a slow answer", busy.result())
            .await
            .unwrap(),
        "n1"
    );
}

/// When the kernel will probe the connection next, if its keepalive timer runs.
fn keepalive(local: SocketAddr, remote: SocketAddr) -> Option<Duration> {
    let hex = |addr: SocketAddr| match addr {
        SocketAddr::V4(v4) => format!(
            "{:08X}:{:04X}",
            u32::from_le_bytes(v4.ip().octets()),
            v4.port()
        ),
        SocketAddr::V6(_) => unreachable!("these tests are on IPv4"),
    };
    let table = std::fs::read_to_string("/proc/net/tcp").unwrap();
    let row = table.lines().find(|row| {
        let mut words = row.split_ascii_whitespace().skip(1);
        words.next() == Some(&hex(local)) && words.next() == Some(&hex(remote))
    })?;
    let (kind, when) = row.split_ascii_whitespace().nth(5)?.split_once(':')?;
    let jiffies = u64::from_str_radix(when, 16).ok()?;
    (kind == "02").then(|| Duration::from_millis(jiffies * 10))
}
