//! Silence is no evidence: it closes nothing before the lease ends. What a node says of itself does.

use serde_json::json;

use super::scene::{PATIENCE, Scene, is_held};
use crate::fakes::answer::Answer;
use crate::fakes::body::{Body, unix_now};
use crate::fakes::client::Client;
use crate::fakes::cluster::Tempo;
use crate::fakes::{ms, wire, within};

async fn sessions(scene: &Scene, count: usize) -> Vec<Client> {
    let mut clients = Vec::new();
    for _ in 0..count {
        clients.push(scene.login().await);
    }
    clients
}

fn primary() -> Answer {
    Answer::new(200, Body::primary("n1", 1))
}

#[tokio::test]
async fn lost_checks_close_no_session_and_end_no_lease_before_its_time() {
    let scene = Scene::leased(3, 10).await;
    let mut idle = sessions(&scene, 10).await;
    let mut busy = sessions(&scene, 10).await;
    for client in &mut busy {
        client.send(&wire::query("slow 1500")).await.unwrap();
    }
    for silence in [
        Answer::hang(),
        Answer::reset(),
        Answer::bytes(500, "oops"),
        Answer::bytes(404, ""),
    ] {
        scene.cluster.nodes[0].rest.says(silence);
        tokio::time::sleep(ms(300)).await;
        assert_eq!(scene.node().await, "n1", "the lease still holds");
        scene.cluster.nodes[0].rest.says(primary());
        scene.cluster.nodes[0].rest.after_questions(1).await;
    }
    for client in idle.iter_mut() {
        assert_eq!(client.node().await.unwrap(), "n1");
    }
    for client in &mut busy {
        assert_eq!(
            within(PATIENCE, "a slow answer", client.result())
                .await
                .unwrap(),
            "n1"
        );
    }
}

#[tokio::test]
async fn when_all_nodes_fall_silent_sessions_stay_and_new_ones_wait_once_the_lease_is_over() {
    let scene = Scene::leased(3, 5).await;
    let mut open = sessions(&scene, 5).await;
    for node in &scene.cluster.nodes {
        node.rest.says(Answer::hang());
    }
    tokio::time::sleep(ms(300)).await;
    assert_eq!(scene.node().await, "n1", "the lease still holds");
    tokio::time::sleep(ms(5500)).await;

    let mut held = scene.knocking().await;
    assert!(is_held(&held, ms(300)).await, "the lease was over");
    for client in &mut open {
        assert_eq!(client.node().await.unwrap(), "n1");
    }

    scene.cluster.nodes[0].rest.says(primary());
    within(PATIENCE, "a login after recovery", held.until_ready())
        .await
        .unwrap();
    assert_eq!(
        open[0].node().await.unwrap(),
        "n1",
        "the same epoch goes on"
    );
}

#[tokio::test]
async fn on_lease_expired_close_ends_the_sessions_with_the_lease_and_not_before() {
    let tempo = Tempo {
        top: "on_lease_expired = \"close\"".to_owned(),
        lease_timeout_secs: 6,
        ..Tempo::default()
    };
    let scene = Scene::led_with(1, &tempo).await;
    let mut client = scene.login().await;
    scene.cluster.nodes[0].rest.says(Answer::hang());

    assert!(
        is_held(&client, ms(3500)).await,
        "closed before the lease was over"
    );
    let last = within(PATIENCE, "the last words", client.last_words()).await;

    assert_eq!(last.code(), "57P01", "{last:?}");
}

#[tokio::test]
async fn slow_answers_change_no_leader_and_close_nothing() {
    let scene = Scene::led(3).await;
    let mut open = sessions(&scene, 5).await;
    let accepted = scene.accepted();
    // Three seconds in ten of the lease, as one link in three hundred milliseconds: 150 to 500 of 2000.
    for _ in 0..20 {
        let late = ms(fastrand::u64(150..500));
        scene.cluster.nodes[0].rest.says(primary().delay(late));
        tokio::time::sleep(ms(150)).await;
        assert_eq!(scene.node().await, "n1");
    }
    for client in &mut open {
        assert_eq!(client.node().await.unwrap(), "n1");
    }
    assert_eq!(scene.accepted(), accepted + 20, "somebody was sent twice");
}

#[tokio::test]
async fn a_leader_that_restarts_holds_its_clients_and_keeps_its_sessions() {
    let scene = Scene::led(2).await;
    let mut open = sessions(&scene, 3).await;
    for state in ["stopping", "starting", "restarting", "crashed"] {
        scene.cluster.nodes[0]
            .rest
            .says(Answer::new(200, Body::primary("n1", 1).state(state)));
        scene.cluster.nodes[0].rest.after_questions(2).await;
        let mut held = scene.knocking().await;
        assert!(is_held(&held, ms(200)).await, "{state}");

        scene.cluster.nodes[0].rest.says(primary());
        within(PATIENCE, "a login", held.until_ready())
            .await
            .unwrap();
        assert_eq!(held.node().await.unwrap(), "n1");
    }
    for client in &mut open {
        assert_eq!(
            client.node().await.unwrap(),
            "n1",
            "a restart is no new epoch"
        );
    }
}

#[tokio::test]
async fn an_unknown_state_of_the_present_leader_leads_still() {
    let scene = Scene::led(1).await;
    let mut open = scene.login().await;
    scene.cluster.nodes[0]
        .rest
        .says(Answer::new(200, Body::primary("n1", 1).state("unknown")));
    tokio::time::sleep(ms(2500)).await;

    assert_eq!(scene.node().await, "n1", "longer than a lease");
    assert_eq!(open.node().await.unwrap(), "n1");
}

#[tokio::test]
async fn a_patroni_restarted_under_a_running_postgresql_drops_nothing() {
    let scene = Scene::leased(3, 20).await;
    let mut open = sessions(&scene, 5).await;
    scene.cluster.nodes[0]
        .rest
        .mode(crate::fakes::door::Mode::Refuse)
        .await;
    tokio::time::sleep(ms(300)).await;
    scene.cluster.nodes[0]
        .rest
        .says(Answer::new(503, Body::primary("n1", 1)));
    scene.cluster.nodes[0]
        .rest
        .mode(crate::fakes::door::Mode::Accept)
        .await;
    scene.cluster.nodes[0].rest.after_questions(2).await;

    let mut held = scene.knocking().await;
    assert!(
        is_held(&held, ms(100)).await,
        "a leader without its lock got a session"
    );
    scene.cluster.nodes[0].rest.says(primary());

    within(PATIENCE, "a login", held.until_ready())
        .await
        .unwrap();
    for client in &mut open {
        assert_eq!(client.node().await.unwrap(), "n1", "the same epoch goes on");
    }
}

#[tokio::test]
async fn an_unlocked_leader_whose_lease_ends_loses_its_sessions() {
    let scene = Scene::leased(2, 6).await;
    let mut client = scene.login().await;
    scene.cluster.nodes[0]
        .rest
        .says(Answer::new(503, Body::primary("n1", 1)));

    assert!(
        is_held(&client, ms(3500)).await,
        "closed before the lease was over"
    );
    let last = within(PATIENCE, "the last words", client.last_words()).await;
    assert_eq!(last.code(), "57P01", "{last:?}");
}

#[tokio::test]
async fn a_leader_whose_dcs_was_last_seen_too_long_ago_starts_no_session() {
    let scene = Scene::led(1).await;
    let mut old = Body::primary("n1", 1);
    old.dcs_last_seen = Some(unix_now() - 40);
    scene.cluster.nodes[0]
        .rest
        .says(Answer::new(200, old.clone()));
    tokio::time::sleep(ms(2500)).await;
    let mut held = scene.knocking().await;
    assert!(is_held(&held, ms(300)).await, "its lock must have run out");

    // Failsafe mode: the members have agreed that it stays.
    let failsafe = old.with("failsafe_mode_is_active", json!(true));
    scene.cluster.nodes[0].rest.says(Answer::new(200, failsafe));
    within(PATIENCE, "a login", held.until_ready())
        .await
        .unwrap();
}

/// Nobody asks by the clock within the test.
fn at_rest() -> Tempo {
    Tempo {
        check_interval_ms: 60_000,
        active_interval_ms: 60_000,
        lease_timeout_secs: 180,
        ..Tempo::default()
    }
}

#[tokio::test]
async fn an_idle_proxy_starts_no_session_on_old_news() {
    let mut scene = Scene::led_with(2, &at_rest()).await;
    let before = scene.accepted();
    tokio::time::sleep(ms(1700)).await;
    scene.cluster.lead(1, 2);

    let mut client = scene.login().await;

    assert_eq!(client.node().await.unwrap(), "n2");
    // The old leader may have been dialled beside the question, but nobody was introduced to it.
    let introduced = scene.cluster.nodes[0]
        .postgres
        .visits()
        .into_iter()
        .skip(before)
        .filter(|visit| visit.ready.is_some());
    assert_eq!(introduced.count(), 0);
}

#[tokio::test]
async fn fresh_news_that_do_not_come_are_waited_for_half_a_second_and_then_the_lease_counts() {
    let scene = Scene::led_with(1, &at_rest()).await;
    tokio::time::sleep(ms(1700)).await;
    scene.cluster.nodes[0].rest.says(Answer::hang());
    let since = std::time::Instant::now();

    let mut clients = sessions(&scene, 1).await;

    assert!(
        (ms(400)..ms(1500)).contains(&since.elapsed()),
        "{:?}",
        since.elapsed()
    );
    assert_eq!(clients[0].node().await.unwrap(), "n1");
}

#[tokio::test]
async fn a_crowd_shares_one_question_for_fresh_news() {
    let scene = Scene::led_with(1, &at_rest()).await;
    tokio::time::sleep(ms(1700)).await;
    let since = std::time::Instant::now();
    let mut crowd = Vec::new();
    for _ in 0..50 {
        crowd.push(scene.knocking().await);
    }
    for client in &mut crowd {
        within(PATIENCE, "a login", client.until_ready())
            .await
            .unwrap();
    }
    let asked = scene.cluster.nodes[0].rest.asked("/primary", since);
    assert!(
        (1..=2).contains(&asked),
        "{asked} questions for fifty clients"
    );
}
