//! One way of being a TLS client: whom to believe, what to show, and the sessions that can be resumed.

use std::collections::HashMap;
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rustls::ClientConfig;
use rustls::client::Resumption;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::Instant;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::error::TlsError;
use super::verifier::{Trust, Verifier, Verify};
use crate::net::named_file::{FileError, NamedFile, Renewable};
use crate::net::names;

/// Peers whose sessions are remembered. More are only met when addresses keep changing.
const PEERS: usize = 64;
/// A session that is resumed is not verified again, so each peer begins anew so often: else a certificate that has
/// expired would be believed for as long as its server hands out tickets.
const RESUMED_FOR: Duration = Duration::from_secs(600);
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
    by_peer: Mutex<HashMap<SocketAddr, Sessions>>,
}

/// What is known of one peer.
struct Sessions {
    config: Arc<ClientConfig>,
    since: Instant,
}

/// The name by which a host is known to certificates: brackets, the zone of an address and a closing dot left out.
/// `None` where no certificate can name it.
pub(crate) fn server_name(host: &str) -> Option<ServerName<'static>> {
    let bare = names::bare(host);
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
                        pair: Box::new((cert.clone(), key.clone())),
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
        let begin = || {
            let mut config = ClientConfig::clone(&self.config);
            config.resumption = Resumption::in_memory_sessions(TICKETS);
            Sessions {
                config: Arc::new(config),
                since: Instant::now(),
            }
        };
        let sessions = by_peer.entry(peer).or_insert_with(begin);
        if sessions.since.elapsed() >= RESUMED_FOR {
            *sessions = begin();
        }
        Arc::clone(&sessions.config)
    }
}

fn certificates(file: &NamedFile) -> Result<Vec<CertificateDer<'static>>, FileError> {
    let pem = file.read()?;
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&pem).collect();
    // The parser's own words are bytes in numbers.
    let found = found.map_err(|_| file.unusable("holds PEM that is broken or cut off"))?;
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

#[cfg(test)]
mod tests {
    use std::fs;

    use rcgen::{
        BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair, date_time_ymd,
    };
    use rustls::ServerConfig;
    use tokio_rustls::TlsAcceptor;

    use super::*;

    type Authority = CertifiedIssuer<'static, KeyPair>;

    fn authority() -> Authority {
        let mut params = CertificateParams::new([]).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        Authority::self_signed(params, KeyPair::generate().unwrap()).unwrap()
    }

    fn peer() -> SocketAddr {
        ([127, 0, 0, 1], 8008).into()
    }

    /// A server that shows a certificate for `name` by `ca`.
    fn server(ca: &Authority, name: &str, expired: bool) -> TlsAcceptor {
        let mut params = CertificateParams::new([name.to_owned()]).unwrap();
        if expired {
            params.not_after = date_time_ymd(2021, 1, 1);
        }
        let key = KeyPair::generate().unwrap();
        let cert = params.signed_by(&key, ca).unwrap();
        let key = PrivateKeyDer::from_pem_slice(key.serialize_pem().as_bytes()).unwrap();
        let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![cert.der().clone()], key)
            .unwrap();
        TlsAcceptor::from(Arc::new(config))
    }

    async fn is_believed(client: &ClientTls, server: &TlsAcceptor, name: &str) -> bool {
        let (near, far) = tokio::io::duplex(4096);
        let name = server_name(name).unwrap();
        let (reached, _) = tokio::join!(client.connect(near, peer(), name), server.accept(far));
        match reached {
            Ok(_) => true,
            Err(error) => {
                assert!(matches!(error, TlsError::NotBelieved { .. }), "{error}");
                false
            }
        }
    }

    #[tokio::test]
    async fn nothing_the_chain_or_the_name_is_verified() {
        let folder = tempfile::tempdir().unwrap();
        let (ca, other) = (authority(), authority());
        let file = NamedFile {
            key: "ca_file",
            path: folder.path().join("ca.pem"),
        };
        fs::write(&file.path, ca.pem()).unwrap();
        let files = TlsFiles {
            ca: Some(file),
            own: None,
        };
        let good = server(&ca, "pg.example", false);
        let strange = server(&other, "pg.example", false);
        let expired = server(&ca, "pg.example", true);
        // The server, the name that is meant, and whether each mode believes it.
        let cases = [
            (&good, "pg.example", [true, true, true]),
            (&good, "PG.example.", [true, true, true]),
            (&good, "other.example", [true, true, false]),
            (&strange, "pg.example", [true, false, false]),
            (&expired, "pg.example", [true, false, false]),
        ];
        for (at, verify) in [Verify::Nothing, Verify::Chain, Verify::Name]
            .into_iter()
            .enumerate()
        {
            let client = ClientTls::open(files.clone(), verify).unwrap();
            for (case, (server, name, believed)) in cases.iter().enumerate() {
                assert_eq!(
                    is_believed(&client, server, name).await,
                    believed[at],
                    "{verify:?} {case}"
                );
            }
        }
        let public = ClientTls::open(TlsFiles::default(), Verify::Name).unwrap();
        assert!(!is_believed(&public, &good, "pg.example").await);
    }

    #[test]
    fn a_certificate_and_another_key_are_refused_and_no_key_is_shown() {
        let folder = tempfile::tempdir().unwrap();
        let named = |key, name| NamedFile {
            key,
            path: folder.path().join(name),
        };
        let own = OwnCertificate {
            cert: named("cert_file", "cert.pem"),
            key: named("key_file", "key.pem"),
        };
        let (key, other) = (KeyPair::generate().unwrap(), KeyPair::generate().unwrap());
        let cert = CertificateParams::new([])
            .unwrap()
            .self_signed(&key)
            .unwrap();
        fs::write(&own.cert.path, cert.pem()).unwrap();
        let open = || {
            let files = TlsFiles {
                ca: None,
                own: Some(own.clone()),
            };
            ClientTls::open(files, Verify::Name)
        };

        fs::write(&own.key.path, other.serialize_pem()).unwrap();
        let words = open().unwrap_err().to_string();
        assert_eq!(words, format!("{}: does not go with {}", own.cert, own.key));

        fs::write(&own.key.path, &key.serialize_pem()[..80]).unwrap();
        let words = open().unwrap_err().to_string();
        assert!(words.starts_with(&own.key.to_string()), "{words}");

        let pem = key.serialize_pem();
        fs::write(&own.key.path, &pem).unwrap();
        let client = open().unwrap();
        let shown = format!("{client:?} {:?}", client.config(peer()));
        let secret = pem.lines().nth(1).unwrap();
        assert!(!shown.contains(secret) && !shown.contains(&format!("{:?}", key.serialized_der())));
    }

    #[tokio::test(start_paused = true)]
    async fn each_peer_has_sessions_of_its_own_and_is_verified_anew_after_ten_minutes() {
        let client = ClientTls::open(TlsFiles::default(), Verify::Name).unwrap();
        let other = SocketAddr::from(([127, 0, 0, 2], 8008));
        let first = client.config(peer());
        assert!(!Arc::ptr_eq(&first, &client.config(other)));

        tokio::time::sleep(Duration::from_secs(599)).await;
        assert!(Arc::ptr_eq(&first, &client.config(peer())));
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert!(!Arc::ptr_eq(&first, &client.config(peer())));
    }

    #[test]
    fn a_host_is_named_as_certificates_name_it() {
        for (host, name) in [
            ("10.0.0.1", "10.0.0.1"),
            ("[fd00::1]", "fd00::1"),
            ("fe80::1%eth0", "fe80::1"),
            ("pg_1.example.", "pg_1.example"),
        ] {
            assert_eq!(server_name(host).unwrap().to_str(), name);
        }
        assert_eq!(server_name("böse.de"), None);
    }
}
