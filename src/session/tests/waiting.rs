//! Clients that have no server yet, and go on waiting in another process.

use std::time::Duration;

use super::pair::*;
use super::stand::*;
use crate::session::Verdict;

#[tokio::test]
async fn a_held_client_waits_on_in_the_other_process_and_is_served_there() {
    let pair = Pair::start().await;
    let mut client = pair.old.client().await;
    client.send(STARTUP).await;
    assert!(eventually(SOON, || pair.old.held() == 1).await);

    let _carrier = Carrier::between(&pair.old, &pair.new).await;
    assert!(eventually(SOON, || pair.new.held() == 1 && pair.old.held() == 0).await);
    assert_eq!(pair.connections(), (0, 1));
    let server = Server::start("a", Manner::Serves).await;
    pair.new.script.leads(server.addr);

    client.until_ready().await;
    assert_eq!(client.asks().await, "a");
    let held = |stand: &Stand| stand.script.metrics.held_clients.get();
    assert_eq!((held(&pair.old), held(&pair.new)), (0, 0));
}

#[tokio::test]
async fn held_clients_move_in_the_order_of_their_arrival() {
    let pair = Pair::start().await;
    let mut clients = Vec::new();
    for place in 1..=20 {
        let mut client = pair.old.client().await;
        client.send(STARTUP).await;
        assert!(eventually(SOON, || pair.old.held() == place).await);
        clients.push(client.stream.local_addr().unwrap().port());
        std::mem::forget(client);
    }

    let mut packed = packs(&pair.old).await;

    for port in clients {
        let packed = packed.recv().await.unwrap();
        let words = packed.parcel.to_string();
        assert!(words.contains(&format!(":{port},")), "{words}: {port}");
        packed.verdict.send(Verdict::Taken).unwrap();
    }
}

#[tokio::test]
async fn a_client_whose_first_packet_is_not_whole_moves_with_what_it_has_said() {
    let pair = Pair::start().await;
    let server = Server::start("a", Manner::Serves).await;
    pair.leads(server.addr);
    let mut client = pair.old.client().await;
    client.send(&STARTUP[..9]).await;
    tokio::time::sleep(Duration::from_millis(50)).await;
    let carrier = Carrier::between(&pair.old, &pair.new).await;
    assert!(eventually(SOON, || carrier.taken() == 1).await);
    assert_eq!(pair.connections(), (0, 0), "it has not spoken");

    client.send(&STARTUP[9..]).await;

    client.until_ready().await;
    assert_eq!(pair.connections(), (0, 1));
}

#[tokio::test]
async fn what_a_client_was_told_is_asked_of_its_server_in_the_other_process() {
    let pair = Pair::start().await;
    let first = Server::start("a", Manner::Refuses("57P03")).await;
    pair.old.script.leads(first.addr);
    let mut client = pair.old.client().await;
    client.send(SSL).await;
    assert_eq!(client.byte().await, Some(b'N'));
    client.send(STARTUP).await;
    assert!(eventually(SOON, || pair.old.held() == 1).await);
    let _carrier = Carrier::between(&pair.old, &pair.new).await;
    assert!(eventually(SOON, || pair.new.held() == 1).await);

    let tls = Server::start("b", Manner::OffersTls).await;
    pair.new.script.leads(tls.addr);

    let (code, words) = client.refusal().await;
    assert_eq!(code, "57P03");
    assert!(words.contains("SSLRequest otherwise"), "{words}");
}

#[tokio::test]
async fn a_client_that_comes_back_waits_on_where_it_was() {
    let pair = Pair::start().await;
    let mut client = pair.old.client().await;
    client.send(STARTUP).await;
    assert!(eventually(SOON, || pair.old.held() == 1).await);
    let mut packed = packs(&pair.old).await;

    drop(packed.recv().await.unwrap());
    drop(packed);
    let server = Server::start("a", Manner::Serves).await;
    pair.old.script.leads(server.addr);

    client.until_ready().await;
    assert_eq!(client.asks().await, "a");
}
