//! `[topology]` of the provider `patroni`: where the cluster's own view is asked for.

use std::collections::BTreeSet;

use super::error::Problem;
use super::file::{File, Scheme};
use crate::topology::{NodeSettings, RestUrl, ViewSettings};

/// Where nobody names the endpoints, they are the nodes' own.
pub(super) fn build(
    file: &File,
    nodes: &[NodeSettings],
    left: &BTreeSet<String>,
) -> Result<ViewSettings, Problem> {
    let topology = &file.topology;
    let mut endpoints = Vec::new();
    for (i, text) in topology.patroni_endpoints.0.iter().enumerate() {
        let key = format!("topology.patroni_endpoints[{i}]");
        if left.contains(&key) {
            continue;
        }
        let url = endpoint(&key, text, file, left)?;
        if let Some(other) = endpoints.iter().position(|other| *other == url) {
            let words = format!("it is the same as [{other}]; allowed is each URL once");
            return Err(Problem::value(key, text, words));
        }
        endpoints.push(url);
    }
    if topology.patroni_endpoints.0.is_empty() {
        endpoints = ViewSettings::endpoints_of(nodes, file.rest.scheme.0 == Scheme::Https);
    }
    Ok(ViewSettings {
        endpoints,
        timeout: topology.patroni_request_timeout_ms.0,
        interval: topology.poll_interval_secs.0,
        discover: topology.discover.0,
    })
}

fn endpoint(
    key: &str,
    text: &str,
    file: &File,
    left: &BTreeSet<String>,
) -> Result<RestUrl, Problem> {
    let Some(url) = RestUrl::parse(text) else {
        let words = "allowed is a URL with a port and without a login, such as http://10.0.0.11:8008 or https://pg-a:8008 (a login has its own keys in [rest])";
        return Err(Problem::value(key, shown(text), words));
    };
    if url.https != (file.rest.scheme.0 == Scheme::Https) && !left.contains("rest.scheme") {
        let words = "rest.scheme says otherwise; allowed is one scheme for the whole REST API";
        return Err(Problem::value(key, text, words));
    }
    Ok(url)
}

/// What is wrong may hold a password.
pub(super) fn shown(url: &str) -> &str {
    if url.contains('@') { "…" } else { url }
}
