//! Sessions that move from one worker to another, as between two processes.

use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpStream, UnixStream};

use super::pair::*;
use super::stand::*;
use crate::metrics::RevokeReason;
use crate::net::{Address, BindOptions, bind};
use crate::primary_tracker::Readers;
use crate::routing::OnPromotion;
use crate::routing::testing::{reads, replica};
use crate::session::{Command, ListenerSettings, Packed, Verdict};

#[tokio::test]
async fn an_idle_session_goes_on_in_the_other_process_and_is_counted_there() {
    let pair = Pair::start().await;
    let server = Server::start("a", Manner::Serves).await;
    pair.leads(server.addr);
    let mut client = pair.old.session().await;
    assert_eq!((sessions(&pair.old), sessions(&pair.new)), (1, 0));

    let carrier = Carrier::between(&pair.old, &pair.new).await;

    assert!(pair.moved().await);
    assert_eq!(pair.open(), (0, 1));
    assert_eq!((sessions(&pair.old), sessions(&pair.new)), (0, 1));
    assert_eq!(client.asks().await, "a");
    assert_eq!((carrier.taken(), carrier.back()), (1, 0));
    assert_eq!(server.dials(), 1);
    client.send(&message(b'X', b"")).await;
    client.ends().await;
    assert!(eventually(SOON, || pair.connections() == (0, 0) && server.open() == 0).await);
    assert_eq!(sessions(&pair.new), 0);
}

#[tokio::test]
async fn a_session_that_begins_while_others_move_moves_after_them() {
    let pair = Pair::start().await;
    let server = Server::start("a", Manner::Serves).await;
    pair.leads(server.addr);
    let _carrier = Carrier::between(&pair.old, &pair.new).await;

    let mut client = pair.old.session().await;

    assert_eq!(client.asks().await, "a");
    assert!(pair.moved().await);
    assert_eq!(client.asks().await, "a");
}

#[tokio::test]
async fn a_quiet_worker_that_has_handed_out_everybody_ends() {
    let pair = Pair::start().await;
    let server = Server::start("a", Manner::Serves).await;
    pair.leads(server.addr);
    let mut clients = Vec::new();
    for _ in 0..100 {
        clients.push(pair.old.session().await);
    }

    let carrier = Carrier::between(&pair.old, &pair.new).await;
    pair.old.commands.send(Command::Quiet).await.unwrap();

    assert!(pair.old.ended(SOON).await);
    assert_eq!(carrier.taken(), 100);
    assert_eq!(pair.connections(), (0, 100));
    for client in &mut clients {
        assert_eq!(client.asks().await, "a");
    }
    assert_eq!(server.dials(), 100);
}

#[tokio::test]
async fn a_writer_is_given_back_where_the_epoch_is_another_and_stays_served() {
    let pair = Pair::start().await;
    let server = Server::start("a", Manner::Serves).await;
    pair.leads(server.addr);
    pair.new.script.leads(server.addr);
    let mut client = pair.old.session().await;

    let carrier = Carrier::between(&pair.old, &pair.new).await;

    assert!(eventually(SOON, || carrier.back() == 1).await);
    assert_eq!(client.asks().await, "a");
    assert_eq!(pair.connections(), (1, 0));
    pair.old.script.follows();
    assert_eq!(
        client.refusal().await.0,
        "57P01",
        "the old one still revokes"
    );
}

#[tokio::test]
async fn who_was_given_back_is_tried_again_and_moves_once_its_node_is_proved() {
    let pair = Pair::start().await;
    let server = Server::start("a", Manner::Serves).await;
    pair.old.script.leads(server.addr);
    let mut client = pair.old.session().await;
    let carrier = Carrier::between(&pair.old, &pair.new).await;
    assert!(eventually(SOON, || carrier.back() == 1).await);

    pair.new.script.leads(server.addr);

    assert!(pair.moved().await);
    assert_eq!(client.asks().await, "a");
}

#[tokio::test]
async fn nothing_is_read_by_either_until_the_verdict_is_out() {
    let pair = Pair::start().await;
    let (mut client, mut server) = by_hand(&pair).await;
    let mut packed = packs(&pair.old).await;
    let Packed { parcel, verdict } = packed.recv().await.unwrap();
    let start = adopt(&pair.new.commands, parcel).await.unwrap();

    client.send(QUERY).await;
    let mut query = [0; QUERY.len()];
    let read = tokio::time::timeout(Duration::from_millis(200), server.read(&mut query));
    assert!(read.await.is_err(), "nobody has the right to read yet");

    verdict.send(Verdict::Taken).unwrap();
    start.go();
    within(server.read_exact(&mut query)).await.unwrap();
    assert_eq!(query, QUERY);
}

#[tokio::test]
async fn a_taker_that_dies_before_its_answer_costs_nothing() {
    let pair = Pair::start().await;
    let server = Server::start("a", Manner::Serves).await;
    pair.leads(server.addr);
    let mut client = pair.old.session().await;
    let mut packed = packs(&pair.old).await;
    let Packed { parcel, verdict } = packed.recv().await.unwrap();
    let start = adopt(&pair.new.commands, parcel).await.unwrap();
    client.send(QUERY).await;

    drop((start, verdict, packed));

    assert_eq!(client.until_ready().await[0].1, b"a");
    assert!(eventually(SOON, || pair.connections() == (1, 0)).await);
    assert_eq!(pair.new.shared.cancels.len(), 0);
}

#[tokio::test]
async fn at_most_64_parcels_are_on_their_way() {
    let pair = Pair::start().await;
    let server = Server::start("a", Manner::Serves).await;
    pair.leads(server.addr);
    let mut clients = Vec::new();
    for _ in 0..70 {
        clients.push(pair.old.session().await);
    }
    let mut packed = packs(&pair.old).await;
    let mut verdicts = Vec::new();
    for _ in 0..64 {
        verdicts.push(packed.recv().await.unwrap());
    }
    let more = tokio::time::timeout(Duration::from_millis(200), packed.recv());
    assert!(more.await.is_err());

    drop(verdicts.pop());
    assert!(packed.recv().await.is_some());
    drop((verdicts, packed));
    for client in &mut clients {
        assert_eq!(client.asks().await, "a");
    }
}

#[tokio::test]
async fn an_epoch_that_ends_while_a_session_is_on_its_way_ends_the_session_wherever_it_is() {
    let pair = Pair::start().await;
    let (mut client, mut server) = by_hand(&pair).await;
    let mut packed = packs(&pair.old).await;
    let Packed { parcel, verdict } = packed.recv().await.unwrap();
    let start = adopt(&pair.new.commands, parcel).await.unwrap();

    pair.old.script.follows();

    let mut rest = Vec::new();
    within(server.read_to_end(&mut rest)).await.unwrap();
    assert_eq!(rest, b"", "the connection to the node is gone at once");
    verdict.send(Verdict::Taken).unwrap();
    start.go();
    assert_eq!(client.refusal().await.0, "08006");
    drop(client);
    assert!(eventually(SOON, || pair.connections() == (0, 0)).await);
}

#[tokio::test]
async fn a_session_that_is_revoked_on_its_way_and_comes_back_is_told_so() {
    let pair = Pair::start().await;
    let (mut client, _server) = by_hand(&pair).await;
    let mut packed = packs(&pair.old).await;
    let parcel = packed.recv().await.unwrap();

    pair.old.script.follows();
    tokio::time::sleep(Duration::from_millis(20)).await;
    drop(parcel);

    assert_eq!(client.refusal().await.0, "57P01");
}

#[tokio::test]
async fn an_adopted_session_is_ended_with_its_epoch() {
    let pair = Pair::start().await;
    let (mut client, _server) = by_hand(&pair).await;
    let _carrier = Carrier::between(&pair.old, &pair.new).await;
    assert!(pair.moved().await);

    pair.new.script.follows();

    assert_eq!(client.refusal().await.0, "57P01");
    let revoked = &pair.new.script.metrics.revoked;
    let label = crate::metrics::RevokeLabel {
        reason: RevokeReason::follows,
    };
    assert_eq!(revoked.get_or_create(&label).get(), 1);
}

#[tokio::test]
async fn a_half_closed_session_moves_and_the_rest_still_comes() {
    let pair = Pair::start().await;
    let (mut client, mut server) = by_hand(&pair).await;
    client.send(QUERY).await;
    client.stream.shutdown().await.unwrap();
    let mut query = Vec::new();
    within(server.read_to_end(&mut query)).await.unwrap();
    assert_eq!(query, QUERY);

    let _carrier = Carrier::between(&pair.old, &pair.new).await;
    assert!(pair.moved().await);
    server.write_all(&message(b'C', b"late")).await.unwrap();
    drop(server);

    assert_eq!(client.message().await, Some((b'C', b"late".to_vec())));
    client.ends().await;
    assert!(eventually(SOON, || pair.connections() == (0, 0)).await);
}

#[tokio::test]
async fn a_session_in_the_middle_of_a_message_is_busy_and_idle_after_its_end_in_the_other_process()
{
    let pair = Pair::start().await;
    let (mut client, mut server) = by_hand(&pair).await;
    client.send(&QUERY[..3]).await;
    let mut part = [0; 3];
    within(server.read_exact(&mut part)).await.unwrap();
    let _carrier = Carrier::between(&pair.old, &pair.new).await;
    assert!(pair.moved().await);

    pair.new.commands.send(Command::Drain).await.unwrap();
    tokio::time::sleep(Duration::from_millis(1_300)).await;
    assert_eq!(pair.connections(), (0, 1), "busy");
    client.send(&QUERY[3..]).await;
    let mut answer = message(b'C', b"x");
    answer.extend(message(b'Z', b"I"));
    server.write_all(&answer).await.unwrap();
    client.until_ready().await;

    assert_eq!(client.refusal().await.0, "57P01");
}

#[tokio::test]
async fn an_unreadable_session_moves_too() {
    let pair = Pair::start().await;
    let server = Server::start("a", Manner::OffersTls).await;
    pair.leads(server.addr);
    let mut tls = pair.old.client().await;
    tls.send(SSL).await;
    assert_eq!(tls.byte().await, Some(b'S'));
    tls.send(b"h").await;
    assert_eq!(tls.byte().await, Some(b'h'));
    let _carrier = Carrier::between(&pair.old, &pair.new).await;
    assert!(pair.moved().await);

    tls.send(b"i").await;
    assert_eq!(tls.byte().await, Some(b'i'));
}

#[tokio::test]
async fn a_client_of_a_unix_socket_moves_with_its_session() {
    let pair = Pair::start().await;
    let server = Server::start("a", Manner::Serves).await;
    pair.leads(server.addr);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(".s.PGSQL.5432");
    let bound = bind(&Address::Unix(path.clone()), &BindOptions::default()).unwrap();
    let listen = Command::Listen {
        settings: ListenerSettings {
            address: bound.address,
            ..listener_settings(pair.old.address)
        },
        sockets: bound.sockets,
    };
    pair.old.commands.send(listen).await.unwrap();
    let mut client = UnixStream::connect(path).await.unwrap();
    let mut greeting = [0; 28];
    client.write_all(STARTUP).await.unwrap();
    within(client.read_exact(&mut greeting)).await.unwrap();

    let _carrier = Carrier::between(&pair.old, &pair.new).await;
    assert!(pair.moved().await);
    client.write_all(QUERY).await.unwrap();

    let mut answer = Vec::new();
    while !answer.ends_with(b"Ca") {
        let byte = tokio::time::timeout(SOON, client.read_u8()).await;
        answer.push(byte.unwrap().unwrap());
        answer.retain(|byte| !matches!(byte, 0..=5));
    }
}

#[tokio::test]
async fn an_adopted_session_counts_at_its_listener_and_is_not_refused_by_it() {
    let pair = Pair::start().await;
    let server = Server::start("a", Manner::Serves).await;
    pair.leads(server.addr);
    let mut clients = [pair.old.session().await, pair.old.session().await];
    // As the new process has inherited it.
    let address = Address::Tcp(SocketAddr::from(([127, 0, 0, 1], 0)));
    let inherited = bind(&address, &BindOptions::default()).unwrap();
    let Address::Tcp(at) = inherited.address else {
        unreachable!("a TCP address was bound")
    };
    let listen = Command::Listen {
        settings: ListenerSettings {
            max_connections: Some(1),
            ..listener_settings(pair.old.address)
        },
        sockets: inherited.sockets,
    };
    pair.new.commands.send(listen).await.unwrap();

    let _carrier = Carrier::between(&pair.old, &pair.new).await;
    assert!(eventually(SOON, || pair.connections() == (0, 2)).await);

    for client in &mut clients {
        assert_eq!(client.asks().await, "a");
    }
    let stream = TcpStream::connect(at).await.unwrap();
    let mut one_more = Client { stream };
    one_more.send(STARTUP).await;
    assert_eq!(one_more.refusal().await.0, "53300");
}

#[tokio::test]
async fn a_reader_moves_with_its_nodes_token() {
    let pair = Pair::start().await;
    let server = Server::start("a", Manner::Serves).await;
    let intent = reads(|reads| reads.on_promotion = OnPromotion::Close);
    let listen = Command::Listen {
        settings: ListenerSettings {
            intent,
            ..listener_settings(pair.old.address)
        },
        sockets: Vec::new(),
    };
    pair.old.commands.send(listen).await.unwrap();
    let node = replica(server.addr, pair.old.script.clock.now());
    let mut here = node.clone();
    here.readers = Readers::default();
    pair.old.script.nodes([node]);
    let mut client = pair.old.session().await;
    let carrier = Carrier::between(&pair.old, &pair.new).await;
    assert!(eventually(SOON, || carrier.back() == 1).await, "unknown");

    pair.new.script.nodes([here.clone()]);
    assert!(pair.moved().await);
    assert_eq!(client.asks().await, "a");

    here.readers.unless_it_leads.revoke(RevokeReason::moved);
    assert_eq!(client.refusal().await.0, "57P01");
}

#[tokio::test]
async fn what_a_slow_reader_has_not_read_yet_moves_with_the_session() {
    let pair = Pair::start().await;
    let (mut client, mut server) = by_hand(&pair).await;
    let row = message(b'D', &vec![7; 1 << 20]);
    let mut sent = Vec::new();
    let mut at = 0;
    while let Ok(Ok(n)) =
        tokio::time::timeout(Duration::from_millis(300), server.write(&row[at..])).await
    {
        sent.extend_from_slice(&row[at..at + n]);
        at = (at + n) % row.len();
    }
    let mut packed = packs(&pair.old).await;
    let Packed { parcel, verdict } = packed.recv().await.unwrap();
    assert!(!parcel.bytes.down.is_empty(), "something is on its way");
    let start = adopt(&pair.new.commands, parcel).await.unwrap();
    verdict.send(Verdict::Taken).unwrap();
    start.go();

    let mut got = vec![0; sent.len()];
    within(client.stream.read_exact(&mut got)).await.unwrap();
    assert!(got == sent);
}
