//! How Patroni's REST API is asked, and what an odd server in its place can do.

use std::time::Duration;

use serde_json::json;

use super::scene::{PATIENCE, Scene, is_held};
use crate::fakes::answer::Answer;
use crate::fakes::body::Body;
use crate::fakes::client::Client;
use crate::fakes::cluster::{Cluster, Tempo};
use crate::fakes::{ms, within};

fn primary() -> Answer {
    Answer::new(200, Body::primary("n1", 1))
}

/// A leader's word with one letter of one member's value as Latin-1 has it.
fn latin(member: &str, value: &str) -> Vec<u8> {
    let mut body = Body::primary("n1", 1).with(member, json!(value)).render();
    let quoted = format!("{member}\":\"{value}\"");
    let at = body
        .windows(quoted.len())
        .position(|part| part == quoted.as_bytes());
    body[at.expect("the member") + quoted.len() - 3] = 0xe9;
    body
}

async fn scene_with(answer: Answer) -> Scene {
    patient_scene_with(answer, Tempo::default().check_timeout_ms).await
}

async fn patient_scene_with(answer: Answer, check_timeout_ms: u64) -> Scene {
    let cluster = Cluster::start(1);
    cluster.nodes[0].rest.says(answer);
    let tempo = Tempo {
        check_timeout_ms,
        ..Tempo::default()
    };
    Scene::start(cluster, &tempo).await
}

#[tokio::test]
async fn a_whole_answer_leads_however_it_is_sent() {
    let big = json!("x".repeat(64 * 1024));
    let no_length = b"HTTP/1.0 200 OK\r\n\r\n".to_vec();
    let headless = [no_length, Body::primary("n1", 1).render()].concat();
    for (how, answer) in [
        ("chunked", primary().chunked()),
        (
            "a byte at a time, within the limit",
            primary().drip(Duration::from_micros(200)),
        ),
        (
            "64 KiB of an unknown field",
            Answer::new(200, Body::primary("n1", 1).with("big", big)),
        ),
        ("without any header", Answer::raw(headless)),
        ("late", primary().delay(ms(300))),
        (
            "another character set in an unknown field",
            Answer::bytes(200, latin("place", "Orleans")),
        ),
    ] {
        // A drip of some hundred bytes takes its time.
        let scene = patient_scene_with(answer, 8000).await;
        let login = tokio::time::timeout(PATIENCE, Client::login(scene.addr)).await;
        assert!(matches!(login, Ok(Ok(_))), "{how}: {login:?}");
    }
}

#[tokio::test]
async fn anything_but_a_whole_answer_is_silence() {
    let half = Body::primary("n1", 1).render()[..200].to_vec();
    let mut scenes = Vec::new();
    for (how, answer) in [
        ("a status line only", primary().status_line_only()),
        ("a byte at a time, beyond the limit", primary().drip(ms(20))),
        ("a redirect", Answer::redirect("http://127.0.0.1:1/primary")),
        ("100 MB", Answer::huge(100 << 20)),
        (
            "a role that is not UTF-8",
            Answer::bytes(200, latin("role", "primary")),
        ),
        ("half the body", Answer::bytes(200, half)),
        ("garbage", Answer::raw("SSH-2.0-OpenSSH_9.2\r\n")),
        ("nothing", Answer::close()),
        ("a reset", Answer::reset()),
        ("404", Answer::bytes(404, Body::primary("n1", 1).render())),
        (
            "500 with words",
            Answer::bytes(500, "role primary state running"),
        ),
        (
            "another service's JSON",
            Answer::bytes(200, r#"{"status": "ok"}"#),
        ),
    ] {
        let scene = scene_with(answer).await;
        let client = scene.knocking().await;
        scenes.push((how, scene, client));
    }
    tokio::time::sleep(ms(1500)).await;
    for (how, scene, client) in scenes {
        assert!(is_held(&client, ms(10)).await, "{how}");
        assert_eq!(scene.accepted(), 0, "{how}");
    }
}

#[tokio::test]
async fn a_broken_api_that_recovers_is_used_again() {
    let scene = scene_with(Answer::huge(100 << 20)).await;
    let mut held = scene.knocking().await;
    assert!(is_held(&held, ms(300)).await);

    scene.cluster.nodes[0].rest.says(primary());

    within(PATIENCE, "a login", held.until_ready())
        .await
        .unwrap();
}

#[tokio::test]
async fn every_answer_is_read_to_its_end_and_no_connection_is_kept() {
    // Nothing is given up for being late.
    let tempo = Tempo {
        check_timeout_ms: 8000,
        ..Tempo::default()
    };
    let scene = Scene::led_with(3, &tempo).await;
    let mut session = scene.login().await;
    for node in &scene.cluster.nodes {
        node.rest.after_questions(5).await;
    }
    scene.cluster.nodes[0].rest.after_questions(20).await;
    assert_eq!(session.node().await.unwrap(), "n1");

    for node in &scene.cluster.nodes {
        assert_eq!(
            node.rest.cut_short(),
            0,
            "a traceback in the log of {}",
            node.name
        );
        assert!(
            node.rest.most_open() <= 2,
            "{} connections at once",
            node.rest.most_open()
        );
        assert!(
            node.rest
                .questions()
                .iter()
                .all(|question| question.method == "GET")
        );
    }
}

#[tokio::test]
async fn two_listeners_share_one_poller() {
    let mut cluster = Cluster::start(1);
    cluster.lead(0, 1);
    let text = cluster.toml().replacen(
        "[[listeners]]",
        "[[listeners]]\naddress = \"127.0.0.1:0\"\nroute = \"primary\"\n\n[[listeners]]",
        1,
    );
    let one = Scene::with_text(cluster, &text).await;
    assert_eq!(one.house.listeners().len(), 2);
    let since = std::time::Instant::now();
    tokio::time::sleep(Duration::from_secs(2)).await;

    let asked = one.cluster.nodes[0].rest.asked("/primary", since);
    assert!(
        (1..=12).contains(&asked),
        "{asked} questions in two seconds at one in 200 ms"
    );
}
