//! Provider `postgres`: the nodes' own PostgreSQL says who leads.

use std::time::{Duration, Instant};

use serde_json::Value;

use super::scene::{PATIENCE, Scene, is_held};
use super::window::get;
use crate::fakes::cluster::{Cluster, Tempo};
use crate::fakes::postgres::Greeting;
use crate::fakes::sql::Sql;
use crate::fakes::{eventually, ms, within};

const RECOVERY: &str = "SELECT pg_is_in_recovery()";
const FILE: &str = "SELECT pg_walfile_name(pg_current_wal_lsn())";
const CHECKPOINT: &str = "SELECT timeline_id FROM pg_control_checkpoint()";

fn tempo() -> Tempo {
    Tempo {
        check_timeout_ms: 500,
        topology: "provider = \"postgres\"\nuser = \"probe\"\npoll_interval_secs = 0.2".into(),
        ..Tempo::default()
    }
}

/// Node `i` follows.
fn follows(cluster: &Cluster, i: usize) {
    cluster.nodes[i]
        .postgres
        .says(RECOVERY, Sql::Row("t".into()));
}

/// Node `i` is writable, on a timeline.
fn writable(cluster: &Cluster, i: usize, timeline: u32) {
    let server = &cluster.nodes[i].postgres;
    server.says(FILE, Sql::Row(format!("{timeline:08X}0000000000000007")));
    server.says(RECOVERY, Sql::Row("f".into()));
}

/// The timeline of node `i` cannot be read.
fn unreadable(cluster: &Cluster, i: usize) {
    let server = &cluster.nodes[i].postgres;
    let denied = Sql::Error("42501", "permission denied");
    server.says(FILE, denied.clone());
    server.says(CHECKPOINT, denied);
}

/// Node 0 is writable on timeline 5, all others follow; with an admin API.
async fn led(nodes: u8) -> Scene {
    let cluster = Cluster::start(nodes);
    for i in 0..usize::from(nodes) {
        follows(&cluster, i);
    }
    writable(&cluster, 0, 5);
    start(cluster).await
}

async fn start(cluster: Cluster) -> Scene {
    let text = text(&cluster);
    Scene::with_text(cluster, &text).await
}

fn text(cluster: &Cluster) -> String {
    let text = cluster.toml_with(&tempo());
    text.replace("admin_address = \"\"", "admin_address = \"127.0.0.1:0\"")
}

async fn asked(scene: &Scene, path: &str) -> Value {
    serde_json::from_str(&get(scene.house.admin().unwrap(), path).await).unwrap()
}

/// Waits until what the proxy says of node `i` contains these words.
async fn says(scene: &Scene, i: usize, key: &str, words: &str) {
    let since = Instant::now();
    loop {
        let said = asked(scene, "/nodes").await[i][key].to_string();
        if said.contains(words) {
            return;
        }
        assert!(since.elapsed() < PATIENCE, "{key} of node {i}: {said}");
        tokio::time::sleep(ms(10)).await;
    }
}

/// Connections of ours that are open at node `i`.
fn probes(scene: &Scene, i: usize) -> usize {
    let visits = scene.cluster.nodes[i].postgres.visits();
    let ours = visits.iter().filter(|visit| {
        visit.parameters.get("application_name").map(String::as_str) == Some("helios-topology")
    });
    ours.filter(|visit| visit.ended.is_none()).count()
}

#[tokio::test]
async fn the_writable_node_leads_and_its_sessions_end_when_another_one_does() {
    let scene = led(3).await;
    let mut client = scene.login().await;
    assert_eq!(client.node().await.unwrap(), "n1");
    says(
        &scene,
        0,
        "evidence",
        "pg_is_in_recovery() = false, timeline 5",
    )
    .await;
    says(&scene, 1, "evidence", "pg_is_in_recovery() = true").await;

    follows(&scene.cluster, 0);
    writable(&scene.cluster, 2, 6);

    let last = within(PATIENCE, "the last words", client.last_words()).await;
    assert_eq!(last.code(), "57P01", "{last:?}");
    assert_eq!(scene.node_at_last().await.0, "n3");
    let told = asked(&scene, "/topology").await;
    assert_eq!(told["authoritative"]["timeline"], 6);
    assert_eq!(told["authoritative"]["epoch"], 2);
    assert_eq!(told["authoritative"]["confirmed"], true);
}

#[tokio::test]
async fn connections_stay_open_between_polls_and_say_who_they_are() {
    let scene = led(2).await;
    let asked = || scene.cluster.nodes[1].postgres.queries();
    let before = asked();
    assert!(eventually(PATIENCE, || asked() > before + 20).await);

    for node in &scene.cluster.nodes {
        // One, and a busy machine may lose one by the time limit.
        let accepted = node.postgres.accepted();
        assert!((1..=3).contains(&accepted), "{}: {accepted}", node.name);
        let visit = &node.postgres.visits()[0].parameters;
        assert_eq!(visit["application_name"], "helios-topology");
        assert_eq!(
            (&*visit["user"], &*visit["database"]),
            ("probe", "postgres")
        );
    }
    scene.house.stop().await;
    let gone = || scene.cluster.nodes.iter().all(|n| n.postgres.open() == 0);
    assert!(eventually(PATIENCE, gone).await);
}

#[tokio::test]
async fn a_dead_connection_costs_one_poll_and_no_session() {
    let scene = led(1).await;
    let server = &scene.cluster.nodes[0].postgres;
    for ends in [Sql::Close, Sql::Fatal("57P01", "terminating connection")] {
        let mut client = scene.login().await;
        let before = server.accepted();
        server.says(RECOVERY, ends);
        says(&scene, 0, "last_error", "").await;
        assert!(eventually(PATIENCE, || server.accepted() > before).await);
        writable(&scene.cluster, 0, 5);

        assert_eq!(scene.node().await, "n1");
        assert_eq!(client.node().await.unwrap(), "n1");
        client.terminate().await;
    }
    assert_eq!(
        asked(&scene, "/topology").await["authoritative"]["epoch"],
        1
    );
}

#[tokio::test]
async fn a_hung_server_is_silence_and_leaves_no_backend_behind() {
    for hangs in [Sql::Hang, Sql::Drip(ms(100))] {
        let scene = led(1).await;
        let mut client = scene.login().await;
        scene.cluster.nodes[0].postgres.says(RECOVERY, hangs);

        says(&scene, 0, "last_error", "did not answer within 500ms").await;
        let held = async {
            while asked(&scene, "/topology").await["reason"] == Value::Null {
                tokio::time::sleep(ms(20)).await;
            }
        };
        within(PATIENCE, "the end of the lease", held).await;
        assert!(is_held(&scene.knocking().await, ms(200)).await);
        assert_eq!(client.node().await.unwrap(), "n1");
        // Each that was given up has been cancelled, so that its backend is free.
        let server = &scene.cluster.nodes[0].postgres;
        assert!(eventually(PATIENCE, || !server.cancels().is_empty()).await);
        // Two questions under way, and as many that are being given up; a busy server sees one end a little later.
        let mut open = Vec::new();
        for _ in 0..50 {
            open.push(probes(&scene, 0));
            tokio::time::sleep(ms(40)).await;
        }
        open.sort_unstable();
        assert!(open[25] <= 4, "{open:?}");

        writable(&scene.cluster, 0, 5);
        assert_eq!(scene.node_at_last().await.0, "n1");
        assert!(eventually(PATIENCE, || probes(&scene, 0) == 1).await);
        assert_eq!(
            asked(&scene, "/topology").await["authoritative"]["epoch"],
            1
        );
    }
}

#[tokio::test]
async fn a_server_that_lets_nobody_in_is_silent_with_its_own_words() {
    let cluster = Cluster::start(1);
    writable(&cluster, 0, 1);
    for (code, text) in [
        ("28P01", "password authentication failed for user \"probe\""),
        ("57P03", "the database system is starting up"),
        ("53300", "sorry, too many clients already"),
    ] {
        let greets = |greeting| cluster.nodes[0].postgres.script(|s| s.greeting = greeting);
        greets(Greeting::Fatal(code, text));
    }
    let scene = start(cluster).await;
    says(
        &scene,
        0,
        "last_error",
        "PostgreSQL says FATAL 53300: sorry",
    )
    .await;
    let held = scene.knocking().await;
    for (code, text) in [
        ("28P01", "password authentication failed"),
        ("57P03", "the database system is starting up"),
    ] {
        let server = &scene.cluster.nodes[0].postgres;
        server.script(|script| script.greeting = Greeting::Fatal(code, text));
        says(&scene, 0, "last_error", &format!("FATAL {code}: {text}")).await;
    }
    assert!(is_held(&held, ms(100)).await);

    scene.cluster.nodes[0]
        .postgres
        .script(|script| script.greeting = Greeting::Welcome);
    assert_eq!(scene.node_at_last().await.0, "n1");
}

#[tokio::test]
async fn a_silent_or_dripping_login_is_given_up_after_a_poll_interval() {
    let cluster = Cluster::start(2);
    writable(&cluster, 0, 5);
    follows(&cluster, 1);
    // A login in drips takes its time.
    let text = text(&cluster)
        .replace("poll_interval_secs = 0.2", "poll_interval_secs = 1")
        .replace("check_timeout_ms = 500", "check_timeout_ms = 4000");
    let scene = Scene::with_text(cluster, &text).await;
    let server = &scene.cluster.nodes[1].postgres;
    server.script(|script| script.greeting = Greeting::Silent);
    server.hang_up().await;
    says(
        &scene,
        1,
        "last_error",
        "could not be connected to within 1s",
    )
    .await;
    server.script(|script| {
        script.greeting = Greeting::Welcome;
        script.drips = true;
    });
    says(&scene, 1, "last_error", "null").await;
    assert_eq!(scene.node().await, "n1");
    assert!(eventually(PATIENCE, || probes(&scene, 1) == 1).await);
}

#[tokio::test]
async fn two_writable_nodes_on_one_timeline_are_none() {
    let scene = led(2).await;
    let mut client = scene.login().await;

    writable(&scene.cluster, 1, 5);

    let last = within(PATIENCE, "the last words", client.last_words()).await;
    assert_eq!(last.code(), "57P01", "{last:?}");
    assert!(is_held(&scene.knocking().await, ms(300)).await);
    let told = asked(&scene, "/topology").await;
    assert_eq!(told["reason"], "more than one node claims to lead");
    assert!(told["conflictingPrimariesTotal"].as_u64() > Some(0));
}

#[tokio::test]
async fn an_unreadable_timeline_leads_alone_and_is_a_conflict_beside_another() {
    let cluster = Cluster::start(2);
    writable(&cluster, 0, 5);
    unreadable(&cluster, 0);
    follows(&cluster, 1);
    let scene = start(cluster).await;
    assert_eq!(scene.node_at_last().await.0, "n1");
    let words = "timeline unreadable: PostgreSQL says ERROR 42501: permission denied";
    says(&scene, 0, "evidence", words).await;

    writable(&scene.cluster, 1, 9);

    let conflict = async {
        while asked(&scene, "/topology").await["reason"] != "more than one node claims to lead" {
            tokio::time::sleep(ms(20)).await;
        }
    };
    within(PATIENCE, "a conflict", conflict).await;
    assert!(is_held(&scene.knocking().await, ms(200)).await);
    follows(&scene.cluster, 0);
    assert_eq!(scene.node_at_last().await.0, "n2");
}

#[tokio::test]
async fn the_last_checkpoint_tells_the_timeline_where_the_file_name_does_not() {
    let scene = led(1).await;
    let server = &scene.cluster.nodes[0].postgres;
    server.says(FILE, Sql::Error("42883", "function does not exist"));
    server.says(CHECKPOINT, Sql::Row("7".into()));

    says(
        &scene,
        0,
        "evidence",
        "pg_is_in_recovery() = false, timeline 7",
    )
    .await;
}

#[tokio::test]
async fn an_old_primary_on_its_old_timeline_is_stale_and_never_led_to() {
    let scene = led(2).await;
    follows(&scene.cluster, 0);
    writable(&scene.cluster, 1, 6);
    scene.until_on(1).await;

    writable(&scene.cluster, 0, 5);

    says(&scene, 0, "role", "primary").await;
    for _ in 0..20 {
        assert_eq!(scene.node().await, "n2");
    }
    // Also when the newer one is gone.
    scene.cluster.kill(1).await;
    let held = scene.knocking().await;
    assert!(is_held(&held, Duration::from_secs(3)).await);
    let asked = asked(&scene, "/topology").await;
    assert_eq!(asked["currentPrimary"], Value::Null);
}

#[tokio::test]
async fn another_clusters_node_is_silent_whatever_its_timeline() {
    let identifier = "SELECT system_identifier FROM pg_control_system()";
    let cluster = Cluster::start(2);
    for (i, id) in ["7713812041936989168", "7000000000000000000"]
        .into_iter()
        .enumerate()
    {
        let server = &cluster.nodes[i].postgres;
        server.says(identifier, Sql::Row(id.into()));
    }
    writable(&cluster, 0, 5);
    follows(&cluster, 1);
    let scene = start(cluster).await;
    assert_eq!(scene.node_at_last().await.0, "n1");

    writable(&scene.cluster, 1, 9);

    says(&scene, 1, "healthy", "false").await;
    assert_eq!(scene.node().await, "n1");
    assert_eq!(
        asked(&scene, "/topology").await["conflictingPrimariesTotal"],
        0
    );
}
