//! Cancel requests in clear text find the node that issued their key.

use std::time::{Duration, Instant};

use super::scene::{PATIENCE, Scene};
use crate::fakes::answer::Answer;
use crate::fakes::client::{self, Client};
use crate::fakes::cluster::Tempo;
use crate::fakes::{eventually, ms, wire, within};

/// A session whose query ends only by a cancel.
async fn hanging(scene: &Scene) -> Client {
    let mut client = scene.login().await;
    client.send(&wire::query("hang")).await.unwrap();
    client
}

async fn cancelled(client: &mut Client) {
    let refused = within(PATIENCE, "a cancelled query", client.result())
        .await
        .unwrap_err();
    assert_eq!(refused.code(), "57014");
}

#[tokio::test]
async fn a_cancel_reaches_its_session_with_keys_of_every_length() {
    let scene = Scene::led(2).await;
    for length in [4, 8, 32, 255, 256] {
        scene.cluster.nodes[0]
            .postgres
            .script(|script| script.key_length = Some(length));
        let mut client = hanging(&scene).await;
        let key = client.key.clone().unwrap();
        assert_eq!(key.len(), length);
        let server = &scene.cluster.nodes[0].postgres;
        let said = within(
            PATIENCE,
            "the cancel's end",
            client::cancel(scene.addr, client.process, &key),
        )
        .await
        .unwrap();

        assert_eq!(said, b"");
        cancelled(&mut client).await;
        let packet = server.cancels().pop().unwrap();
        assert_eq!(packet, wire::cancel(client.process, &key));
        client.terminate().await;
    }
}

#[tokio::test]
async fn a_key_is_found_however_the_server_introduces_itself() {
    let scene = Scene::led(1).await;
    scene.cluster.nodes[0].postgres.script(|script| {
        script.key_length = Some(32);
        script.negotiates = true;
        script.drips = true;
    });
    let mut client = Client::connect(scene.addr).await.unwrap();
    client
        .send(&wire::startup(
            wire::PROTOCOL_3_2,
            &[("user", "app"), ("_pq_.x", "1")],
        ))
        .await
        .unwrap();
    within(PATIENCE, "a login", client.until_ready())
        .await
        .unwrap();
    client.send(&wire::query("hang")).await.unwrap();

    client::cancel(scene.addr, client.process, client.key.as_deref().unwrap())
        .await
        .unwrap();

    cancelled(&mut client).await;
}

#[tokio::test]
async fn after_a_switch_cancels_go_to_the_new_node_and_old_keys_to_nobody() {
    let mut scene = Scene::led(2).await;
    let old = hanging(&scene).await;
    scene.cluster.flip();
    assert!(eventually(PATIENCE, || scene.open_at(0) == 0).await);
    let mut new = hanging(&scene).await;

    client::cancel(scene.addr, new.process, new.key.as_deref().unwrap())
        .await
        .unwrap();

    cancelled(&mut new).await;
    assert_eq!(scene.cluster.nodes[1].postgres.cancels().len(), 1);
    let accepted = scene.accepted();
    client::cancel(scene.addr, old.process, old.key.as_deref().unwrap())
        .await
        .unwrap();
    tokio::time::sleep(ms(100)).await;
    assert_eq!(
        scene.cluster.nodes[1].postgres.cancels().len(),
        1,
        "an old key reached the new node"
    );
    assert!(scene.accepted() <= accepted + 1);
}

#[tokio::test]
async fn a_cancel_waits_for_no_lease() {
    let scene = Scene::led(1).await;
    let mut client = hanging(&scene).await;
    scene.cluster.nodes[0].rest.says(Answer::hang());
    tokio::time::sleep(ms(2500)).await;
    let since = Instant::now();

    client::cancel(scene.addr, client.process, client.key.as_deref().unwrap())
        .await
        .unwrap();

    cancelled(&mut client).await;
    assert!(
        since.elapsed() < Duration::from_secs(1),
        "{:?}",
        since.elapsed()
    );
}

#[tokio::test]
async fn keys_that_nobody_here_issued_open_no_connection() {
    let scene = Scene::led(1).await;
    let mut client = hanging(&scene).await;
    let before = scene.accepted();
    let real = client.key.clone().unwrap();
    let mut keys = vec![
        vec![0; 4],
        vec![0xff; 32],
        [&real[..], b"x"].concat(),
        real[..3].to_vec(),
    ];
    keys.extend((0..200).map(|_| (0..4).map(|_| fastrand::u8(..)).collect()));
    for key in keys.into_iter().filter(|key| *key != real) {
        let said = within(
            PATIENCE,
            "an end",
            client::cancel(scene.addr, client.process, &key),
        )
        .await
        .unwrap();
        assert_eq!(said, b"", "as PostgreSQL does");
    }
    client::cancel(scene.addr, client.process + 1, &real)
        .await
        .unwrap();
    assert_eq!(scene.accepted(), before);

    client::cancel(scene.addr, client.process, &real)
        .await
        .unwrap();
    cancelled(&mut client).await;
}

#[tokio::test]
async fn cancels_of_a_wrong_length_are_closed() {
    let scene = Scene::led(1).await;
    let before = scene.accepted();
    for key in [0, 1, 3, 257, 260] {
        within(
            PATIENCE,
            "an end",
            client::cancel(scene.addr, 1, &vec![7; key]),
        )
        .await
        .unwrap();
    }
    assert_eq!(scene.accepted(), before);
}

#[tokio::test]
async fn a_server_that_issues_no_key_is_used_all_the_same() {
    let scene = Scene::led(1).await;
    scene.cluster.nodes[0]
        .postgres
        .script(|script| script.key_length = None);
    for _ in 0..10 {
        assert_eq!(scene.node().await, "n1");
    }
}

#[tokio::test]
async fn a_full_house_still_takes_cancels() {
    let tempo = Tempo {
        top: "max_connections = 1".to_owned(),
        ..Tempo::default()
    };
    let scene = Scene::led_with(1, &tempo).await;
    let mut client = hanging(&scene).await;
    assert_eq!(Client::login(scene.addr).await.unwrap_err().code(), "53300");

    client::cancel(scene.addr, client.process, client.key.as_deref().unwrap())
        .await
        .unwrap();

    cancelled(&mut client).await;
}

#[tokio::test]
async fn two_thousand_random_cancels_disturb_nobody() {
    let scene = Scene::led(1).await;
    let mut client = scene.login().await;
    let before = scene.accepted();
    let mut storm = tokio::task::JoinSet::new();
    for _ in 0..2000 {
        let addr = scene.addr;
        storm.spawn(async move {
            let key = fastrand::u32(..).to_be_bytes();
            let _ = client::cancel(addr, fastrand::u32(..), &key).await;
        });
    }
    let since = Instant::now();
    assert_eq!(client.node().await.unwrap(), "n1");
    within(PATIENCE, "the storm's end", storm.join_all()).await;

    assert!(
        since.elapsed() < Duration::from_secs(5),
        "{:?}",
        since.elapsed()
    );
    assert_eq!(scene.accepted(), before);
    assert_eq!(scene.node().await, "n1");
}
