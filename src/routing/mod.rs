//! Where a client goes, and the line in which it waits.

mod choice;
mod decide;
mod door;
mod error;
mod fresh;
mod line;
mod moved;
mod outlook;
mod policy;
mod pool;
mod router;
mod settings;
#[cfg(test)]
pub(crate) mod testing;
mod ticket;

pub(crate) use decide::Target;
pub(crate) use door::{Inside, Slot};
pub(crate) use error::RouteError;
pub(crate) use fresh::News;
pub(crate) use moved::{NotHere, Placed, Waited};
pub(crate) use outlook::outlook;
pub(crate) use router::{Routed, Router};
pub(crate) use settings::{
    Fallback, Intent, OnPromotion, Policy, ReadSettings, Route, RoutingSettings,
};
pub(crate) use ticket::Ticket;

/// What a session holds of the tracker's: the mark that it is open, and what ends it.
pub(crate) use crate::primary_tracker::{OpenGuard, Revocation};
