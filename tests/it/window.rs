//! What the operator's window shows of the other scenarios: each happening in its number.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::scene::{PATIENCE, Scene};
use crate::fakes::answer::Answer;
use crate::fakes::body::Body;
use crate::fakes::client::Client;
use crate::fakes::cluster::{Cluster, Tempo};
use crate::fakes::{ms, wire, within};

/// A proxy with an admin API.
async fn scene(cluster: Cluster, tempo: &Tempo) -> Scene {
    let text = cluster
        .toml_with(tempo)
        .replace("admin_address = \"\"", "admin_address = \"127.0.0.1:0\"");
    Scene::with_text(cluster, &text).await
}

pub async fn led(nodes: u8, tempo: &Tempo) -> Scene {
    let mut cluster = Cluster::start(nodes);
    cluster.lead(0, 1);
    let scene = scene(cluster, tempo).await;
    scene.settled().await;
    scene
}

/// The body of an answer of the admin API.
pub async fn get(at: SocketAddr, path: &str) -> String {
    let mut stream = TcpStream::connect(at).await.unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    within(PATIENCE, path, stream.read_to_string(&mut answer))
        .await
        .unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.1 200"), "{path}: {head}");
    body.to_owned()
}

/// The value of one series, without the common prefix; nothing where it has not been counted yet.
async fn number(scene: &Scene, series: &str) -> Option<f64> {
    let text = get(scene.house.admin().unwrap(), "/metrics/prometheus").await;
    let line = text.lines().find_map(|line| {
        line.strip_prefix("heliosdb_proxy_")?
            .strip_prefix(series)?
            .strip_prefix(' ')
    });
    line.map(|value| value.parse().unwrap())
}

/// Waits until a series has this value.
async fn shows(scene: &Scene, series: &str, value: f64) {
    let since = Instant::now();
    loop {
        let now = number(scene, series).await;
        if now == Some(value) {
            return;
        }
        assert!(
            since.elapsed() < PATIENCE,
            "{series} is {now:?}, not {value}"
        );
        tokio::time::sleep(ms(10)).await;
    }
}

#[tokio::test]
async fn revoked_sessions_are_counted_by_their_reason() {
    let mut scene = led(2, &Tempo::default()).await;
    let _two = (scene.login().await, scene.login().await);
    shows(&scene, r#"sessions{node="n1",route="primary"}"#, 2.0).await;
    scene.cluster.nobody();
    shows(&scene, r#"revoked_total{reason="follows"}"#, 2.0).await;
    shows(&scene, r#"sessions{node="n1",route="primary"}"#, 0.0).await;

    scene.cluster.lead(0, 2);
    let _one = scene.node_at_last().await;
    let _three = (
        scene.login().await,
        scene.login().await,
        scene.login().await,
    );
    scene.cluster.nodes[1]
        .rest
        .says(Answer::new(200, Body::primary("n2", 2)));
    shows(&scene, r#"revoked_total{reason="conflict"}"#, 3.0).await;
    let conflicts = number(&scene, "topology_conflicting_primaries_total").await;
    assert!(conflicts >= Some(1.0), "{conflicts:?}");
}

#[tokio::test]
async fn held_clients_are_counted_and_forgotten_at_once() {
    let scene = scene(
        Cluster::start(1),
        &Tempo {
            write_timeout_secs: 6,
            ..Tempo::default()
        },
    )
    .await;
    let mut held = Vec::new();
    for _ in 0..5 {
        held.push(scene.knocking().await);
    }
    shows(&scene, "held_clients", 5.0).await;
    held.truncate(1);
    let since = Instant::now();
    shows(&scene, "held_clients", 1.0).await;
    assert!(since.elapsed() < ms(2000), "{:?}", since.elapsed());

    let refused = within(PATIENCE, "a refusal", held[0].until_ready())
        .await
        .unwrap_err();
    assert_eq!(refused.code(), "57P03");
    shows(&scene, "held_clients", 0.0).await;
    shows(&scene, r#"refused_total{reason="no_leader"}"#, 1.0).await;
}

#[tokio::test]
async fn a_change_of_leader_is_one_epoch_and_silence_is_none() {
    let mut scene = led(
        2,
        &Tempo {
            lease_timeout_secs: 1,
            ..Tempo::default()
        },
    )
    .await;
    let changes = number(&scene, "leader_changes_total").await.unwrap();
    let epoch = number(&scene, "epoch").await.unwrap();
    for node in &scene.cluster.nodes {
        node.rest.says(Answer::hang());
    }
    shows(&scene, "lease_remaining_seconds", 0.0).await;
    scene.cluster.lead(0, 1);
    assert_eq!(scene.node_at_last().await.0, "n1");
    assert_eq!(number(&scene, "epoch").await, Some(epoch));

    scene.cluster.lead(1, 2);
    scene.until_on(1).await;
    assert_eq!(number(&scene, "epoch").await, Some(epoch + 1.0));
    assert_eq!(
        number(&scene, "leader_changes_total").await,
        Some(changes + 1.0)
    );
    shows(&scene, r#"node_leader{node="n1"}"#, 0.0).await;
    shows(&scene, r#"node_leader{node="n2"}"#, 1.0).await;
}

#[tokio::test]
async fn strangers_and_stale_leaders_are_counted_at_their_node() {
    let mut scene = led(2, &Tempo::default()).await;
    scene.cluster.lead(0, 5);
    scene.cluster.nodes[0].rest.after_questions(2).await;
    scene.cluster.nodes[1]
        .rest
        .says(Answer::new(200, Body::primary("n2", 9).scope("another")));
    scene.cluster.nodes[1].rest.after_questions(2).await;
    tokio::time::sleep(ms(50)).await;
    let strangers = number(&scene, r#"wrong_cluster_total{node="n2"}"#).await;
    assert!(strangers >= Some(1.0), "{strangers:?}");

    scene.cluster.nodes[1]
        .rest
        .says(Answer::new(200, Body::primary("n2", 4)));
    scene.cluster.nodes[1].rest.after_questions(2).await;
    tokio::time::sleep(ms(50)).await;
    let stale = number(&scene, r#"stale_leader_total{node="n2"}"#).await;
    assert!(stale >= Some(1.0), "{stale:?}");
}

#[tokio::test]
async fn maintenance_holds_clients_of_a_restarting_leader_and_shows_itself() {
    let scene = led(1, &Tempo::default()).await;
    shows(&scene, "paused", 0.0).await;
    let in_pause = Body::primary("n1", 1).with("pause", json!(true));
    scene.cluster.nodes[0]
        .rest
        .says(Answer::new(200, in_pause.clone()));
    shows(&scene, "paused", 1.0).await;
    let epoch = number(&scene, "epoch").await;

    scene.cluster.nodes[0]
        .rest
        .says(Answer::new(200, in_pause.clone().state("starting")));
    scene.cluster.nodes[0].rest.after_questions(2).await;
    let mut held = scene.knocking().await;
    assert!(super::scene::is_held(&held, ms(300)).await);
    scene.cluster.nodes[0].rest.says(Answer::new(200, in_pause));
    within(PATIENCE, "a login", held.until_ready())
        .await
        .unwrap();

    assert_eq!(number(&scene, "epoch").await, epoch);
    scene.cluster.nodes[0]
        .rest
        .says(Answer::new(200, Body::primary("n1", 1)));
    shows(&scene, "paused", 0.0).await;
}

#[tokio::test]
async fn failsafe_mode_shows_and_keeps_the_leader() {
    let scene = led(1, &Tempo::default()).await;
    let failsafe = Body::primary("n1", 1).with("failsafe_mode_is_active", json!(true));
    scene.cluster.nodes[0].rest.says(Answer::new(200, failsafe));

    shows(&scene, "failsafe_mode", 1.0).await;
    assert_eq!(scene.node().await, "n1");
}

#[tokio::test]
async fn bytes_are_counted_as_they_pass_and_not_at_the_end() {
    let scene = led(1, &Tempo::default()).await;
    let mut client = scene.login().await;
    client.send(&wire::query("rows 1000 10000")).await.unwrap();
    client.result().await.unwrap();
    tokio::time::sleep(Duration::from_secs(1)).await;

    let passed = number(&scene, r#"bytes_total{direction="to_client"}"#)
        .await
        .unwrap();
    assert!(
        passed >= 10_000_000.0,
        "{passed} bytes while the session is open"
    );
    client.terminate().await;
}

#[tokio::test]
async fn the_topology_says_who_leads_or_why_nobody_does() {
    let mut scene = led(2, &Tempo::default()).await;
    let admin = scene.house.admin().unwrap();
    let topology: Value = serde_json::from_str(&get(admin, "/topology").await).unwrap();
    let leader = scene.cluster.nodes[0].postgres.addr().to_string();
    assert_eq!(
        topology["authoritative"]["address"],
        json!(leader),
        "{topology}"
    );
    assert_eq!(
        topology["authoritative"]["valid"],
        json!(true),
        "{topology}"
    );
    assert_eq!(topology["reason"], Value::Null, "{topology}");

    scene.cluster.nobody();
    scene.cluster.nodes[0].rest.after_questions(2).await;
    let topology: Value = serde_json::from_str(&get(admin, "/topology").await).unwrap();
    assert!(topology["reason"].is_string(), "{topology}");
    let refused = tokio::time::timeout(ms(200), Client::login(scene.addr)).await;
    assert!(refused.is_err(), "somebody got in: {refused:?}");
    assert_eq!(topology["lastFailoverAt"], Value::Null, "{topology}");

    scene.cluster.lead(1, 2);
    assert_eq!(scene.node_at_last().await.0, "n2");
    let read = async || serde_json::from_str::<Value>(&get(admin, "/topology").await).unwrap();
    let topology = read().await;
    let at = topology["lastFailoverAt"].as_str().unwrap();
    assert!(at.len() == 24 && at.ends_with('Z'), "{topology}");
    tokio::time::sleep(ms(50)).await;
    assert_eq!(read().await["lastFailoverAt"], at);
}
