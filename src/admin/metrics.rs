//! `/metrics` and `/metrics/prometheus`: what was counted, and the gauges as they are at this moment.

use std::collections::BTreeMap;

use hyper::StatusCode;
use prometheus_client::encoding::{prometheus_text, text};
use serde::{Deserialize, Serialize};

use super::nodes;
use super::routes::{Ask, Reply};
use crate::metrics::{NodeLabel, Refusal, RefusalLabel, RevokeLabel, RevokeReason, SessionLabel};
use crate::net::descriptor_limit;
use crate::routing::Route;

const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
const TEXT: &str = "text/plain; version=0.0.4; charset=utf-8";

/// The same words as in Prometheus, without prefix; missing ones are zero, so that `status` may be newer or older
/// than the daemon.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Numbers {
    pub(super) uptime_seconds: f64,
    pub(super) epoch: u64,
    pub(super) leader_changes_total: u64,
    pub(super) topology_conflicting_primaries_total: u64,
    /// Null when the lease has no end.
    pub(super) lease_remaining_seconds: Option<f64>,
    pub(super) held_clients: usize,
    /// Open ones by node.
    pub(super) sessions: BTreeMap<String, i64>,
    pub(super) refused_total: BTreeMap<String, u64>,
    pub(super) failovers: u64,
    pub(super) revoked_total: BTreeMap<String, u64>,
    pub(super) bytes_total: BTreeMap<String, u64>,
    pub(super) failsafe_mode: bool,
    pub(super) paused: bool,
}

pub(super) fn as_json(ask: &Ask<'_>) -> Reply {
    Reply::json(StatusCode::OK, &numbers(ask))
}

/// OpenMetrics for who asks for it, as Prometheus does; the older text for everybody else.
pub(super) fn as_prometheus(ask: &Ask<'_>) -> Reply {
    refresh(ask);
    let registry = &ask.metrics.registry;
    let mut body = String::new();
    let (written, content_type) = if ask.accepts("application/openmetrics-text") {
        (text::encode(&mut body, registry), OPEN_METRICS)
    } else {
        (prometheus_text::encode(&mut body, registry), TEXT)
    };
    match written {
        Ok(()) => Reply::new(content_type, body),
        Err(e) => Reply::error(StatusCode::INTERNAL_SERVER_ERROR, &e.to_string()),
    }
}

pub(super) fn numbers(ask: &Ask<'_>) -> Numbers {
    let (picture, metrics) = (ask.picture, ask.metrics);
    let refused = Refusal::ALL.map(|reason| {
        let counted = metrics
            .refused
            .get_or_create(&RefusalLabel { reason })
            .get();
        (format!("{reason:?}"), counted)
    });
    let revoked = RevokeReason::ALL.map(|reason| {
        let counted = metrics.revoked.get_or_create(&RevokeLabel { reason }).get();
        (format!("{reason:?}"), counted)
    });
    let sessions = picture.nodes.iter().map(|node| {
        let open = nodes::sessions(&node.name, metrics);
        (node.name.to_string(), open)
    });
    Numbers {
        uptime_seconds: ask.now.saturating_sub(ask.started).as_secs_f64(),
        epoch: picture.epoch,
        leader_changes_total: metrics.leader_changes.get(),
        topology_conflicting_primaries_total: metrics.conflicting_primaries.get(),
        lease_remaining_seconds: Some(lease_left(ask)).filter(|left| left.is_finite()),
        held_clients: ask.held,
        sessions: sessions.collect(),
        refused_total: refused.into(),
        failovers: metrics.failovers.get(),
        revoked_total: revoked.into(),
        bytes_total: [
            ("to_server".to_owned(), metrics.bytes_to_server.get()),
            ("to_client".to_owned(), metrics.bytes_to_client.get()),
        ]
        .into(),
        failsafe_mode: picture.failsafe,
        paused: picture.paused,
    }
}

/// Brings the gauges up to this moment: between two scrapes nobody looks at them, so nobody keeps them.
fn refresh(ask: &Ask<'_>) {
    let (picture, metrics) = (ask.picture, ask.metrics);
    metrics.lease_remaining.set(lease_left(ask));
    metrics
        .epoch
        .set(i64::try_from(picture.epoch).unwrap_or(i64::MAX));
    metrics
        .held_clients
        .set(i64::try_from(ask.held).unwrap_or(i64::MAX));
    metrics.failsafe_mode.set(picture.failsafe.into());
    metrics.paused.set(picture.paused.into());

    if let (Some(open), Ok(limit)) = (open_descriptors(), descriptor_limit()) {
        metrics.open_descriptors.set(open);
        metrics
            .descriptor_limit
            .set(i64::try_from(limit).unwrap_or(i64::MAX));
    }

    // A node that a reload has removed must not stay up for ever.
    metrics.node_up.clear();
    metrics.node_leader.clear();
    for node in picture.nodes.iter() {
        let label = NodeLabel {
            node: node.name.to_string(),
        };
        metrics.node_up.get_or_create(&label).set(node.up.into());
        metrics
            .node_leader
            .get_or_create(&label)
            .set(node.leader.into());
        for route in Route::ALL {
            let _ = metrics.sessions.get_or_create(&SessionLabel {
                node: label.node.clone(),
                route: route.word(),
            });
        }
        metrics.know_node(&node.name);
    }
}

/// The one that is open for the count is left out. `None` where `/proc` is not to be seen.
fn open_descriptors() -> Option<i64> {
    let all = std::fs::read_dir("/proc/self/fd").ok()?.count();
    i64::try_from(all.saturating_sub(1)).ok()
}

/// Zero without a valid lease, infinite for one without an end.
fn lease_left(ask: &Ask<'_>) -> f64 {
    match ask.picture.valid_lease(ask.now) {
        Some(lease) => lease
            .remaining(ask.now)
            .map_or(f64::INFINITY, |left| left.as_secs_f64()),
        None => 0.0,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::admin::testing::Scene;
    use crate::primary_tracker::WhyNobody;

    fn scrape(scene: &Scene) -> String {
        as_prometheus(&scene.ask()).body
    }

    fn value<'a>(text: &'a str, series: &str) -> Option<&'a str> {
        let lines = &mut text.lines();
        lines.find_map(|line| line.strip_prefix("heliosdb_proxy_")?.strip_prefix(series))
    }

    #[test]
    fn every_name_of_the_contract_is_served_before_its_first_event() {
        let text = scrape(&Scene::leading());

        for series in [
            "topology_conflicting_primaries_total ",
            "node_up{node=\"pg1\"} ",
            "node_leader{node=\"pg3\"} ",
            "lease_remaining_seconds ",
            "epoch ",
            "leader_changes_total ",
            "sessions{node=\"pg2\",route=\"primary\"} ",
            "held_clients ",
            "held_seconds_count ",
            "held_seconds_bucket{le=\"+Inf\"} ",
            "refused_total{reason=\"no_leader\"} ",
            "refused_total{reason=\"full\"} ",
            "refused_total{reason=\"in_recovery\"} ",
            "refused_total{reason=\"disabled\"} ",
            "refused_total{reason=\"dial\"} ",
            "failovers_total ",
            "revoked_total{reason=\"moved\"} ",
            "revoked_total{reason=\"follows\"} ",
            "revoked_total{reason=\"promoting\"} ",
            "revoked_total{reason=\"conflict\"} ",
            "revoked_total{reason=\"lease\"} ",
            "revoked_total{reason=\"disabled\"} ",
            "checks_total{node=\"pg1\",result=\"leads\"} ",
            "checks_total{node=\"pg3\",result=\"wrong_cluster\"} ",
            "check_seconds_count ",
            "bytes_total{direction=\"to_server\"} ",
            "bytes_total{direction=\"to_client\"} ",
            "config_reloads_total{result=\"ok\"} ",
            "config_reloads_total{result=\"failed\"} ",
            "wrong_cluster_total{node=\"pg1\"} ",
            "stale_leader_total{node=\"pg1\"} ",
            "witness_total ",
            "read_fallback_total ",
            "failsafe_mode ",
            "paused ",
            "build_info{version=\"",
            "open_descriptors ",
            "descriptor_limit ",
        ] {
            assert!(value(&text, series).is_some(), "{series}in\n{text}");
        }
    }

    #[test]
    fn gauges_are_those_of_the_moment_of_the_scrape() {
        let mut scene = Scene::leading();
        let text = scrape(&scene);
        assert_eq!(value(&text, "lease_remaining_seconds "), Some("8.25"));
        assert_eq!(value(&text, "node_leader{node=\"pg1\"} "), Some("1"));
        assert_eq!(value(&text, "node_leader{node=\"pg2\"} "), Some("0"));
        assert_eq!(value(&text, "node_up{node=\"pg3\"} "), Some("0"));
        assert_eq!(value(&text, "epoch "), Some("7"));
        assert_eq!(value(&text, "held_clients "), Some("2"));

        scene.now = scene.now + Duration::from_secs(10);
        let text = scrape(&scene);
        assert_eq!(value(&text, "lease_remaining_seconds "), Some("0.0"));
    }

    #[test]
    fn open_files_are_counted_against_their_limit() {
        let text = scrape(&Scene::leading());
        let number = |series| value(&text, series).unwrap().parse::<u64>().unwrap();

        let open = number("open_descriptors ");
        assert!(open >= 3 && open < number("descriptor_limit "), "{open}");
    }

    #[test]
    fn a_removed_node_is_neither_up_nor_down() {
        let mut scene = Scene::leading();
        scrape(&scene);
        scene.picture.nodes = scene.picture.nodes[..2].into();

        let text = scrape(&scene);

        assert_eq!(value(&text, "node_up{node=\"pg3\"} "), None);
        assert_eq!(value(&text, "node_leader{node=\"pg3\"} "), None);
    }

    #[test]
    fn who_asks_for_open_metrics_gets_it_and_the_content_type_fits() {
        let mut scene = Scene::leading();
        let plain = as_prometheus(&scene.ask());
        assert_eq!(plain.content_type, TEXT);
        assert!(!plain.body.contains("# EOF"));

        let prometheus =
            "application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4;q=0.2";
        scene.headers.insert("accept", prometheus.parse().unwrap());
        let open = as_prometheus(&scene.ask());
        assert_eq!(open.content_type, OPEN_METRICS);
        assert!(open.body.ends_with("# EOF\n"));
    }

    #[test]
    fn every_line_is_a_comment_or_a_series_of_ours_and_no_series_comes_twice() {
        let text = scrape(&Scene::leading());
        let mut seen = std::collections::HashSet::new();
        for line in text.lines() {
            if line.starts_with("# HELP heliosdb_proxy_")
                || line.starts_with("# TYPE heliosdb_proxy_")
            {
                continue;
            }
            let (series, number) = line.rsplit_once(' ').unwrap();
            assert!(series.starts_with("heliosdb_proxy_"), "{line}");
            assert!(number.parse::<f64>().is_ok(), "{line}");
            assert!(seen.insert(series.to_owned()), "twice: {series}");
        }
        assert!(seen.len() > 60, "{}", seen.len());
    }

    #[test]
    fn a_node_with_an_odd_name_does_not_break_the_format() {
        let mut scene = Scene::leading();
        let mut nodes = scene.picture.nodes.to_vec();
        nodes[0].name = "pg\"1\\\n".into();
        scene.picture.nodes = nodes.into();

        assert_eq!(
            value(&scrape(&scene), "node_up{node=\"pg\\\"1\\\\\\n\"} "),
            Some("1")
        );
    }

    #[test]
    fn the_json_has_the_same_numbers_under_the_same_words() {
        let mut scene = Scene::leading();
        scene.metrics.refuse(Refusal::full);
        scene.metrics.revoke(RevokeReason::moved, 40);
        scene.metrics.bytes_to_client.inc_by(1_000);

        let told = numbers(&scene.ask());
        assert_eq!(told.uptime_seconds, 60.0);
        assert_eq!(told.lease_remaining_seconds, Some(8.25));
        assert_eq!(told.held_clients, 2);
        assert_eq!(told.sessions["pg1"], 12);
        assert_eq!(told.refused_total["full"], 1);
        assert_eq!(told.refused_total["no_leader"], 0);
        assert_eq!(told.revoked_total["moved"], 40);
        assert_eq!(told.bytes_total["to_client"], 1_000);

        scene.picture = Scene::without_leader(WhyNobody::NobodyLeads).picture;
        assert_eq!(numbers(&scene.ask()).lease_remaining_seconds, Some(0.0));
    }
}
