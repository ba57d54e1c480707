//! We as a PostgreSQL client.

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
