//! One question to a Patroni node, and what can go wrong with it.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Empty, LengthLimitError, Limited};
use hyper::header::{AUTHORIZATION, CONNECTION, DATE, HOST, HeaderValue};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_util::task::AbortOnDropHandle;

use super::Place;
use super::rest::{Login, Rest};
use crate::backend::LinkError;
use crate::clock::Clock;
use crate::net::{TlsError, at_port};

/// An answer larger than this is not Patroni's.
const LARGEST_BODY: usize = 1024 * 1024;
/// For the close after an answer, which nobody waits for.
const GOODBYE: Duration = Duration::from_secs(1);

/// Whom to ask and what.
#[derive(Clone, Debug)]
pub(crate) struct Question {
    pub(crate) place: Place,
    pub(crate) rest: Arc<Rest>,
    pub(crate) path: &'static str,
}

/// What came back, whatever it is worth.
#[derive(Clone, Debug)]
pub(crate) struct Reply {
    /// With port 0.
    pub(crate) from: SocketAddr,
    pub(crate) status: u16,
    pub(crate) date: Option<String>,
    pub(crate) body: Bytes,
    /// The node's own time: from the request's last byte to the answer's last, connection and handshake left out.
    pub(crate) own_time: Duration,
}

/// Why a node gave no answer. None of these says that the node does not lead: they are silence.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NoAnswer {
    #[error("did not answer within {limit:?}")]
    TimedOut { limit: Duration },

    #[error("connection failed")]
    Connect { source: io::Error },

    #[error(transparent)]
    Tls(#[from] TlsError),

    #[error("no certificate can name the host {host:?}; set rest.server_name")]
    NoName { host: Arc<str> },

    /// Not Patroni's, which asks for no login to read: a gateway's in front of it.
    #[error("answered 401, {}", match login {
        Some(login) => format!(
            "it does not accept the user {:?} with the password of {}", login.username, login.password
        ),
        None => "it wants a login and none is configured (rest.username, rest.password_file)".to_owned(),
    })]
    TurnedAway { login: Option<Login> },
    /// Logging in included, where there is a login.
    #[error("could not be connected to within {limit:?}")]
    NotConnected { limit: Duration },

    #[error("the connection broke before the answer was whole")]
    Broken { source: hyper::Error },

    #[error("the answer is larger than {LARGEST_BODY} bytes")]
    TooLarge,

    #[error(transparent)]
    Postgres(#[from] LinkError),

    #[error("gave no usable answer to {statement}")]
    Odd { statement: &'static str },
}

impl NoAnswer {
    /// Must somebody do something before it gets better?
    pub(crate) fn needs_hands(&self) -> bool {
        match self {
            Self::Tls(error) => error.needs_hands(),
            Self::Postgres(error) => error.needs_hands(),
            Self::NoName { .. } | Self::TurnedAway { .. } | Self::Odd { .. } => true,
            Self::TimedOut { .. }
            | Self::Connect { .. }
            | Self::NotConnected { .. }
            | Self::Broken { .. }
            | Self::TooLarge => false,
        }
    }
}

/// Asks. The connection is made for this question and closed after it: Patroni serves with a handful of threads
/// and no read timeout, so five idle connections would block its whole API.
///
/// # Errors
/// [`NoAnswer`], when there is no whole answer within the limit.
pub(crate) async fn ask(mut question: Question, clock: Clock) -> Result<Reply, NoAnswer> {
    let limit = question.place.limit;
    match tokio::time::timeout(limit, exchange(&mut question, clock)).await {
        Ok(outcome) => outcome,
        Err(_elapsed) => Err(NoAnswer::TimedOut { limit }),
    }
}

async fn exchange(question: &mut Question, clock: Clock) -> Result<Reply, NoAnswer> {
    let (stream, peer) = question.place.connect().await?;
    let rest = &question.rest;
    let words = Words {
        path: question.path,
        peer,
        authorization: rest.authorization(),
    };
    let (asked, answer) = match rest.https() {
        None => (clock.now(), get(stream, words).await?),
        Some(https) => {
            let stream = https.connect(stream, peer, &question.place.name).await?;
            let asked = clock.now();
            let answer = get(stream, words).await;
            (asked, answer.map_err(|error| https.explain(error, peer))?)
        }
    };
    let (status, date, body) = answer;
    if status == 401 {
        return Err(rest.turned_away());
    }
    Ok(Reply {
        from: at_port(peer, 0),
        status,
        date,
        body,
        own_time: clock.now().saturating_sub(asked),
    })
}

/// What is said to a node.
struct Words {
    path: &'static str,
    peer: SocketAddr,
    authorization: Option<HeaderValue>,
}

/// The write side stays open until the answer is there: Patroni takes a half-closed connection for a gone peer. In
/// TLS it then waits for our close with one of its few threads, so the connection is driven to its end; the answer
/// does not wait for that.
async fn get<S>(stream: S, words: Words) -> Result<(u16, Option<String>, Bytes), NoAnswer>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let broken = |source| NoAnswer::Broken { source };
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream))
        .await
        .map_err(broken)?;
    let driver = AbortOnDropHandle::new(tokio::spawn(connection));
    let request = hyper::Request::get(words.path)
        .header(HOST, words.peer.to_string())
        .header(CONNECTION, "close")
        .body(Empty::<Bytes>::new());
    let Ok(mut request) = request else {
        unreachable!("a constant path and an address make a valid request")
    };
    if let Some(login) = words.authorization {
        request.headers_mut().insert(AUTHORIZATION, login);
    }
    let answer = sender.send_request(request).await.map_err(broken)?;
    let status = answer.status().as_u16();
    let date = answer
        .headers()
        .get(DATE)
        .and_then(|date| date.to_str().ok())
        .map(str::to_owned);
    let body = Limited::new(answer.into_body(), LARGEST_BODY)
        .collect()
        .await
        .map_err(|error| match error.downcast::<hyper::Error>() {
            Ok(source) => NoAnswer::Broken { source: *source },
            Err(other) => {
                debug_assert!(other.is::<LengthLimitError>());
                NoAnswer::TooLarge
            }
        })?;
    drop(sender);
    tokio::spawn(tokio::time::timeout(GOODBYE, driver));
    Ok((status, date, body.to_bytes()))
}
