//! While a session lasts: bytes, half-closes, cancels, slow readers.

use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use super::stand::*;
use crate::routing::testing::Wish;

const SOON: Duration = Duration::from_secs(2);

/// A session whose server is the test.
async fn by_hand(stand: &Stand) -> (Client, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    stand.script.leads(listener.local_addr().unwrap());
    let mut client = stand.client().await;
    client.send(STARTUP).await;
    let (mut server, _) = listener.accept().await.unwrap();
    let mut startup = [0; STARTUP.len()];
    server.read_exact(&mut startup).await.unwrap();
    assert_eq!(startup, STARTUP);
    let mut greeting = message(b'R', &[0; 4]);
    greeting.extend(message(b'Z', b"I"));
    server.write_all(&greeting).await.unwrap();
    client.until_ready().await;
    (client, server)
}

#[tokio::test]
async fn bytes_pass_unchanged_in_both_directions() {
    let stand = Stand::start().await;
    let (client, server) = by_hand(&stand).await;
    let seed = fastrand::u64(..);
    let mut random = fastrand::Rng::with_seed(seed);
    let bytes: Vec<u8> = (0..3_000_000).map(|_| random.u8(..)).collect();
    let mut copies = Vec::new();
    let (mut cr, mut cw) = client.stream.into_split();
    let (mut sr, mut sw) = server.into_split();
    let up = bytes.clone();
    copies.push(tokio::spawn(async move {
        cw.write_all(&up).await.unwrap();
        cw.shutdown().await.unwrap();
        Vec::new()
    }));
    copies.push(tokio::spawn(async move {
        let mut got = Vec::new();
        sr.read_to_end(&mut got).await.unwrap();
        got
    }));
    let down = message(b'D', &bytes);
    let sent = down.clone();
    copies.push(tokio::spawn(async move {
        sw.write_all(&sent).await.unwrap();
        sw.shutdown().await.unwrap();
        Vec::new()
    }));
    let mut got = Vec::new();
    cr.read_to_end(&mut got).await.unwrap();
    assert!(got.starts_with(&down), "seed {seed}");
    let mut received = Vec::new();
    for copy in copies {
        received.extend(copy.await.unwrap());
    }
    assert!(received == bytes, "seed {seed}");
    assert!(stand.script.metrics.bytes_to_server.get() >= 3_000_000);
    assert!(stand.script.metrics.bytes_to_client.get() >= 3_000_000);
}

#[tokio::test]
async fn a_half_close_is_passed_on_and_the_rest_still_comes() {
    let stand = Stand::start().await;
    let (mut client, mut server) = by_hand(&stand).await;
    client.send(QUERY).await;
    client.stream.shutdown().await.unwrap();
    let mut query = Vec::new();
    server.read_to_end(&mut query).await.unwrap();
    assert_eq!(query, QUERY);

    let answer = message(b'C', b"late");
    server.write_all(&answer).await.unwrap();
    drop(server);

    assert_eq!(client.message().await, Some((b'C', b"late".to_vec())));
    client.ends().await;
    assert!(eventually(SOON, || stand.open() == 0).await);
    assert!(
        !stand
            .script
            .demand
            .take_wishes()
            .iter()
            .any(|w| matches!(w, Wish::ServerClosed(_))),
        "the client has asked for it"
    );
}

#[tokio::test]
async fn a_lost_server_is_told_in_words_and_asked_about() {
    let stand = Stand::start().await;
    let (mut client, server) = by_hand(&stand).await;
    stand.script.demand.take_wishes();

    drop(server);

    assert_eq!(
        client.refusal().await,
        ("08006".into(), "the connection to node1 was lost".into())
    );
    let wishes = stand.script.demand.take_wishes();
    assert!(matches!(wishes[..], [Wish::ServerClosed(_)]), "{wishes:?}");
}

#[tokio::test]
async fn a_server_that_said_why_needs_no_words_of_ours() {
    let stand = Stand::start().await;
    let (mut client, mut server) = by_hand(&stand).await;
    let body = b"SFATAL\0C57P01\0Mterminating connection\0\0";
    server.write_all(&message(b'E', body)).await.unwrap();
    drop(server);

    assert_eq!(
        client.refusal().await,
        ("57P01".into(), "terminating connection".into())
    );
}

#[tokio::test]
async fn a_client_that_vanishes_leaves_no_server_session() {
    let stand = Stand::start().await;
    let server = Server::start("a", Manner::Serves).await;
    stand.script.leads(server.addr);
    for _ in 0..20 {
        let mut client = stand.session().await;
        client.send(&message(b'Q', b"sleep\0")).await;
        // A reset rather than an orderly end.
        socket2::SockRef::from(&client.stream)
            .set_linger(Some(Duration::ZERO))
            .unwrap();
    }
    assert!(eventually(SOON, || server.open() == 0 && stand.open() == 0).await);
    assert!(eventually(SOON, || stand.shared.connections() == 0).await);
    assert_eq!(stand.shared.cancels.len(), 0);
}

#[tokio::test]
async fn a_cancel_reaches_the_node_that_issued_the_key_and_nobody_else() {
    let stand = Stand::start().await;
    let server = Server::start("a", Manner::Serves).await;
    stand.script.leads(server.addr);
    let _session = stand.session().await;
    let cancel = |last: u8| {
        let mut packet = b"\0\0\0\x10\x04\xd2\x16\x2e\0\0\0\0\x01\x02\x03".to_vec();
        packet.push(last);
        packet
    };

    let mut good = stand.client().await;
    good.send(&cancel(4)).await;
    good.ends().await;
    assert_eq!(*server.cancels.lock().unwrap(), [[0, 0, 0, 0, 1, 2, 3, 4]]);

    let before = server.dials();
    let mut unknown = stand.client().await;
    unknown.send(&cancel(5)).await;
    unknown.ends().await;
    assert_eq!(server.dials(), before);
}

#[tokio::test]
async fn a_key_from_inside_of_tls_is_sent_to_where_its_client_has_sessions() {
    let stand = Stand::start().await;
    let server = Server::start("a", Manner::OffersTls).await;
    stand.script.leads(server.addr);
    let mut tls = stand.client().await;
    tls.send(SSL).await;
    assert_eq!(tls.byte().await, Some(b'S'));
    tls.send(b"hello").await;
    assert_eq!(tls.byte().await, Some(b'h'));

    let mut cancel = stand.client().await;
    cancel
        .send(b"\0\0\0\x10\x04\xd2\x16\x2e\0\0\0\x09\x09\x09\x09\x09")
        .await;
    cancel.ends().await;

    assert_eq!(server.cancels.lock().unwrap().len(), 1);
}

#[tokio::test]
async fn a_slow_reader_stops_its_server_and_not_the_memory() {
    let stand = Stand::start().await;
    let (client, mut server) = by_hand(&stand).await;
    let chunk = message(b'D', &vec![7; 1 << 20]);
    let mut sent = 0usize;
    while let Ok(Ok(n)) =
        tokio::time::timeout(Duration::from_millis(300), server.write(&chunk)).await
    {
        sent += n;
        assert!(
            sent < 64 << 20,
            "somebody keeps what the client does not read"
        );
    }
    drop(client);
}

#[tokio::test]
async fn a_server_without_direct_tls_is_tried_twice_and_then_the_client_is_closed() {
    let stand = Stand::start().await;
    let server = Server::start("a", Manner::Closes).await;
    stand.script.leads(server.addr);
    let mut client = stand.client().await;
    client.send(&[0x16, 3, 1, 0, 4, 1, 2, 3, 4]).await;
    assert!(eventually(SOON, || server.dials() == 1).await);
    assert!(eventually(SOON, || stand.held() == 1).await);
    stand.script.proves();
    client.ends().await;
    assert_eq!(server.dials(), 2);
}

#[tokio::test]
async fn a_tls_session_has_begun_with_its_servers_second_read_and_not_before() {
    let stand = Stand::start().await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    stand.script.leads(listener.local_addr().unwrap());
    let mut client = stand.client().await;
    client.send(&[0x16, 3, 1, 0, 4, 1, 2, 3, 4]).await;
    let (mut server, _) = listener.accept().await.unwrap();
    let has_begun = || {
        let wishes = stand.script.demand.take_wishes();
        wishes.iter().any(|w| matches!(w, Wish::DialReady(..)))
    };
    server.write_all(b"a").await.unwrap();
    assert_eq!(client.byte().await, Some(b'a'));
    assert!(!has_begun());

    server.write_all(b"b").await.unwrap();
    assert_eq!(client.byte().await, Some(b'b'));
    assert!(has_begun());
}
