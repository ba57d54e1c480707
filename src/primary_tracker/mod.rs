//! Deciding who may be written to and until when: lease, epoch, conflict.

mod demand;
mod lease;
mod picture;
mod settings;

pub(crate) use demand::{Demand, HeldGuard, OpenGuard, Wish};
pub(crate) use lease::{Leader, Lease, Revocation};
pub(crate) use picture::{NodePicture, Picture, WhyNobody};
pub(crate) use settings::{OnLeaseExpired, TrackerSettings};
