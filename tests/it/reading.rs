//! The read port: who serves readers, in peace, in a failover, and when nobody is left.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use serde_json::json;

use super::scene::{PATIENCE, Scene, config, is_held, knocking, tcp, words};
use super::window::get;
use crate::fakes::answer::Answer;
use crate::fakes::body::Body;
use crate::fakes::client::{self, Client};
use crate::fakes::cluster::{Cluster, Tempo};
use crate::fakes::door::Mode;
use crate::fakes::{eventually, ms, ports, wire, within};

/// Longer than the longest way to the next question: see `switchover`.
const ONE_POLL: Duration = ms(1500);

/// A proxy with a second listener, for readers.
struct Library {
    scene: Scene,
    desk: SocketAddr,
}

fn with_desk(text: &str, lines: &str) -> String {
    let desk = format!("[[listeners]]\naddress = \"127.0.0.1:0\"\n{lines}\n\n[health]");
    text.replacen("[health]", &desk, 1)
        .replace("admin_address = \"\"", "admin_address = \"127.0.0.1:0\"")
}

impl Library {
    /// Node 0 leads, the others stream from it, and the proxy knows them all.
    async fn open(nodes: u8, lines: &str) -> Self {
        let library = Self::with(nodes, lines, &Tempo::default()).await;
        let replicas = usize::from(nodes) - 1;
        library
            .until("all replicas, and they alone", |served| {
                served.len() == replicas && !served.contains_key("n1")
            })
            .await;
        library
    }

    async fn with(nodes: u8, lines: &str, tempo: &Tempo) -> Self {
        let mut cluster = Cluster::start(nodes);
        cluster.lead(0, 1);
        // A standby says so, and that is no fault on this port.
        cluster.says_recovery = true;
        cluster.lead(0, 1);
        let text = with_desk(&cluster.toml_with(tempo), lines);
        let scene = Scene::with_text(cluster, &text).await;
        scene.settled().await;
        let desk = tcp(&scene.house, 1);
        Self { scene, desk }
    }

    async fn login(&self) -> Client {
        within(PATIENCE, "a reader", Client::login(self.desk))
            .await
            .expect("a session")
    }

    /// Where so many new readers are.
    async fn served(&self, count: usize) -> BTreeMap<String, usize> {
        let mut nodes = BTreeMap::new();
        for _ in 0..count {
            let mut reader = self.login().await;
            *nodes.entry(reader.node().await.unwrap()).or_default() += 1;
            reader.terminate().await;
        }
        nodes
    }

    async fn nobody_on(&self, node: &str, readers: usize) -> bool {
        !self.served(readers).await.contains_key(node)
    }

    /// How long it takes until a few new readers are where they should be.
    async fn until(
        &self,
        what: &str,
        is_so: impl Fn(&BTreeMap<String, usize>) -> bool,
    ) -> Duration {
        let since = Instant::now();
        loop {
            let served = self.served(6).await;
            if is_so(&served) {
                return since.elapsed();
            }
            assert!(since.elapsed() < PATIENCE, "{what}: {served:?}");
            tokio::time::sleep(ms(10)).await;
        }
    }

    async fn until_only(&self, node: &str) -> Duration {
        self.until(node, |served| {
            served.len() == 1 && served.contains_key(node)
        })
        .await
    }

    async fn counted(&self, series: &str) -> f64 {
        let text = get(self.scene.house.admin().unwrap(), "/metrics/prometheus").await;
        let line = text
            .lines()
            .find_map(|line| line.strip_prefix(&format!("heliosdb_proxy_{series} ")));
        line.map_or(0.0, |value| value.parse().unwrap())
    }

    fn says(&self, node: usize, body: Body) {
        self.scene.cluster.nodes[node]
            .rest
            .says(Answer::new(503, body));
    }

    /// A machine that is gone, and one that is back.
    async fn stop(&self, node: usize) {
        let node = &self.scene.cluster.nodes[node];
        node.rest.mode(Mode::Refuse).await;
        node.postgres.mode(Mode::Refuse).await;
        node.postgres.hang_up().await;
    }

    async fn start(&self, node: usize) {
        let node = &self.scene.cluster.nodes[node];
        node.rest.mode(Mode::Accept).await;
        node.postgres.mode(Mode::Accept).await;
    }
}

fn counts(of: &[(&str, usize)]) -> BTreeMap<String, usize> {
    of.iter()
        .map(|(node, n)| ((*node).to_owned(), *n))
        .collect()
}

const REPLICA: &str = "route = \"replica\"";

#[tokio::test]
async fn readers_are_spread_over_the_replicas_and_writers_stay_with_the_leader() {
    let library = Library::open(3, REPLICA).await;

    assert_eq!(library.served(10).await, counts(&[("n2", 5), ("n3", 5)]));
    assert_eq!(library.scene.node().await, "n1");
    let mut reader = library.login().await;
    let node = reader.node().await.unwrap();
    let series = format!("sessions{{node=\"{node}\",route=\"replica\"}}");
    assert_eq!(library.counted(&series).await, 1.0);
    let nodes = get(library.scene.house.admin().unwrap(), "/nodes").await;
    assert!(nodes.contains("\"sessions\":1"), "{nodes}");
}

#[tokio::test]
async fn any_serves_from_all_and_weights_are_shares() {
    let library = Library::with(3, "route = \"any\"", &Tempo::default()).await;
    let all = counts(&[("n1", 2), ("n2", 2), ("n3", 2)]);
    library.until("a third each", |served| *served == all).await;

    let text = with_desk(&library.scene.cluster.toml(), "route = \"any\"")
        .replacen("name = \"n1\"", "name = \"n1\"\nweight = 0", 1)
        .replacen("name = \"n2\"", "name = \"n2\"\nweight = 200", 1);
    let house = heliosdb_proxy::House::start(config(&text)).await.unwrap();
    let scene = Scene {
        addr: tcp(&house, 0),
        house,
        cluster: library.scene.cluster,
    };
    scene.settled().await;
    let desk = tcp(&scene.house, 1);
    let library = Library { scene, desk };
    let shares = counts(&[("n2", 4), ("n3", 2)]);
    library
        .until("two thirds and one", |served| *served == shares)
        .await;
}

#[tokio::test]
async fn least_connections_fills_up_whoever_has_the_fewest() {
    let library = Library::open(3, "route = \"replica\"\npolicy = \"least_connections\"").await;
    let mut open = Vec::new();
    for _ in 0..6 {
        let mut reader = library.login().await;
        open.push((reader.node().await.unwrap(), reader));
    }
    let (gone, stay): (Vec<_>, Vec<_>) = open.into_iter().partition(|(node, _)| node == "n2");
    assert_eq!((gone.len(), stay.len()), (3, 3));
    for (_, reader) in gone {
        reader.terminate().await;
    }
    assert!(eventually(PATIENCE, || library.scene.open_at(1) == 0).await);

    let mut back = Vec::new();
    for _ in 0..3 {
        let mut reader = library.login().await;
        assert_eq!(reader.node().await.unwrap(), "n2");
        back.push(reader);
    }
}

#[tokio::test]
async fn a_switchover_ends_no_reader_and_new_ones_leave_the_new_leader_at_once() {
    let mut library = Library::open(3, REPLICA).await;
    let fallbacks = library.counted("read_fallback_total").await;
    let mut readers = Vec::new();
    for _ in 0..6 {
        readers.push(library.login().await);
    }
    let mut nodes = Vec::new();
    for reader in &mut readers {
        nodes.push(reader.node().await.unwrap());
    }

    library.scene.cluster.lead(1, 2);
    assert!(library.scene.until_on(1).await < PATIENCE);

    assert!(library.nobody_on("n2", 6).await, "the new leader");
    library
        .until("the old one as well", |served| served.contains_key("n1"))
        .await;
    for (reader, node) in readers.iter_mut().zip(nodes) {
        assert_eq!(reader.node().await.unwrap(), node);
    }
    assert_eq!(library.counted("read_fallback_total").await, fallbacks);
}

#[tokio::test]
async fn readers_of_a_promoted_node_are_told_where_that_is_wanted() {
    let lines = "route = \"replica\"\non_promotion = \"close\"";
    let mut library = Library::open(3, lines).await;
    let (mut two, mut three) = (Vec::new(), Vec::new());
    for _ in 0..6 {
        let mut reader = library.login().await;
        match reader.node().await.unwrap().as_str() {
            "n2" => two.push(reader),
            _ => three.push(reader),
        }
    }
    assert_eq!((two.len(), three.len()), (3, 3));

    library.scene.cluster.lead(1, 2);

    for mut reader in two {
        let last = within(PATIENCE, "the last words", reader.last_words()).await;
        let (code, text, _, _) = words(last);
        assert_eq!(code, "57P01");
        assert!(text.ends_with("n2 because it became the leader"), "{text}");
    }
    for reader in &mut three {
        assert_eq!(reader.node().await.unwrap(), "n3");
    }
    assert_eq!(
        library.counted("revoked_total{reason=\"moved\"}").await,
        3.0
    );
}

#[tokio::test]
async fn without_replicas_the_leader_serves_and_they_are_used_again_within_a_poll() {
    let library = Library::open(3, REPLICA).await;
    let before = library.counted("read_fallback_total").await;
    library.stop(1).await;
    library.stop(2).await;

    // The first to come meet closed doors, and are not turned away for that.
    assert_eq!(library.served(5).await, counts(&[("n1", 5)]));
    assert_eq!(library.counted("read_fallback_total").await, before + 5.0);
    assert_eq!(library.counted("refused_total{reason=\"dial\"}").await, 0.0);

    tokio::time::sleep(ms(5100)).await;
    assert_eq!(library.served(1).await, counts(&[("n1", 1)]));
    library.start(2).await;
    let took = library.until_only("n3").await;
    // Those that were set aside a moment ago have their five seconds.
    assert!(took < ms(5000) + ONE_POLL, "{took:?}");
}

#[tokio::test]
async fn without_replicas_and_without_fallback_readers_wait_and_are_told() {
    let lines = "route = \"replica\"\nfallback = \"none\"";
    let tempo = Tempo {
        write_timeout_secs: 2,
        ..Tempo::default()
    };
    let mut library = Library::with(2, lines, &tempo).await;
    library.until_only("n2").await;
    library.says(1, Body::replica("n2", 1).state("stopping"));
    let since = Instant::now();
    let refused = loop {
        match within(PATIENCE, "words", Client::login(library.desk)).await {
            Err(refused) => break refused,
            Ok(reader) => reader.terminate().await,
        }
        assert!(since.elapsed() < PATIENCE, "n2 still serves");
    };
    let (code, text, detail, _) = words(refused);
    assert_eq!(
        (code.as_str(), text.as_str()),
        ("57P03", "no replica of demo after 2 s")
    );
    assert!(detail.contains("n2: 503 stopping replica 1"), "{detail}");
    assert!(detail.contains("(no running replica)"), "{detail}");
    assert_eq!(library.scene.node().await, "n1", "writers go on");

    let mut held = knocking(library.desk).await;
    assert!(is_held(&held, ms(100)).await);
    let since = Instant::now();
    library.scene.cluster.lead(0, 1);
    within(PATIENCE, "a login", held.until_ready())
        .await
        .unwrap();
    assert!(since.elapsed() < ONE_POLL, "{:?}", since.elapsed());
    assert_eq!(held.node().await.unwrap(), "n2");
}

#[tokio::test]
async fn with_nobody_at_all_readers_wait_as_writers_do_and_read_the_same_words() {
    let tempo = Tempo {
        write_timeout_secs: 1,
        ..Tempo::default()
    };
    let library = Library::with(1, REPLICA, &tempo).await;
    library.says(0, Body::primary("n1", 1).state("stopped"));
    assert!(eventually(PATIENCE, || library.scene.open_at(0) == 0).await);
    let since = Instant::now();
    let refused = loop {
        match within(PATIENCE, "words", Client::login(library.desk)).await {
            Err(refused) => break refused,
            Ok(reader) => reader.terminate().await,
        }
        assert!(since.elapsed() < PATIENCE);
    };
    let (code, text, _, _) = words(refused);
    assert_eq!(
        (code.as_str(), text.as_str()),
        ("57P03", "no leader of demo after 1 s")
    );
}

#[tokio::test]
async fn in_a_failover_the_replicas_that_lost_their_leader_go_on_serving() {
    let mut library = Library::open(3, REPLICA).await;
    let mut idle = library.login().await;
    library.scene.cluster.kill(0).await;
    for node in 1..3 {
        let name = library.scene.cluster.nodes[node].name.clone();
        let mut dry = Body::replica(&name, 1);
        dry.extra.remove("replication_state");
        library.says(node, dry);
    }
    let since = Instant::now();
    while since.elapsed() < ms(2500) {
        assert!(library.nobody_on("n1", 4).await);
    }

    library.scene.cluster.lead(1, 2);
    library.until_only("n3").await;
    assert!(idle.node().await.is_ok());
}

#[tokio::test]
async fn a_replica_that_refuses_costs_no_reader_its_connection_and_doubts_no_leader() {
    let library = Library::open(3, REPLICA).await;
    library.scene.cluster.nodes[1]
        .postgres
        .mode(Mode::Refuse)
        .await;
    library.scene.cluster.nodes[1].postgres.hang_up().await;
    tokio::time::sleep(ms(300)).await;
    let leader = &library.scene.cluster.nodes[0].rest;
    let since = Instant::now();

    while since.elapsed() < ms(500) {
        assert_eq!(library.served(10).await, counts(&[("n3", 10)]));
    }

    // In use a question each 50 ms, a tenth less; in doubt it were one each 20.
    let asked = leader.asked("/primary", since);
    let usual = since.elapsed().as_millis() / 40 + 4;
    assert!((asked as u128) <= usual, "{asked} in {:?}", since.elapsed());
    library.scene.cluster.nodes[1]
        .postgres
        .mode(Mode::Accept)
        .await;
    let since = Instant::now();
    while library.nobody_on("n2", 2).await {
        assert!(since.elapsed() < ms(5000) + ONE_POLL);
        tokio::time::sleep(ms(50)).await;
    }
}

#[tokio::test]
async fn a_replicas_failed_dials_ask_that_node_and_nobody_else_and_once() {
    let tempo = Tempo {
        lease_timeout_secs: 60,
        check_interval_ms: 30_000,
        active_interval_ms: 30_000,
        ..Tempo::default()
    };
    let library = Library::with(3, REPLICA, &tempo).await;
    library
        .until("both replicas", |served| {
            !served.contains_key("n1") && served.len() == 2
        })
        .await;
    let nodes = &library.scene.cluster.nodes;
    nodes[1].postgres.mode(Mode::Refuse).await;
    let since = Instant::now();
    let asked = || [0, 1, 2].map(|i: usize| nodes[i].rest.asked("/primary", since));

    assert_eq!(library.served(10).await, counts(&[("n3", 10)]));

    assert!(
        eventually(PATIENCE, || asked() == [0, 1, 0]).await,
        "{:?}",
        asked()
    );
    tokio::time::sleep(ms(300)).await;
    assert_eq!(asked(), [0, 1, 0]);
}

#[tokio::test]
async fn a_server_that_is_shutting_down_passes_its_reader_on() {
    let library = Library::open(3, REPLICA).await;
    library.scene.cluster.nodes[1].postgres.script(|script| {
        script.greeting = crate::fakes::postgres::Greeting::Fatal("57P03", "shutting down");
    });
    assert_eq!(library.served(6).await, counts(&[("n3", 6)]));
}

#[tokio::test]
async fn tags_states_and_lag_decide_who_serves() {
    let lines = "route = \"replica\"\nmax_lag_bytes = 1000";
    let library = Library::open(3, lines).await;
    let two = || Body::replica("n2", 1);
    let at = |position: u64| json!({"received_location": 99, "replayed_location": position});
    for (out, body) in [
        ("a tag", two().with("tags", json!({"noloadbalance": true}))),
        (
            "a tag's word",
            two().with("tags", json!({"noloadbalance": "true"})),
        ),
        ("its state", two().state("starting")),
        (
            "the archive",
            two().with("replication_state", json!("in archive recovery")),
        ),
        ("its lag", two().with("xlog", at(83_886_176 - 1001))),
        ("no position", two().with("xlog", json!({}))),
        ("its role", two().role("standby_leader")),
    ] {
        library.says(1, body);
        library.until_only("n3").await;
        assert!(library.nobody_on("n2", 4).await, "{out}");
        library.says(1, two());
        let since = Instant::now();
        while library.nobody_on("n2", 4).await {
            assert!(since.elapsed() < PATIENCE, "not back after {out}");
        }
    }
    library.says(
        1,
        two().with("tags", json!({"nofailover": true, "nosync": "x"})),
    );
    tokio::time::sleep(ms(500)).await;
    assert!(
        !library.nobody_on("n2", 4).await,
        "nofailover is no matter of reads"
    );
    library.says(1, two().with("xlog", at(83_886_176 - 1000)));
    tokio::time::sleep(ms(500)).await;
    assert!(!library.nobody_on("n2", 4).await, "within the limit");
}

#[tokio::test]
async fn a_cluster_of_patroni_3_0_2_is_read_from() {
    let mut cluster = Cluster::start(3);
    cluster.lead(0, 1);
    for (i, node) in cluster.nodes.iter().enumerate() {
        let file = format!(
            "tests/fixtures/patroni/3.0.2/healthy/n{}_primary.json",
            i + 1
        );
        let file = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join(file);
        // Recorded long ago, and said now.
        let now = crate::fakes::body::unix_now().to_string();
        let said = std::fs::read_to_string(file).unwrap();
        let said = said.replace("1796015417", &now);
        assert!(said.contains(&now) && !said.contains("replication_state"));
        let status = if i == 0 { 200 } else { 503 };
        node.rest.says(Answer::bytes(status, said));
    }
    let lines =
        "route = \"replica\"\nrequire_streaming = true\nmax_lag_bytes = 0\nfallback = \"none\"";
    let text = with_desk(&cluster.toml(), lines);
    let scene = Scene::with_text(cluster, &text).await;
    let desk = tcp(&scene.house, 1);
    let library = Library { scene, desk };
    let both = counts(&[("n2", 3), ("n3", 3)]);
    library
        .until("both replicas", |served| *served == both)
        .await;
    assert_eq!(library.scene.node().await, "n1");
}

#[tokio::test]
async fn a_cancel_finds_the_right_replica_a_hundred_times_of_a_hundred() {
    let library = Library::open(3, REPLICA).await;
    let mut sleepers = Vec::new();
    for _ in 0..10 {
        let mut reader = library.login().await;
        reader.send(&wire::query("hang")).await.unwrap();
        sleepers.push(reader);
    }
    for round in 0..100 {
        let sleeper = &mut sleepers[round % 10];
        let key = sleeper.key.clone().unwrap();
        client::cancel(library.desk, sleeper.process, &key)
            .await
            .unwrap();
        let refused = within(PATIENCE, "a cancelled query", sleeper.result())
            .await
            .unwrap_err();
        assert_eq!(refused.code(), "57014", "round {round}");
        sleeper.send(&wire::query("hang")).await.unwrap();
    }
    let cancels: Vec<_> = library
        .scene
        .cluster
        .nodes
        .iter()
        .map(|n| n.postgres.cancels().len())
        .collect();
    assert_eq!(cancels, [0, 50, 50]);
}

/// It cannot be told from a new session, so it goes to whose turn it is.
#[tokio::test]
async fn a_cancel_inside_tls_reaches_the_right_one_of_two_replicas_every_other_time() {
    let library = Library::open(3, REPLICA).await;
    let nodes = &library.scene.cluster.nodes;
    for node in nodes {
        node.postgres.script(|script| script.ssl = b'S');
    }
    let accepted = || nodes.iter().map(|node| node.postgres.accepted());
    let before: Vec<_> = accepted().collect();
    let encrypted = async || {
        let mut client = Client::connect(library.desk).await.unwrap();
        assert_eq!(client.ask(&wire::SSL_REQUEST).await.unwrap(), b'S');
        client.send(&wire::CLIENT_HELLO).await.unwrap();
        let mut hello = [0; 16];
        let read = tokio::io::AsyncReadExt::read_exact(&mut client.stream, &mut hello);
        within(PATIENCE, "the server's hello", read).await.unwrap();
        client
    };

    let session = encrypted().await;
    let own = accepted().zip(&before).position(|(now, was)| now > *was);
    for _ in 0..20 {
        encrypted().await;
    }

    let reached: Vec<_> = accepted()
        .zip(&before)
        .map(|(now, was)| now - was)
        .collect();
    let own = own.unwrap();
    let other = 3 - own;
    assert_eq!((reached[0], reached[own], reached[other]), (0, 1 + 10, 10));
    drop(session);
}

#[tokio::test]
async fn a_listener_whose_route_changes_goes_on_accepting() {
    let mut cluster = Cluster::start(2);
    cluster.lead(0, 1);
    let desk = ports::free();
    let routed = |cluster: &Cluster, route: &str| {
        let text = with_desk(&cluster.toml(), &format!("route = \"{route}\""));
        let at = format!("\"{desk}\"\nroute = \"{route}\"\n\n[health]");
        text.replacen(
            &format!("\"127.0.0.1:0\"\nroute = \"{route}\"\n\n[health]"),
            &at,
            1,
        )
    };
    let text = routed(&cluster, "replica");
    let scene = Scene::with_text(cluster, &text).await;
    scene.settled().await;
    let library = Library { scene, desk };
    library.until_only("n2").await;
    let mut reader = library.login().await;

    for (route, node) in [("primary", "n1"), ("replica", "n2"), ("primary", "n1")] {
        let text = routed(&library.scene.cluster, route);
        library.scene.house.reload(config(&text)).await.unwrap();
        library.until_only(node).await;
        assert_eq!(library.served(5).await, counts(&[(node, 5)]));
    }

    assert_eq!(reader.node().await.unwrap(), "n2");
    let series = "sessions{node=\"n2\",route=\"replica\"}";
    assert_eq!(library.counted(series).await, 1.0);
}

#[tokio::test]
async fn a_disabled_node_gets_no_new_reader() {
    let library = Library::open(3, REPLICA).await;
    let mut reader = loop {
        let mut reader = library.login().await;
        if reader.node().await.unwrap() == "n2" {
            break reader;
        }
    };
    let text = with_desk(&library.scene.cluster.toml(), REPLICA).replacen(
        "name = \"n2\"",
        "name = \"n2\"\nenabled = false",
        1,
    );

    library.scene.house.reload(config(&text)).await.unwrap();

    assert_eq!(library.served(4).await, counts(&[("n3", 4)]));
    assert_eq!(reader.node().await.unwrap(), "n2", "who is there stays");
}
