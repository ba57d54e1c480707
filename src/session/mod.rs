//! One client's stay: greet → route → dial → prologue → relay → goodbye.
//!
//! A session runs on the worker that accepted it. Everything up to the server's first words is one large future
//! ([`stay`]); what follows for hours is a small one ([`relay`]).

#[allow(dead_code, reason = "the two processes of a hand-over come next")]
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
mod leave;
mod limits;
mod listener;
#[allow(dead_code, reason = "the two processes of a hand-over come next")]
mod pack;
#[allow(dead_code, reason = "the two processes of a hand-over come next")]
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

pub(crate) use settings::{ListenerSettings, SessionSettings};
pub(crate) use shared::Shared;
pub(crate) use worker::{Command, run};
#[allow(unused_imports, reason = "the two processes of a hand-over come next")]
pub(crate) use {
    adopt::{Adoption, NotTaken, Start},
    census::Census,
    errand::{Cancel, Errand},
    pack::{Packed, Verdict},
    parcel::{Parcel, Unreadable},
};
