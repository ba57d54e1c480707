//! How often a node is asked at most. Times are a fifth of the defaults, so the promised rates are five times as high
//! here; how seldom a busy machine may ask is for the cadence's own tests, whose time stands still.

use std::time::{Duration, Instant};

use super::scene::{Scene, knocking};
use crate::fakes::cluster::{Cluster, Tempo};

const SCALE: f64 = 5.0;

/// The default cadence, five times as fast: 5 s → 1 s, 1 s → 200 ms, 100 ms → 20 ms, a lease of 10 s → 2 s.
fn a_fifth() -> Tempo {
    Tempo {
        check_interval_ms: 1000,
        active_interval_ms: 200,
        fast_interval_ms: 20,
        check_timeout_ms: 1600,
        ..Tempo::default()
    }
}

/// Questions per (unscaled) second to node `i`.
async fn rate(scene: &Scene, i: usize, over: Duration) -> f64 {
    let since = Instant::now();
    tokio::time::sleep(over).await;
    let asked = scene.cluster.nodes[i].rest.asked("/primary", since);
    asked as f64 / since.elapsed().as_secs_f64() / SCALE
}

#[tokio::test]
async fn a_leader_in_use_is_asked_at_most_1_2_times_a_second() {
    let scene = Scene::led_with(3, &a_fifth()).await;
    let _session = scene.login().await;

    let (leader, replica) = tokio::join!(
        rate(&scene, 0, Duration::from_secs(6)),
        rate(&scene, 1, Duration::from_secs(6)),
    );

    assert!((0.01..=1.2).contains(&leader), "the leader: {leader:.2}/s");
    assert!(replica <= 0.35, "a replica: {replica:.2}/s");
}

#[tokio::test]
async fn at_rest_each_node_is_asked_at_most_0_35_times_a_second() {
    let mut cluster = Cluster::start(3);
    cluster.lead(0, 1);
    let scene = Scene::start(cluster, &a_fifth()).await;
    // The two answers in a row that make a node up.
    tokio::time::sleep(Duration::from_secs(1)).await;

    let (leader, replica) = tokio::join!(
        rate(&scene, 0, Duration::from_secs(6)),
        rate(&scene, 1, Duration::from_secs(6)),
    );

    assert!((0.01..=0.35).contains(&leader), "the leader: {leader:.2}/s");
    assert!(
        (0.01..=0.35).contains(&replica),
        "a replica: {replica:.2}/s"
    );
}

#[tokio::test]
async fn doubt_asks_no_more_than_forty_times_fast_and_then_ever_more_slowly() {
    // Held to the end: a doubt that concerns nobody is asked otherwise.
    let tempo = Tempo {
        write_timeout_secs: 60,
        ..a_fifth()
    };
    let scene = Scene::start(Cluster::start(3), &tempo).await;
    let _held = knocking(scene.addr).await;
    let since = Instant::now();
    tokio::time::sleep(Duration::from_secs(12)).await;

    for node in &scene.cluster.nodes {
        let asked = node.rest.asked("/primary", since);
        // Forty in 0.8 s, some seven up to intervals of 500 ms, then two a second, a fifth more or less. Fewer where a
        // busy machine's slow answers brake.
        let name = &node.name;
        assert!(
            (1..=85).contains(&asked),
            "{name}: {asked} questions in 12 s"
        );
        let last = Instant::now() - Duration::from_secs(2);
        let late = node.rest.asked("/primary", last);
        assert!(
            late <= 20,
            "{}: {late} questions in the last 2 s",
            node.name
        );
    }
}

#[tokio::test]
async fn a_slow_api_is_asked_no_more_often_than_it_can_bear() {
    let cluster = Cluster::start(1);
    let slow = crate::fakes::body::Body::replica("n1", 1);
    cluster.nodes[0]
        .rest
        .says(crate::fakes::answer::Answer::new(503, slow).delay(Duration::from_millis(30)));
    let scene = Scene::start(cluster, &a_fifth()).await;
    let _held = knocking(scene.addr).await;
    let since = Instant::now();
    tokio::time::sleep(Duration::from_secs(4)).await;

    // A second between two questions: 100 × 20 ms would be more.
    let asked = scene.cluster.nodes[0].rest.asked("/primary", since);
    assert!(asked <= 7, "{asked} questions in 4 s");
}
