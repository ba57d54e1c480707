//! Dialling a node: how many at once, for how long, and what is done when it fails.

use std::time::{Duration, Instant};

use super::scene::{PATIENCE, Scene, is_held, knocking, words};
use crate::fakes::client::{Client, Refused};
use crate::fakes::cluster::{Cluster, Tempo};
use crate::fakes::door::Mode;
use crate::fakes::postgres::Greeting;
use crate::fakes::{eventually, ms, wire, within};

#[tokio::test]
async fn a_full_server_is_tried_again_for_who_was_held_and_passed_on_to_who_was_not() {
    // Nobody but the held one is held, however slow the machine.
    let tempo = Tempo {
        lease_timeout_secs: 20,
        ..Tempo::default()
    };
    let mut scene = Scene::start(Cluster::start(1), &tempo).await;
    let server = scene.cluster.nodes[0].postgres.addr();
    scene.cluster.nodes[0]
        .postgres
        .script(|script| script.max_connections = 1);
    let occupant = Client::login(server).await.unwrap();
    let mut held = scene.knocking().await;
    assert!(is_held(&held, ms(200)).await);
    scene.cluster.lead(0, 1);
    assert!(
        is_held(&held, ms(600)).await,
        "a held client was told that the server is full"
    );

    let never_held = Client::login(scene.addr).await.unwrap_err();
    assert_eq!(never_held.code(), "53300");

    occupant.terminate().await;
    within(PATIENCE, "a login", held.until_ready())
        .await
        .unwrap();
}

#[tokio::test]
async fn a_thousand_waiting_clients_are_all_served_with_at_most_twenty_unready_at_the_server() {
    let mut scene = Scene::start(
        Cluster::start(1),
        &Tempo {
            write_timeout_secs: 60,
            ..Tempo::default()
        },
    )
    .await;
    scene.cluster.nodes[0]
        .postgres
        .script(|script| script.delay = ms(5));
    let mut clients = Vec::new();
    for _ in 0..1000 {
        let addr = scene.addr;
        clients.push(tokio::spawn(async move {
            let mut client = knocking(addr).await;
            client.until_ready().await?;
            let node = client.node().await?;
            client.terminate().await;
            Ok::<_, Refused>(node)
        }));
    }
    tokio::time::sleep(ms(500)).await;
    assert_eq!(scene.accepted(), 0);

    scene.cluster.lead(0, 1);
    let since = Instant::now();

    for client in clients {
        assert_eq!(client.await.unwrap().unwrap(), "n1");
    }
    let took = since.elapsed();
    let server = &scene.cluster.nodes[0].postgres;
    // A dial that takes a second gives its place to another one.
    let most = 20 * (1 + took.as_secs() as usize);
    let unready = server.most_unready();
    assert!(unready <= most, "{unready} at once, {took:?}");
    assert_eq!(server.accepted(), 1000);
    assert!(took < Duration::from_secs(20), "{took:?}");
}

#[tokio::test]
async fn a_dial_that_fails_is_held_and_repeated_whatever_made_it_fail() {
    let unwell: [(&str, Greeting); 5] = [
        (
            "starting up",
            Greeting::Fatal("57P03", "the database system is starting up"),
        ),
        (
            "shutting down",
            Greeting::Fatal("57P01", "terminating connection"),
        ),
        (
            "crashed",
            Greeting::Fatal("57P02", "terminating connection because of crash"),
        ),
        ("a close", Greeting::Close),
        ("a reset", Greeting::Reset),
    ];
    for (how, greeting) in unwell {
        let scene = Scene::led(1).await;
        let server = &scene.cluster.nodes[0].postgres;
        server.script(|script| script.greeting = greeting.clone());
        let mut client = Client::connect(scene.addr).await.unwrap();
        assert_eq!(client.ask(&wire::SSL_REQUEST).await.unwrap(), b'N', "{how}");
        client.send(&wire::usual_startup()).await.unwrap();
        assert!(is_held(&client, ms(300)).await, "{how} was passed on");

        server.script(|script| script.greeting = Greeting::Welcome);

        within(PATIENCE, how, client.until_ready()).await.unwrap();
        assert_eq!(client.node().await.unwrap(), "n1");
        let visit = server.visits().pop().unwrap();
        assert!(
            visit.received.starts_with(&wire::SSL_REQUEST),
            "{how}: the requests were not repeated"
        );
    }
}

#[tokio::test]
async fn a_second_server_that_answers_the_ssl_request_otherwise_is_not_used_behind_the_clients_back()
 {
    let scene = Scene::led_with(
        1,
        &Tempo {
            write_timeout_secs: 1,
            ..Tempo::default()
        },
    )
    .await;
    let server = &scene.cluster.nodes[0].postgres;
    server.script(|script| script.greeting = Greeting::Close);
    let mut client = Client::connect(scene.addr).await.unwrap();
    assert_eq!(client.ask(&wire::SSL_REQUEST).await.unwrap(), b'N');
    server.script(|script| {
        script.greeting = Greeting::Welcome;
        script.ssl = b'S';
    });
    // The first server takes the startup message and closes; the next one would speak TLS.
    client.send(&wire::usual_startup()).await.unwrap();

    let refused = within(PATIENCE, "a refusal", client.until_ready())
        .await
        .unwrap_err();

    assert_eq!(refused.code(), "57P03", "{refused:?}");
}

#[tokio::test]
async fn errors_of_a_server_that_is_well_are_the_clients_own() {
    let scene = Scene::led(1).await;
    let server = &scene.cluster.nodes[0].postgres;
    server.script(|script| {
        script.greeting = Greeting::Fatal("28P01", "password authentication failed")
    });

    let refused = within(PATIENCE, "a refusal", Client::login(scene.addr))
        .await
        .unwrap_err();

    assert_eq!(words(refused).1, "password authentication failed");
}

#[tokio::test]
async fn connecting_to_a_node_is_bounded_and_the_client_waits_for_its_next_answer() {
    let tempo = Tempo {
        top: "connect_timeout_ms = 200".to_owned(),
        ..Tempo::default()
    };
    let scene = Scene::led_with(1, &tempo).await;
    let server = &scene.cluster.nodes[0].postgres;
    server.mode(Mode::Swallow).await;
    let mut client = scene.knocking().await;
    assert!(is_held(&client, ms(3500)).await);
    let since = Instant::now();

    server.mode(Mode::Accept).await;

    within(PATIENCE, "a login", client.until_ready())
        .await
        .unwrap();
    // The kernel would have repeated its first SYN after one, three and seven seconds.
    assert!(since.elapsed() < ms(3000), "{:?}", since.elapsed());
}

#[tokio::test]
async fn a_dial_slot_is_given_back_after_a_second_at_most() {
    let tempo = Tempo {
        top: "dial_concurrency = 1".to_owned(),
        ..Tempo::default()
    };
    let scene = Scene::led_with(1, &tempo).await;
    let server = &scene.cluster.nodes[0].postgres;
    server.script(|script| script.delay = Duration::from_secs(4));
    let mut slow = scene.knocking().await;
    assert!(eventually(PATIENCE, || server.open() == 1).await);
    server.script(|script| script.delay = Duration::ZERO);
    let since = Instant::now();

    let mut quick = scene.login().await;

    assert!(
        (ms(700)..ms(3500)).contains(&since.elapsed()),
        "{:?}",
        since.elapsed()
    );
    assert_eq!(quick.node().await.unwrap(), "n1");
    within(PATIENCE, "the slow login", slow.until_ready())
        .await
        .unwrap();
}

#[tokio::test]
async fn a_client_that_leaves_while_it_is_dialled_for_takes_its_dial_along() {
    let tempo = Tempo {
        top: "dial_concurrency = 1".to_owned(),
        ..Tempo::default()
    };
    let scene = Scene::led_with(1, &tempo).await;
    let server = &scene.cluster.nodes[0].postgres;
    server.script(|script| script.delay = Duration::from_secs(4));
    let leaving = scene.knocking().await;
    assert!(eventually(PATIENCE, || server.open() == 1).await);

    leaving.vanish();

    assert!(eventually(ms(1000), || server.open() == 0).await);
}
