//! An operator at the admin API of a whole proxy: who may, what a change does to clients, and what it leaves.

use std::fs;
use std::net::SocketAddr;
use std::path::PathBuf;

use heliosdb_proxy::House;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::scene::{PATIENCE, Scene, config, is_held};
use crate::fakes::client::Client;
use crate::fakes::cluster::{Cluster, Tempo};
use crate::fakes::{eventually, ms, within};

/// A proxy of two nodes whose first leads, with a listener for reading, and its token's file.
struct Desk {
    scene: Scene,
    reads: SocketAddr,
    admin: SocketAddr,
    /// Its configuration.
    text: String,
    _folder: tempfile::TempDir,
}

impl Desk {
    async fn open(more: &str) -> Self {
        let desk = Self::with(more, "").await;
        desk.scene.settled().await;
        let both_up = async {
            while desk.get("/topology").await["healthyNodes"] != 2 {
                tokio::time::sleep(ms(10)).await;
            }
        };
        within(PATIENCE, "two nodes that are up", both_up).await;
        desk
    }

    async fn by_hand() -> Self {
        Self::with("", "provider = \"manual\"").await
    }

    async fn with(more: &str, topology: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let token = folder.path().join("token");
        fs::write(&token, "secret\n").unwrap();
        let mut cluster = Cluster::start(2);
        cluster.lead(0, 1);
        let top = format!("admin_token_file = {token:?}\n{more}");
        let reading = "[[listeners]]\naddress = \"127.0.0.1:0\"\nroute = \"replica\"\n\n[health]";
        let tempo = Tempo {
            top,
            topology: topology.to_owned(),
            ..Tempo::default()
        };
        let text = cluster
            .toml_with(&tempo)
            .replace("admin_address = \"\"", "admin_address = \"127.0.0.1:0\"")
            .replacen("[health]", reading, 1);
        let scene = Scene::with_text(cluster, &text).await;
        let (reads, admin) = (
            super::scene::tcp(&scene.house, 1),
            scene.house.admin().unwrap(),
        );
        Self {
            scene,
            reads,
            admin,
            text,
            _folder: folder,
        }
    }

    async fn post(&self, path: &str, body: &str) -> (u16, Value) {
        ask(self.admin, "POST", path, Some("secret"), body).await
    }

    async fn get(&self, path: &str) -> Value {
        let (status, said) = ask(self.admin, "GET", path, None, "").await;
        assert_eq!(status, 200, "{path}: {said}");
        said
    }

    fn address(&self, node: usize) -> String {
        self.scene.cluster.nodes[node].postgres.addr().to_string()
    }

    async fn reader(&self) -> Client {
        let login = Client::login(self.reads);
        within(PATIENCE, "a reader", login).await.unwrap()
    }
}

async fn ask(
    at: SocketAddr,
    method: &str,
    path: &str,
    token: Option<&str>,
    body: &str,
) -> (u16, Value) {
    let mut stream = TcpStream::connect(at).await.unwrap();
    let token = token.map_or_else(String::new, |token| {
        format!("Authorization: Bearer {token}\r\n")
    });
    let request = format!(
        "{method} {path} HTTP/1.1\r\nHost: localhost\r\n{token}Content-Length: {}\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    within(PATIENCE, path, stream.read_to_string(&mut answer))
        .await
        .unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    (status, serde_json::from_str(body).unwrap_or(Value::Null))
}

#[tokio::test]
async fn a_disabled_leader_holds_new_clients_and_keeps_the_old_until_it_is_enabled() {
    let desk = Desk::open("").await;
    let mut old = desk.scene.login().await;

    let (status, left) = desk
        .post(&format!("/nodes/{}/disable", desk.address(0)), "")
        .await;

    assert_eq!((status, &left["enabled"]), (200, &json!(false)), "{left}");
    let topology = desk.get("/topology").await;
    assert_eq!(topology["reason"], "the leader is disabled");
    assert_eq!(topology["currentPrimary"], Value::Null);
    let mut held = desk.scene.knocking().await;
    assert!(is_held(&held, ms(300)).await);
    assert_eq!(old.node().await.unwrap(), "n1");

    let (status, left) = desk.post("/nodes/n1/enable", "").await;
    assert_eq!((status, &left["enabled"]), (200, &json!(true)));
    within(PATIENCE, "a release", held.until_ready())
        .await
        .unwrap();
    assert_eq!(desk.get("/topology").await["authoritative"]["epoch"], 1);
}

#[tokio::test]
async fn disabling_with_close_ends_writers_and_readers_of_that_node_in_words() {
    let desk = Desk::open("").await;
    let (mut writer, mut reader) = (desk.scene.login().await, desk.reader().await);
    assert_eq!(reader.node().await.unwrap(), "n2");

    let (status, _) = desk.post("/nodes/n2/disable?close=true", "").await;
    assert_eq!(status, 200);
    let words = within(PATIENCE, "the reader's end", reader.last_words()).await;
    assert_eq!(words.code(), "57P01");
    assert_eq!(writer.node().await.unwrap(), "n1", "another node's session");
    assert_eq!(
        desk.reader().await.node().await.unwrap(),
        "n1",
        "the leader serves reads"
    );

    let (status, _) = desk.post("/nodes/n1/disable?close=true", "").await;
    assert_eq!(status, 200);
    let words = within(PATIENCE, "the writer's end", writer.last_words()).await;
    assert_eq!(words.code(), "57P01");
    let revoked = desk.get("/metrics").await["revoked_total"]["disabled"].clone();
    assert!(revoked.as_u64() >= Some(2), "{revoked}");

    let reader = super::scene::knocking(desk.reads).await;
    assert!(is_held(&reader, ms(200)).await, "nobody may serve reads");

    desk.post("/nodes/n1/enable", "").await;
    assert_eq!(desk.scene.node_at_last().await.0, "n1");
    assert_eq!(desk.get("/topology").await["lastFailoverAt"], Value::Null);
}

#[tokio::test]
async fn each_refusal_has_its_status_and_changes_nothing() {
    let desk = Desk::open("").await;
    let disable = format!("/nodes/{}/disable", desk.address(0));

    for (token, status) in [(None, 401), (Some("wrong"), 401), (Some(""), 401)] {
        let (got, _) = ask(desk.admin, "POST", &disable, token, "").await;
        assert_eq!(got, status, "{token:?}");
    }
    for (path, body, status) in [
        ("/nodes/10.9.9.9:5432/disable", "", 404),
        ("/topology/primary", "{\"address\": null}", 409),
        ("/topology/primary", "{}", 400),
        ("/api/chaos", "{\"action\": \"reset\"}", 403),
    ] {
        let (got, said) = desk.post(path, body).await;
        assert_eq!(got, status, "{path}: {said}");
        assert!(said["error"].is_string(), "{said}");
    }

    assert_eq!(desk.scene.node().await, "n1");
}

#[tokio::test]
async fn a_forced_node_is_down_loses_its_lease_and_comes_back() {
    let desk = Desk::open("enable_chaos = true").await;
    let target = desk.address(0);
    let chaos = |action: &str| json!({ "action": action, "target_node": target }).to_string();

    let (status, left) = desk.post("/api/chaos", &chaos("force_unhealthy")).await;
    assert_eq!(
        (status, &left["forced_unhealthy"][0]["name"]),
        (200, &json!("n1"))
    );
    let node = desk.get("/nodes/n1").await;
    assert_eq!(
        (&node["healthy"], &node["leader"]),
        (&json!(false), &json!(true))
    );
    let held = async {
        while desk.get("/topology").await["currentPrimary"] != Value::Null {
            tokio::time::sleep(ms(50)).await;
        }
    };
    within(PATIENCE, "the end of the lease", held).await;
    let node = desk.get("/nodes/n1").await;
    assert_eq!(node["last_error"], "forced unhealthy by /api/chaos");

    let (status, left) = desk.post("/api/chaos", &chaos("restore")).await;
    assert_eq!((status, &left), (200, &json!({ "forced_unhealthy": [] })));
    assert_eq!(desk.scene.node_at_last().await.0, "n1");
}

#[tokio::test]
async fn what_is_played_ends_with_the_leave_to_play_it() {
    let desk = Desk::open("enable_chaos = true").await;
    let force = json!({ "action": "force_unhealthy", "target_node": "n2" }).to_string();
    assert_eq!(desk.post("/api/chaos", &force).await.0, 200);
    assert_eq!(desk.get("/nodes/n2").await["healthy"], false);

    let without = desk.text.replace("enable_chaos = true", "");
    desk.scene.house.reload(config(&without)).await.unwrap();

    assert_eq!(desk.post("/api/chaos", &force).await.0, 403);
    let well = async {
        while desk.get("/nodes/n2").await["healthy"] == false {
            tokio::time::sleep(ms(10)).await;
        }
    };
    within(PATIENCE, "a node that answers", well).await;
}

#[tokio::test]
async fn a_leader_by_hand_is_named_disabled_enabled_and_cleared() {
    let desk = Desk::by_hand().await;
    let topology = desk.get("/topology").await;
    assert_eq!(topology["currentPrimary"], Value::Null);
    let named = json!({ "address": desk.address(1) }).to_string();

    let (status, left) = desk.post("/topology/primary", &named).await;
    assert_eq!(status, 200, "{left}");
    assert_eq!(left["currentPrimary"], desk.address(1));
    assert_eq!(left["authoritative"]["confirmed"], true);
    let mut session = desk.scene.login().await;
    assert_eq!(session.node().await.unwrap(), "n2");

    desk.post("/nodes/n2/disable?close=true", "").await;
    let words = within(PATIENCE, "its end", session.last_words()).await;
    assert_eq!(words.code(), "57P01");
    let reason = desk.get("/topology").await["reason"].clone();
    assert_eq!(reason, "the leader is disabled");
    desk.post("/nodes/n2/enable", "").await;
    assert_eq!(
        desk.scene.node_at_last().await.0,
        "n2",
        "it stands until changed"
    );

    let (status, left) = desk.post("/topology/primary", "{\"address\": null}").await;
    assert_eq!((status, &left["currentPrimary"]), (200, &Value::Null));
    let held = desk.scene.knocking().await;
    assert!(is_held(&held, ms(200)).await);
}

#[tokio::test]
async fn an_unpin_makes_another_cluster_welcome_at_once() {
    let desk = Desk::open("").await;
    for node in &desk.scene.cluster.nodes {
        let other = crate::fakes::body::Body::primary(&node.name, 1).scope("another");
        let other = crate::fakes::answer::Answer::new(200, other);
        match node.name.as_str() {
            "n2" => node.rest.says(other),
            _ => node.rest.says(crate::fakes::answer::Answer::hang()),
        }
    }
    let strange = async {
        while desk.get("/topology").await["currentPrimary"] != Value::Null {
            tokio::time::sleep(ms(50)).await;
        }
    };
    within(PATIENCE, "nobody of the pinned cluster", strange).await;

    let (status, _) = desk.post("/topology/unpin", "").await;

    assert_eq!(status, 200);
    desk.scene.until_on(1).await;
}

#[tokio::test]
async fn the_switch_outlives_a_reload_and_config_shows_what_is_in_effect() {
    let desk = Desk::open("").await;
    desk.post("/nodes/n2/disable", "").await;
    let shown = desk.get("/config").await;
    assert_eq!(shown["max_connections"], 10_000);
    assert_eq!(shown["health"]["fast_interval_ms"], 20);
    assert_eq!(shown["nodes"][1]["name"], "n2");
    assert!(!shown.to_string().contains("secret"), "{shown}");

    let text = desk.scene.cluster.toml();
    let changed = text.replace(
        "admin_address = \"\"",
        &format!("admin_address = \"{}\"", desk.admin),
    );
    let reloaded = desk
        .scene
        .house
        .reload(config(&format!("max_connections = 77\n{changed}")));
    reloaded.await.unwrap();

    let node = desk.get("/nodes/n2").await;
    assert_eq!(node["enabled"], false);
    assert_eq!(desk.get("/config").await["max_connections"], 77);
    let (status, _) = desk.post("/nodes/n2/enable", "").await;
    assert_eq!(status, 403, "the new file has no token");
}

#[tokio::test]
async fn off_loopback_it_starts_only_with_a_token_that_is_there() {
    let folder = tempfile::tempdir().unwrap();
    let start = |token: PathBuf| async move {
        let text = format!(
            "admin_address = '0.0.0.0:0'\nadmin_token_file = {token:?}\n\
             listeners = [{{ address = '127.0.0.1:0' }}]\n\
             nodes = [{{ name = 'n1', host = '127.0.0.1', rest_port = 1 }}]"
        );
        House::start(config(&text)).await
    };
    let token = folder.path().join("token");
    for text in [None, Some(""), Some("\n")] {
        if let Some(text) = text {
            fs::write(&token, text).unwrap();
        }
        let error = start(token.clone()).await.err().unwrap();
        assert!(
            error.to_string().contains("off loopback and needs a token"),
            "{error}"
        );
    }

    fs::write(&token, "secret").unwrap();
    let house = start(token).await.unwrap();
    let port = house.admin().unwrap().port();
    let admin = SocketAddr::from(([127, 0, 0, 1], port));
    assert_eq!(ask(admin, "GET", "/nodes", None, "").await.0, 401);
    assert_eq!(ask(admin, "GET", "/livez", None, "").await.0, 200);
    assert_eq!(ask(admin, "GET", "/nodes", Some("secret"), "").await.0, 200);
    house.stop().await;
}

#[tokio::test]
async fn the_events_tell_a_change_of_leader_with_the_split_of_its_gap() {
    let mut desk = Desk::open("").await;
    let mut stream = TcpStream::connect(desk.admin).await.unwrap();
    let request = b"GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n";
    stream.write_all(request).await.unwrap();
    let (heard, mut hears) = tokio::sync::mpsc::unbounded_channel();
    let listener = tokio::spawn(async move {
        let mut some = [0; 4096];
        while let Ok(length @ 1..) = stream.read(&mut some).await {
            let text = String::from_utf8_lossy(&some[..length]).into_owned();
            if heard.send(text).is_err() {
                return;
            }
        }
    });

    desk.scene.cluster.lead(1, 2);
    desk.scene.until_on(1).await;

    let mut text = String::new();
    let mut told = None;
    let heard = eventually(PATIENCE, || {
        while let Ok(more) = hears.try_recv() {
            text.push_str(&more);
        }
        // With its first session at once, or in a second telling.
        let data = text.lines().filter_map(|line| line.strip_prefix("data: "));
        let mut changes = data.filter_map(|data| serde_json::from_str::<Value>(data).ok());
        told = changes.find(|told| told["node"] == "n2" && told["firstSessionMs"].is_u64());
        told.is_some()
    });
    assert!(heard.await);
    let told = told.unwrap();
    assert_eq!((&told["was"], &told["epoch"]), (&json!("n1"), &json!(2)));
    assert!(told["firstSessionMs"].as_u64() >= told["firstProofMs"].as_u64());
    listener.abort();
}
