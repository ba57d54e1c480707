//! `/nodes` and `/nodes/{addr}`: what is known of each node.

use std::net::SocketAddr;

use hyper::StatusCode;
use serde::{Deserialize, Serialize};

use super::rfc3339;
use super::routes::{Ask, Reply};
use crate::metrics::Metrics;
use crate::primary_tracker::{NodePicture, Picture};
use crate::routing::Route;

/// Every key is always there, null when unknown.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Node {
    /// `host:port` as configured.
    pub(super) address: String,
    pub(super) name: String,
    /// Patroni's word in the latest answer, as are `state` and `timeline`.
    pub(super) role: Option<String>,
    pub(super) state: Option<String>,
    pub(super) timeline: Option<u32>,
    /// Up, with hysteresis.
    pub(super) healthy: bool,
    /// The node of the present lease.
    pub(super) leader: bool,
    pub(super) last_check: Option<String>,
    pub(super) failure_count: u32,
    pub(super) last_error: Option<String>,
    pub(super) latency_ms: Option<f64>,
    pub(super) replication_lag_bytes: Option<u64>,
    pub(super) sessions: i64,
    pub(super) enabled: bool,
    /// The latest answer in words, or what was there instead.
    pub(super) evidence: String,
}

pub(super) fn all(ask: &Ask<'_>) -> Reply {
    let nodes = ask.picture.nodes.iter();
    let told: Vec<Node> = nodes.map(|node| report(node, ask.metrics)).collect();
    Reply::json(StatusCode::OK, &told)
}

pub(super) fn one(ask: &Ask<'_>) -> Reply {
    match find(&percent_decoded(ask.rest), ask.picture) {
        Ok(node) => Reply::json(StatusCode::OK, &report(node, ask.metrics)),
        Err(reply) => reply,
    }
}

/// The node of this name.
pub(super) fn named(name: &str, ask: &Ask<'_>) -> Reply {
    match ask.picture.nodes.iter().find(|node| *node.name == *name) {
        Some(node) => Reply::json(StatusCode::OK, &report(node, ask.metrics)),
        None => unknown(name),
    }
}

/// By address, or by name: that is what a person remembers. What is one node's address and another one's name means
/// neither.
pub(super) fn find<'p>(wanted: &str, picture: &'p Picture) -> Result<&'p NodePicture, Reply> {
    let is_wanted = |node: &&NodePicture| is_at(node, wanted) || *node.name == *wanted;
    let mut found = picture.nodes.iter().filter(is_wanted);
    match (found.next(), found.next()) {
        (Some(node), None) => Ok(node),
        (None, _) => Err(unknown(wanted)),
        (Some(_), Some(_)) => {
            let words = format!("{wanted} is the address of one node and the name of another");
            Err(Reply::error(StatusCode::CONFLICT, &words))
        }
    }
}

/// The same address, however it is written.
fn is_at(node: &NodePicture, wanted: &str) -> bool {
    match (node.address.parse::<SocketAddr>(), wanted.parse()) {
        (Ok(address), Ok(wanted)) => address == wanted,
        _ => node.address.eq_ignore_ascii_case(wanted),
    }
}

fn unknown(wanted: &str) -> Reply {
    Reply::error(StatusCode::NOT_FOUND, &format!("there is no node {wanted}"))
}

/// Open sessions at a node, whatever listener they came by.
pub(super) fn sessions(node: &str, metrics: &Metrics) -> i64 {
    let by_route = Route::ALL.map(|route| metrics.sessions_by(route.word(), node));
    by_route.iter().sum()
}

pub(super) fn report(node: &NodePicture, metrics: &Metrics) -> Node {
    let owned = |word: &Option<std::sync::Arc<str>>| word.as_deref().map(str::to_owned);
    Node {
        address: node.address.to_string(),
        name: node.name.to_string(),
        role: owned(&node.role),
        state: owned(&node.state),
        timeline: node.timeline,
        healthy: node.up,
        leader: node.leader,
        last_check: node.last_check.map(rfc3339::in_words),
        failure_count: node.failures,
        last_error: owned(&node.last_error),
        latency_ms: node
            .latency
            .map(|latency| latency.as_micros() as f64 / 1000.0),
        replication_lag_bytes: node.lag_bytes,
        sessions: sessions(&node.name, metrics),
        enabled: node.enabled,
        evidence: node.words.to_string(),
    }
}

/// `%5B::1%5D:5432`, as careful clients write an IPv6 address. What is no escape stays as it is.
pub(super) fn percent_decoded(path: &str) -> String {
    let bytes = path.as_bytes();
    let mut decoded = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let escape = bytes[at..]
            .first_chunk()
            .and_then(|[percent, high, low]| (*percent == b'%').then_some((*high, *low)))
            .and_then(|(high, low)| Some(hex(high)? << 4 | hex(low)?));
        decoded.push(escape.unwrap_or(bytes[at]));
        at += if escape.is_some() { 3 } else { 1 };
    }
    String::from_utf8_lossy(&decoded).into_owned()
}

fn hex(digit: u8) -> Option<u8> {
    let value = char::from(digit).to_digit(16)?;
    u8::try_from(value).ok()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::admin::testing::Scene;

    fn told(scene: &Scene, rest: &str) -> (StatusCode, Value) {
        let reply = one(&Ask {
            rest,
            ..scene.ask()
        });
        (reply.status, serde_json::from_str(&reply.body).unwrap())
    }

    #[test]
    fn a_node_is_told_with_its_sessions_and_its_lag() {
        let scene = Scene::leading();

        assert_eq!(
            told(&scene, "10.0.0.11:5432"),
            (
                StatusCode::OK,
                json!({
                    "address": "10.0.0.11:5432",
                    "name": "pg1",
                    "role": "primary",
                    "state": "running",
                    "timeline": 5,
                    "healthy": true,
                    "leader": true,
                    "last_check": "2023-11-14T22:13:20.000Z",
                    "failure_count": 0,
                    "last_error": null,
                    "latency_ms": 2.5,
                    "replication_lag_bytes": null,
                    "sessions": 12,
                    "enabled": true,
                    "evidence": "200 running primary 5",
                })
            )
        );
        let (_, replica) = told(&scene, "pg2");
        assert_eq!(replica["replication_lag_bytes"], 4096);
        assert_eq!(replica["sessions"], 0);
    }

    #[test]
    fn a_silent_node_keeps_every_key_with_null_for_what_is_unknown() {
        let (_, told) = told(&Scene::leading(), "pg3");

        assert_eq!(told["healthy"], false);
        assert_eq!(told["failure_count"], 5);
        assert_eq!(told["last_error"], "pg3: connection refused");
        for unknown in ["role", "state", "timeline", "latency_ms"] {
            assert_eq!(told.get(unknown), Some(&Value::Null), "{unknown}");
        }
    }

    #[test]
    fn all_nodes_come_in_the_order_of_the_configuration() {
        let reply = all(&Scene::leading().ask());
        let nodes: Vec<Node> = serde_json::from_str(&reply.body).unwrap();
        let names: Vec<_> = nodes.iter().map(|node| node.name.as_str()).collect();
        assert_eq!(names, ["pg1", "pg2", "pg3"]);
    }

    #[test]
    fn an_ipv6_node_is_found_with_and_without_escapes() {
        let scene = Scene::leading();
        assert_eq!(told(&scene, "[fd00::13]:5432").0, StatusCode::OK);
        assert_eq!(told(&scene, "%5Bfd00::13%5d:5432").0, StatusCode::OK);

        assert_eq!(told(&scene, "[FD00:0::13]:5432").0, StatusCode::OK);

        let (status, words) = told(&scene, "10.9.9.9:5432");
        assert_eq!(status, StatusCode::NOT_FOUND);
        assert_eq!(words, json!({ "error": "there is no node 10.9.9.9:5432" }));
    }

    #[test]
    fn what_is_one_nodes_address_and_anothers_name_means_neither() {
        let mut scene = Scene::leading();
        let mut nodes = scene.picture.nodes.to_vec();
        nodes[1].name = "10.0.0.11:5432".into();
        scene.picture.nodes = nodes.into();

        assert_eq!(told(&scene, "10.0.0.11:5432").0, StatusCode::CONFLICT);
        assert_eq!(told(&scene, "10.0.0.12:5432").0, StatusCode::OK);
        assert_eq!(told(&scene, "pg1").0, StatusCode::OK);
    }

    #[test]
    fn what_is_no_escape_stays() {
        assert_eq!(percent_decoded("%"), "%");
        assert_eq!(percent_decoded("%4"), "%4");
        assert_eq!(percent_decoded("%zz%+4%41"), "%zz%+4A");
    }
}
