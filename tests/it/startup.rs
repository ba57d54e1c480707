//! A client's first bytes: what is passed on as it is, and what never reaches a server.

use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::scene::{PATIENCE, Scene};
use crate::fakes::client::Client;
use crate::fakes::cluster::Tempo;
use crate::fakes::{eventually, ms, wire, within};

#[tokio::test]
async fn a_thousand_probes_that_say_nothing_cost_no_server_connection() {
    let scene = Scene::led(1).await;
    let before = scene.accepted();
    for i in 0..1000 {
        let stream = TcpStream::connect(scene.addr).await.unwrap();
        if i % 2 == 0 {
            crate::fakes::door::reset(stream);
        }
    }
    assert_eq!(scene.node().await, "n1", "the listener still works");
    assert_eq!(scene.accepted(), before + 1);
}

#[tokio::test]
async fn what_is_no_startup_is_closed_and_costs_no_server_connection() {
    let scene = Scene::led(1).await;
    let before = scene.accepted();
    let mut packets: Vec<Vec<u8>> = vec![
        b"GET / HTTP/1.1\r\nHost: db\r\n\r\n".to_vec(),
        b"SSH-2.0-OpenSSH_9.2\r\n".to_vec(),
        b"\x80\x2e\x01\x00\x02old TLS".to_vec(),
        vec![0; 64],
        vec![0xff; 64],
    ];
    for length in [0_u32, 1, 4, 7, 10_001, 1 << 31, u32::MAX] {
        packets.push([&length.to_be_bytes()[..], &[0, 3, 0, 0, 0]].concat());
    }
    for _ in 0..200 {
        // The first byte of any length that PostgreSQL takes is zero.
        packets.push(
            [
                vec![fastrand::u8(1..0x16)],
                (0..15).map(|_| fastrand::u8(..)).collect(),
            ]
            .concat(),
        );
    }
    for packet in packets {
        let mut client = Client::connect(scene.addr).await.unwrap();
        let _ = client.send(&packet).await;
        let (said, _) = within(PATIENCE, "an end", client.rest()).await;
        assert!(said.is_empty(), "{packet:?} was answered {said:?}");
    }
    assert_eq!(scene.accepted(), before);
}

#[tokio::test]
async fn a_broken_parameter_list_is_a_protocol_violation() {
    let scene = Scene::led(1).await;
    let before = scene.accepted();
    for list in [&b"user\0app"[..], b"user\0app\0", b"user", b"user\0"] {
        let packet = wire::framed(&[&wire::PROTOCOL_3_0.to_be_bytes()[..], list].concat());
        let mut client = Client::connect(scene.addr).await.unwrap();
        client.send(&packet).await.unwrap();
        let refused = within(PATIENCE, "a refusal", client.until_ready())
            .await
            .unwrap_err();
        assert_eq!(refused.code(), "08P01", "{list:?}: {refused:?}");
    }
    assert_eq!(scene.accepted(), before);
}

#[tokio::test]
async fn whoever_is_too_slow_with_its_first_packet_is_closed() {
    let tempo = Tempo {
        top: "startup_timeout_secs = 1".to_owned(),
        ..Tempo::default()
    };
    let scene = Scene::led_with(1, &tempo).await;
    let before = scene.accepted();
    let mut silent = Client::connect(scene.addr).await.unwrap();
    let mut slow = Client::connect(scene.addr).await.unwrap();
    let since = Instant::now();

    let ((silent_said, _), dripped) = tokio::join!(
        within(PATIENCE, "the end of the silent one", silent.rest()),
        within(PATIENCE, "the end of the slow one", async {
            // 36 bytes at one in 50 ms: each is in time, all together are not.
            let _ = slow.drip(&wire::usual_startup(), ms(50)).await;
            slow.rest().await
        }),
    );

    assert_eq!(silent_said, b"");
    assert!(dripped.0.is_empty() || dripped.0[0] == b'E', "{dripped:?}");
    assert!(
        (ms(900)..Duration::from_secs(3)).contains(&since.elapsed()),
        "{:?}",
        since.elapsed()
    );
    assert_eq!(scene.accepted(), before);
}

#[tokio::test]
async fn every_opening_reaches_the_server_byte_for_byte_also_one_byte_at_a_time() {
    let scene = Scene::led(1).await;
    let openings: [&[[u8; 8]]; 5] = [
        &[],
        &[wire::SSL_REQUEST],
        &[wire::GSS_REQUEST],
        &[wire::GSS_REQUEST, wire::SSL_REQUEST],
        &[wire::SSL_REQUEST, wire::GSS_REQUEST],
    ];
    for opening in openings {
        for gap in [None, Some(ms(1))] {
            let mut client = Client::connect(scene.addr).await.unwrap();
            let mut sent = Vec::new();
            for packet in opening {
                sent.extend_from_slice(packet);
                match gap {
                    Some(gap) => client.drip(packet, gap).await.unwrap(),
                    None => client.send(packet).await.unwrap(),
                }
                assert_eq!(
                    within(PATIENCE, "an answer", client.stream.read_u8())
                        .await
                        .unwrap(),
                    b'N'
                );
            }
            let startup = wire::usual_startup();
            sent.extend_from_slice(&startup);
            match gap {
                Some(gap) => client.drip(&startup, gap).await.unwrap(),
                None => client.send(&startup).await.unwrap(),
            }
            within(PATIENCE, "a login", client.until_ready())
                .await
                .unwrap();
            let visit = scene.cluster.nodes[0].postgres.visits().pop().unwrap();
            assert_eq!(visit.received, sent);
        }
    }
}

#[tokio::test]
async fn eight_requests_in_a_row_are_refused() {
    let scene = Scene::led(1).await;
    let mut client = Client::connect(scene.addr).await.unwrap();
    let mut answered = 0;
    for i in 0..8 {
        let request = if i % 2 == 0 {
            wire::GSS_REQUEST
        } else {
            wire::SSL_REQUEST
        };
        match within(PATIENCE, "an answer or an end", client.ask(&request)).await {
            Ok(b'N') => answered += 1,
            _ => break,
        }
    }
    assert!(answered <= 2, "{answered} were answered");
    assert!(eventually(PATIENCE, || scene.open_at(0) == 0).await);
}

#[tokio::test]
async fn tls_passes_untouched_both_ways_after_an_ssl_request_and_directly() {
    let scene = Scene::led(1).await;
    scene.cluster.nodes[0]
        .postgres
        .script(|script| script.ssl = b'S');
    for direct in [false, true] {
        let mut client = Client::connect(scene.addr).await.unwrap();
        let mut sent = Vec::new();
        if !direct {
            assert_eq!(client.ask(&wire::SSL_REQUEST).await.unwrap(), b'S');
            sent.extend_from_slice(&wire::SSL_REQUEST);
        }
        // A large ClientHello comes in two segments.
        let hello: Vec<u8> = [&wire::CLIENT_HELLO[..], &[7; 1800]].concat();
        client.send(&hello[..1400]).await.unwrap();
        tokio::time::sleep(ms(20)).await;
        client.send(&hello[1400..]).await.unwrap();
        let later: Vec<u8> = (0..100_000).map(|_| fastrand::u8(..)).collect();
        let all = [&hello[..], &later[..]].concat();
        sent.extend_from_slice(&all);
        let (mut from, mut to) = client.stream.split();
        let mut back = vec![0; all.len()];
        let both = async { tokio::join!(from.read_exact(&mut back), to.write_all(&later)) };
        let (read, written) = within(PATIENCE, "the echo", both).await;
        read.unwrap();
        written.unwrap();

        assert!(
            back.iter().zip(&all).all(|(back, sent)| *back == !sent),
            "direct: {direct}"
        );
        let visit = scene.cluster.nodes[0].postgres.visits().pop().unwrap();
        assert_eq!(visit.received, sent[..visit.received.len()]);
    }
}

#[tokio::test]
async fn protocol_versions_are_the_servers_business() {
    let scene = Scene::led(1).await;
    for version in [wire::PROTOCOL_3_2, 0x0003_270f, 0x0002_0000, 0x0004_0000] {
        let mut client = Client::connect(scene.addr).await.unwrap();
        let startup = wire::startup(version, &[("user", "app"), ("_pq_.x", "1")]);
        client.send(&startup).await.unwrap();
        within(PATIENCE, "a login", client.until_ready())
            .await
            .unwrap();
        assert_eq!(
            scene.cluster.nodes[0]
                .postgres
                .visits()
                .pop()
                .unwrap()
                .received,
            startup
        );
    }
}

#[tokio::test]
async fn a_startup_message_of_ten_thousand_bytes_is_the_longest() {
    let scene = Scene::led(1).await;
    let filler = "x".repeat(
        10_000 - wire::startup(wire::PROTOCOL_3_0, &[("user", "a"), ("options", "")]).len(),
    );
    let longest = wire::startup(wire::PROTOCOL_3_0, &[("user", "a"), ("options", &filler)]);
    assert_eq!(longest.len(), 10_000);
    let mut client = Client::connect(scene.addr).await.unwrap();
    client.send(&longest).await.unwrap();

    within(PATIENCE, "a login", client.until_ready())
        .await
        .unwrap();
    assert_eq!(
        scene.cluster.nodes[0]
            .postgres
            .visits()
            .pop()
            .unwrap()
            .received,
        longest
    );
}

#[tokio::test]
async fn packets_of_a_valid_length_and_random_content_are_refused_in_words_or_passed_on() {
    let scene = Scene::led(1).await;
    for _ in 0..300 {
        let body: Vec<u8> = (0..fastrand::usize(4..40))
            .map(|_| fastrand::u8(..))
            .collect();
        let mut client = Client::connect(scene.addr).await.unwrap();
        client.send(&wire::framed(&body)).await.unwrap();
        let refused = within(PATIENCE, "a refusal or a login", client.until_ready()).await;
        if let Err(refused) = refused {
            assert!(
                ["08P01", "-"].contains(&refused.code()),
                "{body:?}: {refused:?}"
            );
        }
    }
    assert_eq!(scene.node().await, "n1");
}
