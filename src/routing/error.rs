//! Why a client got no server in its time, in words for the person who reads them.

use std::fmt::Write as _;
use std::time::Duration;

use super::decide::NoRoute;
use super::{Intent, pool};
use crate::clock::BootTime;
use crate::metrics::Refusal;
use crate::primary_tracker::{Picture, WhyNobody};

/// A client's time is up. Never the client's fault.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
pub(crate) enum RouteError {
    /// The project's "Topology Providers" names it so, and counts it as `failovers`.
    #[error("no leader of {scope} after {waited}")]
    NoHealthyNodes {
        scope: String,
        waited: String,
        detail: String,
        why: WhyNobody,
    },

    #[error("no replica of {scope} after {waited}")]
    NoReplica {
        scope: String,
        waited: String,
        detail: String,
    },

    #[error("{whom} of {scope} could not be reached within {waited}")]
    Unreachable {
        whom: &'static str,
        scope: String,
        waited: String,
        /// The last dial's failure.
        detail: String,
    },
}

impl RouteError {
    /// `failure` is the client's own last one.
    pub(super) fn new(
        no: NoRoute,
        failure: Option<&str>,
        intent: Intent,
        picture: &Picture,
        limit: Duration,
        now: BootTime,
    ) -> Self {
        let (scope, waited) = (picture.cluster().to_owned(), seconds(limit));
        let nodes = nodes_in_words(intent, picture, now);
        match no {
            NoRoute::NoLeader(why) => Self::NoHealthyNodes {
                scope,
                waited,
                detail: format!("{}.{nodes}", capitalised(why.in_words())),
                why,
            },
            NoRoute::NoReplica => Self::NoReplica {
                scope,
                waited,
                detail: match failure {
                    Some(failure) => format!("The last dial: {failure}.{nodes}"),
                    None => format!("No replica may be read from.{nodes}"),
                },
            },
            NoRoute::NotNow { name, .. } => {
                let detail = failure.map_or_else(
                    || format!("no turn to dial {name} came in time"),
                    str::to_owned,
                );
                Self::unreachable(intent, picture, detail, limit)
            }
        }
    }

    pub(super) fn unreachable(
        intent: Intent,
        picture: &Picture,
        detail: String,
        limit: Duration,
    ) -> Self {
        Self::Unreachable {
            whom: match intent.route.writes() {
                true => "the leader",
                false => "the servers",
            },
            scope: picture.cluster().to_owned(),
            waited: seconds(limit),
            detail,
        }
    }

    pub(crate) fn detail(&self) -> &str {
        match self {
            Self::NoHealthyNodes { detail, .. }
            | Self::NoReplica { detail, .. }
            | Self::Unreachable { detail, .. } => detail,
        }
    }

    pub(crate) fn hint(&self) -> &'static str {
        match self {
            Self::NoHealthyNodes { .. } => {
                "Connections wait for a leader as long as write_timeout_secs says. \
                 `patronictl list` on a node shows what the cluster thinks of itself."
            }
            Self::NoReplica { .. } => {
                "Connections wait for a replica as long as write_timeout_secs says. \
                 fallback = \"leader\" sends them to the leader instead."
            }
            Self::Unreachable { .. } => {
                "Patroni names this server, but PostgreSQL does not take the connection. \
                 Look at PostgreSQL's log there, and at what stands between it and this host."
            }
        }
    }

    /// For the metric.
    pub(crate) fn reason(&self) -> Refusal {
        match self {
            Self::NoHealthyNodes {
                why: WhyNobody::Disabled,
                ..
            } => Refusal::disabled,
            Self::NoHealthyNodes { .. } | Self::NoReplica { .. } => Refusal::no_leader,
            Self::Unreachable { .. } => Refusal::dial,
        }
    }
}

/// What is known of each node; for a reader also why it is not read from.
fn nodes_in_words(intent: Intent, picture: &Picture, now: BootTime) -> String {
    let mut words = String::new();
    for node in picture.nodes.iter() {
        let _ = match node.last_answer {
            Some(at) => write!(
                words,
                " {}: {}, last answered {} ago",
                node.name,
                node.words,
                age(now.saturating_sub(at))
            ),
            None => write!(words, " {}: {}, never answered", node.name, node.words),
        };
        if !intent.route.writes()
            && let Err(out) = pool::member(&intent, picture, node, now)
        {
            let _ = write!(words, " ({})", out.in_words());
        }
        words.push('.');
    }
    words
}

/// `45 s`, `1.5 s`.
fn seconds(d: Duration) -> String {
    format!("{} s", d.as_secs_f64())
}

/// `0.1 s`, `12.0 s`.
fn age(d: Duration) -> String {
    format!("{:.1} s", d.as_secs_f64())
}

fn capitalised(words: &str) -> String {
    let mut letters = words.chars();
    match letters.next() {
        Some(first) => first.to_uppercase().chain(letters).collect(),
        None => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::routing::testing::nobody;

    #[test]
    fn the_words_name_the_cluster_the_wait_and_each_node() {
        let mut picture = nobody();
        let now = BootTime::ZERO + Duration::from_secs(100);
        let limit = Duration::from_secs(45);
        let why = WhyNobody::NobodyLeads;

        let told = |picture: &Picture, limit| {
            let no = NoRoute::NoLeader(why);
            RouteError::new(no, None, Intent::default(), picture, limit, now)
        };
        let error = told(&picture, limit);
        assert_eq!(error.to_string(), "no leader of main after 45 s");
        assert_eq!(
            error.detail(),
            "No node leads. pg1: 503 running replica 5, never answered."
        );

        picture.scope = None;
        let mut nodes = picture.nodes.to_vec();
        nodes[0].last_answer = Some(now.back(Duration::from_millis(250)));
        picture.nodes = nodes.into();
        let limit = Duration::from_millis(1500);
        let error = told(&picture, limit);
        assert_eq!(error.to_string(), "no leader of the cluster after 1.5 s");
        assert!(
            error.detail().ends_with("5, last answered 0.2 s ago."),
            "{error:?}"
        );
    }

    #[test]
    fn a_reader_is_told_why_each_node_is_not_read_from() {
        let (limit, now) = (Duration::from_secs(1), BootTime::ZERO);
        let intent = Intent {
            route: crate::routing::Route::Replica,
            ..Intent::default()
        };

        let error = RouteError::new(NoRoute::NoReplica, None, intent, &nobody(), limit, now);

        assert_eq!(error.to_string(), "no replica of main after 1 s");
        assert_eq!(
            error.detail(),
            "No replica may be read from. pg1: 503 running replica 5, never answered (down)."
        );
    }
}
