//! How a node is asked: the one door for everything that can prove who leads.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use super::answer::Answer;
use super::declared::{Declared, StaticSettings};
use super::kept::Keeper;
use super::probe::{Probe, ProbeSettings};
use super::question::{Question, ask};
use super::rest::Rest;
use super::{HealthSettings, NoAnswer, NodeSettings, Place, Silence, ViewSettings};
use crate::backend::Login;
use crate::clock::Clock;
use crate::net::FileError;

/// Asks a node what it is.
///
/// Whoever asks decides nothing: an answer is told as [`Answer`], whose status, role and state `judge` weighs in the
/// words of Patroni (200 claims, 503 follows). When the question was sent is the poller's to note, before it asks.
pub(crate) trait Observe {
    /// Asks once, at `place` and within its limit. Dropped half-way, it leaves nothing behind.
    fn observe(&self, place: Place) -> impl Future<Output = Result<Told, NoAnswer>> + Send;
}

/// What came back from a node, whatever it is worth.
#[derive(Debug)]
pub(crate) struct Told {
    /// Who answered; the port does not count.
    pub(crate) from: SocketAddr,
    /// The node's own time, connecting left out: the brake is measured by it.
    pub(crate) own_time: Duration,
    pub(crate) said: Result<Answer, Silence>,
}

/// Where the topology comes from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Provider {
    /// Each node's own Patroni.
    #[default]
    Check,
    /// The same, and the cluster's view of itself.
    Patroni,
    /// Each node's own PostgreSQL.
    Postgres,
    /// The configuration; nodes only show that they are well.
    Static,
    /// Somebody outside; nodes only show that they are well.
    Manual,
}

impl Provider {
    /// Then there are a lock with a ttl, and the cluster's dynamic configuration.
    pub(crate) fn is_patroni(self) -> bool {
        match self {
            Self::Check | Self::Patroni => true,
            Self::Postgres | Self::Static | Self::Manual => false,
        }
    }

    /// Do nodes prove that they lead, or does somebody only say so?
    pub(crate) fn is_authoritative(self) -> bool {
        match self {
            Self::Check | Self::Patroni | Self::Postgres | Self::Manual => true,
            Self::Static => false,
        }
    }
}

/// How all nodes are asked, by configuration.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum SourceSettings {
    /// `GET /primary` of each node's own Patroni.
    #[default]
    Check,
    Patroni(ViewSettings),
    Postgres(ProbeSettings),
    Static(StaticSettings),
    /// Each node is connected to so often.
    Manual(Duration),
}

impl SourceSettings {
    pub(crate) fn provider(&self) -> Provider {
        match self {
            Self::Check => Provider::Check,
            Self::Patroni(_) => Provider::Patroni,
            Self::Postgres(_) => Provider::Postgres,
            Self::Static(_) => Provider::Static,
            Self::Manual(_) => Provider::Manual,
        }
    }
}

/// The settings with their files read: one for all nodes.
#[derive(Debug)]
pub(crate) enum Sources {
    Check,
    Patroni(ViewSettings),
    Postgres {
        login: Arc<Login>,
        /// Nodes, by name, that have a login of their own.
        own: HashMap<Arc<str>, Arc<Login>>,
        poll_interval: Duration,
    },
    Static {
        check: Option<(Arc<Login>, Arc<str>)>,
        check_interval: Duration,
    },
}

impl Sources {
    /// Reads the files.
    ///
    /// # Errors
    /// [`FileError`], when one of them cannot be used.
    pub(crate) fn open(settings: SourceSettings) -> Result<Self, FileError> {
        let open = |login| Login::open(login).map(Arc::new);
        Ok(match settings {
            SourceSettings::Check => Self::Check,
            SourceSettings::Patroni(views) => Self::Patroni(views),
            SourceSettings::Postgres(probe) => Self::Postgres {
                login: open(probe.login)?,
                own: HashMap::new(),
                poll_interval: probe.poll_interval,
            },
            SourceSettings::Static(declared) => Self::Static {
                check: match declared.query {
                    Some((login, query)) => Some((open(login)?, query)),
                    None => None,
                },
                check_interval: declared.check_interval,
            },
            SourceSettings::Manual(check_interval) => Self::Static {
                check: None,
                check_interval,
            },
        })
    }

    /// Where the cluster's views are asked for; `None` = nowhere.
    pub(crate) fn views(&self) -> Option<&ViewSettings> {
        match self {
            Self::Patroni(views) => Some(views),
            Self::Check | Self::Postgres { .. } | Self::Static { .. } => None,
        }
    }

    /// At rest each node is asked so often.
    pub(super) fn at_rest(&self, health: &HealthSettings) -> Duration {
        match self {
            Self::Check | Self::Patroni(_) | Self::Static { .. } => health.check_interval,
            Self::Postgres { poll_interval, .. } => *poll_interval,
        }
    }

    /// Where a node's answers come from: host and port.
    pub(super) fn asks<'n>(&self, node: &'n NodeSettings) -> (&'n Arc<str>, u16) {
        match self {
            Self::Check | Self::Patroni(_) => (
                node.rest_host.as_ref().unwrap_or(&node.host),
                node.rest_port,
            ),
            Self::Postgres { .. } | Self::Static { .. } => (&node.host, node.port),
        }
    }
}

/// How one node is asked.
#[derive(Clone, Debug)]
pub(crate) enum Source {
    Check(Check),
    Postgres(Probe),
    Static(Declared),
}

impl Source {
    pub(crate) fn new(
        sources: &Sources,
        rest: &Arc<Rest>,
        node: &NodeSettings,
        clock: Clock,
    ) -> Self {
        match sources {
            Sources::Check | Sources::Patroni(_) => Self::Check(Check {
                rest: Arc::clone(rest),
                clock,
            }),
            Sources::Postgres {
                login,
                own,
                poll_interval,
            } => {
                let login = own.get(&node.name).unwrap_or(login);
                Self::Postgres(Probe::new(Keeper::new(clock, login, *poll_interval)))
            }
            Sources::Static {
                check,
                check_interval,
            } => {
                let keeper = |login| Keeper::new(clock, login, *check_interval);
                let check = check.as_ref();
                let check = check.map(|(login, query)| (keeper(login), Arc::clone(query)));
                Self::Static(Declared::new(node.role, check, *check_interval))
            }
        }
    }
}

impl Source {
    /// Has the node a Patroni that can be asked for its view of the cluster?
    pub(super) fn has_views(&self) -> bool {
        match self {
            Self::Check(_) => true,
            Self::Postgres(_) | Self::Static(_) => false,
        }
    }
}

impl Observe for Source {
    async fn observe(&self, place: Place) -> Result<Told, NoAnswer> {
        match self {
            Self::Check(check) => check.observe(place).await,
            Self::Postgres(probe) => probe.observe(place).await,
            Self::Static(declared) => declared.observe(place).await,
        }
    }
}

/// Asks a node's Patroni.
#[derive(Clone, Debug)]
pub(crate) struct Check {
    rest: Arc<Rest>,
    clock: Clock,
}

impl Observe for Check {
    async fn observe(&self, place: Place) -> Result<Told, NoAnswer> {
        let path = "/primary";
        let rest = Arc::clone(&self.rest);
        let reply = ask(Question { place, rest, path }, self.clock).await?;
        let status = reply.status;
        Ok(Told {
            from: reply.from,
            own_time: reply.own_time,
            said: Answer::read(status, reply.date.as_deref(), &reply.body)
                .ok_or(Silence::NotPatroni { status }),
        })
    }
}
