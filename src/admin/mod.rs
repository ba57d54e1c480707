//! The operator's window: facts as JSON, as metrics and as words.
//!
//! One file per family of endpoints, each a pure function from facts and a `now` to a reply; `routes` is their
//! table, `server` the only file with sockets, `status` the other end of them.

mod access;
mod health;
mod metrics;
mod nodes;
mod reasons;
mod rfc3339;
mod routes;
mod server;
mod status;
mod table;
#[cfg(test)]
mod testing;
mod topology;
mod version;
mod why;

use std::sync::Arc;

use tokio::sync::watch;

use crate::clock::{BootTime, Clock};
use crate::metrics::Metrics;
use crate::primary_tracker::{Demand, Operator, Picture};

pub(crate) use server::serve;
pub(crate) use status::{Wanted, run as status};

/// Everything there is to see of a house.
#[derive(Clone)]
pub(crate) struct Facts {
    pub(crate) picture: watch::Receiver<Picture>,
    pub(crate) metrics: Arc<Metrics>,
    /// Who waits: the only place that knows how many are held right now.
    pub(crate) demand: Arc<Demand>,
    /// Tells the tracker what an operator wants.
    pub(crate) operator: Operator,
    pub(crate) clock: Clock,
    pub(crate) started: BootTime,
}
