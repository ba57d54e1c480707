//! One client's stay: greet → route → dial → prologue → relay → goodbye.
//!
//! A session runs on the worker that accepted it. Everything up to the server's first words is one large future
//! ([`stay`]); what follows for hours is a small one ([`relay`]).

mod attempt;
mod cancel;
mod client;
mod dial;
mod ear;
mod error;
mod forward;
mod goodbye;
mod limits;
mod listener;
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

pub(crate) use settings::{ListenerSettings, SessionSettings};
pub(crate) use shared::Shared;
pub(crate) use worker::{Command, run};
