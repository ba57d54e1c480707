//! What can be done to a running cluster: planned changes, deaths, freezes and cuts.

use std::{fs, thread, time::Duration};

use nix::sys::signal::Signal;
use serde_json::{Value, json};

use super::{
    LabError,
    cluster::Lab,
    net::{Host, NODES, Node},
    process,
};

impl Lab {
    /// `systemctl stop patroni`: PostgreSQL is shut down and the leader key given up.
    pub fn stop(&self, node: Node) -> Result<(), LabError> {
        self.begin_stop(node)?;
        self.wait_stopped(node)
    }

    /// Waits for the end of everything of a node.
    pub fn wait_stopped(&self, node: Node) -> Result<(), LabError> {
        self.wait("end of the node", Duration::from_secs(120), || {
            process::in_folder(&self.node_folder(node))
                .is_empty()
                .then_some(())
        })?;
        self.reap_of(Host::Node(node));
        Ok(())
    }

    /// The same, without waiting for the end.
    pub fn begin_stop(&self, node: Node) -> Result<(), LabError> {
        let pid = self
            .daemon_pid(Host::Node(node))
            .ok_or_else(|| LabError::Refused(format!("{node} is not running")))?;
        process::signal(&[pid], Signal::SIGTERM);
        Ok(())
    }

    /// The machine dies: SIGKILL to everything of the node.
    pub fn kill(&self, node: Node) {
        process::kill_all(|| process::in_folder(&self.node_folder(node)));
        self.reap_of(Host::Node(node));
    }

    /// Patroni dies, PostgreSQL goes on.
    pub fn kill_only_patroni(&self, node: Node) {
        process::kill_all(|| process::right_in(&self.node_folder(node)));
        self.reap_of(Host::Node(node));
    }

    /// PostgreSQL dies, Patroni goes on (and repairs it).
    pub fn kill_only_postgres(&self, node: Node) {
        // Once: Patroni is alive and may have started the next one already.
        let pids = process::in_folder(&self.node_folder(node).join("data"));
        process::signal(&pids, Signal::SIGSTOP);
        process::signal(&pids, Signal::SIGKILL);
    }

    /// Freezes everything of the node, as a hypervisor may.
    pub fn pause(&self, node: Node) {
        process::signal(
            &process::in_folder(&self.node_folder(node)),
            Signal::SIGSTOP,
        );
    }

    /// Patroni hangs, PostgreSQL goes on: its lock is not renewed any more.
    pub fn pause_only_patroni(&self, node: Node) {
        process::signal(&process::right_in(&self.node_folder(node)), Signal::SIGSTOP);
    }

    pub fn resume(&self, node: Node) {
        process::signal(
            &process::in_folder(&self.node_folder(node)),
            Signal::SIGCONT,
        );
    }

    /// Asks Patroni to make `to` the leader, and waits for its word that it is. Where the candidate was too busy to
    /// answer Patroni in time, nothing has happened, and it is asked again.
    pub fn switchover(&self, to: Node) -> Result<(), LabError> {
        let leader = self
            .leader()
            .ok_or_else(|| LabError::Refused("no leader".into()))?;
        let wish = json!({ "leader": leader.to_string(), "candidate": to.to_string() });
        let mut said = String::new();
        for _ in 0..5 {
            let answer = self
                .rest(leader, "POST", "/switchover", Some(&wish))
                .map_err(LabError::io("switchover"))?;
            if answer.status == 200 {
                return Ok(());
            }
            said = format!("switchover: {} {}", answer.status, answer.body);
            if answer.status != 412 || self.leader() != Some(leader) {
                break;
            }
            thread::sleep(Duration::from_secs(1));
        }
        Err(LabError::Refused(said))
    }

    /// Changes the cluster's dynamic configuration, through the first node that takes it.
    pub fn patch_config(&self, change: &Value) -> Result<(), LabError> {
        let taken = NODES.into_iter().any(|node| {
            self.rest(node, "PATCH", "/config", Some(change))
                .is_ok_and(|answer| answer.status == 200)
        });
        taken
            .then_some(())
            .ok_or_else(|| LabError::Refused(format!("no node took the change {change}")))
    }

    /// Patroni's pause mode, on every node when this returns.
    pub fn maintenance(&self, on: bool) -> Result<(), LabError> {
        let pause = if on { Value::Bool(true) } else { Value::Null };
        self.patch_config(&json!({ "pause": pause }))?;
        self.wait(
            "change of pause on all nodes",
            Duration::from_secs(30),
            || {
                let all = NODES.into_iter().all(|node| {
                    let said = self.rest(node, "GET", "/patroni", None);
                    said.is_ok_and(|answer| answer.json()["pause"].as_bool().unwrap_or(false) == on)
                });
                all.then_some(())
            },
        )
    }

    /// The leader's lock runs out now instead of at the end of its ttl. Gives whether there was one.
    pub fn dcs_expire(&self) -> Result<bool, LabError> {
        let gone = self
            .etcd("deleterange", "leader")
            .map_err(LabError::io("etcd"))?;
        Ok(gone["deleted"] == "1")
    }

    /// Whether nobody holds the leader's lock.
    pub fn dcs_is_free(&self) -> Result<bool, LabError> {
        let found = self.etcd("range", "leader").map_err(LabError::io("etcd"))?;
        Ok(found["count"].as_str().is_none_or(|count| count == "0"))
    }

    /// Another cluster of the same name at the same addresses: everything is stopped, data and keys are removed, and
    /// the nodes begin anew.
    pub fn reinitialise(&self) -> Result<(), LabError> {
        for node in NODES {
            self.begin_stop(node)?;
        }
        for node in NODES {
            self.wait_stopped(node)?;
            self.wipe(node)?;
        }
        self.forget_keys().map_err(LabError::io("etcd"))?;
        self.initialise()
    }

    /// Lets a node leave its cluster and lead one of its own, with the same name and without the data it had; or come
    /// back. Its DCS folder alone is another one.
    pub fn defect(&self, node: Node, away: bool) -> Result<(), LabError> {
        self.stop(node)?;
        self.wipe(node)?;
        let file = self.node_folder(node).join("patroni.yml");
        let at = || LabError::io(format!("cannot change {}", file.display()));
        let text = fs::read_to_string(&file).map_err(at())?;
        let mut settings: Value = serde_json::from_str(&text).unwrap_or_default();
        settings["namespace"] = json!(if away { "/elsewhere/" } else { "/service/" });
        fs::write(&file, settings.to_string()).map_err(at())?;
        self.start(node)
    }

    fn wipe(&self, node: Node) -> Result<(), LabError> {
        let data = self.node_folder(node).join("data");
        fs::remove_dir_all(&data).map_err(LabError::io(format!("cannot remove {}", data.display())))
    }

    /// Ends etcd; `start_dcs` brings it back with what it knew.
    pub fn stop_dcs(&self) {
        let folder = self.home.path.join("dcs");
        process::kill_all(|| process::in_folder(&folder));
        self.reap_of(Host::Dcs);
    }

    /// Cuts a node off from everybody while its processes go on. Only with `Net::Netns`.
    pub fn partition(&self, node: Node) -> Result<(), LabError> {
        self.home.place.switch_port(node, false)
    }

    /// A firewall before a node's REST API: the client's questions come to nothing, the other nodes' do not. Only with
    /// `Net::Netns`.
    pub fn hide_rest(&self, node: Node, on: bool) -> Result<(), LabError> {
        self.home.place.hide_rest(node, on)
    }

    /// Cuts a node off from the DCS alone: it hears and answers everybody else. Only with `Net::Netns`.
    pub fn cut_from_dcs(&self, node: Node, on: bool) -> Result<(), LabError> {
        self.home.place.cut_from_dcs(node, on)
    }

    pub fn heal(&self, node: Node) -> Result<(), LabError> {
        self.home.place.switch_port(node, true)
    }
}
