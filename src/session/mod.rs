//! One client's stay: greet → route → dial → prologue → relay → goodbye.
//!
//! A session runs on the worker that accepted it. Everything up to the server's first words is one large future
//! ([`stay`]); what follows for hours is a small one ([`relay`]).

mod adopt;
mod attempt;
mod cancel;
mod census;
mod client;
mod dial;
mod ear;
mod errand;
mod error;
mod forward;
mod goodbye;
mod hearing;
mod leave;
mod limits;
mod listener;
mod pack;
mod parcel;
mod prologue;
mod registry;
mod relay;
mod settings;
mod shared;
mod stay;
mod stream;
mod sweep;
mod tally;
#[cfg(test)]
mod tests;
mod worker;

pub(crate) use adopt::Adoption;
pub(crate) use census::Census;
pub(crate) use errand::{Cancel, Errand};
pub(crate) use pack::{Packed, Verdict};
pub(crate) use parcel::Parcel;
pub(crate) use settings::{ListenerSettings, SessionSettings};
pub(crate) use shared::Shared;
pub(crate) use worker::{Command, run};
