//! A connection of ours to one PostgreSQL, for questions that are answered with one row.

use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::time::Duration;

use futures_util::TryStreamExt;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;
use tokio_postgres::config::{SslMode, SslNegotiation};
use tokio_postgres::tls::{MakeTlsConnect, NoTls, TlsConnect, TlsStream};
use tokio_postgres::{Client, Config, Connection, SimpleQueryMessage};
use tokio_postgres_rustls::MakeRustlsConnect;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::{Login, TlsMode};
use crate::causes::chain;
use crate::net::{ClientTls, TlsError, server_name};

/// This build can ask PostgreSQL.
pub(crate) const IS_BUILT: bool = true;

/// What PostgreSQL shows us as, in `pg_stat_activity` and its log.
const APPLICATION: &str = "helios-topology";
/// How long a server may take to hear that we leave.
const FAREWELL: Duration = Duration::from_secs(1);
/// PostgreSQL's words are cut to this: they end in our log.
const LONGEST: usize = 200;
/// Asks a server whether it speaks TLS.
///
/// Source: PostgreSQL documentation, "Message Formats", SSLRequest.
const SSL_REQUEST: [u8; 8] = [0, 0, 0, 8, 4, 210, 22, 47];
/// Also what a server says whose `pg_hba.conf` has us come without TLS.
const NOT_LIKE_THIS: &str = "28000";

/// An open connection. Dropped, it takes leave of the server, and is gone a second later in any case.
#[derive(Debug)]
pub(crate) struct Link {
    client: Client,
    /// Carries what is said, to the end of the connection.
    driving: JoinHandle<()>,
    _leaving: DropGuard,
}

/// Why PostgreSQL gave no answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LinkError {
    /// Its own words, such as `FATAL 57P03: the database system is starting up`.
    #[error("PostgreSQL says {severity} {code}: {words}")]
    Said {
        severity: String,
        code: String,
        words: String,
    },

    #[error("{peer} speaks no TLS, which topology.tls_mode demands")]
    NoTls { peer: SocketAddr },

    #[error(transparent)]
    Tls(#[from] TlsError),

    #[error("the connection to PostgreSQL broke")]
    Network { source: io::Error },

    #[error("the connection to PostgreSQL broke")]
    Broken { source: tokio_postgres::Error },
}

impl From<tokio_postgres::Error> for LinkError {
    fn from(source: tokio_postgres::Error) -> Self {
        let Some(said) = source.as_db_error() else {
            return Self::Broken { source };
        };
        let printable = said
            .message()
            .chars()
            .map(|c| if c.is_control() { ' ' } else { c });
        Self::Said {
            severity: said.severity().to_owned(),
            code: said.code().code().to_owned(),
            words: printable.take(LONGEST).collect(),
        }
    }
}

impl Link {
    /// Logs in at `peer`, which is the node that the configuration calls `host`, over a connection that is made
    /// already: so it is known which machine answers. Brings no time limit of its own.
    pub(crate) async fn open(
        stream: TcpStream,
        peer: SocketAddr,
        host: &str,
        login: &Login,
    ) -> Result<Self, LinkError> {
        let Some(tls) = &login.tls else {
            return Self::in_clear(stream, login).await;
        };
        let prefers = login.settings.tls == TlsMode::Prefer;
        match Self::secured(stream, peer, host, login, tls).await {
            Ok(Secured::Tls(link)) => Ok(link),
            Ok(Secured::Refused(stream)) if prefers => Self::in_clear(stream, login).await,
            Ok(Secured::Refused(_)) => Err(LinkError::NoTls { peer }),
            // As libpq: whatever was wrong with TLS, clear text is good enough for this mode.
            Err(error) if prefers && error.is_about_the_way() => {
                tracing::debug!(%peer, error = %chain(&error), "no TLS; tried in clear text");
                let again = TcpStream::connect(peer).await;
                let stream = again.map_err(|source| LinkError::Network { source })?;
                Self::in_clear(stream, login).await
            }
            Err(error) => Err(error),
        }
    }

    async fn in_clear(stream: TcpStream, login: &Login) -> Result<Self, LinkError> {
        let mut config = config(login);
        config.ssl_mode(SslMode::Disable);
        let (client, connection) = config.connect_raw(stream, NoTls).await?;
        Ok(Self::driven(client, connection))
    }

    async fn secured(
        mut stream: TcpStream,
        peer: SocketAddr,
        host: &str,
        login: &Login,
        tls: &ClientTls,
    ) -> Result<Secured, LinkError> {
        if !speaks_tls(&mut stream)
            .await
            .map_err(|source| LinkError::Network { source })?
        {
            return Ok(Secured::Refused(stream));
        }
        let mut config = config(login);
        // The server is asked already.
        config
            .ssl_mode(SslMode::Require)
            .ssl_negotiation(SslNegotiation::Direct);
        let connected = config
            .connect_raw(stream, connector(tls, peer, host)?)
            .await;
        let (client, connection) = connected.map_err(|error| match tls.explain(&error, peer) {
            Some(explained) => LinkError::Tls(explained),
            None => error.into(),
        })?;
        Ok(Secured::Tls(Self::driven(client, connection)))
    }

    fn driven<S, T>(client: Client, connection: Connection<S, T>) -> Self
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
        T: TlsStream + Unpin + Send + 'static,
    {
        let leaving = CancellationToken::new();
        let left = leaving.clone();
        let driving = tokio::spawn(async move {
            let mut connection = pin!(drive(connection));
            let ended = tokio::select! {
                ended = &mut connection => ended,
                () = left.cancelled() => {
                    let farewell = tokio::time::timeout(FAREWELL, connection);
                    farewell.await.unwrap_or(Ok(()))
                }
            };
            if let Err(error) = ended {
                let error = LinkError::from(error);
                tracing::debug!(error = %chain(&error), "a connection for questions has ended");
            }
        });
        Self {
            client,
            driving,
            _leaving: leaving.drop_guard(),
        }
    }

    /// It has ended: a question would not even be sent.
    pub(crate) fn is_over(&self) -> bool {
        self.client.is_closed()
    }

    /// The columns of the first row that one statement answers, as text; none when it answers no row.
    pub(crate) async fn row(&self, statement: &str) -> Result<Vec<Option<String>>, LinkError> {
        let mut answer = pin!(self.client.simple_query_raw(statement).await?);
        let mut first = None;
        // To its end, or the next statement would be answered by the rest of it; row by row, however many there are.
        while let Some(message) = answer.try_next().await? {
            if let SimpleQueryMessage::Row(row) = message {
                first.get_or_insert(row);
            }
        }
        let columns = first.map(|row| {
            let texts = (0..row.len()).map(|i| row.get(i).map(str::to_owned));
            texts.collect()
        });
        Ok(columns.unwrap_or_default())
    }

    /// The first column of the first row, where it is there and not NULL.
    pub(crate) async fn value(&self, statement: &str) -> Result<Option<String>, LinkError> {
        let row = self.row(statement).await?;
        Ok(row.into_iter().next().flatten())
    }

    /// Ends what the server still does for us, over a connection of its own: a backend at work would not notice
    /// that we have left. The request goes in clear text, which PostgreSQL takes from everybody who has the key. Once
    /// `limit` is over both connections are closed, whatever has come of it.
    pub(crate) async fn cancel(self, peer: SocketAddr, host: &str, login: &Login, limit: Duration) {
        let driving = self.driving.abort_handle();
        let heard_out = async move {
            if let Err(error) = self.try_cancel(peer, host, login).await {
                tracing::debug!(%peer, error = %chain(&error), "a question could not be cancelled");
            }
            drop(self.client);
            self.driving.await
        };
        if tokio::time::timeout(limit, heard_out).await.is_err() {
            driving.abort();
        }
    }

    async fn try_cancel(
        &self,
        peer: SocketAddr,
        host: &str,
        login: &Login,
    ) -> Result<(), LinkError> {
        let network = |source| LinkError::Network { source };
        let mut stream = TcpStream::connect(peer).await.map_err(network)?;
        let token = self.client.cancel_token();
        match &login.tls {
            Some(tls) if speaks_tls(&mut stream).await.map_err(network)? => {
                token
                    .cancel_query_raw(stream, connector(tls, peer, host)?)
                    .await?;
            }
            _ => token.cancel_query_raw(stream, NoTls).await?,
        }
        Ok(())
    }
}

/// What came of asking for TLS.
enum Secured {
    Tls(Link),
    /// The server speaks none, and waits for clear text.
    Refused(TcpStream),
}

impl LinkError {
    /// Must somebody do something before it gets better? A login that is refused does not mend itself (SQLSTATE
    /// class 28, and an unknown database).
    pub(crate) fn needs_hands(&self) -> bool {
        match self {
            Self::Said { code, .. } => code.starts_with("28") || code == "3D000",
            Self::Tls(error) => error.needs_hands(),
            Self::NoTls { .. } => true,
            Self::Network { .. } | Self::Broken { .. } => false,
        }
    }

    /// Not about who we are, but about how we have come.
    fn is_about_the_way(&self) -> bool {
        match self {
            Self::Said { code, .. } => code == NOT_LIKE_THIS,
            Self::NoTls { .. } | Self::Tls(_) | Self::Network { .. } | Self::Broken { .. } => true,
        }
    }
}

fn config(login: &Login) -> Config {
    let mut config = Config::new();
    config
        .user(&*login.settings.user)
        .dbname(&*login.settings.database)
        .application_name(APPLICATION);
    if let Some(password) = login.password() {
        config.password(password);
    }
    config
}

async fn speaks_tls(stream: &mut TcpStream) -> io::Result<bool> {
    stream.write_all(&SSL_REQUEST).await?;
    match stream.read_u8().await? {
        b'S' => Ok(true),
        b'N' => Ok(false),
        _ => Err(io::Error::new(
            io::ErrorKind::InvalidData,
            "the answer to a request for TLS is not PostgreSQL's",
        )),
    }
}

/// Speaks TLS with `peer` under the name that `host` is.
fn connector(
    tls: &ClientTls,
    peer: SocketAddr,
    host: &str,
) -> Result<impl TlsConnect<TcpStream, Stream: Send + 'static, Future: Send> + use<>, LinkError> {
    let name = server_name(host).map_or_else(|| peer.ip().to_string(), |n| n.to_str().into_owned());
    let mut make = MakeRustlsConnect::new(rustls::ClientConfig::clone(&tls.config(peer)));
    let made = MakeTlsConnect::<TcpStream>::make_tls_connect(&mut make, &name);
    made.map_err(|error| LinkError::Network {
        source: io::Error::other(error),
    })
}

/// Carries questions and answers until either side ends. What the server says beside that is of no interest.
async fn drive<S, T>(mut connection: Connection<S, T>) -> Result<(), tokio_postgres::Error>
where
    S: AsyncRead + AsyncWrite + Unpin,
    T: AsyncRead + AsyncWrite + Unpin,
{
    while let Some(heard) = poll_fn(|cx| connection.poll_message(cx)).await {
        heard?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;
    use tokio::time::Instant;

    use super::super::LoginSettings;
    use super::*;
    use crate::net::TlsFiles;

    /// AuthenticationOk, BackendKeyData and ReadyForQuery.
    const WELCOME: &[u8] = b"R\0\0\0\x08\0\0\0\0K\0\0\0\x0c\0\0\0\x01\0\0\0\x02Z\0\0\0\x05I";

    #[tokio::test]
    async fn a_question_that_is_given_up_leaves_no_connection_when_its_limit_is_over() {
        let login = Login::open(LoginSettings {
            user: "app".into(),
            password: None,
            database: "app".into(),
            tls: TlsMode::Disable,
            files: TlsFiles::default(),
        });
        let login = login.unwrap();
        let server = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let peer = server.local_addr().unwrap();
        let stream = TcpStream::connect(peer).await.unwrap();
        let (mut asked, _) = server.accept().await.unwrap();
        asked.write_all(WELCOME).await.unwrap();
        let link = Link::open(stream, peer, "n1", &login).await.unwrap();
        let question = link.value("SELECT 1");
        let unanswered = tokio::time::timeout(Duration::from_millis(50), question).await;
        assert!(unanswered.is_err());

        let limit = Duration::from_millis(300);
        let began = Instant::now();
        // The server hangs: it takes the request to cancel, does nothing, and sees both connections end.
        let both_end = async {
            let (mut request, _) = server.accept().await.unwrap();
            request.read_to_end(&mut Vec::new()).await.unwrap();
            asked.read_to_end(&mut Vec::new()).await.unwrap();
        };
        tokio::join!(link.cancel(peer, "n1", &login, limit), both_end);

        let took = began.elapsed();
        assert!((limit..limit + FAREWELL).contains(&took), "{took:?}");
    }
}
