//! One question to a PostgreSQL server that leaves no line in its log.

use std::io;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::facts::{Failure, FailureKind, PostgresFacts};
use crate::net::connect_any;
use crate::protocol::Request;

/// Asks for GSS encryption and goes away at the answer: PostgreSQL 12 and later say yes or no and log nothing, whereas
/// a TLS handshake that does not come is a line in the log.
pub(super) async fn probe(
    addresses: &[SocketAddr],
    limit: Duration,
) -> Result<PostgresFacts, Failure> {
    let began = Instant::now();
    match tokio::time::timeout(limit, exchange(addresses)).await {
        Ok(Ok(b'N' | b'G' | b'E')) => Ok(PostgresFacts {
            took: began.elapsed(),
        }),
        Ok(Ok(other)) => Err(Failure {
            kind: FailureKind::Broken,
            words: format!("answers, but not as PostgreSQL does (first byte {other:#04x})"),
        }),
        Ok(Err(error)) => Err(failure(&error)),
        Err(_late) => Err(Failure {
            kind: FailureKind::TimedOut,
            words: format!("did not answer within {limit:?}"),
        }),
    }
}

async fn exchange(addresses: &[SocketAddr]) -> io::Result<u8> {
    let mut stream = connect_any(addresses).await?;
    stream.write_all(Request::Gss.bytes()).await?;
    stream.read_u8().await
}

/// The kernel's words, and what they mean for the advice.
pub(super) fn failure(error: &io::Error) -> Failure {
    let kind = match error.kind() {
        io::ErrorKind::ConnectionRefused => FailureKind::Refused,
        io::ErrorKind::TimedOut => FailureKind::TimedOut,
        io::ErrorKind::NotFound => FailureKind::NoAddress,
        io::ErrorKind::UnexpectedEof
        | io::ErrorKind::ConnectionReset
        | io::ErrorKind::BrokenPipe => FailureKind::Broken,
        _ => FailureKind::Unreachable,
    };
    Failure {
        kind,
        words: match error.kind() {
            io::ErrorKind::UnexpectedEof => "closed the connection without an answer".to_owned(),
            _ => error.to_string(),
        },
    }
}
