//! Whom a TLS client believes: nobody in particular, whoever chains to a CA, or only the host that was meant.

use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{verify_server_cert_signed_by_trust_anchor, verify_server_name};
use rustls::crypto::{
    CryptoProvider, WebPkiSupportedAlgorithms, verify_tls12_signature, verify_tls13_signature,
};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{
    CertificateError, DigitallySignedStruct, Error, OtherError, RootCertStore, SignatureScheme,
};

use super::refused::Refused;
use crate::net::named_file::{FileError, NamedFile};

/// How much of a server's certificate is verified.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verify {
    /// Only that the server holds the key of whatever it shows.
    Nothing,
    /// That it chains to a trusted CA.
    Chain,
    /// That it chains to a trusted CA and names the host.
    Name,
}

/// Whose signature is believed.
#[derive(Debug)]
pub(super) struct Trust {
    roots: RootCertStore,
    /// The certificates of the CA file as they are: one that a server shows itself is believed, too.
    given: Vec<CertificateDer<'static>>,
    /// Where they come from, for errors.
    source: String,
}

impl Trust {
    pub(super) fn nobody() -> Self {
        Self {
            roots: RootCertStore::empty(),
            given: Vec::new(),
            source: String::new(),
        }
    }

    pub(super) fn mozilla() -> Self {
        Self {
            roots: webpki_roots::TLS_SERVER_ROOTS.iter().cloned().collect(),
            given: Vec::new(),
            source: "Mozilla's list".to_owned(),
        }
    }

    /// One odd certificate in a bundle does not spoil the others.
    pub(super) fn of(
        file: &NamedFile,
        given: Vec<CertificateDer<'static>>,
    ) -> Result<Self, FileError> {
        let mut roots = RootCertStore::empty();
        let (usable, _odd) = roots.add_parsable_certificates(given.iter().cloned());
        if usable == 0 {
            return Err(file.unusable("holds no certificate that can be a CA's"));
        }
        Ok(Self {
            roots,
            given,
            source: file.to_string(),
        })
    }
}

/// Says no in words that name the certificate and what was expected of it.
#[derive(Debug)]
pub(super) struct Verifier {
    verify: Verify,
    trust: Trust,
    algorithms: WebPkiSupportedAlgorithms,
}

impl Verifier {
    pub(super) fn new(verify: Verify, trust: Trust, provider: &CryptoProvider) -> Self {
        Self {
            verify,
            trust,
            algorithms: provider.signature_verification_algorithms,
        }
    }

    fn check(
        &self,
        shown: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        now: UnixTime,
    ) -> Result<(), Error> {
        if self.verify == Verify::Nothing {
            return Ok(());
        }
        let parsed = ParsedCertificate::try_from(shown)?;
        verify_server_cert_signed_by_trust_anchor(
            &parsed,
            &self.trust.roots,
            intermediates,
            now,
            self.algorithms.all,
        )
        .or_else(|error| self.is_given_itself(shown, error))?;
        match self.verify {
            Verify::Name => verify_server_name(&parsed, name),
            Verify::Chain | Verify::Nothing => Ok(()),
        }
    }

    /// A self-signed server certificate is mostly a CA's by its own words, which rustls refuses at a server. Where
    /// the operator has named this very certificate, it is believed, as OpenSSL does. Its dates were looked at
    /// before its kind.
    fn is_given_itself(&self, shown: &CertificateDer<'_>, error: Error) -> Result<(), Error> {
        let is_ca = match &error {
            Error::InvalidCertificate(CertificateError::Other(OtherError(cause))) => {
                matches!(cause.downcast_ref(), Some(webpki::Error::CaUsedAsEndEntity))
            }
            _ => false,
        };
        if is_ca && self.trust.given.iter().any(|given| given == shown) {
            return Ok(());
        }
        Err(error)
    }
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        match self.check(end_entity, intermediates, server_name, now) {
            Ok(()) => Ok(ServerCertVerified::assertion()),
            Err(cause) => {
                let refused = Refused::new(end_entity, server_name, &self.trust.source, &cause);
                Err(CertificateError::Other(OtherError(Arc::new(refused))).into())
            }
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, cert, dss, &self.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, cert, dss, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}
