//! A new configuration is taken as a whole or not at all, and drops nobody.

use tokio::net::{TcpListener, TcpStream};

use heliosdb_proxy::Config;

use super::scene::{PATIENCE, Scene, config, is_held, tcp};
use crate::fakes::answer::Answer;
use crate::fakes::body::Body;
use crate::fakes::client::Client;
use crate::fakes::cluster::{Cluster, Tempo};
use crate::fakes::{eventually, ms, ports, within};

/// The same listener (its port resolved), and these nodes.
fn with_nodes(scene: &Scene, nodes: &[usize]) -> String {
    let text = Tempo::default()
        .toml()
        .replace("127.0.0.1:0", &scene.addr.to_string());
    text + &scene.cluster.node_tables_of(nodes)
}

/// A proxy whose listener has a port that a later configuration can name.
async fn scene(nodes: u8) -> Scene {
    let mut cluster = Cluster::start(nodes);
    cluster.lead(0, 1);
    let text = cluster
        .toml()
        .replace("127.0.0.1:0", &ports::free().to_string());
    let scene = Scene::with_text(cluster, &text).await;
    scene.settled().await;
    scene
}

#[tokio::test]
async fn a_configuration_that_cannot_be_taken_changes_nothing() {
    let scene = scene(2).await;
    let mut open = scene.login().await;
    let taken = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let taken = taken.local_addr().unwrap();
    let good = with_nodes(&scene, &[1]);
    let second = format!("[[listeners]]\naddress = \"{taken}\"\nroute = \"primary\"\n\n");
    // It would remove the leader as well: half of it applied would be an outage.
    let _occupied = std::net::TcpListener::bind(taken);
    let bad = good.replacen("[health]", &format!("{second}[health]"), 1);

    let refused = scene.house.reload(config(&bad)).await;

    assert!(refused.is_err(), "a listener at {taken} was bound twice");
    assert_eq!(open.node().await.unwrap(), "n1");
    assert_eq!(scene.node().await, "n1");
}

#[tokio::test]
async fn a_text_that_is_wrong_never_becomes_a_configuration() {
    let scene = scene(1).await;
    let good = with_nodes(&scene, &[0]);
    for (wrong, names) in [
        (
            good.replace("lease_timeout_secs", "lease_timeout_ms"),
            "lease_timeout_ms",
        ),
        (
            good.replace("lease_timeout_secs = 2", "lease_timeout_secs = \"2\""),
            "lease_timeout_secs",
        ),
        (good.replace("[topology]", "[topology"), "TOML"),
        (good.replace("name = \"n1\"", "name = \"\""), "name"),
        (
            good.replacen("route = \"primary\"", "route = \"secondary\"", 1),
            "secondary",
        ),
    ] {
        let error = Config::from_toml(&wrong).expect_err(names).to_string();
        assert!(error.contains(names), "{error}");
    }
    assert_eq!(scene.node().await, "n1");
}

#[tokio::test]
async fn an_unchanged_configuration_touches_nobody() {
    let scene = scene(2).await;
    let mut open = scene.login().await;
    let accepted = scene.accepted();

    scene
        .house
        .reload(config(&with_nodes(&scene, &[0, 1])))
        .await
        .unwrap();

    assert_eq!(open.node().await.unwrap(), "n1");
    assert_eq!(scene.node().await, "n1", "without a gap");
    assert_eq!(scene.accepted(), accepted + 1);
}

#[tokio::test]
async fn a_removed_leader_is_no_leader_and_its_sessions_drain() {
    let scene = scene(2).await;
    let mut open = scene.login().await;

    scene
        .house
        .reload(config(&with_nodes(&scene, &[1])))
        .await
        .unwrap();

    let mut held = scene.knocking().await;
    assert!(is_held(&held, ms(300)).await);
    assert_eq!(open.node().await.unwrap(), "n1", "a plan drops no session");

    scene
        .house
        .reload(config(&with_nodes(&scene, &[0, 1])))
        .await
        .unwrap();
    within(PATIENCE, "a login", held.until_ready())
        .await
        .unwrap();
    assert_eq!(held.node().await.unwrap(), "n1");
}

#[tokio::test]
async fn an_added_node_can_become_the_leader() {
    let mut cluster = Cluster::start(3);
    cluster.lead(0, 1);
    let text = Tempo::default()
        .toml()
        .replace("127.0.0.1:0", &ports::free().to_string())
        + &cluster.node_tables_of(&[0, 1]);
    let mut scene = Scene::with_text(cluster, &text).await;
    scene.settled().await;

    scene
        .house
        .reload(config(&with_nodes(&scene, &[0, 1, 2])))
        .await
        .unwrap();
    scene.cluster.lead(2, 2);

    assert!(scene.until_on(2).await < PATIENCE);
}

#[tokio::test]
async fn a_node_at_a_new_address_starts_as_a_new_unproved_one() {
    let scene = scene(2).await;
    let text = with_nodes(&scene, &[0]);
    // The name stays, the machine is another one, which does not lead.
    let moved = text.replace(
        &scene.cluster.nodes[0].ip.to_string(),
        &scene.cluster.nodes[1].ip.to_string(),
    );

    scene.house.reload(config(&moved)).await.unwrap();

    let mut held = scene.knocking().await;
    assert!(is_held(&held, ms(300)).await);
    assert_eq!(scene.cluster.nodes[1].postgres.accepted(), 0);
    scene.cluster.nodes[1]
        .rest
        .says(Answer::new(200, Body::primary("n1", 2)));
    within(PATIENCE, "a login", held.until_ready())
        .await
        .unwrap();
    assert_eq!(held.node().await.unwrap(), "n2");
}

#[tokio::test]
async fn a_removed_listener_takes_nobody_new_and_keeps_whom_it_has() {
    let scene = scene(1).await;
    let mut open = scene.login().await;
    let elsewhere = with_nodes(&scene, &[0]).replace(&scene.addr.to_string(), "127.0.0.1:0");

    scene.house.reload(config(&elsewhere)).await.unwrap();

    let refused = || std::net::TcpStream::connect(scene.addr).is_err();
    assert!(
        eventually(PATIENCE, refused).await,
        "the old listener still accepts"
    );
    assert_eq!(open.node().await.unwrap(), "n1");
    let new = tcp(&scene.house, 0);
    assert_eq!(
        Client::login(new).await.unwrap().node().await.unwrap(),
        "n1"
    );
}

#[tokio::test]
async fn a_drain_says_goodbye_to_the_idle_and_waits_for_the_busy() {
    let scene = scene(1).await;
    let mut idle = scene.login().await;
    let mut busy = scene.login().await;
    busy.send(&crate::fakes::wire::query("slow 2500"))
        .await
        .unwrap();
    let server = &scene.cluster.nodes[0].postgres;
    assert!(eventually(PATIENCE, || server.queries() == 1).await);
    let addr = scene.addr;

    let drain = scene.house.drain();
    let watch = async {
        let last = within(PATIENCE, "the idle one's end", idle.last_words()).await;
        assert_eq!(last.code(), "57P01", "{last:?}");
        assert!(
            TcpStream::connect(addr).await.is_err(),
            "new clients are still taken"
        );
        let answer = within(PATIENCE, "the busy one's answer", busy.result()).await;
        assert_eq!(answer.unwrap(), "n1");
    };
    within(PATIENCE, "the drain", async { tokio::join!(drain, watch) }).await;
}
