//! We as a PostgreSQL client: logging in, and questions that are answered with one row.

#[cfg(feature = "postgres-topology")]
mod link;
#[cfg(not(feature = "postgres-topology"))]
#[path = "without_postgres.rs"]
mod link;
// Without the feature nobody logs in anywhere.
#[cfg_attr(not(feature = "postgres-topology"), allow(dead_code))]
mod login;

pub(crate) use link::{IS_BUILT, Link, LinkError};
pub(crate) use login::{Login, LoginSettings};

use crate::net::Verify;

/// How a connection to PostgreSQL is secured, in libpq's words.
///
/// Source: PostgreSQL documentation, "SSL Mode Descriptions" (libpq-ssl).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TlsMode {
    /// Never TLS.
    Disable,
    /// TLS if the server offers it, unverified; else clear text.
    #[default]
    Prefer,
    /// TLS or nothing, unverified.
    Require,
    /// TLS, and the certificate chains to a trusted CA.
    VerifyCa,
    /// As `VerifyCa`, and the certificate names the host.
    VerifyFull,
}

impl TlsMode {
    /// What is verified of the server's certificate; `None` = there is no TLS.
    pub(crate) fn verify(self) -> Option<Verify> {
        match self {
            Self::Disable => None,
            Self::Prefer | Self::Require => Some(Verify::Nothing),
            Self::VerifyCa => Some(Verify::Chain),
            Self::VerifyFull => Some(Verify::Name),
        }
    }
}
