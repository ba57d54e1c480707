//! One question to a Patroni node, and what can go wrong with it.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Empty, LengthLimitError, Limited};
use hyper::header::{CONNECTION, DATE, HOST};
use hyper_util::rt::TokioIo;
use tokio_util::task::AbortOnDropHandle;

use super::Place;
use crate::clock::Clock;
use crate::net::at_port;

/// An answer larger than this is not Patroni's.
const LARGEST_BODY: usize = 1024 * 1024;

/// Whom to ask and what.
#[derive(Clone, Debug)]
pub(crate) struct Question {
    pub(crate) place: Place,
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
    /// The node's own time: from the request's last byte to the answer's last, connecting left out.
    pub(crate) own_time: Duration,
}

/// Why a node gave no answer. None of these says that the node does not lead: they are silence.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NoAnswer {
    #[error("did not answer within {limit:?}")]
    TimedOut { limit: Duration },

    #[error("connection failed")]
    Connect { source: io::Error },

    #[error("the connection broke before the answer was whole")]
    Broken { source: hyper::Error },

    #[error("the answer is larger than {LARGEST_BODY} bytes")]
    TooLarge,
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
    let asked = clock.now();
    let (status, date, body) = get(stream, peer, question.path).await?;
    Ok(Reply {
        from: at_port(peer, 0),
        status,
        date,
        body,
        own_time: clock.now().saturating_sub(asked),
    })
}

/// The write side stays open until the answer is there: Patroni takes a half-closed connection for a gone peer.
async fn get(
    stream: tokio::net::TcpStream,
    peer: SocketAddr,
    path: &str,
) -> Result<(u16, Option<String>, Bytes), NoAnswer> {
    let broken = |source| NoAnswer::Broken { source };
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream))
        .await
        .map_err(broken)?;
    let _driver = AbortOnDropHandle::new(tokio::spawn(connection));
    let request = hyper::Request::get(path)
        .header(HOST, peer.to_string())
        .header(CONNECTION, "close")
        .body(Empty::<Bytes>::new());
    let Ok(request) = request else {
        unreachable!("a constant path and an address make a valid request")
    };
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
    Ok((status, date, body.to_bytes()))
}
