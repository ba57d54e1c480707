//! No connection of ours to any PostgreSQL: this build has no `postgres-topology`, and nothing is compiled for it.

use std::net::SocketAddr;
use std::time::Duration;

use tokio::net::TcpStream;

use super::Login;

/// This build can ask PostgreSQL.
pub(crate) const IS_BUILT: bool = false;

/// Never made.
#[derive(Debug)]
pub(crate) struct Link(());

/// Why PostgreSQL gave no answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LinkError {
    /// The configuration refuses what would come here.
    #[error("this build has no postgres-topology")]
    NotBuilt,

    #[error("PostgreSQL says nothing")]
    #[allow(dead_code, reason = "what a build that asks PostgreSQL can be told")]
    Said {},
}

impl LinkError {
    pub(crate) fn needs_hands(&self) -> bool {
        true
    }
}

impl Link {
    pub(crate) async fn open(
        _stream: TcpStream,
        _peer: SocketAddr,
        _host: &str,
        _login: &Login,
    ) -> Result<Self, LinkError> {
        Err(LinkError::NotBuilt)
    }

    pub(crate) fn is_over(&self) -> bool {
        true
    }

    pub(crate) async fn row(&self, _statement: &str) -> Result<Vec<Option<String>>, LinkError> {
        Err(LinkError::NotBuilt)
    }

    pub(crate) async fn value(&self, _statement: &str) -> Result<Option<String>, LinkError> {
        Err(LinkError::NotBuilt)
    }

    pub(crate) async fn cancel(
        self,
        _peer: SocketAddr,
        _host: &str,
        _login: &Login,
        _limit: Duration,
    ) {
    }
}
