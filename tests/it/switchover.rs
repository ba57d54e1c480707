//! The leader moves: the new one is used on its first proof, and nothing stays on the old one.

use std::time::{Duration, Instant};

use super::scene::{PATIENCE, Scene, is_held};
use crate::fakes::answer::Answer;
use crate::fakes::body::Body;
use crate::fakes::client::{Client, Refused};
use crate::fakes::cluster::{Cluster, Tempo};
use crate::fakes::door::Mode;
use crate::fakes::{eventually, ms, wire, within};

/// The longest way to the next question: a node that took 40 ms to answer, as a scripted one on a crowded machine may,
/// is left alone for a second.
const ONE_POLL: Duration = ms(1500);

#[tokio::test]
async fn a_new_leader_is_used_on_its_first_proof() {
    let mut scene = Scene::led(3).await;
    let (mut took, mut before_the_second) = (Vec::new(), 0);
    for _ in 0..10 {
        let flipped = Instant::now();
        let new = scene.cluster.flip();
        took.push(scene.until_on(new).await);
        let node = &scene.cluster.nodes[new];
        let questions = node.rest.questions();
        let second = questions.iter().filter(|q| q.at > flipped).nth(1);
        let visits = node.postgres.visits();
        let first = visits.iter().find(|visit| visit.at > flipped).unwrap();
        before_the_second += usize::from(second.is_none_or(|second| first.at < second.at));
    }
    took.sort();
    assert!(took[5] < ONE_POLL, "{took:?}");
    // On a busy machine a question more may be asked while the dial is on its way.
    assert!(before_the_second > 0, "each time two answers were needed");
}

#[tokio::test]
async fn sessions_on_a_demoted_living_leader_are_closed_within_a_poll_and_told_why() {
    let mut scene = Scene::led(3).await;
    let mut idle = Vec::new();
    for _ in 0..20 {
        idle.push(scene.login().await);
    }
    let mut busy = Vec::new();
    for _ in 0..5 {
        let mut client = scene.login().await;
        client.send(&wire::query("hang")).await.unwrap();
        busy.push(client);
    }
    let mut in_transaction = scene.login().await;
    in_transaction.query("begin").await.unwrap();
    assert!(eventually(PATIENCE, || scene.open_at(0) == 26).await);

    scene.cluster.flip();

    let since = Instant::now();
    assert!(
        eventually(PATIENCE, || scene.open_at(0) == 0).await,
        "{} stay",
        scene.open_at(0)
    );
    assert!(since.elapsed() < ONE_POLL, "{:?}", since.elapsed());
    for client in idle
        .iter_mut()
        .chain(&mut busy)
        .chain([&mut in_transaction])
    {
        let last = within(PATIENCE, "the last words", client.last_words()).await;
        assert_eq!(last.code(), "57P01", "{last:?}");
    }
}

#[tokio::test]
async fn a_revoked_session_is_never_given_bytes_inside_a_message() {
    let mut scene = Scene::led(2).await;
    let mut client = scene.login().await;
    client.send(&wire::query("half")).await.unwrap();
    let mut first = [0; 500];
    tokio::io::AsyncReadExt::read_exact(&mut client.stream, &mut first)
        .await
        .unwrap();

    scene.cluster.flip();

    let (rest, _) = within(PATIENCE, "the end", client.rest()).await;
    assert_eq!(rest, b"", "words were put inside a message");
}

#[tokio::test]
async fn a_revoked_tls_session_is_closed_without_a_word() {
    let mut scene = Scene::led(2).await;
    scene.cluster.nodes[0]
        .postgres
        .script(|script| script.ssl = b'S');
    let mut client = Client::connect(scene.addr).await.unwrap();
    assert_eq!(client.ask(&wire::SSL_REQUEST).await.unwrap(), b'S');
    client.send(&wire::CLIENT_HELLO).await.unwrap();
    let mut hello = [0; 16];
    tokio::io::AsyncReadExt::read_exact(&mut client.stream, &mut hello)
        .await
        .unwrap();

    scene.cluster.flip();

    let (rest, _) = within(PATIENCE, "the end", client.rest()).await;
    assert_eq!(rest, b"");
    assert!(eventually(PATIENCE, || scene.open_at(0) == 0).await);
}

#[tokio::test]
async fn a_client_that_does_not_read_keeps_nothing_open_on_the_old_leader() {
    let mut scene = Scene::led(2).await;
    let mut deaf = scene.login().await;
    deaf.send(&wire::query("rows 1000000 1000")).await.unwrap();
    tokio::time::sleep(ms(300)).await;
    assert_eq!(scene.open_at(0), 1);

    scene.cluster.flip();

    assert!(
        eventually(ONE_POLL, || scene.open_at(0) == 0).await,
        "it waits for its client"
    );
}

#[tokio::test]
async fn a_half_closed_session_is_revoked_as_well() {
    let mut scene = Scene::led(2).await;
    let mut client = scene.login().await;
    client.send(&wire::query("slow 5000")).await.unwrap();
    tokio::io::AsyncWriteExt::shutdown(&mut client.stream)
        .await
        .unwrap();
    tokio::time::sleep(ms(100)).await;

    scene.cluster.flip();

    let (_, _) = within(ONE_POLL, "the end", client.rest()).await;
}

#[tokio::test]
async fn a_leader_that_came_back_on_a_later_timeline_keeps_no_session_of_its_first_time() {
    let mut scene = Scene::led(2).await;
    let mut client = scene.login().await;

    // To another node and back again between two questions.
    scene.cluster.lead(0, 3);

    let last = within(PATIENCE, "the last words", client.last_words()).await;
    assert_eq!(last.code(), "57P01", "{last:?}");
    assert_eq!(scene.node_at_last().await.0, "n1");
}

#[tokio::test]
async fn dead_nodes_delay_nobody_however_many_they_are() {
    for dead in 1..=3 {
        let mut cluster = Cluster::start(5);
        cluster.lead(0, 1);
        for node in cluster.nodes.iter().rev().take(dead) {
            node.rest.mode(Mode::Swallow).await;
        }
        let tempo = Tempo {
            check_timeout_ms: 8000,
            ..Tempo::default()
        };
        let mut scene = Scene::leading(cluster, &tempo).await;
        for _ in 0..3 {
            let new = 1 - scene.cluster.leader().unwrap();
            let timeline = scene.cluster.timeline() + 1;
            let old = scene.login().await;
            scene.cluster.lead(new, timeline);
            let took = scene.until_on(new).await;
            assert!(took < ms(4000), "{dead} dead: {took:?}");
            drop(old);
        }
    }
}

#[tokio::test]
async fn a_failed_dial_asks_at_once() {
    let tempo = Tempo {
        check_interval_ms: 10_000,
        active_interval_ms: 10_000,
        lease_timeout_secs: 60,
        ..Tempo::default()
    };
    let mut scene = Scene::led_with(2, &tempo).await;
    scene.cluster.nodes[0].postgres.mode(Mode::Refuse).await;
    scene.cluster.nodes[0].postgres.hang_up().await;

    let mut client = scene.knocking().await;
    assert!(is_held(&client, ms(300)).await);
    scene.cluster.lead(1, 2);
    let since = Instant::now();
    within(PATIENCE, "a login", client.until_ready())
        .await
        .unwrap();

    assert_eq!(client.node().await.unwrap(), "n2");
    assert!(since.elapsed() < ms(4000), "{:?}", since.elapsed());
}

#[tokio::test]
async fn a_pending_dial_is_dropped_when_the_leader_changes() {
    let tempo = Tempo {
        top: "connect_timeout_ms = 20000".to_owned(),
        ..Tempo::default()
    };
    let mut scene = Scene::led_with(2, &tempo).await;
    scene.cluster.nodes[0].postgres.mode(Mode::Swallow).await;
    let mut client = scene.knocking().await;
    assert!(is_held(&client, ms(300)).await);

    scene.cluster.lead(1, 2);
    let since = Instant::now();

    within(PATIENCE, "a login", client.until_ready())
        .await
        .unwrap();
    assert_eq!(client.node().await.unwrap(), "n2");
    assert!(since.elapsed() < ms(5000), "{:?}", since.elapsed());
}

#[tokio::test]
async fn a_session_between_startup_and_ready_does_not_survive_on_the_old_node() {
    let mut scene = Scene::led(2).await;
    scene.cluster.nodes[0]
        .postgres
        .script(|script| script.delay = ms(4000));
    let mut clients = Vec::new();
    for _ in 0..10 {
        clients.push(scene.knocking().await);
    }
    assert!(eventually(PATIENCE, || scene.open_at(0) == 10).await);

    scene.cluster.flip();

    assert!(
        eventually(ONE_POLL, || scene.open_at(0) == 0).await,
        "{} stay",
        scene.open_at(0)
    );
    for client in &mut clients {
        match within(PATIENCE, "an end or a login", client.until_ready()).await {
            Ok(()) => assert_eq!(client.node().await.unwrap(), "n2"),
            Err(refused) => assert!(["57P01", "57P03"].contains(&refused.code()), "{refused:?}"),
        }
    }
}

#[tokio::test]
async fn a_promoting_node_ends_the_old_leaders_authority_and_is_not_used_before_it_is_writable() {
    let scene = Scene::led(2).await;
    let mut client = scene.login().await;
    let promoting = Body::replica("n2", 1);
    scene.cluster.nodes[1]
        .rest
        .says(Answer::new(200, promoting));

    let last = within(PATIENCE, "the last words", client.last_words()).await;
    assert_eq!(last.code(), "57P01", "{last:?}");
    let mut held = scene.knocking().await;
    assert!(is_held(&held, ms(200)).await);
    assert_eq!(scene.cluster.nodes[1].postgres.accepted(), 0);

    scene.cluster.nodes[0]
        .rest
        .says(Answer::new(503, Body::replica("n1", 1)));
    scene.cluster.nodes[1]
        .rest
        .says(Answer::new(200, Body::primary("n2", 2)));
    within(PATIENCE, "a login", held.until_ready())
        .await
        .unwrap();
    assert_eq!(held.node().await.unwrap(), "n2");
}

#[tokio::test]
async fn a_server_that_says_it_is_in_recovery_is_no_leader_whatever_patroni_says() {
    let tempo = Tempo {
        write_timeout_secs: 1,
        ..Tempo::default()
    };
    let scene = Scene::led_with(1, &tempo).await;
    scene.cluster.nodes[0]
        .postgres
        .script(|script| script.hot_standby = Some(true));

    let refused = within(PATIENCE, "a refusal", Client::login(scene.addr))
        .await
        .unwrap_err();

    assert_eq!(refused.code(), "57P03", "{refused:?}");
    assert!(matches!(refused, Refused::Words { .. }));
    assert!(eventually(PATIENCE, || scene.open_at(0) == 0).await);
}
