//! What the admin API may be told.

use std::net::SocketAddr;
use std::path::PathBuf;

/// Where the operator's window is, and who may use it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct AdminSettings {
    pub(crate) address: SocketAddr,
    /// Holds the token that changes need, and off loopback everything.
    pub(crate) token_file: Option<PathBuf>,
    /// Lifts both token rules.
    pub(crate) allow_insecure: bool,
    pub(crate) enable_chaos: bool,
}

impl AdminSettings {
    /// Can somebody on another machine knock?
    pub(crate) fn is_off_loopback(&self) -> bool {
        !self.address.ip().to_canonical().is_loopback()
    }

    /// Off loopback nobody is let in without a token, not even to look.
    pub(crate) fn must_have_token(&self) -> bool {
        self.is_off_loopback() && !self.allow_insecure
    }
}
