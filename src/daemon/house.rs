//! The whole proxy as one value: start it, learn its addresses, watch who leads, stop it. Several fit in a process.

use std::net::SocketAddr;
use std::path::PathBuf;

use crate::Config;

/// A running proxy. Dropping it ends its threads and closes its sessions.
pub struct House {}

/// Where a listener is really bound (port 0 is resolved).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Bound {
    /// A TCP address.
    Tcp(SocketAddr),
    /// A unix socket.
    Unix(PathBuf),
}

/// Why a house could not be started.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// An address is taken or not allowed.
    #[error("{address}: cannot be bound")]
    Bind {
        /// The listener's address, as configured.
        address: String,
        /// What the kernel said.
        source: std::io::Error,
    },
}

/// What a reload has done.
#[derive(Default)]
pub struct ReloadReport {
    /// Keys whose new value needs a restart.
    pub needs_restart: Vec<String>,
}

impl House {
    /// Binds the sockets and starts the threads. Clients are held from here on until a leader is proved.
    ///
    /// # Errors
    /// See [`StartError`].
    pub async fn start(config: Config) -> Result<Self, StartError> {
        let _ = config;
        unimplemented!("by the room's author")
    }

    /// The listeners, in the order of the configuration.
    pub fn listeners(&self) -> Vec<Bound> {
        Vec::new()
    }

    /// The admin API's address.
    pub fn admin(&self) -> Option<SocketAddr> {
        None
    }

    /// Ends: no drain.
    pub async fn stop(self) {}

    pub(crate) async fn first_round(&self) {}

    pub(crate) fn poller_progress(&self) -> std::time::Duration {
        std::time::Duration::ZERO
    }

    pub(crate) fn status_line(&self) -> String {
        String::new()
    }

    pub(crate) async fn status_changed(&self) {
        std::future::pending().await
    }

    pub(crate) async fn reload(&self, _: Config) -> Result<ReloadReport, StartError> {
        Ok(ReloadReport::default())
    }

    pub(crate) fn note_reload(&self, _ok: bool) {}

    pub(crate) async fn drain(&self) {}

    pub(crate) async fn failed(&self) -> String {
        std::future::pending().await
    }
}
