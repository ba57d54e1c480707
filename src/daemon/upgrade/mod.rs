//! A new binary takes over from the one that runs: its sockets, its lease, and its sessions.
//!
//! The old process starts the new one and tells it everything; the new one begins to accept only once it is ready, and
//! the old one stops only once the new one accepts. Whatever fails before that changes nothing.

mod elder;
mod error;
mod link;
mod message;
mod port;
mod program;
mod successor;

pub(super) use elder::Elder;
pub(super) use error::{Broken, NotHandedOver};
pub(super) use message::Handovers;
pub(super) use program::Program;
pub(super) use successor::{Ready, Successor};
