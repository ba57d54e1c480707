//! The operator's window: facts as JSON, as metrics and as words.
//!
//! One file per family of endpoints, each a pure function from facts and a `now` to a reply; `routes` is their
//! table, `server` the only file with sockets, `status` the other end of them.

mod access;
mod changes;
mod events;
mod health;
mod metrics;
mod nodes;
mod page;
mod reasons;
mod rfc3339;
mod routes;
mod server;
mod sessions;
mod settings;
mod status;
mod table;
#[cfg(test)]
mod testing;
mod token;
mod topology;
mod version;
mod why;

use std::sync::Arc;

use serde_json::Value;
use tokio::sync::watch;

use crate::clock::{BootTime, Clock};
use crate::metrics::Metrics;
use crate::primary_tracker::{Demand, Operator, Picture};
use crate::routing::Intent;

pub(crate) use server::serve;
pub(crate) use settings::AdminSettings;
pub(crate) use status::{Wanted, run as status};
pub(crate) use token::{Token, TokenError};

/// What is to see of a configuration.
#[derive(Clone, Debug, Default)]
pub(crate) struct Shown {
    /// As a file would say it, without secrets.
    pub(crate) file: Value,
    pub(crate) ports: Vec<Port>,
}

/// A listener, and what its clients want.
#[derive(Clone, Debug)]
pub(crate) struct Port {
    pub(crate) address: String,
    pub(crate) intent: Intent,
}

/// Everything there is to see of a house.
#[derive(Clone)]
pub(crate) struct Facts {
    pub(crate) picture: watch::Receiver<Picture>,
    pub(crate) metrics: Arc<Metrics>,
    /// Who waits: the only place that knows how many are held right now.
    pub(crate) demand: Arc<Demand>,
    /// Tells the tracker what an operator wants.
    pub(crate) operator: Operator,
    /// Who may do what, as of the last reload.
    pub(crate) settings: watch::Receiver<AdminSettings>,
    /// The configuration in effect, to be shown.
    pub(crate) config: watch::Receiver<Arc<Shown>>,
    pub(crate) clock: Clock,
    pub(crate) started: BootTime,
}
