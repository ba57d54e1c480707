//! Deciding who may be written to and until when: lease, epoch, conflict.

mod claims;
mod decider;
mod demand;
mod draw;
mod gap;
mod hearing;
mod info;
mod lease;
mod notes;
mod numbers;
mod order;
mod orders;
mod picture;
mod pins;
mod record;
mod reign;
mod reload;
mod rhythm;
mod run;
mod settings;
#[cfg(test)]
mod tests;
mod verdict;
mod wishes;

pub(crate) use demand::{Demand, HeldGuard, OpenGuard, Wish};
pub(crate) use gap::LeaderChange;
pub use info::{PrimaryInfo, PrimaryWatch};
pub(crate) use lease::{Leader, Lease, Revocation};
pub(crate) use order::{Fault, Operator, Order, Refused, Told};
pub(crate) use picture::{NodePicture, Picture, WhyNobody};
pub use record::NODE_NAMESPACE;
pub(crate) use reload::{Orders, Reordered};
pub(crate) use run::{Progress, Tracker};
pub(crate) use settings::{OnLeaseExpired, TrackerSettings};
#[cfg(test)]
pub(crate) use verdict::Rule;
pub(crate) use verdict::Verdict;
