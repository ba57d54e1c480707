//! Provider `static`: the configuration says who leads, the nodes only whether they are well.

use serde_json::Value;

use super::scene::{PATIENCE, Scene, is_held};
use super::window::get;
use crate::fakes::cluster::{Cluster, Tempo};
use crate::fakes::door::Mode;
use crate::fakes::sql::Sql;
use crate::fakes::{eventually, ms, within};

/// The first node is the primary; with an admin API. `login` are further lines of `[topology]`.
async fn declared(cluster: Cluster, login: &str) -> Scene {
    let text = text(&cluster, login);
    Scene::with_text(cluster, &text).await
}

fn text(cluster: &Cluster, login: &str) -> String {
    let tempo = Tempo {
        topology: format!("provider = \"static\"\n{login}"),
        ..Tempo::default()
    };
    let text = cluster
        .toml_with(&tempo)
        .replace("admin_address = \"\"", "admin_address = \"127.0.0.1:0\"")
        .replace("[[nodes]]\n", "[[nodes]]\nrole = \"standby\"\n");
    text.replacen("role = \"standby\"", "role = \"primary\"", 1)
}

async fn topology(scene: &Scene) -> Value {
    serde_json::from_str(&get(scene.house.admin().unwrap(), "/topology").await).unwrap()
}

#[tokio::test]
async fn the_declared_primary_is_held_for_while_it_is_away_and_nobody_stands_in() {
    let scene = declared(Cluster::start(2), "").await;
    assert_eq!(scene.node_at_last().await.0, "n1");
    let told = topology(&scene).await;
    assert!(told["currentPrimary"].is_string());
    assert_eq!(told.get("authoritative"), None);
    assert_eq!(told.get("conflictingPrimariesTotal"), None);

    scene.cluster.kill(0).await;
    let gone = async {
        while topology(&scene).await["currentPrimary"] != Value::Null {
            tokio::time::sleep(ms(20)).await;
        }
    };
    within(PATIENCE, "the end of the lease", gone).await;
    let mut held = scene.knocking().await;
    assert!(is_held(&held, ms(300)).await);

    scene.cluster.nodes[0].postgres.mode(Mode::Accept).await;
    within(PATIENCE, "a login", held.until_ready())
        .await
        .unwrap();
    assert_eq!(held.node().await.unwrap(), "n1");
}

#[tokio::test]
async fn without_a_user_not_one_byte_is_sent() {
    let scene = declared(Cluster::start(2), "").await;
    let server = &scene.cluster.nodes[1].postgres;

    assert!(eventually(PATIENCE, || server.accepted() > 3).await);

    for visit in server.visits() {
        assert_eq!(visit.received, b"");
    }
    assert!(eventually(PATIENCE, || server.open() <= 1).await);
}

#[tokio::test]
async fn with_a_user_the_check_query_decides() {
    let query = "SELECT 1 FROM health";
    let login = format!("user = \"probe\"\ncheck_query = \"{query}\"");
    let scene = declared(Cluster::start(2), &login).await;
    assert_eq!(scene.node_at_last().await.0, "n1");
    let server = &scene.cluster.nodes[0].postgres;

    server.says(
        query,
        Sql::Error("42P01", "relation \"health\" does not exist"),
    );
    let gone = async {
        while topology(&scene).await["currentPrimary"] != Value::Null {
            tokio::time::sleep(ms(20)).await;
        }
    };
    within(PATIENCE, "the end of the lease", gone).await;
    let mut held = scene.knocking().await;
    assert!(is_held(&held, ms(300)).await);
    // The statement has failed each time, the connection never; a busy machine may lose one by the time limit.
    let visits = server.visits();
    let ours = visits
        .iter()
        .filter(|visit| visit.parameters.contains_key("application_name"));
    let ours = ours.count();
    assert!((1..=3).contains(&ours), "{ours}");

    server.says(query, Sql::Row("1".into()));
    within(PATIENCE, "a login", held.until_ready())
        .await
        .unwrap();
}

#[tokio::test]
async fn a_reload_that_moves_the_role_ends_the_sessions_at_the_old_one() {
    let cluster = Cluster::start(2);
    let before = text(&cluster, "");
    let scene = Scene::with_text(cluster, &before).await;
    assert_eq!(scene.node_at_last().await.0, "n1");
    let mut client = scene.login().await;

    let after = before
        .replace("\"primary\"\nname", "\"was\"\nname")
        .replace("\"standby\"\nname", "\"primary\"\nname")
        .replace("\"was\"\nname", "\"standby\"\nname");
    assert_ne!(before, after);
    scene
        .house
        .reload(super::scene::config(&after))
        .await
        .unwrap();

    let last = within(PATIENCE, "the last words", client.last_words()).await;
    assert_eq!(last.code(), "57P01", "{last:?}");
    assert_eq!(scene.node_at_last().await.0, "n2");
}
