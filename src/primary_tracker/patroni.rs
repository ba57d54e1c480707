//! The public provider that asks Patroni.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::broadcast;
use uuid::Uuid;

use super::lookout::{AtFirstUse, Lookout};
use super::{Orders, ProviderError, TrackerSettings};
use crate::net::bare;
use crate::topology::{
    HealthSettings, NodeRole, NodeSettings, ObservingProvider, Provider, Rest, RestSettings,
    RestUrl, Sighting, Sources, TopologyEvent, TopologyNodeInfo, TopologyProvider, ViewSettings,
};

const POLL_INTERVAL: Duration = Duration::from_secs(2);
const REQUEST_TIMEOUT: Duration = Duration::from_secs(2);

/// One member of a Patroni cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PatroniNode {
    /// Its id is the version-5 UUID of this name: see [`NODE_NAMESPACE`](super::NODE_NAMESPACE).
    pub name: String,
    /// A host name or an IP address, of PostgreSQL and of the REST API.
    pub host: String,
    /// PostgreSQL's port, usually 5432.
    pub port: u16,
    /// Patroni's port, usually 8008.
    pub rest_port: u16,
}

/// Asks for the cluster's own view, `GET /cluster`, and then confirms: the member that it names is pending until its own
/// `GET /primary` says that it leads. What a leader says of its lock may end its lease earlier than silence would.
///
/// ```no_run
/// use std::sync::Arc;
/// use heliosdb_proxy::primary_tracker::{PatroniNode, PatroniTopologyProvider, PrimaryTracker};
///
/// let member = |name: &str, host: &str| PatroniNode {
///     name: name.to_owned(),
///     host: host.to_owned(),
///     port: 5432,
///     rest_port: 8008,
/// };
/// let provider = PatroniTopologyProvider::new(vec![member("pg1", "10.0.0.11"), member("pg2", "10.0.0.12")]);
/// let tracker = PrimaryTracker::with_observing_provider(Arc::new(provider));
/// ```
///
/// It starts, ends and names a leader that falls silent as `PostgresTopologyProvider` does: at its first use, when it is
/// dropped, and until its next answer is overdue. Needs no feature of the crate.
#[derive(Debug)]
pub struct PatroniTopologyProvider {
    nodes: Vec<PatroniNode>,
    poll_interval: Duration,
    request_timeout: Duration,
    /// Empty: every member's own REST API.
    endpoints: Vec<String>,
    lookout: AtFirstUse,
}

impl PatroniTopologyProvider {
    /// Asks nobody yet.
    #[must_use]
    pub fn new(nodes: Vec<PatroniNode>) -> Self {
        Self {
            nodes,
            poll_interval: POLL_INTERVAL,
            request_timeout: REQUEST_TIMEOUT,
            endpoints: Vec::new(),
            lookout: AtFirstUse::default(),
        }
    }

    /// Where views are asked for, `http://HOST:PORT` each, in this order: the first that is of use counts. Default: every
    /// member's own REST API.
    #[must_use]
    pub fn with_endpoints(mut self, urls: Vec<String>) -> Self {
        self.endpoints = urls;
        self
    }

    /// How often each member is asked while the leader is known. Default: 2 s.
    #[must_use]
    pub fn with_poll_interval(mut self, interval: Duration) -> Self {
        self.poll_interval = interval.max(Duration::from_millis(1));
        self
    }

    /// The whole of one question. Default: 2 s.
    #[must_use]
    pub fn with_request_timeout(mut self, timeout: Duration) -> Self {
        self.request_timeout = timeout.max(Duration::from_millis(1));
        self
    }

    /// Starts to ask, unless it does already. Without this the first use does it.
    ///
    /// # Errors
    /// See [`ProviderError`]; nothing was started then.
    pub fn start(&self) -> Result<(), ProviderError> {
        self.lookout.start(|| self.begin())
    }

    /// Ends when each member was asked once and has answered or was given up, at most two seconds after the start: from
    /// then on "nobody leads" is what the members say.
    pub async fn first_round(&self) {
        self.lookout().first_round().await;
    }

    fn lookout(&self) -> &Lookout {
        self.lookout.get(|| self.begin())
    }

    fn begin(&self) -> Result<Lookout, ProviderError> {
        let nodes: Vec<_> = self.nodes.iter().map(settings).collect();
        for (i, node) in nodes.iter().enumerate() {
            if nodes[..i].iter().any(|other| other.name == node.name) {
                let name = node.name.to_string();
                return Err(ProviderError::SameName { name });
            }
        }
        if nodes.is_empty() {
            return Err(ProviderError::NoNodes);
        }
        let views = self.views(&nodes)?;
        let rest = Arc::new(Rest::open(RestSettings::default())?);
        let health = HealthSettings {
            check_interval: self.poll_interval,
            check_timeout: self.request_timeout,
            ..HealthSettings::default()
        };
        let orders = move || Orders {
            nodes,
            health,
            source: Arc::new(Sources::Patroni(views)),
            rest,
            tracker: TrackerSettings {
                provider: Provider::Patroni,
                ..TrackerSettings::default()
            },
        };
        let news = self.poll_interval + self.request_timeout;
        Ok(Lookout::start(orders, HashMap::new(), news)?)
    }

    fn views(&self, nodes: &[NodeSettings]) -> Result<ViewSettings, ProviderError> {
        let url = |text: &String| {
            let url = RestUrl::parse(text).filter(|url| !url.https);
            // What has a login is not shown.
            let shown = if text.contains('@') { "…" } else { text };
            url.ok_or_else(|| ProviderError::Endpoint {
                found: shown.to_owned(),
            })
        };
        let given: Vec<_> = self.endpoints.iter().map(url).collect::<Result<_, _>>()?;
        Ok(ViewSettings {
            endpoints: if given.is_empty() {
                ViewSettings::endpoints_of(nodes, false)
            } else {
                given
            },
            timeout: self.request_timeout,
            interval: self.poll_interval,
            discover: false,
        })
    }
}

impl TopologyProvider for PatroniTopologyProvider {
    fn subscribe(&self) -> broadcast::Receiver<TopologyEvent> {
        self.lookout().subscribe()
    }

    fn get_primary(&self) -> Option<TopologyNodeInfo> {
        self.lookout().get_primary()
    }

    fn get_node(&self, id: Uuid) -> Option<TopologyNodeInfo> {
        self.lookout().get_node(id)
    }
}

impl ObservingProvider for PatroniTopologyProvider {
    fn sighting(&self) -> Option<Sighting> {
        self.lookout().sighting()
    }
}

fn settings(node: &PatroniNode) -> NodeSettings {
    NodeSettings {
        name: node.name.as_str().into(),
        host: bare(&node.host).into(),
        port: node.port,
        rest_host: None,
        rest_port: node.rest_port,
        role: NodeRole::Auto,
        enabled: true,
        weight: 100,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_start_says_so_and_shows_no_password() {
        let node = |name: &str| PatroniNode {
            name: name.to_owned(),
            host: "10.0.0.11".to_owned(),
            port: 5432,
            rest_port: 8008,
        };
        let words = |provider: PatroniTopologyProvider| provider.start().unwrap_err().to_string();

        let none = PatroniTopologyProvider::new(Vec::new());
        assert_eq!(words(none), "no nodes are given; allowed is at least one");
        let twice = PatroniTopologyProvider::new(vec![node("pg1"), node("pg1")]);
        assert!(words(twice).starts_with("two nodes have the name pg1"));
        for (url, shown) in [("pg1:8008", "pg1:8008"), ("http://u:hush@pg1:8008", "…")] {
            let provider = PatroniTopologyProvider::new(vec![node("pg1")]);
            let said = words(provider.with_endpoints(vec![url.to_owned()]));
            assert!(said.starts_with(&format!("endpoint \"{shown}\"")), "{said}");
        }
    }
}
