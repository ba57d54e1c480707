//! Why there is no TLS with a peer, and whose fault it is.

use std::error::Error as StdError;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use rustls::{AlertDescription, CertificateError, Error, OtherError};

use super::refused::Refused;
use crate::net::named_file::NamedFile;

/// Why there is no TLS with a peer. But for [`TlsError::Handshake`], asking again does not help.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TlsError {
    #[error("{peer} shows a certificate that is not believed: {refused}")]
    NotBelieved {
        peer: SocketAddr,
        refused: Arc<dyn StdError + Send + Sync>,
    },

    #[error("{peer} does not accept our certificate ({own}): it says {alert:?}")]
    NotAccepted {
        peer: SocketAddr,
        own: NamedFile,
        alert: AlertDescription,
    },

    #[error("{peer} wants a client certificate and none is configured: it says {alert:?}")]
    Wanted {
        peer: SocketAddr,
        alert: AlertDescription,
    },

    #[error("{peer} does not speak TLS")]
    NotTls { peer: SocketAddr },

    #[error("the TLS handshake with {peer} failed")]
    Handshake { peer: SocketAddr, source: io::Error },
}

impl TlsError {
    /// Must somebody do something before it gets better?
    pub(crate) fn needs_hands(&self) -> bool {
        !matches!(self, Self::Handshake { .. })
    }

    /// What TLS has to say behind an error of a stream. `None` for what is no word of TLS, or one without a cause
    /// that could be named.
    pub(super) fn behind(
        error: &(dyn StdError + 'static),
        peer: SocketAddr,
        own: Option<&NamedFile>,
    ) -> Option<Self> {
        match find(error)? {
            Error::InvalidCertificate(CertificateError::Other(OtherError(refused)))
                if refused.is::<Refused>() =>
            {
                Some(Self::NotBelieved {
                    peer,
                    refused: Arc::clone(refused),
                })
            }
            Error::InvalidMessage(_) => Some(Self::NotTls { peer }),
            Error::AlertReceived(alert) if is_about_us(*alert) => Some(match own {
                Some(own) => Self::NotAccepted {
                    peer,
                    own: own.clone(),
                    alert: *alert,
                },
                None => Self::Wanted {
                    peer,
                    alert: *alert,
                },
            }),
            // TLS 1.2 has no alert of its own for a certificate that is not there.
            Error::AlertReceived(alert @ AlertDescription::HandshakeFailure) if own.is_none() => {
                Some(Self::Wanted {
                    peer,
                    alert: *alert,
                })
            }
            _ => None,
        }
    }
}

/// Is an alert about the certificate that we have shown, or not shown?
///
/// Source: RFC 8446, section 6.2.
fn is_about_us(alert: AlertDescription) -> bool {
    matches!(
        alert,
        AlertDescription::CertificateRequired
            | AlertDescription::BadCertificate
            | AlertDescription::UnsupportedCertificate
            | AlertDescription::CertificateRevoked
            | AlertDescription::CertificateExpired
            | AlertDescription::CertificateUnknown
            | AlertDescription::UnknownCA
            | AlertDescription::AccessDenied
    )
}

/// The error of rustls in a chain. `io::Error` hides what it wraps from `source`.
fn find<'e>(error: &'e (dyn StdError + 'static)) -> Option<&'e Error> {
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(found) = error.downcast_ref() {
            return Some(found);
        }
        let wrapped = error
            .downcast_ref::<io::Error>()
            .and_then(io::Error::get_ref);
        next = match wrapped {
            Some(inner) => Some(inner),
            None => error.source(),
        };
    }
    None
}
