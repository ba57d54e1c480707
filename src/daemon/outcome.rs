//! What a house tells whoever started it: where it listens, why it cannot, what a reload has done.

use std::net::SocketAddr;
use std::path::PathBuf;

/// Where a listener is really bound (port 0 is resolved).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Bound {
    /// A TCP address.
    Tcp(SocketAddr),
    /// A unix socket.
    Unix(PathBuf),
}

/// An address cannot be listened on: taken, not allowed, or not there.
#[derive(Debug, thiserror::Error)]
#[error("cannot listen")]
pub struct BindFailed(#[source] pub(super) Box<dyn std::error::Error + Send + Sync>);

/// A file that the configuration names cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("cannot use a file that the configuration names")]
pub struct FileFailed(#[source] pub(super) Box<dyn std::error::Error + Send + Sync>);

/// Why a house could not be started. All of these are for the operator to mend.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// An address is taken or not allowed.
    #[error(transparent)]
    Bind(#[from] BindFailed),

    /// A certificate, key or password is missing or unusable.
    #[error(transparent)]
    File(#[from] FileFailed),
    /// The admin API is off loopback, and its token cannot be had.
    #[error("admin_address is off loopback and needs a token")]
    AdminToken(#[source] Box<dyn std::error::Error + Send + Sync>),

    /// The kernel gives no thread or no descriptors.
    #[error("the {thread} thread cannot start")]
    Thread {
        /// `control` or `worker`.
        thread: &'static str,
        /// What the kernel said.
        source: std::io::Error,
    },
}

/// Why a reload changed nothing.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReloadError {
    /// A new listener's address is taken or not allowed.
    #[error(transparent)]
    Bind(#[from] BindFailed),

    /// A certificate, key or password is missing or unusable.
    #[error(transparent)]
    File(#[from] FileFailed),

    /// The tracker has ended, or has not come to the last reloads yet.
    #[error("the tracker takes no orders now")]
    Busy,
}

/// What a reload has done.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReloadReport {
    /// What has taken effect, for the log.
    pub changes: String,
    /// Keys whose new value needs a restart.
    pub needs_restart: Vec<String>,
}
