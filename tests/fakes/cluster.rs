//! Several scripted nodes with one leader, and the configuration that points at them.

use std::fmt::Write as _;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::atomic::{AtomicU8, Ordering};

use super::answer::Answer;
use super::body::Body;
use super::door::Mode;
use super::patroni::Patroni;
use super::postgres::Postgres;

/// One machine: an address of its own, PostgreSQL and Patroni's REST API.
#[derive(Debug)]
pub struct Node {
    pub name: String,
    pub ip: IpAddr,
    pub rest: Patroni,
    pub postgres: Postgres,
}

/// Nodes `n1`, `n2`, … with the same ports on different addresses, as in life. Nobody leads at first.
#[derive(Debug)]
pub struct Cluster {
    pub nodes: Vec<Node>,
    /// Who leads, and on which timeline, by the last [`Cluster::lead`].
    leader: Option<usize>,
    timeline: u32,
    /// True: servers say `in_hot_standby` as it is. Else they do not, as before PostgreSQL 14, and hide no fault of ours.
    pub says_recovery: bool,
}

/// Each cluster has a subnet of its own, so that a port which one test frees is taken by no other.
static SUBNET: AtomicU8 = AtomicU8::new(1);

/// The addresses of a subnet that nobody else has, in this test program and in those that may run beside it.
pub fn subnet() -> impl Fn(u8) -> Ipv4Addr {
    let program = 16 + u8::try_from(std::process::id() % 200).expect("below 200");
    let subnet = SUBNET.fetch_add(1, Ordering::Relaxed);
    move |i| Ipv4Addr::new(127, program, subnet, i)
}

pub const POSTGRES_PORT: u16 = 25_432;
pub const REST_PORT: u16 = 28_008;

impl Cluster {
    pub fn start(count: u8) -> Self {
        let subnet = subnet();
        let at = |i| IpAddr::V4(subnet(i));
        Self::on((1..=count).map(at).collect(), POSTGRES_PORT, REST_PORT)
            .expect("a loopback subnet")
    }

    /// One node on `::1`, which is the only IPv6 address of a loopback interface.
    pub fn start_v6() -> io::Result<Self> {
        let port = 26_000 + u16::try_from(std::process::id() % 1000).expect("below 1000");
        Self::on(vec![IpAddr::V6(Ipv6Addr::LOCALHOST)], port, port + 1000)
    }

    fn on(addresses: Vec<IpAddr>, postgres_port: u16, rest_port: u16) -> io::Result<Self> {
        let mut nodes = Vec::new();
        for (i, ip) in addresses.into_iter().enumerate() {
            let name = format!("n{}", i + 1);
            let rest = Patroni::start(SocketAddr::new(ip, rest_port))?;
            let postgres = Postgres::start(SocketAddr::new(ip, postgres_port), &name)?;
            nodes.push(Node {
                name,
                ip,
                rest,
                postgres,
            });
        }
        let cluster = Self {
            nodes,
            leader: None,
            timeline: 1,
            says_recovery: false,
        };
        cluster.tell(None, 1);
        Ok(cluster)
    }

    /// Node `i` (from 0) leads on `timeline` from now on; all others follow it.
    pub fn lead(&mut self, i: usize, timeline: u32) {
        self.leader = Some(i);
        self.timeline = timeline;
        self.tell(Some(i), timeline);
    }

    /// The next node leads, on the next timeline; says which.
    pub fn flip(&mut self) -> usize {
        let next = self.leader.map_or(0, |i| (i + 1) % self.nodes.len());
        self.lead(next, self.timeline + 1);
        next
    }

    /// All follow.
    pub fn nobody(&mut self) {
        self.leader = None;
        self.tell(None, self.timeline);
    }

    pub fn leader(&self) -> Option<usize> {
        self.leader
    }

    pub fn timeline(&self) -> u32 {
        self.timeline
    }

    /// Another address of this cluster's subnet.
    pub fn beside(&self) -> IpAddr {
        match self.nodes[0].ip {
            IpAddr::V4(v4) => {
                let [a, b, c, _] = v4.octets();
                Ipv4Addr::new(a, b, c, 200).into()
            }
            v6 @ IpAddr::V6(_) => v6,
        }
    }

    /// Machine `i` is gone: nothing is refused, nothing is answered, sessions are silent no more but cut.
    pub async fn kill(&self, i: usize) {
        let node = &self.nodes[i];
        node.rest.mode(Mode::Swallow).await;
        node.postgres.mode(Mode::Swallow).await;
        node.postgres.hang_up().await;
    }

    /// Old leaders are demoted before the new one claims, as a lock demands.
    fn tell(&self, leader: Option<usize>, timeline: u32) {
        for (i, node) in self.nodes.iter().enumerate() {
            if Some(i) != leader {
                node.rest
                    .says(Answer::new(503, Body::replica(&node.name, timeline)));
                node.postgres
                    .script(|script| script.hot_standby = self.says_recovery.then_some(true));
            }
        }
        if let Some(node) = leader.map(|i| &self.nodes[i]) {
            node.postgres
                .script(|script| script.hot_standby = self.says_recovery.then_some(false));
            node.rest
                .says(Answer::new(200, Body::primary(&node.name, timeline)));
        }
    }

    /// `[[nodes]]` for all.
    pub fn node_tables(&self) -> String {
        let all: Vec<usize> = (0..self.nodes.len()).collect();
        self.node_tables_of(&all)
    }

    /// `[[nodes]]` for some.
    pub fn node_tables_of(&self, which: &[usize]) -> String {
        let mut text = String::new();
        for node in which.iter().map(|i| &self.nodes[*i]) {
            let (port, rest_port) = (node.postgres.addr().port(), node.rest.addr().port());
            let _ = write!(
                text,
                "[[nodes]]\nname = \"{}\"\nhost = \"{}\"\nport = {port}\nrest_port = {rest_port}\n\n",
                node.name, node.ip,
            );
        }
        text
    }

    /// A whole configuration with one read-write listener and no admin API, quick enough for tests: a lease of 2 s,
    /// a question each 200 ms at rest, each 20 ms in doubt.
    pub fn toml(&self) -> String {
        self.toml_with(&Tempo::default())
    }

    pub fn toml_with(&self, tempo: &Tempo) -> String {
        tempo.toml() + &self.node_tables()
    }
}

/// The times of a configuration.
#[derive(Clone, Debug)]
pub struct Tempo {
    pub write_timeout_secs: u64,
    pub lease_timeout_secs: u64,
    pub check_interval_ms: u64,
    pub check_timeout_ms: u64,
    pub active_interval_ms: u64,
    pub fast_interval_ms: u64,
    /// Lines before the first table.
    pub top: String,
    /// Lines in `[topology]`.
    pub topology: String,
}

impl Default for Tempo {
    fn default() -> Self {
        Self {
            write_timeout_secs: 10,
            lease_timeout_secs: 2,
            check_interval_ms: 200,
            check_timeout_ms: 1000,
            active_interval_ms: 50,
            fast_interval_ms: 20,
            top: String::new(),
            topology: String::new(),
        }
    }
}

impl Tempo {
    /// The configuration without its nodes.
    pub fn toml(&self) -> String {
        format!(
            "admin_address = \"\"\nwrite_timeout_secs = {}\n{}\n\
             [[listeners]]\naddress = \"127.0.0.1:0\"\nroute = \"primary\"\n\n\
             [health]\ncheck_interval_ms = {}\ncheck_timeout_ms = {}\nactive_interval_ms = {}\n\
             fast_interval_ms = {}\n\n\
             [topology]\nlease_timeout_secs = {}\n{}\n\n",
            self.write_timeout_secs,
            self.top,
            self.check_interval_ms,
            self.check_timeout_ms,
            self.active_interval_ms,
            self.fast_interval_ms,
            self.lease_timeout_secs,
            self.topology,
        )
    }
}
