//! TLS as a client: configurations made of files, whom to believe, and errors in words.

mod client;
mod error;
mod refused;
mod verifier;

pub(crate) use client::{ClientTls, OwnCertificate, TlsFiles, server_name};
pub(crate) use error::TlsError;
pub(crate) use verifier::Verify;
