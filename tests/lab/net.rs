//! Where the nodes live: addresses of the loopback interface, or namespaces that can be cut off.

use std::{
    fmt,
    fs::File,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    process::Command,
};

use nix::sched::{CloneFlags, setns};

use super::{
    LabError,
    process::{run, sh},
};

/// How the nodes are joined. Ports are the same on every node and the addresses differ, as in life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Net {
    /// 127.0.X.1 to 3, etcd on 127.0.X.10; X is the first from 1 that is free.
    Loopback,
    /// The same with IPv6 alone, on addresses put on `lo` for the while.
    Loopback6,
    /// Each node, etcd and the client in a network namespace of its own, on a bridge (198.18.X.0/24) that the
    /// machine's own namespace cannot reach. Only here can a node be cut off while it lives.
    Netns,
}

/// One of the three nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Node(u8);

pub const NODES: [Node; 3] = [Node(1), Node(2), Node(3)];

impl Node {
    pub fn named(name: &str) -> Option<Self> {
        NODES.into_iter().find(|node| node.to_string() == name)
    }

    /// From 0, for tables with a place per node.
    pub fn index(self) -> usize {
        usize::from(self.0) - 1
    }
}

impl fmt::Display for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "n{}", self.0)
    }
}

/// Who has an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Host {
    Node(Node),
    Dcs,
    Client,
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Node(node) => node.fmt(f),
            Self::Dcs => f.write_str("dcs"),
            Self::Client => f.write_str("client"),
        }
    }
}

const HOSTS: [Host; 5] = [
    Host::Node(NODES[0]),
    Host::Node(NODES[1]),
    Host::Node(NODES[2]),
    Host::Dcs,
    Host::Client,
];

/// One lab's own part of the net. `slot` keeps labs that run side by side apart.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    pub(crate) net: Net,
    pub(crate) slot: u8,
}

impl Place {
    pub(crate) fn ip(self, host: Host) -> IpAddr {
        let last = match host {
            Host::Node(node) => node.0,
            Host::Dcs => 10,
            Host::Client => 20,
        };
        match self.net {
            Net::Loopback => Ipv4Addr::new(127, 0, self.slot, last).into(),
            Net::Netns => Ipv4Addr::new(198, 18, self.slot, last).into(),
            Net::Loopback6 => {
                let subnet = u16::from(self.slot);
                Ipv6Addr::new(0xfd68, 0x656c, 0x696f, subnet, 0, 0, 0, u16::from(last)).into()
            }
        }
    }

    fn namespace(self, host: impl fmt::Display) -> String {
        format!("lab{}-{host}", self.slot)
    }

    /// A command which runs on `host`; it is replaced by the program, so its process id is the program's.
    pub(crate) fn command(self, host: Host, program: impl AsRef<std::ffi::OsStr>) -> Command {
        if self.net != Net::Netns {
            return Command::new(program);
        }
        let mut command = Command::new("ip");
        command
            .args(["netns", "exec", &self.namespace(host)])
            .arg(program);
        command
    }

    pub(crate) fn make(self) -> Result<(), LabError> {
        self.unmake();
        match self.net {
            Net::Loopback => Ok(()),
            Net::Loopback6 => self.hosts_with_addresses().try_for_each(|address| {
                sh("ip", &["-6", "addr", "add", &address, "dev", "lo", "nodad"]).map(drop)
            }),
            Net::Netns => self.make_namespaces(),
        }
    }

    /// Takes away what `make` made, or what is left of it.
    pub(crate) fn unmake(self) {
        match self.net {
            Net::Loopback => {}
            Net::Loopback6 => self.hosts_with_addresses().for_each(|address| {
                let _ = sh("ip", &["-6", "addr", "del", &address, "dev", "lo"]);
            }),
            Net::Netns => {
                for host in HOSTS {
                    let _ = sh("ip", &["netns", "del", &self.namespace(host)]);
                }
                let _ = sh("ip", &["netns", "del", &self.namespace("hub")]);
                let _ = sh("ip", &["route", "del", "unreachable", &self.subnet()]);
            }
        }
    }

    fn hosts_with_addresses(self) -> impl Iterator<Item = String> {
        HOSTS
            .into_iter()
            .filter(|host| *host != Host::Client)
            .map(move |host| format!("{}/128", self.ip(host)))
    }

    fn subnet(self) -> String {
        format!("198.18.{}.0/24", self.slot)
    }

    fn make_namespaces(self) -> Result<(), LabError> {
        // What is started in the wrong namespace by mistake must not leave the machine.
        sh("ip", &["route", "replace", "unreachable", &self.subnet()])?;
        let hub = self.namespace("hub");
        sh("ip", &["netns", "add", &hub])?;
        sh("ip", &["-n", &hub, "link", "add", "br0", "type", "bridge"])?;
        sh("ip", &["-n", &hub, "link", "set", "br0", "up"])?;
        for host in HOSTS {
            let (own, port) = (self.namespace(host), port(host));
            let address = format!("{}/24", self.ip(host));
            sh("ip", &["netns", "add", &own])?;
            run(Command::new("ip")
                .args(["link", "add", &port, "netns", &hub, "type", "veth"])
                .args(["peer", "name", "eth0", "netns", &own]))?;
            sh(
                "ip",
                &["-n", &hub, "link", "set", &port, "master", "br0", "up"],
            )?;
            sh("ip", &["-n", &own, "addr", "add", &address, "dev", "eth0"])?;
            sh("ip", &["-n", &own, "link", "set", "lo", "up"])?;
            sh("ip", &["-n", &own, "link", "set", "eth0", "up"])?;
        }
        Ok(())
    }

    /// Puts the calling thread, and the threads and processes it starts from now on, where the client is.
    /// Gives the way back.
    pub(crate) fn enter(self) -> Result<Option<File>, LabError> {
        if self.net != Net::Netns {
            return Ok(None);
        }
        let outside = open("/proc/thread-self/ns/net")?;
        enter(&open(&format!(
            "/run/netns/{}",
            self.namespace(Host::Client)
        ))?)?;
        Ok(Some(outside))
    }

    /// A dead switch port: the node's cable looks whole, and nothing comes through. Nothing is closed or reset.
    pub(crate) fn switch_port(self, node: Node, on: bool) -> Result<(), LabError> {
        if self.net != Net::Netns {
            return Err(LabError::Refused(
                "only a node in a namespace can be cut off".into(),
            ));
        }
        let (hub, port) = (self.namespace("hub"), port(Host::Node(node)));
        let state = if on { "3" } else { "0" };
        run(Command::new("ip")
            .args(["netns", "exec", &hub, "bridge", "link", "set", "dev", &port])
            .args(["state", state]))?;
        Ok(())
    }

    /// The node's answers to the client go nowhere, those of its REST API alone.
    pub(crate) fn hide_rest(self, node: Node, on: bool) -> Result<(), LabError> {
        self.swallow(node, on, Host::Client, ["sport", "8008"], "10")
    }

    /// What the node says to the DCS goes nowhere.
    pub(crate) fn cut_from_dcs(self, node: Node, on: bool) -> Result<(), LabError> {
        self.swallow(node, on, Host::Dcs, ["dport", "2379"], "11")
    }

    fn swallow(
        self,
        node: Node,
        on: bool,
        to: Host,
        port: [&str; 2],
        pref: &str,
    ) -> Result<(), LabError> {
        if self.net != Net::Netns {
            return Err(LabError::Refused(
                "only a node in a namespace has a firewall".into(),
            ));
        }
        let (own, to) = (self.namespace(Host::Node(node)), self.ip(to).to_string());
        let word = if on { "add" } else { "del" };
        let mut rule = vec!["-n", &own, "rule", word, "to", &to, "ipproto", "tcp"];
        rule.extend(port);
        rule.extend(["pref", pref, "blackhole"]);
        sh("ip", &rule).map(drop)
    }
}

fn port(host: Host) -> String {
    format!("p-{host}")
}

fn open(namespace: &str) -> Result<File, LabError> {
    File::open(namespace).map_err(LabError::io(namespace))
}

/// Moves the calling thread into a network namespace.
pub(crate) fn enter(namespace: &File) -> Result<(), LabError> {
    setns(namespace, CloneFlags::CLONE_NEWNET)
        .map_err(|errno| LabError::io("cannot enter a network namespace")(errno.into()))
}
