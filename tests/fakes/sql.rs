//! What a scripted PostgreSQL server answers to one statement, in which manner.

use std::io;
use std::ops::ControlFlow;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::Notify;
use tokio::time::timeout;

use super::wire;

/// The answer to one statement.
#[derive(Clone, Debug)]
pub enum Sql {
    /// One row of one column.
    Row(String),
    Error(&'static str, &'static str),
    /// The last words of a session.
    Fatal(&'static str, &'static str),
    /// Nothing, until cancelled or left.
    Hang,
    /// One row, a byte each so often.
    Drip(Duration),
    /// The connection ends without a word.
    Close,
}

impl Sql {
    pub(super) async fn send(
        &self,
        stream: &mut TcpStream,
        bell: &Notify,
    ) -> io::Result<ControlFlow<()>> {
        match self {
            Self::Row(value) => stream.write_all(&wire::one_row(value.as_bytes())).await?,
            Self::Error(code, text) => {
                stream.write_all(&wire::error("ERROR", code, text)).await?;
            }
            Self::Fatal(code, text) => {
                stream.write_all(&wire::error("FATAL", code, text)).await?;
                return Ok(ControlFlow::Break(()));
            }
            Self::Close => return Ok(ControlFlow::Break(())),
            Self::Drip(pause) => {
                for byte in wire::one_row(b"f") {
                    stream.write_all(&[byte]).await?;
                    // The client has nothing to say now: whatever comes is the end.
                    if timeout(*pause, stream.read_u8()).await.is_ok() {
                        return Ok(ControlFlow::Break(()));
                    }
                }
            }
            Self::Hang => {
                tokio::select! {
                    () = bell.notified() => {}
                    // The client has nothing to say now: whatever comes is the end.
                    _ = stream.read_u8() => return Ok(ControlFlow::Break(())),
                }
                let words = "canceling statement due to user request";
                stream
                    .write_all(&wire::error("ERROR", "57014", words))
                    .await?;
            }
        }
        Ok(ControlFlow::Continue(()))
    }
}
