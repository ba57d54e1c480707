//! One way of being a TLS client: whom to believe, what to show, and the sessions that can be resumed.

use std::collections::HashMap;
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};

use rustls::ClientConfig;
use rustls::client::Resumption;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::error::TlsError;
use super::verifier::{Trust, Verifier, Verify};
use crate::net::named_file::{FileError, NamedFile, Renewable};

/// Peers whose sessions are remembered. More are only met when addresses keep changing.
const PEERS: usize = 64;
/// Tickets of one peer that are kept: rustls's own number for one server.
const TICKETS: usize = 8;

/// The files of a TLS client.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct TlsFiles {
    /// Whose signature is believed; `None` = Mozilla's roots.
    pub(crate) ca: Option<NamedFile>,
    /// What we show to a server that asks.
    pub(crate) own: Option<OwnCertificate>,
}

/// Our certificate, its chain in the same file, and its private key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct OwnCertificate {
    pub(crate) cert: NamedFile,
    pub(crate) key: NamedFile,
}

/// A TLS client. Its files are looked at for each connection: a renewed certificate is used at once.
pub(crate) struct ClientTls {
    files: TlsFiles,
    current: Renewable<Arc<Current>>,
}

/// What the files of one moment make.
struct Current {
    config: Arc<ClientConfig>,
    /// The same with a memory of its own for each peer: rustls remembers sessions by the server's name, and with a
    /// configured name all peers have the same. Renewed files begin anew, so that no session outlives them.
    by_peer: Mutex<HashMap<SocketAddr, Arc<ClientConfig>>>,
}

/// The name by which a host is known to certificates: brackets, the zone of an address and a closing dot left out.
/// `None` where no certificate can name it.
pub(crate) fn server_name(host: &str) -> Option<ServerName<'static>> {
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    let bare = bare.split_once('%').map_or(bare, |(ip, _zone)| ip);
    if let Ok(ip) = bare.parse::<IpAddr>() {
        return Some(ServerName::IpAddress(ip.into()));
    }
    ServerName::try_from(bare.trim_end_matches('.').to_owned()).ok()
}

impl ClientTls {
    /// Reads the files.
    ///
    /// # Errors
    /// [`FileError`], when one of them cannot be used.
    pub(crate) fn open(files: TlsFiles, verify: Verify) -> Result<Self, FileError> {
        let own = files.own.iter().flat_map(|own| [&own.cert, &own.key]);
        let watched = files.ca.iter().chain(own).cloned().collect();
        let current = Renewable::open(watched, {
            let files = files.clone();
            move || Current::read(&files, verify).map(Arc::new)
        })?;
        Ok(Self { files, current })
    }

    /// For a connection to `peer`, now.
    pub(crate) fn config(&self, peer: SocketAddr) -> Arc<ClientConfig> {
        self.current.get().for_peer(peer)
    }

    /// The handshake. Brings no time limit of its own.
    ///
    /// # Errors
    /// [`TlsError`]; [`Self::explain`] has words for what shows itself only afterwards.
    pub(crate) async fn connect<S>(
        &self,
        stream: S,
        peer: SocketAddr,
        name: ServerName<'static>,
    ) -> Result<TlsStream<S>, TlsError>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        TlsConnector::from(self.config(peer))
            .connect(name, stream)
            .await
            .map_err(|error| {
                self.explain(&error, peer).unwrap_or(TlsError::Handshake {
                    peer,
                    source: error,
                })
            })
    }

    /// In TLS 1.3 a server refuses our certificate after the handshake: what is behind an error of the stream.
    pub(crate) fn explain(
        &self,
        error: &(dyn std::error::Error + 'static),
        peer: SocketAddr,
    ) -> Option<TlsError> {
        TlsError::behind(error, peer, self.files.own.as_ref().map(|own| &own.cert))
    }
}

impl fmt::Debug for ClientTls {
    /// The files and never what they hold.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ClientTls").field(&self.files).finish()
    }
}

impl Current {
    fn read(files: &TlsFiles, verify: Verify) -> Result<Self, FileError> {
        let trust = match (&files.ca, verify) {
            (_, Verify::Nothing) => Trust::nobody(),
            (None, _) => Trust::mozilla(),
            (Some(file), _) => Trust::of(file, certificates(file)?)?,
        };
        let provider = Arc::new(ring::default_provider());
        let verifier = Verifier::new(verify, trust, &provider);
        let Ok(builder) =
            ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions()
        else {
            unreachable!("ring knows TLS 1.2 and 1.3")
        };
        let builder = builder
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(verifier));
        let config = match &files.own {
            None => builder.with_no_client_auth(),
            Some(OwnCertificate { cert, key }) => {
                let chain = certificates(cert)?;
                builder
                    .with_client_auth_cert(chain, private_key(key)?)
                    .map_err(|source| FileError::Pair {
                        cert: cert.clone(),
                        key: key.clone(),
                        source,
                    })?
            }
        };
        Ok(Self {
            config: Arc::new(config),
            by_peer: Mutex::default(),
        })
    }

    fn for_peer(&self, peer: SocketAddr) -> Arc<ClientConfig> {
        let mut by_peer = self.by_peer.lock().unwrap_or_else(PoisonError::into_inner);
        if by_peer.len() >= PEERS && !by_peer.contains_key(&peer) {
            by_peer.clear();
        }
        let own_memory = || {
            let mut config = ClientConfig::clone(&self.config);
            config.resumption = Resumption::in_memory_sessions(TICKETS);
            Arc::new(config)
        };
        Arc::clone(by_peer.entry(peer).or_insert_with(own_memory))
    }
}

fn certificates(file: &NamedFile) -> Result<Vec<CertificateDer<'static>>, FileError> {
    let pem = file.read()?;
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&pem).collect();
    let found = found.map_err(|source| FileError::Certificate {
        file: file.clone(),
        source,
    })?;
    if found.is_empty() {
        return Err(file.unusable("holds no certificate in PEM"));
    }
    Ok(found)
}

/// What the parser says of a key is left out: it might quote it.
fn private_key(file: &NamedFile) -> Result<PrivateKeyDer<'static>, FileError> {
    PrivateKeyDer::from_pem_slice(&file.read()?)
        .map_err(|_| file.unusable("holds no private key in PEM, or an encrypted one"))
}
