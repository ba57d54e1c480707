//! The provider `patroni`: the cluster's own view names the leader, and the leader confirms it.

use std::fmt::Write as _;
use std::time::Instant;

use serde_json::{Value, json};

use super::scene::{PATIENCE, Scene, is_held};
use super::window;
use crate::fakes::answer::Answer;
use crate::fakes::body::Body;
use crate::fakes::client::Client;
use crate::fakes::cluster::{Cluster, Tempo};
use crate::fakes::view::View;
use crate::fakes::{eventually, ms, within};

fn tempo(more: &str) -> Tempo {
    Tempo {
        topology: format!(
            "provider = \"patroni\"\npoll_interval_secs = 0.1\npatroni_request_timeout_ms = 400\n{more}"
        ),
        ..Tempo::default()
    }
}

/// `patroni_endpoints`, in this order.
fn endpoints(cluster: &Cluster, order: &[usize]) -> String {
    let urls = order
        .iter()
        .map(|i| format!("\"http://{}\"", cluster.nodes[*i].rest.addr()));
    let urls: Vec<_> = urls.collect();
    format!("patroni_endpoints = [{}]", urls.join(", "))
}

/// Node 0 leads on timeline 1 in every way, and the proxy knows it.
async fn led(nodes: u8, more: &str) -> Scene {
    let mut cluster = Cluster::start(nodes);
    cluster.lead_openly(0, 1);
    Scene::leading(cluster, &tempo(more)).await
}

/// A proxy with an admin API, of which only the first `configured` nodes are in the file.
async fn configured(cluster: Cluster, configured: usize, tempo: &Tempo) -> Scene {
    let which: Vec<_> = (0..configured).collect();
    let text = tempo
        .toml()
        .replace("admin_address = \"\"", "admin_address = \"127.0.0.1:0\"")
        + &cluster.node_tables_of(&which);
    Scene::with_text(cluster, &text).await
}

async fn topology(scene: &Scene) -> Value {
    serde_json::from_str(&window::get(scene.house.admin().unwrap(), "/topology").await).unwrap()
}

/// What `/topology` says, once it says so.
async fn said(scene: &Scene, what: &str, holds: impl Fn(&Value) -> bool) -> Value {
    let look = async {
        loop {
            let topology = topology(scene).await;
            if holds(&topology) {
                return topology;
            }
            tokio::time::sleep(ms(5)).await;
        }
    };
    within(PATIENCE, what, look).await
}

#[tokio::test]
async fn a_leader_that_the_view_names_gets_nobody_before_its_own_word() {
    let mut cluster = Cluster::start(2);
    cluster.lead_openly(0, 5);
    for word in [
        Answer::hang(),
        Answer::new(200, Body::replica("n1", 5)),
        Answer::bytes(502, "bad gateway"),
    ] {
        cluster.nodes[0].rest.says(word);
        let scene = configured(cluster, 2, &tempo("")).await;

        let told = said(&scene, "a pending leader", |t| {
            t["authoritative"]["confirmed"] == json!(false)
        });
        let told = told.await;
        let address = scene.cluster.nodes[0].postgres.addr().to_string();
        assert_eq!(told["authoritative"]["address"], address);
        assert_eq!(told["authoritative"]["valid"], false);
        assert_eq!(told["currentPrimary"], Value::Null);
        assert!(is_held(&scene.knocking().await, ms(200)).await);
        assert_eq!(scene.accepted(), 0);

        cluster = scene.cluster;
        scene.house.stop().await;
    }

    cluster.nodes[0]
        .rest
        .says(Answer::new(200, Body::primary("n1", 5)));
    let scene = configured(cluster, 2, &tempo("")).await;
    assert_eq!(scene.node_at_last().await.0, "n1");
    assert_eq!(topology(&scene).await["authoritative"]["confirmed"], true);
}

#[tokio::test]
async fn a_switchover_is_followed_and_ends_the_old_sessions() {
    let mut scene = led(3, "").await;
    let mut client = scene.login().await;

    scene.cluster.lead_openly(1, 2);

    let last = within(PATIENCE, "the last words", client.last_words()).await;
    assert_eq!(last.code(), "57P01", "{last:?}");
    assert_eq!(scene.node_at_last().await.0, "n2");
}

#[tokio::test]
async fn a_failover_is_seen_as_soon_as_by_the_nodes_own_words() {
    let mut scene = led(3, "").await;
    scene.cluster.kill(0).await;
    let held = scene.knocking().await;
    assert!(is_held(&held, ms(100)).await);

    let since = Instant::now();
    // The views are a moment behind: nobody waits for them.
    scene.cluster.lead(1, 2);
    let on = scene.until_on(1).await;
    assert!(since.elapsed() < ms(5000), "{on:?}");
}

#[tokio::test]
async fn views_that_hang_or_fail_close_and_refuse_nothing() {
    for broken in [
        Answer::hang(),
        Answer::reset(),
        Answer::bytes(503, "no DCS"),
        Answer::bytes(200, "<html>"),
        Answer::bytes(200, r#"{"members": []}"#),
    ] {
        let scene = led(3, "").await;
        let mut client = scene.login().await;
        for node in &scene.cluster.nodes {
            node.rest.answers("/cluster", broken.clone());
        }

        let since = Instant::now();
        // Longer than a lease.
        while since.elapsed() < ms(2600) {
            assert_eq!(scene.node().await, "n1");
            assert_eq!(client.node().await.unwrap(), "n1");
            tokio::time::sleep(ms(50)).await;
        }
    }
}

#[tokio::test]
async fn a_proxy_that_starts_while_no_view_can_be_had_believes_the_nodes() {
    let mut cluster = Cluster::start(3);
    cluster.lead(0, 1);
    for node in &cluster.nodes {
        node.rest.answers("/cluster", Answer::hang());
    }
    Scene::leading(cluster, &tempo("")).await;
}

#[tokio::test]
async fn an_old_view_never_wins_in_any_order_of_endpoints() {
    // n1 led on timeline 1, is cut off from the DCS and shows its old view for ever; n2 leads on 2.
    for order in [
        [0, 1, 2],
        [0, 2, 1],
        [1, 0, 2],
        [1, 2, 0],
        [2, 0, 1],
        [2, 1, 0],
    ] {
        for old_word in [
            Answer::new(200, Body::primary("n1", 1)),
            Answer::new(503, Body::replica("n1", 1)),
            Answer::hang(),
        ] {
            let mut cluster = Cluster::start(3);
            cluster.lead_openly(0, 1);
            let more = endpoints(&cluster, &order);
            let mut scene = Scene::leading(cluster, &tempo(&more)).await;
            let before = scene.cluster.nodes[0].postgres.accepted();
            let old = View::of(&scene.cluster, Some(0), 1);

            scene.cluster.lead_openly(1, 2);
            scene.cluster.shows_at(0, &old);
            scene.until_on(1).await;
            scene.cluster.nodes[0].rest.says(old_word);

            let after = scene.cluster.nodes[0].postgres.accepted();
            let since = Instant::now();
            while since.elapsed() < ms(400) {
                assert_eq!(scene.node().await, "n2", "{order:?}");
                tokio::time::sleep(ms(10)).await;
            }
            assert_eq!(scene.cluster.nodes[0].postgres.accepted(), after);
            assert!(after >= before);
        }
    }
}

#[tokio::test]
async fn a_proxy_that_starts_with_an_old_view_first_is_not_taken_in() {
    for old_word in [Answer::new(503, Body::replica("n1", 1)), Answer::hang()] {
        let mut cluster = Cluster::start(3);
        let old = View::of(&cluster, Some(0), 1);
        cluster.lead_openly(1, 2);
        cluster.shows_at(0, &old);
        cluster.nodes[0].rest.says(old_word);

        let scene = Scene::start(cluster, &tempo("")).await;

        assert_eq!(scene.node_at_last().await.0, "n2");
        assert_eq!(scene.cluster.nodes[0].postgres.accepted(), 0);
    }
}

#[tokio::test]
async fn an_old_primary_in_pause_mode_is_not_believed_when_the_view_names_another_who_is_silent() {
    let mut cluster = Cluster::start(3);
    cluster.lead_openly(1, 2);
    let tables = cluster.node_tables_of(&[0, 2]);
    // It says 200 for ever, and the new leader's own word cannot be had.
    cluster.nodes[0]
        .rest
        .says(Answer::new(200, Body::primary("n1", 1)));
    cluster.nodes[0].rest.answers("/cluster", Answer::hang());
    let text = tempo("").toml() + &tables;

    let scene = Scene::with_text(cluster, &text).await;

    let held = scene.knocking().await;
    assert!(is_held(&held, ms(1500)).await);
}

#[tokio::test]
async fn two_running_leaders_in_one_view_are_a_conflict_at_once() {
    let scene = led(3, "").await;
    let mut client = scene.login().await;
    scene.cluster.nodes[1].rest.says(Answer::hang());
    let two = View::of(&scene.cluster, Some(0), 1)
        .with(1, "role", json!("leader"))
        .with(1, "state", json!("running"));

    scene.cluster.shows(&two);

    let last = within(PATIENCE, "the last words", client.last_words()).await;
    assert_eq!(last.code(), "57P01", "{last:?}");
    let mut held = scene.knocking().await;
    assert!(is_held(&held, ms(300)).await);

    scene.cluster.shows(&View::of(&scene.cluster, Some(0), 1));
    within(PATIENCE, "a login", held.until_ready())
        .await
        .unwrap();
}

#[tokio::test]
async fn two_leaders_in_one_view_of_which_one_follows_by_its_own_word_are_none() {
    let scene = led(3, "").await;
    let mut client = scene.login().await;
    let two = View::of(&scene.cluster, Some(0), 1)
        .with(1, "role", json!("leader"))
        .with(1, "state", json!("running"));

    scene.cluster.shows(&two);
    tokio::time::sleep(ms(500)).await;

    assert_eq!(client.node().await.unwrap(), "n1");
    assert_eq!(scene.node().await, "n1");
}

#[tokio::test]
async fn a_standby_leader_is_never_writable() {
    let cluster = Cluster::start(2);
    let standby = Body::primary("n1", 1).role("standby_leader");
    cluster.nodes[0].rest.says(Answer::new(503, standby));
    cluster.shows(&View::of(&cluster, Some(0), 1).with(0, "role", json!("standby_leader")));

    let scene = configured(cluster, 2, &tempo("")).await;

    assert!(is_held(&scene.knocking().await, ms(300)).await);
    let told = topology(&scene).await;
    assert_eq!(told.get("authoritative"), None);
    assert!(told["reason"].as_str().unwrap().contains("standby cluster"));
    assert_eq!(scene.accepted(), 0);
}

#[tokio::test]
async fn the_first_endpoint_is_asked_alone_as_long_as_it_answers() {
    let mut cluster = Cluster::start(3);
    cluster.lead_openly(0, 1);
    let more = endpoints(&cluster, &[2, 1]);
    // An endpoint that takes longer is helped out by the next one.
    let tempo = tempo(&more);
    let patient = Tempo {
        topology: tempo.topology.replace("_ms = 400", "_ms = 8000"),
        ..tempo
    };
    let scene = Scene::leading(cluster, &patient).await;
    let asked = |i: usize, since| scene.cluster.nodes[i].rest.asked("/cluster", since);
    let since = Instant::now();
    tokio::time::sleep(ms(1000)).await;
    assert_eq!((asked(0, since), asked(1, since)), (0, 0));
    let often = asked(2, since);
    assert!((1..=12).contains(&often), "{often}");

    scene.cluster.nodes[2]
        .rest
        .answers("/cluster", Answer::close());
    let since = Instant::now();
    assert!(eventually(PATIENCE, || asked(1, since) >= 3).await);
    assert!(asked(2, since) >= 3, "it stays the first");
    assert_eq!(asked(0, since), 0);
}

#[tokio::test]
async fn a_discovered_member_is_used_and_without_discover_it_is_not() {
    for discover in [true, false] {
        let mut cluster = Cluster::start(3);
        cluster.lead_openly(0, 1);
        let more = format!("discover = {discover}");
        let mut scene = configured(cluster, 2, &tempo(&more)).await;
        assert_eq!(scene.node_at_last().await.0, "n1");
        let nodes = if discover { 3 } else { 2 };
        said(&scene, "all members", |t| t["totalNodes"] == nodes).await;

        scene.cluster.lead_openly(2, 2);

        if discover {
            scene.until_on(2).await;
        } else {
            scene.cluster.nodes[0].rest.after_questions(2).await;
            assert!(is_held(&scene.knocking().await, ms(500)).await);
            let never = scene.cluster.nodes[2].rest.questions();
            assert!(never.is_empty(), "{never:?}");
        }
    }
}

#[tokio::test]
async fn a_discovered_member_of_another_cluster_is_not_used() {
    for (scope, identifier) in [
        ("demo", "7000000000000000001"),
        ("other", "7713812041936989168"),
    ] {
        let mut cluster = Cluster::start(2);
        cluster.lead_openly(0, 1);
        let foreign = Body::primary("n2", 9)
            .scope(scope)
            .system_identifier(identifier);
        cluster.nodes[1].rest.says(Answer::new(200, foreign));
        let scene = configured(cluster, 1, &tempo("discover = true")).await;
        assert_eq!(scene.node_at_last().await.0, "n1");
        scene.cluster.nodes[1].rest.after_questions(3).await;

        assert_eq!(scene.node().await, "n1");
        assert_eq!(topology(&scene).await["totalNodes"], 1);
        assert_eq!(scene.cluster.nodes[1].postgres.accepted(), 0);
    }
}

#[tokio::test]
async fn a_discovered_member_that_leaves_the_view_for_good_is_forgotten() {
    let mut cluster = Cluster::start(3);
    cluster.lead_openly(0, 1);
    let mut tempo = tempo("discover = true");
    tempo.lease_timeout_secs = 1;
    let scene = configured(cluster, 2, &tempo).await;
    said(&scene, "three nodes", |t| t["totalNodes"] == 3).await;

    let without = View::of(&scene.cluster, Some(0), 1).only(2);
    scene.cluster.shows(&without);
    said(&scene, "two nodes", |t| t["totalNodes"] == 2).await;

    // One that is configured never is.
    scene.cluster.shows(&without.only(1));
    tokio::time::sleep(ms(3500)).await;
    assert_eq!(topology(&scene).await["totalNodes"], 2);
    assert_eq!(scene.node().await, "n1");
}

#[tokio::test]
async fn a_reload_keeps_a_discovered_leader_and_its_sessions() {
    let mut cluster = Cluster::start(3);
    cluster.lead_openly(2, 1);
    let scene = configured(cluster, 2, &tempo("discover = true")).await;
    assert_eq!(scene.node_at_last().await.0, "n3");
    let mut client = scene.login().await;

    let mut text = tempo("discover = true").toml() + &scene.cluster.node_tables_of(&[0, 1]);
    scene
        .house
        .reload(super::scene::config(&text))
        .await
        .unwrap();
    assert_eq!(client.node().await.unwrap(), "n3");
    assert_eq!(scene.node_at_last().await.0, "n3");

    // Now it is configured: the same machine.
    let _ = write!(text, "{}", scene.cluster.node_tables_of(&[2]));
    scene
        .house
        .reload(super::scene::config(&text))
        .await
        .unwrap();
    assert_eq!(client.node().await.unwrap(), "n3");
    assert_eq!(
        Client::login(scene.addr)
            .await
            .unwrap()
            .node()
            .await
            .unwrap(),
        "n3"
    );
}
