//! What most scenarios share: a proxy in this process in front of scripted nodes.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use heliosdb_proxy::{Bound, Config, House};

use crate::fakes::client::{Client, Refused};
use crate::fakes::cluster::{Cluster, Tempo};
use crate::fakes::{eventually, ms, within};

pub(super) use crate::fakes::PATIENCE;

pub struct Scene {
    pub cluster: Cluster,
    pub house: House,
    /// The first listener.
    pub addr: SocketAddr,
}

impl Scene {
    /// Node 0 leads on timeline 1, and the proxy knows it.
    pub async fn led(nodes: u8) -> Self {
        Self::led_with(nodes, &Tempo::default()).await
    }

    /// As [`Scene::led`], with a lease that outlasts what happens in between on a busy machine.
    pub async fn leased(nodes: u8, lease_timeout_secs: u64) -> Self {
        let tempo = Tempo {
            lease_timeout_secs,
            ..Tempo::default()
        };
        Self::led_with(nodes, &tempo).await
    }

    /// As [`Scene::led`], with other times.
    pub async fn led_with(nodes: u8, tempo: &Tempo) -> Self {
        let mut cluster = Cluster::start(nodes);
        cluster.lead(0, 1);
        Self::leading(cluster, tempo).await
    }

    /// A cluster that has a leader, which the proxy knows.
    pub async fn leading(cluster: Cluster, tempo: &Tempo) -> Self {
        let scene = Self::start(cluster, tempo).await;
        scene.settled().await;
        scene
    }

    /// A cluster as it is, and a proxy that has asked each node once.
    pub async fn start(cluster: Cluster, tempo: &Tempo) -> Self {
        let text = cluster.toml_with(tempo);
        Self::with_text(cluster, &text).await
    }

    pub async fn with_text(cluster: Cluster, text: &str) -> Self {
        let house = House::start(config(text)).await.expect("the house starts");
        let addr = tcp(&house, 0);
        within(PATIENCE, "the first round", house.first_round()).await;
        Self {
            cluster,
            house,
            addr,
        }
    }

    /// A session in clear text, wherever the proxy puts it.
    pub async fn login(&self) -> Client {
        within(PATIENCE, "a login", Client::login(self.addr))
            .await
            .expect("a session")
    }

    /// The node that a new session is on.
    pub async fn node(&self) -> String {
        let mut client = self.login().await;
        let node = client.node().await.expect("an answer");
        client.terminate().await;
        node
    }

    /// Tries as an application does, until a new session works: the node, and how long it took.
    pub async fn node_at_last(&self) -> (String, Duration) {
        let since = Instant::now();
        let node = within(PATIENCE, "a session at last", async {
            loop {
                let tried = async { Client::login(self.addr).await?.node().await };
                match tried.await {
                    Ok(node) => return node,
                    Err(_) => tokio::time::sleep(ms(5)).await,
                }
            }
        });
        (node.await, since.elapsed())
    }

    /// How long it takes until a new session is on node `i`.
    pub async fn until_on(&self, i: usize) -> Duration {
        let since = Instant::now();
        while self.node_at_last().await.0 != self.cluster.nodes[i].name {
            assert!(since.elapsed() < PATIENCE, "no session on node {i}");
        }
        since.elapsed()
    }

    /// A login that is expected to wait: a client that has sent its startup message.
    pub async fn knocking(&self) -> Client {
        knocking(self.addr).await
    }

    /// Waits until a session at the present leader works, and nothing is left of it.
    pub async fn settled(&self) {
        let leader = self.cluster.leader().expect("somebody leads");
        let server = &self.cluster.nodes[leader].postgres;
        let (node, _) = self.node_at_last().await;
        assert_eq!(node, self.cluster.nodes[leader].name);
        assert!(
            eventually(PATIENCE, || server.open() == 0).await,
            "the settling session lingers"
        );
    }

    pub fn open_at(&self, i: usize) -> usize {
        self.cluster.nodes[i].postgres.open()
    }

    /// Connections ever accepted by any server.
    pub fn accepted(&self) -> usize {
        self.cluster
            .nodes
            .iter()
            .map(|node| node.postgres.accepted())
            .sum()
    }
}

pub fn config(text: &str) -> Config {
    Config::from_toml(text).unwrap_or_else(|e| panic!("{e}\n{text}"))
}

pub fn tcp(house: &House, i: usize) -> SocketAddr {
    match &house.listeners()[i] {
        Bound::Tcp(addr) => *addr,
        other => panic!("{other:?} is not TCP"),
    }
}

pub async fn knocking(addr: SocketAddr) -> Client {
    let mut client = Client::connect(addr).await.expect("the listener accepts");
    client
        .send(&crate::fakes::wire::usual_startup())
        .await
        .expect("a startup message is taken");
    client
}

/// True when nothing comes for so long: neither a byte nor an end.
pub async fn is_held(client: &Client, long: Duration) -> bool {
    tokio::time::timeout(long, client.stream.peek(&mut [0]))
        .await
        .is_err()
}

/// The words of a refusal, or a panic.
pub fn words(refused: Refused) -> (String, String, String, String) {
    match refused {
        Refused::Words {
            code,
            text,
            detail,
            hint,
        } => (
            code,
            text,
            detail.unwrap_or_default(),
            hint.unwrap_or_default(),
        ),
        Refused::Ended(e) => panic!("ended without words: {e}"),
    }
}
