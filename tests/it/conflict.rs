//! More than one node claims to lead.

use super::scene::{PATIENCE, Scene, is_held};
use crate::fakes::answer::Answer;
use crate::fakes::body::Body;
use crate::fakes::cluster::Tempo;
use crate::fakes::{eventually, ms, within};

#[tokio::test]
async fn two_leaders_on_one_timeline_are_none() {
    let scene = Scene::led(3).await;
    let mut client = scene.login().await;

    scene.cluster.nodes[1]
        .rest
        .says(Answer::new(200, Body::primary("n2", 1)));

    let last = within(PATIENCE, "the last words", client.last_words()).await;
    assert_eq!(last.code(), "57P01", "{last:?}");
    let mut held = scene.knocking().await;
    assert!(is_held(&held, ms(300)).await);
    assert_eq!(scene.open_at(0) + scene.open_at(1), 0);

    scene.cluster.nodes[1]
        .rest
        .says(Answer::new(503, Body::replica("n2", 1)));
    within(PATIENCE, "a login", held.until_ready())
        .await
        .unwrap();
    assert_eq!(held.node().await.unwrap(), "n1");
}

#[tokio::test]
async fn of_two_leaders_the_strictly_higher_timeline_wins() {
    let scene = Scene::led(2).await;
    let mut client = scene.login().await;

    scene.cluster.nodes[1]
        .rest
        .says(Answer::new(200, Body::primary("n2", 2)));

    let last = within(PATIENCE, "the last words", client.last_words()).await;
    assert_eq!(last.code(), "57P01", "{last:?}");
    assert_eq!(scene.node_at_last().await.0, "n2");
    assert_eq!(scene.open_at(0), 0);
}

#[tokio::test]
async fn a_leader_that_names_no_timeline_loses_against_one_that_does() {
    let scene = Scene::led(2).await;
    let mut client = scene.login().await;

    scene.cluster.nodes[1]
        .rest
        .says(Answer::new(200, Body::primary("n2", 1).timeline(None)));
    scene.cluster.nodes[1].rest.after_questions(3).await;

    assert_eq!(client.node().await.unwrap(), "n1");
    assert_eq!(scene.node().await, "n1");
}

#[tokio::test]
async fn a_higher_timeline_of_another_system_identifier_is_ignored() {
    let scene = Scene::led(2).await;
    let mut client = scene.login().await;

    let foreign = Body::primary("n2", 9).system_identifier("7000000000000000001");
    scene.cluster.nodes[1].rest.says(Answer::new(200, foreign));
    scene.cluster.nodes[1].rest.after_questions(3).await;

    assert_eq!(client.node().await.unwrap(), "n1", "the session stays");
    assert_eq!(scene.node().await, "n1");
    assert_eq!(scene.cluster.nodes[1].postgres.accepted(), 0);
}

#[tokio::test]
async fn a_leader_on_a_lower_timeline_than_the_last_one_is_stale() {
    let scene = {
        let mut scene = Scene::led(2).await;
        scene.cluster.lead(0, 5);
        scene.cluster.nodes[0].rest.after_questions(2).await;
        assert_eq!(scene.node_at_last().await.0, "n1");
        scene
    };
    scene.cluster.nodes[1]
        .rest
        .says(Answer::new(200, Body::primary("n2", 4)));
    scene.cluster.nodes[1].rest.after_questions(3).await;
    assert_eq!(scene.node().await, "n1");

    // Also when nobody else claims.
    scene.cluster.nodes[0]
        .rest
        .says(Answer::new(503, Body::replica("n1", 5)));
    scene.cluster.nodes[0].rest.after_questions(3).await;
    let held = scene.knocking().await;
    assert!(is_held(&held, ms(300)).await);
    assert_eq!(scene.cluster.nodes[1].postgres.accepted(), 0);
}

#[tokio::test]
async fn a_new_leader_ends_the_sessions_on_an_old_one_that_only_fell_silent() {
    let scene = Scene::led_with(
        2,
        &Tempo {
            lease_timeout_secs: 30,
            ..Tempo::default()
        },
    )
    .await;
    let mut client = scene.login().await;
    scene.cluster.nodes[0].rest.says(Answer::hang());
    tokio::time::sleep(ms(100)).await;
    assert_eq!(client.node().await.unwrap(), "n1", "silence closes nothing");

    scene.cluster.nodes[1]
        .rest
        .says(Answer::new(200, Body::primary("n2", 2)));

    let last = within(PATIENCE, "the last words", client.last_words()).await;
    assert_eq!(last.code(), "57P01", "{last:?}");
    assert!(eventually(PATIENCE, || scene.open_at(0) == 0).await);
    assert_eq!(scene.node_at_last().await.0, "n2");
}
