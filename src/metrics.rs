//! Counters and their names: what Prometheus sees of one house.

use std::sync::atomic::AtomicU64;

use prometheus_client::encoding::{EncodeLabelSet, EncodeLabelValue};
pub(crate) use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

/// A node's name as a label.
#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
pub(crate) struct NodeLabel {
    pub(crate) node: String,
}

/// A node and the listener's word (`primary`, `replica`, `any`).
#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
pub(crate) struct SessionLabel {
    pub(crate) node: String,
    pub(crate) route: &'static str,
}

/// A node and what its answer was worth.
#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
pub(crate) struct CheckLabel {
    pub(crate) node: String,
    pub(crate) result: CheckResult,
}

/// One row of the evidence table.
#[derive(Clone, Copy, Debug, Hash, PartialEq, Eq, EncodeLabelValue)]
#[allow(non_camel_case_types, reason = "the variants are the label's words")]
pub(crate) enum CheckResult {
    leads,
    promoting,
    retiring,
    unlocked,
    follows,
    silent,
    wrong_cluster,
}

/// Why a client was turned away.
#[derive(Clone, Copy, Debug, Hash, PartialEq, Eq, EncodeLabelValue)]
#[allow(non_camel_case_types, reason = "the variants are the label's words")]
pub(crate) enum Refusal {
    no_leader,
    full,
    in_recovery,
    disabled,
    dial,
}

/// Why sessions were ended by us.
#[derive(Clone, Copy, Debug, Hash, PartialEq, Eq, EncodeLabelValue)]
#[allow(non_camel_case_types, reason = "the variants are the label's words")]
pub(crate) enum RevokeReason {
    moved,
    follows,
    promoting,
    conflict,
    lease,
    disabled,
}

impl CheckResult {
    pub(crate) const ALL: [Self; 7] = [
        Self::leads,
        Self::promoting,
        Self::retiring,
        Self::unlocked,
        Self::follows,
        Self::silent,
        Self::wrong_cluster,
    ];
}

impl Refusal {
    pub(crate) const ALL: [Self; 5] = [
        Self::no_leader,
        Self::full,
        Self::in_recovery,
        Self::disabled,
        Self::dial,
    ];
}

impl RevokeReason {
    pub(crate) const ALL: [Self; 6] = [
        Self::moved,
        Self::follows,
        Self::promoting,
        Self::conflict,
        Self::lease,
        Self::disabled,
    ];

    /// For people: "the session was ended because …".
    pub(crate) fn in_words(self) -> &'static str {
        match self {
            Self::moved => "the leader moved",
            Self::follows => "the node no longer leads",
            Self::promoting => "another node is being promoted",
            Self::conflict => "more than one node claims to lead",
            Self::lease => "the lease on the leader ended",
            Self::disabled => "the node was disabled",
        }
    }
}

/// `{reason="…"}` of a refusal.
#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
pub(crate) struct RefusalLabel {
    pub(crate) reason: Refusal,
}

/// `{reason="…"}` of a revocation.
#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
pub(crate) struct RevokeLabel {
    pub(crate) reason: RevokeReason,
}

/// `{direction="…"}` of bytes.
#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
pub(crate) struct DirectionLabel {
    pub(crate) direction: &'static str,
}

/// `{result="ok|failed"}` of a reload.
#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
pub(crate) struct ReloadLabel {
    pub(crate) result: &'static str,
}

/// A gauge of seconds.
pub(crate) type Seconds = Gauge<f64, AtomicU64>;

/// All metrics of a house. The name that each field has in Prometheus stands in [`Metrics::new`].
pub(crate) struct Metrics {
    pub(crate) registry: Registry,
    pub(crate) conflicting_primaries: Counter,
    pub(crate) node_up: Family<NodeLabel, Gauge>,
    pub(crate) node_leader: Family<NodeLabel, Gauge>,
    pub(crate) lease_remaining: Seconds,
    pub(crate) epoch: Gauge,
    pub(crate) leader_changes: Counter,
    pub(crate) sessions: Family<SessionLabel, Gauge>,
    pub(crate) held_clients: Gauge,
    pub(crate) held_seconds: Histogram,
    pub(crate) refused: Family<RefusalLabel, Counter>,
    /// Writers that found no node in time: `NoHealthyNodes`.
    pub(crate) failovers: Counter,
    pub(crate) revoked: Family<RevokeLabel, Counter>,
    pub(crate) checks: Family<CheckLabel, Counter>,
    pub(crate) check_seconds: Histogram,
    /// Resolved from `bytes_total{direction="to_server"}` once: the relay adds to it with each chunk.
    pub(crate) bytes_to_server: Counter,
    /// As above, `direction="to_client"`.
    pub(crate) bytes_to_client: Counter,
    pub(crate) config_reloads: Family<ReloadLabel, Counter>,
    /// Carried over from process to process.
    pub(crate) handovers: Family<ReloadLabel, Counter>,
    pub(crate) wrong_cluster: Family<NodeLabel, Counter>,
    pub(crate) stale_leader: Family<NodeLabel, Counter>,
    pub(crate) read_fallback: Counter,
    pub(crate) witness: Counter,
    pub(crate) failsafe_mode: Gauge,
    pub(crate) paused: Gauge,
    pub(crate) open_descriptors: Gauge,
    pub(crate) descriptor_limit: Gauge,
}

const HELD: [f64; 10] = [0.01, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 15.0, 45.0];
const CHECK: [f64; 10] = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.1, 0.25, 1.0, 2.5, 8.0];

impl Metrics {
    pub(crate) fn new() -> Self {
        let mut r = Registry::with_prefix("heliosdb_proxy");
        let bytes = Family::<DirectionLabel, Counter>::default();
        let direction = |direction| bytes.get_or_create(&DirectionLabel { direction }).clone();
        let mut m = Self {
            registry: Registry::default(),
            conflicting_primaries: Counter::default(),
            node_up: Family::default(),
            node_leader: Family::default(),
            lease_remaining: Gauge::default(),
            epoch: Gauge::default(),
            leader_changes: Counter::default(),
            sessions: Family::default(),
            held_clients: Gauge::default(),
            held_seconds: Histogram::new(HELD),
            refused: Family::default(),
            failovers: Counter::default(),
            revoked: Family::default(),
            checks: Family::default(),
            check_seconds: Histogram::new(CHECK),
            bytes_to_server: direction("to_server"),
            bytes_to_client: direction("to_client"),
            config_reloads: Family::default(),
            handovers: Family::default(),
            wrong_cluster: Family::default(),
            stale_leader: Family::default(),
            read_fallback: Counter::default(),
            witness: Counter::default(),
            failsafe_mode: Gauge::default(),
            paused: Gauge::default(),
            open_descriptors: Gauge::default(),
            descriptor_limit: Gauge::default(),
        };
        m.register_topology(&mut r);
        m.register_sessions(&mut r);
        m.register_process(&mut r);
        r.register("bytes", "Bytes relayed", bytes);
        let build = Family::<Vec<(&str, &str)>, Gauge>::default();
        build
            .get_or_create(&vec![("version", env!("CARGO_PKG_VERSION"))])
            .set(1);
        r.register("build_info", "The running version", build);
        m.registry = r;
        m.start_at_zero();
        m
    }

    /// A counter that is absent until its first event hides that event from `rate()`.
    fn start_at_zero(&self) {
        for reason in Refusal::ALL {
            let _ = self.refused.get_or_create(&RefusalLabel { reason });
        }
        for reason in RevokeReason::ALL {
            let _ = self.revoked.get_or_create(&RevokeLabel { reason });
        }
        for result in ["ok", "failed"] {
            let _ = self.config_reloads.get_or_create(&ReloadLabel { result });
            let _ = self.handovers.get_or_create(&ReloadLabel { result });
        }
    }

    /// The same for what is counted per node; the admin API calls it with the nodes it knows of.
    pub(crate) fn know_node(&self, node: &str) {
        let node = node.to_owned();
        for result in CheckResult::ALL {
            let node = node.clone();
            let _ = self.checks.get_or_create(&CheckLabel { node, result });
        }
        let _ = self
            .wrong_cluster
            .get_or_create(&NodeLabel { node: node.clone() });
        let _ = self.stale_leader.get_or_create(&NodeLabel { node });
    }

    /// `topology_conflicting_primaries` becomes `heliosdb_proxy_topology_conflicting_primaries_total`: the
    /// registry adds prefix and `_total` itself.
    fn register_topology(&self, r: &mut Registry) {
        r.register(
            "topology_conflicting_primaries",
            "Answers of a claimant while more than one claim to lead counted",
            self.conflicting_primaries.clone(),
        );
        r.register("node_up", "1 while the node answers", self.node_up.clone());
        r.register(
            "node_leader",
            "1 for the node that leads",
            self.node_leader.clone(),
        );
        r.register(
            "lease_remaining_seconds",
            "How long the lease still lasts",
            self.lease_remaining.clone(),
        );
        r.register(
            "epoch",
            "Counts up with each observed change of leader",
            self.epoch.clone(),
        );
        r.register(
            "leader_changes",
            "Observed changes of leader",
            self.leader_changes.clone(),
        );
        r.register(
            "checks",
            "Questions to nodes by what the answer was worth",
            self.checks.clone(),
        );
        r.register(
            "check_seconds",
            "Time from question to answer",
            self.check_seconds.clone(),
        );
        r.register(
            "wrong_cluster",
            "Answers from another cluster",
            self.wrong_cluster.clone(),
        );
        r.register(
            "stale_leader",
            "Claims to lead on an older timeline",
            self.stale_leader.clone(),
        );
        r.register(
            "witness",
            "Words of other nodes that extended the lease of a silent leader",
            self.witness.clone(),
        );
        r.register(
            "failsafe_mode",
            "1 while the leader lives on Patroni's failsafe mode",
            self.failsafe_mode.clone(),
        );
        r.register(
            "paused",
            "1 while Patroni is in maintenance mode",
            self.paused.clone(),
        );
    }

    fn register_sessions(&self, r: &mut Registry) {
        r.register("sessions", "Open sessions", self.sessions.clone());
        r.register(
            "held_clients",
            "Clients waiting for a leader",
            self.held_clients.clone(),
        );
        r.register(
            "held_seconds",
            "How long held clients waited",
            self.held_seconds.clone(),
        );
        r.register(
            "refused",
            "Clients turned away, by reason",
            self.refused.clone(),
        );
        r.register(
            "failovers",
            "Clients for the leader that found no node in time",
            self.failovers.clone(),
        );
        r.register(
            "revoked",
            "Sessions ended by us, by reason",
            self.revoked.clone(),
        );
        r.register(
            "read_fallback",
            "Read sessions sent to the leader because no replica was left",
            self.read_fallback.clone(),
        );
        r.register(
            "handovers",
            "Hand-overs to a new process, by result",
            self.handovers.clone(),
        );
        r.register(
            "config_reloads",
            "Reloads by result",
            self.config_reloads.clone(),
        );
    }

    fn register_process(&self, r: &mut Registry) {
        r.register(
            "open_descriptors",
            "Open files and sockets of this process",
            self.open_descriptors.clone(),
        );
        r.register(
            "descriptor_limit",
            "The most of them that this process may have",
            self.descriptor_limit.clone(),
        );
    }

    /// Open sessions of one route at a node.
    pub(crate) fn sessions_by(&self, route: &'static str, node: &str) -> i64 {
        let node = node.to_owned();
        let label = SessionLabel { node, route };
        self.sessions.get(&label).map_or(0, |open| open.get())
    }

    pub(crate) fn refuse(&self, reason: Refusal) {
        self.refused.get_or_create(&RefusalLabel { reason }).inc();
    }

    pub(crate) fn revoke(&self, reason: RevokeReason, sessions: u64) {
        self.revoked
            .get_or_create(&RevokeLabel { reason })
            .inc_by(sessions);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use prometheus_client::encoding::text::encode;

    use super::*;

    fn served(metrics: &Metrics) -> String {
        let mut text = String::new();
        encode(&mut text, &metrics.registry).unwrap();
        text
    }

    fn series<'a>(text: &'a str, name: &str) -> Vec<&'a str> {
        text.lines().filter(|l| l.starts_with(name)).collect()
    }

    #[test]
    fn a_reason_is_counted_from_zero_before_it_first_occurs() {
        let text = served(&Metrics::new());

        for (name, words) in [
            ("heliosdb_proxy_refused_total{", Refusal::ALL.len()),
            ("heliosdb_proxy_revoked_total{", RevokeReason::ALL.len()),
            ("heliosdb_proxy_config_reloads_total{", 2),
        ] {
            let lines = series(&text, name);
            assert_eq!(lines.len(), words, "{lines:?}");
            assert!(lines.iter().all(|line| line.ends_with(" 0")), "{lines:?}");
        }
    }

    #[test]
    fn a_node_is_known_with_each_result_and_knowing_it_again_keeps_its_counts() {
        let metrics = Metrics::new();
        metrics.know_node("pg1");
        let label = CheckLabel {
            node: "pg1".into(),
            result: CheckResult::silent,
        };
        metrics.checks.get_or_create(&label).inc();

        metrics.know_node("pg1");

        let text = served(&metrics);
        let lines = series(&text, "heliosdb_proxy_checks_total{");
        assert_eq!(lines.len(), CheckResult::ALL.len());
        assert!(lines.iter().any(|line| line.ends_with("\"silent\"} 1")));
    }

    #[test]
    fn what_is_counted_shows_under_its_reason() {
        let metrics = Metrics::new();
        metrics.refuse(Refusal::no_leader);
        metrics.revoke(RevokeReason::follows, 110);
        metrics.bytes_to_server.inc_by(7);

        let text = served(&metrics);

        for line in [
            "heliosdb_proxy_refused_total{reason=\"no_leader\"} 1",
            "heliosdb_proxy_revoked_total{reason=\"follows\"} 110",
            "heliosdb_proxy_bytes_total{direction=\"to_server\"} 7",
        ] {
            assert_eq!(series(&text, line), [line]);
        }
    }

    #[test]
    fn two_houses_count_apart() {
        let (one, other) = (Metrics::new(), Metrics::new());
        one.leader_changes.inc();
        assert_eq!(other.leader_changes.get(), 0);
    }

    #[test]
    fn every_reason_to_end_a_session_has_words_of_its_own() {
        let words: HashSet<_> = RevokeReason::ALL.map(RevokeReason::in_words).into();
        assert_eq!(words.len(), RevokeReason::ALL.len());
    }
}
