//! How a scripted server speaks TLS.

use std::future::Future;
use std::io;
use std::sync::Arc;

use rustls::crypto::ring;
use rustls::server::{NoServerSessionStorage, WebPkiClientVerifier};
use rustls::{RootCertStore, ServerConfig};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::server::TlsStream;

use super::papers::{Authority, Paper};

/// A server that shows `paper`, with TLS 1.3 tickets as OpenSSL sends them. With `clients`, it lets in only whom that
/// CA has signed.
pub fn server(paper: &Paper, clients: Option<&Authority>) -> Arc<ServerConfig> {
    let provider = Arc::new(ring::default_provider());
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .expect("versions");
    let builder = match clients {
        None => builder.with_no_client_auth(),
        Some(ca) => {
            let mut roots = RootCertStore::empty();
            roots.add(ca.der()).expect("a CA");
            let verifier = WebPkiClientVerifier::builder_with_provider(roots.into(), provider);
            builder.with_client_cert_verifier(verifier.build().expect("a verifier"))
        }
    };
    let mut config = builder
        .with_single_cert(vec![paper.cert()], paper.key())
        .expect("a certificate and its key");
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.ticketer = ring::Ticketer::new().expect("a ticketer");
    Arc::new(config)
}

/// A connection in clear text or TLS.
pub trait Socket: AsyncRead + AsyncWrite + Unpin + Send {
    /// Says that nothing more comes.
    fn end(&mut self) -> impl Future<Output = io::Result<()>> + Send;

    fn into_tcp(self) -> TcpStream;
}

impl Socket for TcpStream {
    async fn end(&mut self) -> io::Result<()> {
        self.shutdown().await
    }

    fn into_tcp(self) -> TcpStream {
        self
    }
}

impl Socket for TlsStream<TcpStream> {
    /// As Python's `unwrap`: close_notify, and TCP stays open until the other's is there.
    async fn end(&mut self) -> io::Result<()> {
        self.get_mut().1.send_close_notify();
        self.flush().await
    }

    fn into_tcp(self) -> TcpStream {
        self.into_inner().0
    }
}
