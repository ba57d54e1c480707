//! A real cluster with the proxy in front of it, and what every scenario asks of the two.

use std::{fs, thread, time::Duration};

use serde_json::{Value, json};

use crate::lab::{
    self, Lab, LabError, NODES, Node,
    client::{self, Attempt, Crowd, Outcome, Writers},
    http, process,
    proxy::Proxy,
};

/// How long a change of the cluster may take before the test gives up.
pub const SOON: Duration = Duration::from_secs(60);

/// What a short client may meet besides success when its server ends under it: this many may be between
/// ReadyForQuery and the answer to their INSERT, where one comes each 40 ms and the answer may wait for a busy replica.
const UNDER_WAY: usize = 30;

/// The proxy is dropped first: its sessions must not outlive their servers.
pub struct Stage {
    pub proxy: Proxy,
    pub lab: Lab,
}

impl Stage {
    /// A healthy cluster led by `n1`, and a proxy that knows it. `None` where the programs cannot be had.
    pub fn set(test: &str, up: impl FnOnce() -> Result<Lab, LabError>, more: &str) -> Option<Self> {
        lab::require(test)?;
        let lab = up().unwrap();
        let leader = lab.wait_healthy().unwrap();
        client::make_table(&lab, leader).unwrap();
        let proxy = Proxy::start(&lab, more).unwrap();
        let stage = Self { proxy, lab };
        stage.settle();
        Some(stage)
    }

    /// Waits until the cluster is healthy and the proxy knows its leader.
    pub fn settle(&self) -> Node {
        let leader = self.lab.wait_healthy().unwrap();
        self.proxy.wait_for_leader(&self.lab, leader).unwrap();
        leader
    }

    /// The epoch of the present leader; to be asked while there is one.
    pub fn epoch(&self) -> u64 {
        let topology = self.proxy.topology().unwrap();
        topology["authoritative"]["epoch"]
            .as_u64()
            .unwrap_or_else(|| panic!("no leader: {topology}"))
    }

    /// Sessions that the proxy has ended itself.
    pub fn revoked(&self) -> f64 {
        self.proxy.metric("revoked_total").unwrap()
    }

    /// Waits until a gauge says `value`.
    pub fn wait_for_gauge(&self, name: &str, value: f64) {
        self.wait(&format!("{name} = {value}"), || {
            (self.proxy.metric(name) == Some(value)).then_some(())
        });
    }

    /// The sessions on a node as the proxy counts them.
    pub fn sessions_at(&self, node: Node) -> f64 {
        let text = http::get(self.proxy.admin, "/metrics/prometheus", SOON)
            .unwrap()
            .body;
        let start = format!("heliosdb_proxy_sessions{{node=\"{node}\"");
        text.lines()
            .filter(|line| line.starts_with(&start))
            .filter_map(|line| line.rsplit_once(' ')?.1.parse::<f64>().ok())
            .sum()
    }

    /// The sessions on a node as PostgreSQL counts them; `None` while it lets nobody in.
    pub fn backends_at(&self, node: Node) -> Option<usize> {
        let count = "SELECT count(*) FROM pg_stat_activity WHERE usename LIKE 'app%'";
        self.lab.sql(node, count).ok()?.parse().ok()
    }

    /// Whether Patroni runs there.
    pub fn is_running(&self, node: Node) -> bool {
        !process::right_in(&self.lab.folder().join(node.to_string())).is_empty()
    }

    pub fn wait<T>(&self, what: &str, probe: impl FnMut() -> Option<T>) -> T {
        lab::poll(SOON, Duration::from_millis(50), probe)
            .unwrap_or_else(|| panic!("no {what} within {SOON:?}"))
    }

    /// With it no acknowledged row goes with its machine, so that any that is gone afterwards is the proxy's fault.
    pub fn in_synchronous_mode<T>(&self, play: impl FnOnce() -> T) -> T {
        let switch = |on: bool| {
            let change = json!({ "synchronous_mode": on });
            self.lab.patch_config(&change).unwrap();
        };
        switch(true);
        self.wait("synchronous standby", || synchronous_standby(&self.lab));
        let played = play();
        switch(false);
        self.wait("end of synchronous mode", || {
            synchronous_standby(&self.lab).is_none().then_some(())
        });
        played
    }

    /// Short clients through the proxy, at work when this returns.
    pub fn writers(&self) -> Writers {
        let crowd = Crowd {
            at: self.proxy.listens,
            every: Duration::from_millis(40),
            // Longer than the proxy holds anybody.
            patience: Duration::from_secs(60),
        };
        let writers = Writers::start(crowd).unwrap();
        self.wait("first rows", || {
            let written = writers.attempts().iter().filter(|a| a.is_written()).count();
            (written >= 10).then_some(())
        });
        writers
    }

    /// One row through the proxy, and the server that took it.
    pub fn write_one(&self) -> Outcome {
        block_on(client::write_once(
            client::config(self.proxy.listens),
            client::new_id(),
            || (),
        ))
    }

    pub fn written_at(&self, node: Node) -> Outcome {
        Outcome::Written(self.lab.ip(node))
    }

    /// Nobody of the crowd was turned away or given a read-only server, and every acknowledged row is there.
    pub fn assert_all_served(&self, what: &str, attempts: &[Attempt]) {
        let of = |wanted: &dyn Fn(&Attempt) -> bool| -> Vec<&Attempt> {
            attempts.iter().filter(|a| wanted(a)).collect()
        };
        let refused = of(&|a| !a.is_written() && !a.is_cut());
        let read_only = of(&|a| a.outcome == Outcome::ReadOnly);
        let cut = of(&|a| a.is_cut() && a.outcome != Outcome::ReadOnly);
        let longest = attempts
            .iter()
            .filter_map(|a| Some(a.ended? - a.started))
            .max();
        eprintln!(
            "{what}: {} clients, {} refused, {} read-only, {} cut; the longest stay took {longest:?}",
            attempts.len(),
            refused.len(),
            read_only.len(),
            cut.len(),
        );
        assert!(refused.is_empty(), "{what}: turned away: {refused:?}");
        assert!(read_only.is_empty(), "{what}: read-only: {read_only:?}");
        assert!(cut.len() <= UNDER_WAY, "{what}: cut: {cut:?}");
        let leader = self.settle();
        let lost = client::lost(&self.lab, leader, attempts).unwrap();
        assert_eq!(lost, 0, "{what}: acknowledged rows that are gone");
    }

    /// The same where PostgreSQL never went away: not even a session under way was cut.
    pub fn assert_undisturbed(&self, what: &str, attempts: &[Attempt]) {
        self.assert_all_served(what, attempts);
        let cut: Vec<&Attempt> = attempts.iter().filter(|a| !a.is_written()).collect();
        assert!(cut.is_empty(), "{what}: cut: {cut:?}");
    }

    /// What the proxy has said so far.
    pub fn proxy_log(&self) -> String {
        self.log_of("proxy/proxy.log")
    }

    pub fn log_of(&self, name: &str) -> String {
        fs::read_to_string(self.lab.folder().join(name)).unwrap_or_default()
    }
}

/// The folder goes with the lab, so a test that failed shows here what there was to see.
impl Drop for Stage {
    fn drop(&mut self) {
        if !thread::panicking() {
            return;
        }
        let topology: Option<Value> = self.proxy.topology();
        eprintln!("/topology: {topology:?}");
        let patroni = NODES.map(|node| (patroni_log(node), 40));
        for (name, most) in [("proxy/proxy.log".to_owned(), 200)]
            .into_iter()
            .chain(patroni)
        {
            let text = self.log_of(&name);
            let lines: Vec<&str> = text.lines().collect();
            let tail = &lines[lines.len().saturating_sub(most)..];
            eprintln!("--- {name}\n{}", tail.join("\n"));
        }
    }
}

/// The name of a node's log in the lab's folder.
pub fn patroni_log(node: Node) -> String {
    format!("{node}/patroni.log")
}

pub fn block_on<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Runtime::new().unwrap().block_on(work)
}

/// Whom Patroni would promote, as it has written into the DCS.
fn synchronous_standby(lab: &Lab) -> Option<Node> {
    let key: Value = serde_json::from_str(&lab.key("sync")?).ok()?;
    let leader = key["leader"].as_str()?;
    (lab.leader()?.to_string() == leader)
        .then(|| Node::named(key["sync_standby"].as_str()?))
        .flatten()
}
