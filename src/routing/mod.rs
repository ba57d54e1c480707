//! Where a client goes, and the line in which it waits.

mod settings;

pub(crate) use settings::{Route, RoutingSettings};
