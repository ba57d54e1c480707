//! Deciding who may be written to and until when: lease, epoch, conflict.
//!
//! For those outside of the house: a [`TopologyProvider`] says who leads, a [`PrimaryTracker`] makes of it a lease, an
//! epoch and one event for each transition.

mod authority;
mod by_hand;
mod claims;
mod decider;
mod demand;
mod discovered;
mod draw;
mod following;
mod gap;
mod hearing;
mod heir;
mod info;
mod inherit;
mod lag;
mod lease;
mod looking;
mod lookout;
mod notes;
mod numbers;
mod order;
mod orders;
mod patroni;
mod picture;
mod pins;
#[cfg(feature = "postgres-topology")]
mod postgres;
#[cfg(not(feature = "postgres-topology"))]
#[path = "without_postgres.rs"]
mod postgres;
mod provider_error;
mod readers;
mod record;
mod reign;
mod reload;
mod rhythm;
mod run;
mod settings;
mod silence;
#[cfg(test)]
mod tests;
mod tracker;
mod verdict;
mod views;
mod wishes;
mod witness;

pub use authority::PrimaryChangeEvent;
pub(crate) use demand::{Demand, HeldGuard, OpenGuard, Wish};
pub(crate) use gap::LeaderChange;
pub(crate) use heir::{Heir, Succession};
pub use info::{PrimaryInfo, PrimaryWatch};
pub(crate) use lease::{Leader, Lease, Revocation};
pub use order::Refused;
pub(crate) use order::{Fault, Operator, Order, Told};
pub use patroni::{PatroniNode, PatroniTopologyProvider};
pub(crate) use picture::{Check, NodePicture, Pending, Picture, Reading, WhyNobody};
pub use postgres::*;
pub(crate) use readers::Readers;
pub use record::NODE_NAMESPACE;
pub(crate) use reload::{Orders, Reordered};
pub(crate) use run::{Ears, Progress, Tracker};
pub(crate) use settings::{OnLeaseExpired, TrackerSettings};
pub use tracker::{NoHealthyNodes, PrimaryTracker, TrackerStatus};
#[cfg(test)]
pub(crate) use verdict::Rule;
pub(crate) use verdict::Verdict;

pub use crate::topology::{
    ObservingProvider, SightedLeader, Sighting, TopologyEvent, TopologyNodeInfo, TopologyProvider,
};
