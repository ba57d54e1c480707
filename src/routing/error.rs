//! Why a client got no server in its time, in words for the person who reads them.

use std::fmt::Write as _;
use std::time::Duration;

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

    #[error("the leader of {scope} could not be reached within {waited}")]
    Unreachable {
        scope: String,
        waited: String,
        /// The last dial's failure.
        detail: String,
    },
}

impl RouteError {
    pub(super) fn no_healthy_nodes(
        picture: &Picture,
        why: WhyNobody,
        limit: Duration,
        now: BootTime,
    ) -> Self {
        let mut detail = format!("{}.", capitalised(why.in_words()));
        for node in picture.nodes.iter() {
            let _ = match node.last_answer {
                Some(at) => write!(
                    detail,
                    " {}: {}, last answered {} ago.",
                    node.name,
                    node.words,
                    age(now.saturating_sub(at))
                ),
                None => write!(detail, " {}: {}, never answered.", node.name, node.words),
            };
        }
        Self::NoHealthyNodes {
            scope: picture.cluster().to_owned(),
            waited: seconds(limit),
            detail,
            why,
        }
    }

    pub(super) fn unreachable(picture: &Picture, detail: String, limit: Duration) -> Self {
        Self::Unreachable {
            scope: picture.cluster().to_owned(),
            waited: seconds(limit),
            detail,
        }
    }

    pub(crate) fn detail(&self) -> &str {
        match self {
            Self::NoHealthyNodes { detail, .. } | Self::Unreachable { detail, .. } => detail,
        }
    }

    pub(crate) fn hint(&self) -> &'static str {
        match self {
            Self::NoHealthyNodes { .. } => {
                "Connections wait for a leader as long as write_timeout_secs says. \
                 `patronictl list` on a node shows what the cluster thinks of itself."
            }
            Self::Unreachable { .. } => {
                "Patroni names this leader, but PostgreSQL does not take the connection. \
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
            Self::NoHealthyNodes { .. } => Refusal::no_leader,
            Self::Unreachable { .. } => Refusal::dial,
        }
    }
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

        let error = RouteError::no_healthy_nodes(&picture, why, limit, now);
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
        let error = RouteError::no_healthy_nodes(&picture, why, limit, now);
        assert_eq!(error.to_string(), "no leader of the cluster after 1.5 s");
        assert!(
            error.detail().ends_with("5, last answered 0.2 s ago."),
            "{error:?}"
        );
    }
}
