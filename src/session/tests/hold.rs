//! Before a session: waiting for a leader, and being turned away in words.

use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::stand::*;
use crate::routing::RoutingSettings;
use crate::routing::testing::Wish;
use crate::session::SessionSettings;

const SOON: Duration = Duration::from_secs(2);
const SHORT: Duration = Duration::from_millis(150);

#[tokio::test]
async fn held_clients_are_dialled_within_20_ms_of_the_proof() {
    let stand = Stand::start().await;
    let server = Server::start("a", Manner::Serves).await;
    let mut quickest = Duration::MAX;
    // The best of a few: a busy machine may be late, a router that polls or sleeps is late always.
    for round in 0..5 {
        let mut clients = Vec::new();
        for _ in 0..5 {
            let mut client = stand.client().await;
            client.send(STARTUP).await;
            clients.push(client);
        }
        assert!(eventually(SOON, || stand.held() == 5).await);
        assert_eq!(server.dials(), round * 5, "nothing is dialled before proof");

        let proof = Instant::now();
        stand.script.leads(server.addr);
        while server.dials() == round * 5 {
            tokio::task::yield_now().await;
        }
        quickest = quickest.min(proof.elapsed());

        for client in &mut clients {
            client.until_ready().await;
            assert_eq!(client.asks().await, "a");
        }
        assert_eq!(stand.held(), 0);
        stand.script.follows();
    }
    assert!(quickest < Duration::from_millis(20), "{quickest:?}");
}

#[tokio::test]
async fn clients_are_served_in_order_of_arrival() {
    let routing = RoutingSettings {
        dial_concurrency: 1,
        ..RoutingSettings::default()
    };
    let stand = Stand::with(routing, SessionSettings::default()).await;
    let server = Server::start("a", Manner::Serves).await;
    let mut clients = Vec::new();
    for number in 1..=8 {
        let mut client = stand.client().await;
        client.send(STARTUP).await;
        assert!(eventually(SOON, || stand.held() == number).await);
        clients.push(client);
    }

    stand.script.leads(server.addr);

    for (number, client) in clients.iter_mut().enumerate() {
        let greeting = client.until_ready().await;
        let key = greeting.iter().find(|m| m.0 == b'K').unwrap();
        assert_eq!(
            usize::from(key.1[3]),
            number,
            "the server counts its connections"
        );
    }
}

#[tokio::test]
async fn whoever_waits_in_vain_reads_why_however_it_opened() {
    let stand = Stand::holding(SHORT).await;
    let openings: [&[&[u8]]; 6] = [
        &[STARTUP],
        &[SSL, STARTUP],
        &[GSS, STARTUP],
        &[GSS, SSL, STARTUP],
        &[SSL, GSS, STARTUP],
        &[&STARTUP[..3], &STARTUP[3..9], &STARTUP[9..]],
    ];
    for opening in openings {
        let mut client = stand.client().await;
        for packet in opening {
            client.send(packet).await;
            if *packet == SSL || *packet == GSS {
                assert_eq!(client.byte().await, Some(b'N'));
            }
        }
        let (code, words) = client.refusal().await;
        assert_eq!(code, "57P03");
        assert_eq!(words, "no leader of main after 0.15 s");
    }
    assert_eq!(stand.held(), 0);
}

#[tokio::test]
async fn a_startup_message_may_come_byte_by_byte() {
    let (stand, server) = (
        Stand::start().await,
        Server::start("a", Manner::Serves).await,
    );
    stand.script.leads(server.addr);
    let mut client = stand.client().await;
    client.stream.set_nodelay(true).unwrap();
    for byte in [SSL, STARTUP].concat() {
        client.send(&[byte]).await;
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    assert_eq!(client.byte().await, Some(b'N'));
    client.until_ready().await;
    assert_eq!(client.asks().await, "a");
}

#[tokio::test]
async fn a_client_that_insists_on_tls_is_closed_when_its_time_is_up() {
    let stand = Stand::holding(SHORT).await;
    let mut client = stand.client().await;
    client.send(SSL).await;
    assert_eq!(client.byte().await, Some(b'N'));
    client.stream.shutdown().await.unwrap();
    client.ends().await;

    let mut direct = stand.client().await;
    direct.send(&[0x16, 3, 1, 0, 4]).await;
    direct.ends().await;
}

#[tokio::test]
async fn a_held_client_that_leaves_is_forgotten_at_once() {
    let stand = Stand::start().await;
    let mut client = stand.client().await;
    client.send(STARTUP).await;
    assert!(eventually(SOON, || stand.held() == 1).await);

    drop(client);

    assert!(eventually(SOON, || stand.held() == 0).await);
    assert!(eventually(SOON, || stand.shared.connections() == 0).await);
}

#[tokio::test]
async fn who_does_not_speak_postgresql_costs_no_server_and_is_closed() {
    let (stand, server) = (
        Stand::start().await,
        Server::start("a", Manner::Serves).await,
    );
    stand.script.leads(server.addr);
    for _ in 0..50 {
        drop(stand.client().await);
    }
    for noise in [
        &b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"[..],
        b"\0\0\0\x07\0\x03\0",
        b"\0\0\x27\x11\0\x03\0\0",
        b"\0\0\0\x0c\x04\xd2\x16\x2e\0\0\0\x01",
    ] {
        let mut client = stand.client().await;
        client.send(noise).await;
        client.ends().await;
    }
    let mut twice = stand.client().await;
    twice.send(GSS).await;
    assert_eq!(twice.byte().await, Some(b'N'));
    let before = server.dials();
    twice.send(GSS).await;
    twice.ends().await;

    assert_eq!(
        before, 1,
        "only the one that asked for GSS reached a server"
    );
    assert_eq!(server.dials(), 1);
    assert!(eventually(SOON, || stand.shared.connections() == 0).await);
}

#[tokio::test]
async fn a_broken_parameter_list_is_a_protocol_violation() {
    let stand = Stand::start().await;
    let mut client = stand.client().await;
    client.send(b"\0\0\0\x0d\0\x03\0\0user\0").await;
    assert_eq!(client.refusal().await.0, "08P01");
}

#[tokio::test]
async fn silence_is_closed_after_the_startup_timeout() {
    let session = SessionSettings {
        startup_timeout: SHORT,
        ..SessionSettings::default()
    };
    let stand = Stand::with(RoutingSettings::default(), session).await;
    let mut client = stand.client().await;
    let start = Instant::now();
    client.ends().await;
    assert!(start.elapsed() >= SHORT && start.elapsed() < SOON);
}

#[tokio::test]
async fn the_surplus_is_told_so_and_cancels_do_not_count() {
    let session = SessionSettings {
        max_connections: 1,
        ..SessionSettings::default()
    };
    let stand = Stand::with(RoutingSettings::default(), session).await;
    let server = Server::start("a", Manner::Serves).await;
    stand.script.leads(server.addr);
    let _first = stand.session().await;

    let mut second = stand.client().await;
    second.send(SSL).await;
    assert_eq!(second.byte().await, Some(b'N'));
    second.send(STARTUP).await;
    assert_eq!(second.refusal().await.0, "53300");

    let mut cancel = stand.client().await;
    cancel
        .send(b"\0\0\0\x10\x04\xd2\x16\x2e\0\0\0\0\x01\x02\x03\x04")
        .await;
    cancel.ends().await;
    assert_eq!(server.cancels.lock().unwrap().len(), 1);
}

#[tokio::test]
async fn a_server_that_starts_up_or_stops_is_tried_again_after_the_next_proof_and_not_before() {
    let stand = Stand::start().await;
    for manner in [Manner::Refuses("57P03"), Manner::Stops, Manner::Closes] {
        let server = Server::start("a", manner).await;
        stand.script.leads(server.addr);
        let mut client = stand.client().await;
        client.send(STARTUP).await;
        assert!(eventually(SOON, || server.dials() == 1).await);
        assert!(eventually(SOON, || stand.held() == 1).await);
        tokio::time::sleep(SHORT).await;
        assert_eq!(server.dials(), 1);

        server.becomes(Manner::Serves);
        stand.script.proves();

        client.until_ready().await;
        assert_eq!(client.asks().await, "a");
    }
}

#[tokio::test]
async fn a_refused_connection_ends_in_words_when_time_is_up() {
    let stand = Stand::holding(SHORT).await;
    let server = Server::start("a", Manner::Serves).await;
    let addr = server.addr;
    server.task_ends().await;
    stand.script.leads(addr);
    let mut client = stand.client().await;
    client.send(STARTUP).await;
    let (code, words) = client.refusal().await;
    assert_eq!(code, "57P03");
    assert_eq!(
        words,
        "the leader of main could not be reached within 0.15 s"
    );
}

#[tokio::test]
async fn a_full_server_is_told_of_at_once_and_waited_for_by_those_who_waited() {
    let stand = Stand::start().await;
    let server = Server::start("a", Manner::Refuses("53300")).await;
    let mut held = stand.client().await;
    held.send(STARTUP).await;
    assert!(eventually(SOON, || stand.held() == 1).await);
    stand.script.leads(server.addr);
    assert!(eventually(SOON, || server.dials() == 1).await);

    let mut fresh = stand.client().await;
    fresh.send(STARTUP).await;
    assert_eq!(fresh.refusal().await, ("53300".into(), "from a".into()));

    server.becomes(Manner::Serves);
    held.until_ready().await;
    assert!(server.dials() <= 4, "250 ms apart, not as fast as can be");
}

#[tokio::test]
async fn a_changed_limit_counts_for_the_next_client() {
    let stand = Stand::start().await;
    let server = Server::start("a", Manner::Serves).await;
    stand.script.leads(server.addr);
    let mut first = stand.session().await;
    stand.settings.send_modify(|s| s.max_connections = 1);

    let mut second = stand.client().await;
    second.send(STARTUP).await;

    assert_eq!(second.refusal().await.0, "53300");
    assert_eq!(first.asks().await, "a");
}

#[tokio::test]
async fn a_client_that_dawdles_gives_its_dial_slot_back_after_a_second() {
    let routing = RoutingSettings {
        dial_concurrency: 1,
        ..RoutingSettings::default()
    };
    let stand = Stand::with(routing, SessionSettings::default()).await;
    let server = Server::start("a", Manner::Serves).await;
    stand.script.leads(server.addr);
    let mut slow = stand.client().await;
    slow.send(SSL).await;
    assert_eq!(slow.byte().await, Some(b'N'));

    let start = Instant::now();
    let _next = stand.session().await;

    assert!(
        start.elapsed() > Duration::from_millis(800),
        "{:?}",
        start.elapsed()
    );
    assert!(start.elapsed() < SOON * 2);
    slow.send(STARTUP).await;
    slow.until_ready().await;
}

#[tokio::test]
async fn without_descriptors_the_surplus_is_told_so_and_the_rest_goes_on() {
    let (routing, session) = (RoutingSettings::default(), SessionSettings::default());
    // Two for a session, one for whoever comes next.
    let stand = Stand::with_descriptors(routing, session, 64 + 3).await;
    let server = Server::start("a", Manner::Serves).await;
    stand.script.leads(server.addr);
    let mut first = stand.session().await;

    let mut second = stand.client().await;
    second.send(STARTUP).await;
    assert_eq!(second.refusal().await.0, "53300");
    drop(second);
    assert_eq!(first.asks().await, "a");

    first.send(&message(b'X', b"")).await;
    first.ends().await;
    assert!(eventually(SOON, || stand.shared.connections() == 0).await);
    assert_eq!(stand.session().await.asks().await, "a");
}

#[tokio::test]
async fn the_time_that_a_client_takes_itself_does_not_count() {
    let stand = Stand::holding(SHORT).await;
    let server = Server::start("a", Manner::Serves).await;
    stand.script.leads(server.addr);
    let mut client = stand.client().await;
    client.send(SSL).await;
    assert_eq!(client.byte().await, Some(b'N'));
    tokio::time::sleep(SHORT * 2).await;

    client.send(STARTUP).await;

    client.until_ready().await;
}

#[tokio::test]
async fn a_crowd_that_is_held_keeps_the_descriptors_it_will_need() {
    let (routing, session) = (RoutingSettings::default(), SessionSettings::default());
    let stand = Stand::with_descriptors(routing, session, 64 + 5).await;
    let server = Server::start("a", Manner::Serves).await;
    let mut held = Vec::new();
    for number in 1..=2 {
        let mut client = stand.client().await;
        client.send(STARTUP).await;
        assert!(eventually(SOON, || stand.held() == number).await);
        held.push(client);
    }
    for _ in 0..3 {
        let mut surplus = stand.client().await;
        surplus.send(STARTUP).await;
        assert_eq!(surplus.refusal().await.0, "53300");
    }

    stand.script.leads(server.addr);

    for client in &mut held {
        client.until_ready().await;
        assert_eq!(client.asks().await, "a");
    }
}

#[tokio::test]
async fn a_held_client_that_has_said_too_much_is_forgotten_when_it_leaves() {
    let stand = Stand::start().await;
    let mut client = stand.client().await;
    client.send(STARTUP).await;
    client.send(&[0; 65_536]).await;
    assert!(eventually(SOON, || stand.held() == 1).await);
    tokio::time::sleep(SHORT).await;

    drop(client);

    assert!(eventually(SOON, || stand.held() == 0).await);
}

#[tokio::test]
async fn a_client_whose_time_ends_first_blames_no_server() {
    let stand = Stand::holding(SHORT).await;
    let mute = Server::start("a", Manner::Mute).await;
    let full = Full::start().await;
    for addr in [mute.addr, full.addr] {
        stand.script.leads(addr);
        let mut client = stand.client().await;
        client.send(STARTUP).await;

        assert_eq!(client.refusal().await.0, "57P03");
        assert_eq!(stand.script.demand.take_wishes(), []);
    }
}

#[tokio::test]
async fn news_that_grew_old_during_the_dial_are_asked_for_again() {
    let routing = RoutingSettings {
        max_staleness: SHORT,
        freshness_wait: SOON,
        ..RoutingSettings::default()
    };
    let stand = Stand::with(routing, SessionSettings::default()).await;
    let slow = Full::start().await;
    stand.script.leads(slow.addr);
    let mut client = stand.client().await;
    client.send(STARTUP).await;
    tokio::time::sleep(SHORT * 2).await;
    assert_eq!(stand.script.demand.take_wishes(), [], "young at the start");

    // The kernel tries again after a second.
    let mut server = slow.takes().await;
    let mut startup = [0; STARTUP.len()];
    let early = tokio::time::timeout(SHORT, server.read_exact(&mut startup)).await;
    assert!(early.is_err(), "nothing is said on old news");
    assert!(matches!(
        stand.script.demand.take_wishes()[..],
        [Wish::Fresh(_)]
    ));

    stand.script.proves();
    server.read_exact(&mut startup).await.unwrap();
    assert_eq!(startup, STARTUP);
}

#[tokio::test]
async fn a_node_that_stays_full_is_named_when_time_is_up() {
    let stand = Stand::holding(Duration::from_secs(1)).await;
    let server = Server::start("a", Manner::Refuses("53300")).await;
    let mut client = stand.client().await;
    client.send(STARTUP).await;
    assert!(eventually(SOON, || stand.held() == 1).await);
    stand.script.leads(server.addr);

    let (tag, body) = client.message().await.unwrap();

    let words = String::from_utf8(body).unwrap();
    assert!(
        tag == b'E' && words.contains("has no connection left"),
        "{words}"
    );
}
