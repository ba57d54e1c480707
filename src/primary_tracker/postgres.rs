//! The public provider that asks each node's PostgreSQL: which of them is not in recovery, and on which timeline.

use std::collections::HashMap;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::broadcast;
use uuid::Uuid;

use super::lookout::{AtFirstUse, Lookout};
pub use super::provider_error::ProviderError;
use super::{Orders, TrackerSettings};
use crate::backend::{Login, LoginSettings, TlsMode};
use crate::net::{FileError, NamedFile, TlsFiles, bare};
use crate::topology::{
    HealthSettings, NodeRole, NodeSettings, ObservingProvider, Provider, Rest, RestSettings,
    Sighting, Sources, TopologyEvent, TopologyNodeInfo, TopologyProvider,
};

const POLL_INTERVAL: Duration = Duration::from_secs(2);
/// A question is given up after this, however seldom is asked.
const LONGEST_QUESTION: Duration = Duration::from_secs(5);

/// One PostgreSQL server, and how to log in there.
#[derive(Clone)]
pub struct PostgresNode {
    /// What events and trackers call it.
    pub node_id: Uuid,
    /// A host name or an IP address.
    pub host: String,
    /// Usually 5432.
    pub port: u16,
    /// Needs no privilege beyond `LOGIN`.
    pub user: String,
    /// `None` sends none.
    pub password: Option<String>,
    /// Any that the user may connect to.
    pub database: String,
}

/// Asks every node `SELECT pg_is_in_recovery()`; of several that are not in recovery, the strictly highest timeline leads.
///
/// ```
/// # let nodes = Vec::new();
/// use heliosdb_proxy::primary_tracker::{PostgresNode, PostgresTopologyProvider};
/// use std::time::Duration;
///
/// let provider = PostgresTopologyProvider::new(nodes)   // Vec<PostgresNode>
///     .with_poll_interval(Duration::from_secs(1))       // default is 2s
///     .with_tls_mode(heliosdb_proxy::backend::TlsMode::Prefer);
/// # let _: Vec<PostgresNode> = Vec::new();
/// # let _ = heliosdb_proxy::primary_tracker::PrimaryTracker::with_observing_provider(std::sync::Arc::new(provider));
/// ```
///
/// **It starts by itself**, at the first call of any method of its two traits, on a thread of its own, so that no busy
/// runtime makes its answers old; [`Self::start`] does it earlier and says what is wrong. It ends when it is dropped. One
/// that cannot start, or whose thread dies, ends its events: a tracker that runs on it says
/// [`ProviderGone`](super::TrackerStatus::ProviderGone).
///
/// Nodes are asked in parallel, each with its own deadline: the poll interval, at most 5 s. While nobody is known to lead
/// they are asked faster. Through [`PrimaryTracker::with_provider`](super::PrimaryTracker::with_provider) a leader that
/// falls silent is named until its next answer is overdue (a poll interval and a question's time), and the tracker's lease
/// counts from there;
/// [`with_observing_provider`](super::PrimaryTracker::with_observing_provider) counts from the last question that it
/// answered.
pub struct PostgresTopologyProvider {
    nodes: Vec<PostgresNode>,
    poll_interval: Duration,
    tls_mode: TlsMode,
    ca_file: Option<PathBuf>,
    lookout: AtFirstUse,
}

impl PostgresTopologyProvider {
    /// Asks nobody yet.
    #[must_use]
    pub fn new(nodes: Vec<PostgresNode>) -> Self {
        Self {
            nodes,
            poll_interval: POLL_INTERVAL,
            tls_mode: TlsMode::Prefer,
            ca_file: None,
            lookout: AtFirstUse::default(),
        }
    }

    /// How often each node is asked while the leader is known. Default: 2 s.
    #[must_use]
    pub fn with_poll_interval(mut self, interval: Duration) -> Self {
        self.poll_interval = interval.max(Duration::from_millis(1));
        self
    }

    /// How connections are secured. Default: [`TlsMode::Prefer`], which does not verify.
    #[must_use]
    pub fn with_tls_mode(mut self, mode: TlsMode) -> Self {
        self.tls_mode = mode;
        self
    }

    /// Whom [`TlsMode::VerifyCa`] and [`TlsMode::VerifyFull`] trust. Default: Mozilla's roots.
    #[must_use]
    pub fn with_ca_file(mut self, pem: impl Into<PathBuf>) -> Self {
        self.ca_file = Some(pem.into());
        self
    }

    /// Starts to ask, unless it does already. Without this the first use does it.
    ///
    /// # Errors
    /// See [`ProviderError`]; nothing was started then.
    pub fn start(&self) -> Result<(), ProviderError> {
        self.lookout.start(|| self.begin())
    }

    /// Ends when each node was asked once and has answered or was given up, at most two seconds after the start: from
    /// then on "nobody leads" is what the nodes say.
    pub async fn first_round(&self) {
        self.lookout().first_round().await;
    }

    fn lookout(&self) -> &Lookout {
        self.lookout.get(|| self.begin())
    }

    fn begin(&self) -> Result<Lookout, ProviderError> {
        let (mut nodes, mut logins, mut ids) = (Vec::new(), HashMap::new(), HashMap::new());
        for node in &self.nodes {
            let settings = settings(node);
            let name = Arc::clone(&settings.name);
            let login = self.login(node)?;
            if ids.insert(Arc::clone(&name), node.node_id).is_some() {
                let address = name.to_string();
                return Err(ProviderError::SameAddress { address });
            }
            logins.insert(name, Arc::new(login));
            nodes.push(settings);
        }
        let login = logins.values().next().map(Arc::clone);
        let login = login.ok_or(ProviderError::NoNodes)?;
        let rest = Rest::open(RestSettings::default())?;
        let poll_interval = self.poll_interval;
        let orders = move || Orders {
            nodes,
            health: HealthSettings {
                check_interval: poll_interval,
                check_timeout: poll_interval.min(LONGEST_QUESTION),
                ..HealthSettings::default()
            },
            source: Arc::new(Sources::Postgres {
                login,
                own: logins,
                poll_interval,
            }),
            rest: Arc::new(rest),
            tracker: TrackerSettings {
                provider: Provider::Postgres,
                ..TrackerSettings::default()
            },
        };
        let news = poll_interval + poll_interval.min(LONGEST_QUESTION);
        Ok(Lookout::start(orders, ids, news)?)
    }

    fn login(&self, node: &PostgresNode) -> Result<Login, FileError> {
        let ca = self.ca_file.clone();
        let settings = LoginSettings {
            user: node.user.as_str().into(),
            password: None,
            database: node.database.as_str().into(),
            tls: self.tls_mode,
            files: TlsFiles {
                ca: ca.map(|path| NamedFile {
                    key: "with_ca_file",
                    path,
                }),
                own: None,
            },
        };
        match &node.password {
            Some(password) => Login::with_password(settings, password),
            None => Login::open(settings),
        }
    }
}

impl TopologyProvider for PostgresTopologyProvider {
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

impl ObservingProvider for PostgresTopologyProvider {
    fn sighting(&self) -> Option<Sighting> {
        self.lookout().sighting()
    }
}

/// Without the password.
impl fmt::Debug for PostgresNode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PostgresNode")
            .field("node_id", &self.node_id)
            .field("host", &self.host)
            .field("port", &self.port)
            .field("user", &self.user)
            .field("database", &self.database)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for PostgresTopologyProvider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PostgresTopologyProvider")
            .field("nodes", &self.nodes)
            .field("poll_interval", &self.poll_interval)
            .field("tls_mode", &self.tls_mode)
            .finish_non_exhaustive()
    }
}

/// In logs a node is called by its address.
fn settings(node: &PostgresNode) -> NodeSettings {
    let mut settings = NodeSettings {
        name: Arc::from(""),
        host: bare(&node.host).into(),
        port: node.port,
        rest_host: None,
        rest_port: 0,
        role: NodeRole::Auto,
        enabled: true,
        weight: 100,
    };
    settings.name = settings.address().into();
    settings
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(host: &str) -> PostgresNode {
        PostgresNode {
            node_id: Uuid::from_u128(1),
            host: host.to_owned(),
            port: 5432,
            user: "probe".to_owned(),
            password: Some("hush".to_owned()),
            database: "postgres".to_owned(),
        }
    }

    #[test]
    fn no_password_is_shown() {
        let provider = PostgresTopologyProvider::new(vec![node("10.0.0.11")]);

        assert!(!format!("{provider:?}").contains("hush"));
    }

    #[test]
    fn what_cannot_start_says_so_and_has_no_events() {
        let twice = PostgresTopologyProvider::new(vec![node("pg1"), node("pg1")]);
        let words = "two nodes have the address pg1:5432; allowed is each address once";
        assert_eq!(twice.start().unwrap_err().to_string(), words);
        let events = twice.subscribe().try_recv();
        assert_eq!(events, Err(broadcast::error::TryRecvError::Closed));

        let no_file = PostgresTopologyProvider::new(vec![node("pg1")])
            .with_tls_mode(TlsMode::VerifyFull)
            .with_ca_file("/no/such/file.pem");
        let error = no_file.start().unwrap_err();
        let source = std::error::Error::source(&error).unwrap().to_string();
        assert!(
            source.starts_with("with_ca_file = \"/no/such/file.pem\""),
            "{source}"
        );
    }
}
