//! What is allowed and probably not meant: ratios that do not fit together, in words.

use std::time::Duration;

use super::Config;
use crate::net::{Address, canonical};
use crate::routing::ReadSettings;
use crate::topology::{NodeRole, NodeSettings, Provider};

/// Patroni's own defaults, where the cluster was not asked.
const TTL: Duration = Duration::from_secs(30);
const LOOP_WAIT: Duration = Duration::from_secs(10);
/// From the moment the lock is free to a writable leader: measured, and then some.
const PROMOTION: Duration = Duration::from_secs(5);

impl Config {
    /// What is allowed and probably not meant, a line each.
    pub fn warnings(&self) -> Vec<String> {
        let mut doubts = Vec::new();
        self.doubt_hold(&mut doubts);
        self.doubt_lease(&mut doubts);
        self.doubt_cadence(&mut doubts);
        self.doubt_nodes(&mut doubts);
        self.doubt_sockets(&mut doubts);
        if self.rest.login.is_some() && self.rest.tls.is_none() {
            doubts.push(
                "rest.password_file: rest.scheme is \"http\", so the password is readable on its way"
                    .to_owned(),
            );
        }
        self.doubt_reads(&mut doubts);
        self.doubt_admin(&mut doubts);
        doubts
    }

    fn doubt_hold(&self, doubts: &mut Vec<String>) {
        let hold = self.routing.write_timeout;
        let ttl = self.tracker.patroni_ttl.unwrap_or(TTL);
        let failover = ttl + LOOP_WAIT + PROMOTION;
        if self.source.provider().is_patroni() && hold < failover {
            doubts.push(format!(
                "write_timeout_secs = {}: clients are turned away before a failover ends, which takes up to {} s with a ttl of {} s and a loop_wait of {} s",
                secs(hold), secs(failover), secs(ttl), secs(LOOP_WAIT),
            ));
        }
    }

    fn doubt_lease(&self, doubts: &mut Vec<String>) {
        let lease = self.tracker.lease_timeout;
        if let Some(ttl) = self.tracker.patroni_ttl
            && lease >= ttl.saturating_sub(LOOP_WAIT)
        {
            doubts.push(format!(
                "topology.lease_timeout_secs = {}: not shorter than topology.patroni_ttl_secs - loop_wait ({} - {} s): a lease could outlive the lock it stands for",
                secs(lease), secs(ttl), secs(LOOP_WAIT),
            ));
        }
        let timeout = self.health.check_timeout;
        if timeout >= lease {
            doubts.push(format!(
                "health.check_timeout_ms = {}: an answer later than topology.lease_timeout_secs = {} proves nothing any more",
                timeout.as_millis(), secs(lease),
            ));
        }
    }

    fn doubt_cadence(&self, doubts: &mut Vec<String>) {
        let health = &self.health;
        let rising = [
            ("fast_interval_ms", health.fast_interval),
            ("active_interval_ms", health.active_interval),
            ("check_interval_ms", health.check_interval),
        ];
        for pair in rising.windows(2) {
            let [(quick, shorter), (slow, longer)] = pair else {
                continue;
            };
            if shorter > longer {
                doubts.push(format!(
                    "health.{quick} = {} is longer than health.{slow} = {}: nodes are asked less often when it matters more",
                    shorter.as_millis(), longer.as_millis(),
                ));
            }
        }
        let staleness = self.routing.max_staleness;
        if staleness < health.active_interval {
            doubts.push(format!(
                "health.max_staleness_ms = {} is shorter than health.active_interval_ms = {}: most sessions wait for a question of their own",
                staleness.as_millis(), health.active_interval.as_millis(),
            ));
        }
    }

    /// One node is one machine: two that are asked at one place can only say the same.
    fn doubt_nodes(&self, doubts: &mut Vec<String>) {
        let mut asked = Vec::new();
        let by_rest = self.source.provider().is_patroni();
        for node in self.nodes.iter().filter(|_| by_rest) {
            let host = node.rest_host.as_ref().unwrap_or(&node.host);
            let place = (canonical(host), node.rest_port);
            match asked.iter().find(|(other, _)| *other == place) {
                Some((_, other)) => doubts.push(format!(
                    "nodes {other} and {} are both asked at {host} port {}: neither can be told to lead (rest_host, rest_port)",
                    node.name, node.rest_port,
                )),
                None => asked.push((place, &node.name)),
            }
        }
        if !self.nodes.is_empty() && self.nodes.iter().all(|node| !node.enabled) {
            doubts.push("nodes: none is enabled, so no client is ever served".to_owned());
        }
        self.doubt_roles(doubts);
    }

    /// A role is believed where nobody is asked for it, and only there.
    fn doubt_roles(&self, doubts: &mut Vec<String>) {
        let declared = self.source.provider() == Provider::Static;
        let leads = |node: &&NodeSettings| node.enabled && node.role == NodeRole::Primary;
        if declared && !self.nodes.iter().any(|node| leads(&node)) {
            doubts.push(
                "nodes: none that is enabled has role = \"primary\", so nobody can write"
                    .to_owned(),
            );
        }
        if self.source.provider() == Provider::Manual {
            if let Some(node) = self
                .nodes
                .iter()
                .find(|node| node.role == NodeRole::Primary)
            {
                doubts.push(format!(
                    "nodes.role = \"primary\" of {}: topology.provider = \"manual\" leads to nobody before it is told (POST /topology/primary)",
                    node.name,
                ));
            }
            return;
        }
        let named = self.nodes.iter().find(|node| node.role != NodeRole::Auto);
        if let Some(node) = named.filter(|_| !declared) {
            doubts.push(format!(
                "nodes.role = {:?} of {}: the nodes are asked for their roles; only topology.provider = \"static\" takes them from here",
                node.role.word(),
                node.name,
            ));
        }
    }

    fn doubt_reads(&self, doubts: &mut Vec<String>) {
        let mut ports = self.listeners.iter();
        for listener in ports.clone() {
            let intent = &listener.intent;
            if intent.route.writes() && intent.reads != ReadSettings::default() {
                doubts.push(format!(
                    "listeners.address = \"{}\": its route is \"primary\", where the options of a read port have no effect",
                    listener.address
                ));
            }
        }
        let reads = ports.any(|listener| !listener.intent.route.writes());
        if reads && !self.nodes.is_empty() && self.nodes.iter().all(|node| node.weight == 0) {
            doubts.push("nodes: each has weight = 0, so no replica is ever read from".to_owned());
        }
    }

    fn doubt_admin(&self, doubts: &mut Vec<String>) {
        if let Some(admin) = &self.admin
            && admin.allow_insecure
            && admin.is_off_loopback()
        {
            doubts.push(format!(
                "admin_allow_insecure = true with admin_address = {:?}: whoever reaches that address may disable nodes",
                admin.address.to_string(),
            ));
        }
    }

    fn doubt_sockets(&self, doubts: &mut Vec<String>) {
        for listener in &self.listeners {
            let Address::Unix(path) = &listener.address else {
                continue;
            };
            let port = path
                .file_name()
                .and_then(|name| name.to_str()?.strip_prefix(".s.PGSQL."));
            if port.is_none_or(|port| port.parse::<u16>().is_err()) {
                doubts.push(format!(
                    "listeners.address = {path:?}: libpq looks for .s.PGSQL.PORT in a folder and will not find this one"
                ));
            }
        }
    }
}

fn secs(d: Duration) -> f64 {
    d.as_secs_f64()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn doubts(text: &str) -> Vec<String> {
        let nodes = "[[nodes]]\nname = 'pg1'\nhost = '10.0.0.1'\n";
        Config::from_toml(&format!("{text}\n{nodes}"))
            .unwrap()
            .warnings()
    }

    #[test]
    fn the_defaults_leave_no_doubt() {
        assert_eq!(doubts(""), [""; 0]);
    }

    #[test]
    fn each_ratio_that_does_not_fit_is_said_with_its_numbers() {
        for (text, words) in [
            (
                "write_timeout_secs = 30",
                "write_timeout_secs = 30: clients are turned away before a failover ends, which takes up to 45 s",
            ),
            (
                "[topology]\npatroni_ttl_secs = 20",
                "lease_timeout_secs = 10: not shorter than topology.patroni_ttl_secs - loop_wait (20 - 10 s)",
            ),
            (
                "[topology]\nlease_timeout_secs = 8",
                "health.check_timeout_ms = 8000: an answer later than topology.lease_timeout_secs = 8",
            ),
            (
                "[health]\nfast_interval_ms = 1001",
                "fast_interval_ms = 1001 is longer than health.active_interval_ms = 1000",
            ),
            (
                "[health]\ncheck_interval_ms = 999",
                "active_interval_ms = 1000 is longer than health.check_interval_ms = 999",
            ),
            (
                "[rest]\nusername = 'proxy'\npassword_file = '/p'",
                "rest.password_file: rest.scheme is \"http\", so the password is readable",
            ),
            (
                "[health]\nmax_staleness_ms = 500",
                "max_staleness_ms = 500 is shorter",
            ),
            (
                "[[nodes]]\nname = 'pg0'\nhost = '10.0.0.2'\nrest_host = '10.0.0.1'",
                "nodes pg0 and pg1 are both asked at 10.0.0.1 port 8008",
            ),
            (
                "[[listeners]]\naddress = 'localhost:1'\nfallback = 'none'",
                "where the options of a read port have no effect",
            ),
            (
                "admin_address = '0.0.0.0:9090'\nadmin_allow_insecure = true",
                "admin_allow_insecure = true with admin_address = \"0.0.0.0:9090\"",
            ),
            (
                "[[listeners]]\naddress = '/run/p/sock'",
                "libpq looks for .s.PGSQL.PORT",
            ),
        ] {
            let doubts = doubts(text);
            assert!(
                doubts.len() == 1 && doubts[0].contains(words),
                "{text}: {doubts:#?}"
            );
        }
    }

    #[test]
    fn a_role_that_nobody_relies_on_and_one_that_is_missing_are_doubtful() {
        let node = "[[nodes]]\nname = 'a'\nhost = 'b'\nrole = 'standby'";
        let checked = Config::from_toml(node).unwrap();
        let words = "nodes.role = \"standby\" of a: the nodes are asked for their roles";
        assert!(checked.warnings()[0].contains(words));

        let by_hand = format!("[topology]\nprovider = 'manual'\n{node}");
        assert_eq!(Config::from_toml(&by_hand).unwrap().warnings(), [""; 0]);
        let by_hand = by_hand.replace("standby", "primary");
        let words = "topology.provider = \"manual\" leads to nobody before it is told";
        assert!(Config::from_toml(&by_hand).unwrap().warnings()[0].contains(words));

        let declared = format!("[topology]\nprovider = 'static'\n{node}");
        let words = "nodes: none that is enabled has role = \"primary\"";
        assert!(Config::from_toml(&declared).unwrap().warnings()[0].contains(words));
    }

    #[test]
    fn a_cluster_that_nobody_may_use_is_doubtful() {
        let config =
            Config::from_toml("[[nodes]]\nname = 'a'\nhost = 'b'\nenabled = false").unwrap();

        assert!(config.warnings()[0].contains("none is enabled"));
    }

    #[test]
    fn a_read_port_without_any_weight_is_doubtful() {
        let listeners = "listeners = [{ address = 'localhost:1', route = 'replica' }]";
        let text = format!("{listeners}\n[[nodes]]\nname = 'a'\nhost = 'b'\nweight = 0");
        let config = Config::from_toml(&text).unwrap();

        assert!(config.warnings()[0].contains("each has weight = 0"));
    }
}
