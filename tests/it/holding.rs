//! With no leader, clients wait in line; with one, they are let in at a pace it can bear.

use std::time::Instant;

use super::scene::{PATIENCE, Scene, is_held, words};
use crate::fakes::client::Client;
use crate::fakes::cluster::{Cluster, Tempo};
use crate::fakes::{eventually, ms, wire, within};

fn patience_of_a_second() -> Tempo {
    Tempo {
        write_timeout_secs: 1,
        ..Tempo::default()
    }
}

#[tokio::test]
async fn held_clients_are_let_in_in_order_of_arrival() {
    let tempo = Tempo {
        top: "dial_concurrency = 1".to_owned(),
        ..Tempo::default()
    };
    let mut scene = Scene::start(Cluster::start(2), &tempo).await;
    let mut clients = Vec::new();
    for i in 0..20 {
        let mut client = Client::connect(scene.addr).await.unwrap();
        let name = format!("client {i}");
        client
            .send(&wire::startup(
                wire::PROTOCOL_3_0,
                &[("user", "app"), ("application_name", &name)],
            ))
            .await
            .unwrap();
        // Far enough apart that the order of arrival is no matter of opinion.
        tokio::time::sleep(ms(10)).await;
        clients.push(client);
    }

    scene.cluster.lead(0, 1);

    for client in &mut clients {
        within(PATIENCE, "a login", client.until_ready())
            .await
            .unwrap();
    }
    let visits = scene.cluster.nodes[0].postgres.visits();
    let order: Vec<&str> = visits
        .iter()
        .map(|visit| visit.parameters["application_name"].as_str())
        .collect();
    let arrival: Vec<String> = (0..20).map(|i| format!("client {i}")).collect();
    assert_eq!(order, arrival);
}

#[tokio::test]
async fn the_first_dials_start_within_20_ms_of_the_proof() {
    let mut took = Vec::new();
    for _ in 0..5 {
        let mut scene = Scene::start(Cluster::start(2), &Tempo::default()).await;
        let mut clients = Vec::new();
        for _ in 0..10 {
            clients.push(scene.knocking().await);
        }
        tokio::time::sleep(ms(100)).await;
        scene.cluster.lead(0, 1);
        let led = Instant::now();
        for client in &mut clients {
            within(PATIENCE, "a login", client.until_ready())
                .await
                .unwrap();
        }
        let node = &scene.cluster.nodes[0];
        let questions = node.rest.questions();
        let proof = questions
            .iter()
            .find(|question| question.at >= led && question.path == "/primary")
            .unwrap();
        let first = node.postgres.visits()[0].at;
        took.push(first.saturating_duration_since(proof.at));
    }
    took.sort();
    // A busy machine may delay a round, hardly four of five.
    assert!(took[1] <= ms(20), "{took:?}");
    assert!(took[4] <= ms(2000), "{took:?}");
}

#[tokio::test]
async fn whoever_waited_in_vain_is_told_in_words_however_the_door_was_opened() {
    let scene = Scene::start(Cluster::start(2), &patience_of_a_second()).await;
    let openings: [&[[u8; 8]]; 5] = [
        &[],
        &[wire::SSL_REQUEST],
        &[wire::GSS_REQUEST],
        &[wire::GSS_REQUEST, wire::SSL_REQUEST],
        &[wire::SSL_REQUEST, wire::GSS_REQUEST],
    ];
    let mut ends = Vec::new();
    for opening in openings {
        let addr = scene.addr;
        ends.push(tokio::spawn(async move {
            let since = Instant::now();
            let mut client = Client::connect(addr).await.unwrap();
            for request in opening {
                assert_eq!(
                    within(PATIENCE, "an answer", client.ask(request))
                        .await
                        .unwrap(),
                    b'N'
                );
            }
            client.send(&wire::usual_startup()).await.unwrap();
            (
                within(PATIENCE, "a refusal", client.until_ready())
                    .await
                    .unwrap_err(),
                since.elapsed(),
            )
        }));
    }
    for end in ends {
        let (refused, took) = end.await.unwrap();
        let (code, text, detail, hint) = words(refused);
        assert_eq!(code, "57P03");
        assert_eq!(text, "no leader of demo after 1 s");
        assert!(detail.contains("n1") && detail.contains("n2"), "{detail}");
        assert!(!hint.is_empty());
        assert!((ms(900)..ms(5000)).contains(&took), "{took:?}");
    }
    assert_eq!(scene.accepted(), 0);
}

#[tokio::test]
async fn a_client_that_insists_on_tls_is_closed_when_there_is_no_leader() {
    let scene = Scene::start(Cluster::start(1), &patience_of_a_second()).await;
    let mut client = Client::connect(scene.addr).await.unwrap();
    client.send(&wire::CLIENT_HELLO).await.unwrap();

    let (said, _) = within(PATIENCE, "the end", client.rest()).await;

    assert_eq!(said, b"", "bytes that no TLS client can read");
}

#[tokio::test]
async fn held_clients_that_leave_are_forgotten_at_once() {
    let tempo = Tempo {
        top: "dial_concurrency = 1".to_owned(),
        ..Tempo::default()
    };
    let mut scene = Scene::start(Cluster::start(1), &tempo).await;
    let mut leaving = Vec::new();
    for _ in 0..50 {
        leaving.push(scene.knocking().await);
    }
    let mut staying = scene.knocking().await;
    tokio::time::sleep(ms(100)).await;
    for (i, client) in leaving.into_iter().enumerate() {
        if i % 2 == 0 {
            client.vanish()
        } else {
            drop(client)
        }
    }
    tokio::time::sleep(ms(200)).await;

    scene.cluster.lead(0, 1);

    within(PATIENCE, "a login", staying.until_ready())
        .await
        .unwrap();
    assert_eq!(scene.accepted(), 1, "somebody who had left was dialled for");
}

#[tokio::test]
async fn beyond_max_connections_a_client_is_told_so_at_once_also_while_others_are_held() {
    let tempo = Tempo {
        top: "max_connections = 2".to_owned(),
        ..Tempo::default()
    };
    let scene = Scene::start(Cluster::start(1), &tempo).await;
    let first = scene.knocking().await;
    let _second = scene.knocking().await;
    tokio::time::sleep(ms(100)).await;

    let mut third = Client::connect(scene.addr).await.unwrap();
    assert_eq!(
        within(PATIENCE, "an answer", third.ask(&wire::SSL_REQUEST))
            .await
            .unwrap(),
        b'N'
    );
    third.send(&wire::usual_startup()).await.unwrap();
    let refused = within(PATIENCE, "a refusal", third.until_ready())
        .await
        .unwrap_err();
    assert_eq!(refused.code(), "53300");

    drop(first);
    tokio::time::sleep(ms(100)).await;
    let fourth = scene.knocking().await;
    assert!(
        is_held(&fourth, ms(200)).await,
        "the place was not given back"
    );
    assert!(eventually(PATIENCE, || scene.accepted() == 0).await);
}

#[tokio::test]
async fn what_a_held_client_sent_ahead_arrives_in_order() {
    let mut scene = Scene::start(Cluster::start(1), &Tempo::default()).await;
    let mut client = scene.knocking().await;
    for i in 0..100 {
        client
            .send(&wire::query(&format!("ahead {i}")))
            .await
            .unwrap();
    }
    assert!(is_held(&client, ms(100)).await);

    scene.cluster.lead(0, 1);

    within(PATIENCE, "a login", client.until_ready())
        .await
        .unwrap();
    for _ in 0..100 {
        assert_eq!(
            within(PATIENCE, "an answer", client.result())
                .await
                .unwrap(),
            "n1"
        );
    }
    let received = scene.cluster.nodes[0].postgres.visits()[0].received.clone();
    let sent: Vec<Vec<u8>> = (0..100)
        .map(|i| wire::query(&format!("ahead {i}")))
        .collect();
    assert_eq!(received, [wire::usual_startup(), sent.concat()].concat());
}
