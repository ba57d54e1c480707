//! Nothing is routed to a node before it has proved that it leads.

use std::time::Instant;

use serde_json::{Value, json};

use super::scene::{PATIENCE, Scene, is_held, knocking, tcp, words};
use crate::fakes::answer::Answer;
use crate::fakes::body::{Body, unix_now};
use crate::fakes::client::Client;
use crate::fakes::cluster::{Cluster, Tempo};
use crate::fakes::door::Mode;
use crate::fakes::{ms, within};

#[tokio::test]
async fn nothing_is_dialled_before_proof_and_then_everybody_is_at_the_leader() {
    let mut cluster = Cluster::start(3);
    cluster.lead(1, 1);
    for node in &cluster.nodes {
        let late = if node.name == "n2" {
            Answer::new(200, Body::primary("n2", 1))
        } else {
            Answer::new(503, Body::replica(&node.name, 1))
        };
        node.rest.says(late.delay(ms(400)));
    }
    let house = heliosdb_proxy::House::start(super::scene::config(&cluster.toml()))
        .await
        .unwrap();

    let mut clients = Vec::new();
    for _ in 0..50 {
        clients.push(knocking(tcp(&house, 0)).await);
    }
    tokio::time::sleep(ms(200)).await;
    let dialled: usize = cluster
        .nodes
        .iter()
        .map(|node| node.postgres.accepted())
        .sum();
    assert_eq!(
        dialled, 0,
        "a server was dialled before any node had answered"
    );

    for client in &mut clients {
        within(PATIENCE, "a held login", client.until_ready())
            .await
            .unwrap();
    }
    let accepted: Vec<usize> = cluster
        .nodes
        .iter()
        .map(|node| node.postgres.accepted())
        .collect();
    assert_eq!(accepted, [0, 50, 0]);
}

#[tokio::test]
async fn when_no_node_leads_nobody_is_used() {
    let tempo = Tempo {
        write_timeout_secs: 1,
        ..Tempo::default()
    };
    for sick in [
        Answer::new(503, Body::replica("n1", 1)),
        Answer::bytes(500, "oops"),
        Answer::close(),
        Answer::hang(),
    ] {
        let cluster = Cluster::start(3);
        for node in &cluster.nodes {
            node.rest.says(sick.clone());
        }
        let scene = Scene::start(cluster, &tempo).await;

        let refused = within(PATIENCE, "a refusal", Client::login(scene.addr))
            .await
            .unwrap_err();

        assert_eq!(refused.code(), "57P03", "{sick:?}: {refused:?}");
        assert_eq!(scene.accepted(), 0, "{sick:?}");
    }
}

#[tokio::test]
async fn one_living_node_of_three_serves_from_its_first_proof() {
    let mut cluster = Cluster::start(3);
    cluster.lead(0, 1);
    cluster.nodes[1].rest.mode(Mode::Refuse).await;
    cluster.nodes[2].rest.mode(Mode::Swallow).await;
    cluster.nodes[2].postgres.mode(Mode::Swallow).await;
    let tempo = Tempo {
        check_timeout_ms: 8000,
        ..Tempo::default()
    };

    let since = Instant::now();
    let house = heliosdb_proxy::House::start(super::scene::config(&cluster.toml_with(&tempo)))
        .await
        .unwrap();
    let mut client = within(PATIENCE, "a login", Client::login(tcp(&house, 0)))
        .await
        .unwrap();

    assert_eq!(client.node().await.unwrap(), "n1");
    // Not at the end of a question to the node that swallows it.
    assert!(since.elapsed() < ms(5000), "{:?}", since.elapsed());
}

#[tokio::test]
async fn a_standby_leader_never_leads_and_is_named_as_the_reason() {
    let cluster = Cluster::start(2);
    let standby = Body::primary("n1", 3).role("standby_leader");
    cluster.nodes[0].rest.says(Answer::new(503, standby));
    let tempo = Tempo {
        write_timeout_secs: 1,
        ..Tempo::default()
    };
    let scene = Scene::start(cluster, &tempo).await;

    let refused = within(PATIENCE, "a refusal", Client::login(scene.addr))
        .await
        .unwrap_err();
    let (code, text, detail, hint) = words(refused);
    assert_eq!(code, "57P03");
    let all = format!("{text} {detail} {hint}");
    assert!(all.contains("standby"), "{all}");
    assert_eq!(scene.accepted(), 0);

    scene.cluster.nodes[0]
        .rest
        .says(Answer::new(200, Body::primary("n1", 4)));
    assert_eq!(scene.node_at_last().await.0, "n1");
}

#[tokio::test]
async fn the_recorded_leaders_of_each_patroni_version_and_mode_lead() {
    for (situation, leader) in [
        ("3.0.2/healthy", "n1"),
        ("4.0.7/healthy", "n1"),
        ("4.1.5/healthy", "n1"),
        ("4.1.5/synchronous_mode", "n3"),
        ("4.1.5/quorum_mode", "n3"),
    ] {
        let cluster = Cluster::start(3);
        for node in &cluster.nodes {
            let (status, body) = recorded(situation, &node.name);
            node.rest.says(Answer::bytes(status, body));
        }
        let scene = Scene::start(cluster, &Tempo::default()).await;

        assert_eq!(scene.node().await, leader, "{situation}");
        assert_eq!(scene.accepted(), 1, "{situation}: another node was tried");
    }
}

/// Status and body of `GET /primary` as recorded, with its DCS seen just now.
fn recorded(situation: &str, node: &str) -> (u16, Vec<u8>) {
    let folder = format!(
        "{}/tests/fixtures/patroni/{situation}",
        env!("CARGO_MANIFEST_DIR")
    );
    let index: Value =
        serde_json::from_slice(&std::fs::read(format!("{folder}/index.json")).unwrap()).unwrap();
    let answers = index["answers"].as_array().unwrap();
    let primary = answers
        .iter()
        .find(|a| a["node"] == node && a["path"] == "/primary")
        .unwrap();
    let status = primary["status"]
        .as_str()
        .unwrap()
        .split(' ')
        .nth(1)
        .unwrap()
        .parse()
        .unwrap();
    let body = std::fs::read(format!("{folder}/{node}_primary.json")).unwrap();
    let mut body: Value = serde_json::from_slice(&body).unwrap();
    body["dcs_last_seen"] = json!(unix_now());
    (status, body.to_string().into_bytes())
}

#[tokio::test]
async fn odd_answers_of_one_node_do_not_hide_a_good_leader() {
    let odd: [Value; 7] = [
        json!(null),
        json!([]),
        json!({"role": null, "state": null}),
        json!({"role": 7, "state": {}, "timeline": "x", "xlog": [], "patroni": "none"}),
        json!({"role": "primary", "state": "running", "timeline": -1, "patroni": {"scope": "other"}}),
        json!({"role": "captain", "state": "running", "timeline": 99, "patroni": {"scope": "demo"}}),
        json!({"role": "replica", "state": "running", "timeline": 1e300, "dcs_last_seen": "then"}),
    ];
    let cluster = Cluster::start(u8::try_from(odd.len()).unwrap() + 1);
    let last = cluster.nodes.len() - 1;
    for (node, body) in cluster.nodes.iter().zip(&odd) {
        node.rest.says(Answer::bytes(503, body.to_string()));
    }
    let unknown = Body::primary(&cluster.nodes[last].name, 2).with("mood", json!({"fine": true}));
    cluster.nodes[last].rest.says(Answer::new(200, unknown));
    let scene = Scene::start(cluster, &Tempo::default()).await;

    assert_eq!(scene.node().await, scene.cluster.nodes[last].name);
}

#[tokio::test]
async fn a_leader_of_another_cluster_is_silent() {
    let mut cluster = Cluster::start(2);
    cluster.lead(0, 1);
    let scene = Scene::start(cluster, &Tempo::default()).await;
    assert_eq!(scene.node().await, "n1");

    let stranger = Body::primary("n2", 9).scope("another");
    scene.cluster.nodes[1].rest.says(Answer::new(200, stranger));
    let mut client = scene.login().await;
    scene.cluster.nodes[1].rest.after_questions(3).await;

    assert_eq!(client.node().await.unwrap(), "n1", "the session stays");
    assert_eq!(scene.node().await, "n1");
    assert_eq!(scene.cluster.nodes[1].postgres.accepted(), 0);
}

#[tokio::test]
async fn a_configured_scope_keeps_every_other_cluster_out() {
    let cluster = Cluster::start(1);
    cluster.nodes[0]
        .rest
        .says(Answer::new(200, Body::primary("n1", 1).scope("another")));
    let tempo = Tempo {
        topology: "scope = \"demo\"".to_owned(),
        ..Tempo::default()
    };
    let scene = Scene::start(cluster, &tempo).await;

    let client = scene.knocking().await;
    assert!(is_held(&client, ms(500)).await);
    assert_eq!(scene.accepted(), 0);

    scene.cluster.nodes[0]
        .rest
        .says(Answer::new(200, Body::primary("n1", 1)));
    assert_eq!(scene.node_at_last().await.0, "n1");
}
