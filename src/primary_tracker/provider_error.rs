//! Why a public provider cannot start.

use std::io;

use crate::causes::chain;
use crate::net::FileError;

/// Why a provider cannot start. All of these are for whoever configured it to mend.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ProviderError {
    /// There is nobody to ask.
    #[error("no nodes are given; allowed is at least one")]
    NoNodes,

    /// Two nodes have one address: one node is one machine.
    #[error("two nodes have the address {address}; allowed is each address once")]
    SameAddress {
        /// `host:port`.
        address: String,
    },

    /// Two nodes have one name, and would have one id.
    #[error("two nodes have the name {name}; allowed is each name once")]
    SameName {
        /// Of both.
        name: String,
    },

    /// An endpoint that cannot be asked.
    #[error("endpoint {found:?}; allowed is http://HOST:PORT without a login")]
    Endpoint {
        /// As given.
        found: String,
    },

    /// A named file cannot be used.
    #[error("a file cannot be used")]
    File {
        /// Which, and why.
        source: Box<dyn std::error::Error + Send + Sync>,
    },

    /// The kernel gives no thread or no descriptors.
    #[error("the topology thread cannot start")]
    Thread {
        /// What the kernel said.
        source: io::Error,
    },
}

impl ProviderError {
    /// For a provider that is started by its first use, which has nobody to tell.
    pub(super) fn log(&self) {
        tracing::error!(error = %chain(self), "a topology provider cannot start");
    }
}

impl From<FileError> for ProviderError {
    fn from(error: FileError) -> Self {
        Self::File {
            source: Box::new(error),
        }
    }
}

impl From<io::Error> for ProviderError {
    fn from(source: io::Error) -> Self {
        Self::Thread { source }
    }
}
