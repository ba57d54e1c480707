//! Only the leader's REST API is silent: what the other nodes see decides whether its lease goes on.

use std::time::Instant;

use serde_json::json;

use super::scene::{PATIENCE, Scene, is_held};
use crate::fakes::answer::Answer;
use crate::fakes::body::{Body, unix_now};
use crate::fakes::cluster::{Cluster, Tempo};
use crate::fakes::door::Mode;
use crate::fakes::view::View;
use crate::fakes::{ms, within};

/// Every node but n1 sees that node `leader` holds the lock.
fn show(scene: &Scene, leader: usize) {
    let view = View::of(&scene.cluster, Some(leader), scene.cluster.timeline());
    for i in 1..scene.cluster.nodes.len() {
        scene.cluster.shows_at(i, &view);
    }
}

/// n1 leads, the others see it; the proxy knows it. A lease of 2 s.
async fn seen() -> Scene {
    seen_for(2).await
}

/// The same with a lease of so many seconds.
async fn seen_for(lease_timeout_secs: u64) -> Scene {
    let scene = Scene::leased(3, lease_timeout_secs).await;
    show(&scene, 0);
    scene
}

fn asked_for_views(scene: &Scene, since: Instant) -> Vec<usize> {
    let nodes = scene.cluster.nodes.iter();
    nodes.map(|n| n.rest.asked("/cluster", since)).collect()
}

/// New sessions start at n1 without a wait, for three leases; the ones that are there stay.
async fn assert_no_gap(scene: &Scene, what: &str) {
    let mut open = scene.login().await;
    // Until the silence is noticed, a session may wait for fresh news.
    tokio::time::sleep(ms(1000)).await;
    let since = Instant::now();
    let mut took = Vec::new();
    while since.elapsed() < ms(6000) {
        let began = Instant::now();
        assert_eq!(scene.node().await, "n1", "{what}");
        took.push(began.elapsed());
        tokio::time::sleep(ms(50)).await;
    }
    took.sort();
    // A busy machine may delay one or two, and not until a lease has come back.
    let [.., third, _, longest] = took[..] else {
        panic!("{what}: {took:?}");
    };
    let nobody_waited = third < ms(400) && longest < ms(1500);
    assert!(nobody_waited, "{what}: {third:?}, {longest:?}");
    assert_eq!(open.node().await.unwrap(), "n1", "{what}");
}

#[tokio::test]
async fn a_rest_api_that_hangs_beside_a_healthy_leader_makes_nobody_wait() {
    let scene = seen().await;
    scene.cluster.nodes[0].rest.says(Answer::hang());
    assert_no_gap(&scene, "hung").await;
}

#[tokio::test]
async fn nor_one_that_is_refused_reset_or_swallowed() {
    let scene = seen().await;
    scene.cluster.nodes[0].rest.mode(Mode::Refuse).await;
    assert_no_gap(&scene, "refused").await;
    scene.cluster.nodes[0].rest.mode(Mode::Accept).await;
    scene.cluster.nodes[0].rest.says(Answer::reset());
    assert_no_gap(&scene, "reset").await;
    scene.cluster.nodes[0].rest.mode(Mode::Swallow).await;
    assert_no_gap(&scene, "swallowed").await;
}

#[tokio::test]
async fn the_provider_patroni_has_witnesses_too() {
    let mut cluster = Cluster::start(3);
    cluster.lead_openly(0, 1);
    let tempo = Tempo {
        topology: "provider = \"patroni\"\npoll_interval_secs = 1".to_owned(),
        ..Tempo::default()
    };
    let scene = Scene::leading(cluster, &tempo).await;
    let rest = &scene.cluster.nodes[0].rest;
    rest.says(Answer::hang());
    rest.answers("/cluster", Answer::hang());
    assert_no_gap(&scene, "provider patroni").await;
}

#[tokio::test]
async fn without_a_witness_the_lease_ends_and_clients_are_held() {
    let scene = Scene::led(3).await;
    scene.cluster.nodes[0].rest.says(Answer::hang());
    tokio::time::sleep(ms(2500)).await;
    let held = scene.knocking().await;
    assert!(is_held(&held, ms(1000)).await, "on nobody's word");

    // A lease that is over is no witness's to give back.
    show(&scene, 0);
    assert!(is_held(&held, ms(1500)).await, "created by a witness");
}

#[tokio::test]
async fn a_lease_ends_when_its_witnesses_fall_silent_or_see_the_lock_go() {
    for lost in [
        Answer::hang(),
        Answer::bytes(503, "no DCS"),
        Answer::bytes(200, "{\"members\": []}"),
    ] {
        let scene = seen().await;
        scene.cluster.nodes[0].rest.says(Answer::hang());
        tokio::time::sleep(ms(3000)).await;
        assert_eq!(scene.node().await, "n1");
        for node in &scene.cluster.nodes[1..] {
            node.rest.answers("/cluster", lost.clone());
        }
        tokio::time::sleep(ms(2500)).await;
        let held = scene.knocking().await;
        assert!(is_held(&held, ms(300)).await, "{lost:?}");
    }
}

#[tokio::test]
async fn witnesses_that_have_lost_the_dcs_or_see_no_lock_are_not_believed() {
    let lost = |name: &str| {
        let mut body = Body::replica(name, 1);
        body.dcs_last_seen = Some(unix_now() - 60);
        body
    };
    let unlocked = |name: &str| Body::replica(name, 1).with("cluster_unlocked", json!(true));
    for said in [&lost as &dyn Fn(&str) -> Body, &unlocked] {
        let scene = seen().await;
        for node in &scene.cluster.nodes[1..] {
            node.rest.says(Answer::new(503, said(&node.name)));
            node.rest.after_questions(1).await;
        }
        scene.cluster.nodes[0].rest.says(Answer::hang());
        tokio::time::sleep(ms(3000)).await;
        let held = scene.knocking().await;
        assert!(is_held(&held, ms(300)).await);
    }
}

#[tokio::test]
async fn a_witness_delays_no_failover() {
    let mut scene = seen_for(10).await;
    let mut open = scene.login().await;
    scene.cluster.nodes[0].rest.says(Answer::hang());
    tokio::time::sleep(ms(6000)).await;
    assert_eq!(open.node().await.unwrap(), "n1");

    scene.cluster.lead(1, 2);
    scene.cluster.nodes[0].rest.says(Answer::hang());
    show(&scene, 1);

    let took = scene.until_on(1).await;
    // Not once the lease is over.
    assert!(took < ms(4000), "{took:?}");
    let last = within(PATIENCE, "the last words", open.last_words()).await;
    assert_eq!(last.code(), "57P01", "{last:?}");
}

#[tokio::test]
async fn a_witness_that_falls_silent_is_replaced_by_the_next_without_a_gap() {
    let scene = seen().await;
    scene.cluster.nodes[0].rest.says(Answer::hang());
    for silent in [1, 2, 1, 2] {
        show(&scene, 0);
        let silenced = &scene.cluster.nodes[silent].rest;
        silenced.answers("/cluster", Answer::hang());
        for _ in 0..25 {
            tokio::time::sleep(ms(100)).await;
            let mut client = scene.knocking().await;
            within(ms(1000), "a session", client.until_ready())
                .await
                .unwrap();
        }
    }
}

#[tokio::test]
async fn nobody_is_asked_for_a_view_while_the_leader_answers() {
    // It is silent after a third of the lease.
    let scene = seen_for(6).await;
    let since = Instant::now();
    let _session = scene.login().await;
    tokio::time::sleep(ms(5000)).await;
    assert_eq!(asked_for_views(&scene, since), [0, 0, 0]);
}

#[tokio::test]
async fn one_witness_is_asked_instead_of_the_leader_and_no_more_often() {
    // The default cadence, five times as fast.
    let tempo = Tempo {
        check_interval_ms: 1000,
        active_interval_ms: 200,
        fast_interval_ms: 20,
        check_timeout_ms: 8000,
        ..Tempo::default()
    };
    let scene = Scene::led_with(3, &tempo).await;
    show(&scene, 0);
    scene.cluster.nodes[0].rest.mode(Mode::Refuse).await;
    tokio::time::sleep(ms(11_000)).await;

    let since = Instant::now();
    tokio::time::sleep(ms(5000)).await;
    let at_rest = asked_for_views(&scene, since);
    // 2 s / 3, a tenth less: seven or eight times, one or the other; a late answer brings the other one in.
    let asked: usize = at_rest.iter().sum();
    assert!((2..=13).contains(&asked), "at rest: {at_rest:?}");

    let _session = scene.login().await;
    let since = Instant::now();
    tokio::time::sleep(ms(5000)).await;
    let in_use = asked_for_views(&scene, since);
    let asked: usize = in_use.iter().sum();
    assert!((2..=40).contains(&asked), "in use: {in_use:?}");
    assert_eq!((at_rest[0], in_use[0]), (0, 0));
    // The others are in doubt, but slowed down by now: at most one a second, and the brake.
    let primaries = scene.cluster.nodes[1].rest.asked("/primary", since);
    assert!(primaries <= 60, "{primaries} questions in 5 s");
    for node in &scene.cluster.nodes {
        assert!(node.rest.most_open() <= 2, "{}", node.name);
    }
}
