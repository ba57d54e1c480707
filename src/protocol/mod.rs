//! The PostgreSQL wire as values: no sockets, no async, no clock.

mod message;
mod refusal;
mod scanner;
mod startup;

pub(crate) use message::{
    Found, READY, Tag, cancel_key, error_code, find, is_authentication_ok, parameter,
};
pub(crate) use refusal::{Code, Refusal};
pub(crate) use scanner::Scanner;
pub(crate) use startup::{
    GSSENC_REQUEST, NO, Opening, Request, SSL_REQUEST, classify, is_well_formed, key_of_cancel,
};
