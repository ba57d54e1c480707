//! The PostgreSQL wire as values: no sockets, no async, no clock.

mod message;
mod refusal;
mod scanner;
mod startup;

pub(crate) use message::{
    Found, READY, cancel_key, error_code, find, is_authentication_ok, parameter,
};
pub(crate) use refusal::{Code, Refusal};
pub(crate) use scanner::Scanner;
pub(crate) use startup::{NO, Opening, Request, classify, is_well_formed, key_of_cancel};
