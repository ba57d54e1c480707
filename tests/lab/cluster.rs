//! The cluster itself: from nothing to three healthy nodes, what it says of itself, and its end.

use std::{
    fs::File,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    path::{Path, PathBuf},
    process::{Child, Command},
    sync::Mutex,
    time::Duration,
};

use serde_json::{Value, json};

use super::{
    LabError,
    config::{SCOPE, Settings, Timings},
    home::Home,
    http::{self, Answer},
    https::Https,
    install::Programs,
    net::{self, Host, NODES, Node},
    poll, process,
};

/// How long one question to Patroni or etcd may take.
pub(crate) const PATIENCE: Duration = Duration::from_secs(3);

/// A running cluster. Dropped, it leaves nothing behind, unless it was told to stay.
pub struct Lab {
    pub(crate) home: Home,
    pub(crate) settings: Settings,
    pub(crate) programs: Programs,
    /// What we started, to be told to end and to be waited for; their children are found by their folder.
    pub(crate) daemons: Mutex<Vec<(Host, Child)>>,
    /// The namespace of the thread that called `up`, for the way back.
    pub(crate) outside: Option<File>,
    /// `None` where the REST APIs speak http.
    pub(crate) https: Option<Https>,
}

impl Lab {
    pub fn timings(&self) -> Timings {
        self.settings.timings
    }

    pub fn programs(&self) -> &Programs {
        &self.programs
    }

    /// The folder of everything, `n1/patroni.log` and the like in it.
    pub fn folder(&self) -> &Path {
        &self.home.path
    }

    pub fn ip(&self, node: Node) -> IpAddr {
        self.home.place.ip(Host::Node(node))
    }

    /// Where a proxy of this lab listens: the client's own loopback, of the nodes' family.
    pub fn client_ip(&self) -> IpAddr {
        match self.ip(NODES[0]) {
            IpAddr::V4(_) => Ipv4Addr::LOCALHOST.into(),
            IpAddr::V6(_) => Ipv6Addr::LOCALHOST.into(),
        }
    }

    pub fn postgres_at(&self, node: Node) -> SocketAddr {
        SocketAddr::new(self.ip(node), 5432)
    }

    pub fn rest_at(&self, node: Node) -> SocketAddr {
        SocketAddr::new(self.ip(node), 8008)
    }

    /// Whose address this is.
    pub fn node_at(&self, ip: IpAddr) -> Option<Node> {
        NODES.into_iter().find(|node| self.ip(*node) == ip)
    }

    /// Whether a node's REST API says yes to this: `/primary`, `/replica`.
    pub fn says_yes(&self, node: Node, path: &str) -> bool {
        self.rest(node, "GET", path, None)
            .is_ok_and(|answer| answer.status == 200)
    }

    /// One question to a node's REST API.
    pub fn rest(
        &self,
        node: Node,
        method: &str,
        path: &str,
        body: Option<&Value>,
    ) -> std::io::Result<Answer> {
        let limit = if method == "POST" {
            Duration::from_secs(120)
        } else {
            PATIENCE
        };
        let caller = self.caller();
        http::ask_over(
            caller.as_ref(),
            self.rest_at(node),
            method,
            path,
            body,
            limit,
        )
    }

    /// The holder of the leader key in etcd.
    pub fn leader(&self) -> Option<Node> {
        Node::named(&self.key("leader")?)
    }

    /// Everybody but the leader; with none, everybody.
    pub fn replicas(&self) -> Vec<Node> {
        let leader = self.leader();
        NODES
            .into_iter()
            .filter(|node| Some(*node) != leader)
            .collect()
    }

    /// Waits until the leader serves and both others stream from it, and names it.
    pub fn wait_healthy(&self) -> Result<Node, LabError> {
        self.wait("healthy cluster", Duration::from_secs(120), || {
            self.healthy()
        })
    }

    pub(crate) fn wait<T>(
        &self,
        what: &str,
        limit: Duration,
        probe: impl FnMut() -> Option<T>,
    ) -> Result<T, LabError> {
        poll(limit, Duration::from_millis(50), probe).ok_or_else(|| LabError::Late {
            what: what.to_owned(),
            limit,
            logs: self.home.path.clone(),
        })
    }

    /// Asks every node itself: what `/cluster` says of the members is up to loop_wait old.
    fn healthy(&self) -> Option<Node> {
        let leader = self.leader()?;
        let about = |node| Some(self.rest(node, "GET", "/patroni", None).ok()?.json());
        if !self.says_yes(leader, "/primary") {
            return None;
        }
        let here = about(leader)?;
        let end = here["xlog"]["location"].as_i64()?;
        let streams = here["replication"].as_array()?;
        let caught_up = |node: &Node| {
            let streaming = streams.iter().any(|stream| {
                stream["application_name"] == node.to_string() && stream["state"] == "streaming"
            });
            let there = about(*node).unwrap_or_default();
            streaming
                && there["state"] == "running"
                && there["role"] == "replica"
                && there["timeline"] == here["timeline"]
                && there["xlog"]["replayed_location"]
                    .as_i64()
                    .is_some_and(|at| at + (1 << 20) > end)
        };
        let all = NODES.iter().filter(|node| **node != leader).all(caught_up);
        all.then_some(leader)
    }

    /// Runs SQL on a node as the superuser, through its Unix socket: that works for one that is cut off, too.
    pub fn sql(&self, node: Node, text: &str) -> Result<String, LabError> {
        self.sql_in("app", node, text)
    }

    fn sql_in(&self, database: &str, node: Node, text: &str) -> Result<String, LabError> {
        let mut psql = Command::new(self.programs.postgres("psql"));
        psql.args([
            "-X",
            "-q",
            "-At",
            "-v",
            "ON_ERROR_STOP=1",
            "-U",
            "postgres",
            "-d",
            database,
        ])
        .arg("-h")
        .arg(self.node_folder(node))
        .args(["-c", text])
        .env("PGCONNECT_TIMEOUT", "10");
        Ok(process::run(&mut psql)?.trim().to_owned())
    }

    /// Leaves the cluster running when this value, and this process, end.
    pub fn keep(&self) -> Result<(), LabError> {
        self.home.keep()
    }

    /// A folder of the lab for a companion, such as the proxy: what runs in it ends with the lab.
    pub fn companion_folder(&self, name: &str) -> Result<PathBuf, LabError> {
        self.home.folder(name)
    }

    /// Ends everything; the same as dropping it.
    pub fn down(self) {}
}

impl Drop for Lab {
    fn drop(&mut self) {
        if let Some(outside) = &self.outside {
            let _ = net::enter(outside);
        }
        if self.home.is_kept() {
            return;
        }
        self.home.sweep();
        self.reap();
    }
}

impl Lab {
    pub(crate) fn bring_up(&self) -> Result<(), LabError> {
        self.start_dcs()?;
        for node in NODES {
            self.prepare(node)?;
        }
        self.initialise()
    }

    /// From empty folders and no keys to a healthy cluster.
    pub(crate) fn initialise(&self) -> Result<(), LabError> {
        // n1 first, so that it is always the first leader.
        self.start(NODES[0])?;
        self.wait("initialised cluster", Duration::from_secs(60), || {
            self.key("initialize")
        })?;
        self.start(NODES[1])?;
        self.start(NODES[2])?;
        let leader = self.wait("leader", Duration::from_secs(60), || {
            let leader = self.leader()?;
            self.says_yes(leader, "/primary").then_some(leader)
        })?;
        for statement in [
            "CREATE ROLE app LOGIN REPLICATION",
            "CREATE ROLE app_scram LOGIN PASSWORD 'app'",
            "CREATE DATABASE app OWNER app",
        ] {
            self.sql_in("postgres", leader, statement)?;
        }
        self.wait_healthy().map(drop)
    }

    pub(crate) fn node_folder(&self, node: Node) -> PathBuf {
        self.home.path.join(node.to_string())
    }

    pub(crate) fn dcs_at(&self) -> SocketAddr {
        SocketAddr::new(self.home.place.ip(Host::Dcs), 2379)
    }

    /// Asks etcd about, or to change, a key of this cluster.
    pub(crate) fn etcd(&self, operation: &str, key: &str) -> std::io::Result<Value> {
        let body = json!({ "key": http::base64(&format!("/service/{SCOPE}/{key}")) });
        let path = format!("/v3/kv/{operation}");
        Ok(http::ask(self.dcs_at(), "POST", &path, Some(&body), PATIENCE)?.json())
    }

    /// All that the cluster has in etcd, as `patronictl remove` does.
    pub(crate) fn forget_keys(&self) -> std::io::Result<()> {
        let folder = |end| http::base64(&format!("/service/{SCOPE}{end}"));
        let body = json!({ "key": folder('/'), "range_end": folder('0') });
        http::ask(
            self.dcs_at(),
            "POST",
            "/v3/kv/deleterange",
            Some(&body),
            PATIENCE,
        )
        .map(drop)
    }

    pub(crate) fn key(&self, name: &str) -> Option<String> {
        let answer = self.etcd("range", name).ok()?;
        Some(http::from_base64(answer["kvs"][0]["value"].as_str()?))
    }
}
