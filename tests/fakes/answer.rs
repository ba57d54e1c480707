//! What one path of a scripted REST API answers, and in which manner.

use std::io;
use std::time::{Duration, SystemTime};

use tokio::io::{AsyncWrite, AsyncWriteExt};

use super::body::Body;

/// What one path answers.
#[derive(Clone, Debug)]
pub struct Answer {
    status: u16,
    content: Content,
    /// Before the first byte.
    pub(super) delay: Duration,
    pub(super) manner: Manner,
    /// Of its `Date`, in seconds ahead of the truth.
    clock: i64,
}

#[derive(Clone, Debug)]
enum Content {
    /// Rendered when asked, so that its times are of the moment.
    Of(Box<Body>),
    Bytes(Vec<u8>),
    /// So many spaces.
    Spaces(u64),
}

#[derive(Clone, Debug)]
pub(super) enum Manner {
    /// As Patroni does: HTTP/1.0, no length, ended by the close; head and body in two segments.
    Plain,
    /// HTTP/1.1 with `Transfer-Encoding: chunked`.
    Chunked,
    /// One byte, then this long nothing, and so on.
    Drip(Duration),
    /// Reads the question and never answers.
    Hang,
    /// Reads the question and resets.
    Reset,
    /// Reads the question and closes.
    Close,
    /// The status line and nothing else.
    StatusLine,
    /// These bytes instead of HTTP.
    Raw(Vec<u8>),
    /// `Location:` another place.
    Redirect(String),
}

impl Answer {
    pub fn new(status: u16, body: Body) -> Self {
        Self {
            status,
            content: Content::Of(Box::new(body)),
            delay: Duration::ZERO,
            manner: Manner::Plain,
            clock: 0,
        }
    }

    pub fn bytes(status: u16, body: impl Into<Vec<u8>>) -> Self {
        Self {
            status,
            content: Content::Bytes(body.into()),
            delay: Duration::ZERO,
            manner: Manner::Plain,
            clock: 0,
        }
    }

    /// A 200 whose body is this long and never JSON.
    pub fn huge(bytes: u64) -> Self {
        let mut answer = Self::bytes(200, "");
        answer.content = Content::Spaces(bytes);
        answer
    }

    pub fn hang() -> Self {
        Self::bytes(200, "").manner(Manner::Hang)
    }

    pub fn reset() -> Self {
        Self::bytes(200, "").manner(Manner::Reset)
    }

    pub fn close() -> Self {
        Self::bytes(200, "").manner(Manner::Close)
    }

    pub fn raw(bytes: impl Into<Vec<u8>>) -> Self {
        Self::bytes(200, "").manner(Manner::Raw(bytes.into()))
    }

    pub fn redirect(to: &str) -> Self {
        Self::bytes(301, "").manner(Manner::Redirect(to.to_owned()))
    }

    /// After so long.
    pub fn delay(mut self, delay: Duration) -> Self {
        self.delay = delay;
        self
    }

    /// From a node whose clock is so many seconds ahead.
    pub fn clock_off_by(mut self, seconds: i64) -> Self {
        self.clock = seconds;
        self
    }

    pub fn chunked(self) -> Self {
        self.manner(Manner::Chunked)
    }

    pub fn drip(self, gap: Duration) -> Self {
        self.manner(Manner::Drip(gap))
    }

    pub fn status_line_only(self) -> Self {
        self.manner(Manner::StatusLine)
    }

    fn manner(mut self, manner: Manner) -> Self {
        self.manner = manner;
        self
    }
}

/// Writes it as its manner is.
pub(super) async fn send(stream: &mut (impl AsyncWrite + Unpin), answer: Answer) -> io::Result<()> {
    let status = format!("{} {}", answer.status, reason(answer.status));
    let common = format!(
        "Server: BaseHTTP/0.6 Python/3.11.2\r\nDate: {}\r\nContent-Type: application/json\r\n",
        httpdate::fmt_http_date(off_by(answer.clock)),
    );
    let body = match &answer.content {
        Content::Of(body) => body.render(),
        Content::Bytes(bytes) => bytes.clone(),
        Content::Spaces(count) => {
            stream
                .write_all(format!("HTTP/1.0 {status}\r\n{common}\r\n").as_bytes())
                .await?;
            return spaces(stream, *count).await;
        }
    };
    match answer.manner {
        Manner::Plain => {
            stream
                .write_all(format!("HTTP/1.0 {status}\r\n{common}\r\n").as_bytes())
                .await?;
            stream.write_all(&body).await
        }
        Manner::Chunked => {
            let head = format!("HTTP/1.1 {status}\r\n{common}Transfer-Encoding: chunked\r\n\r\n");
            stream.write_all(head.as_bytes()).await?;
            for part in body.chunks(100) {
                stream
                    .write_all(format!("{:x}\r\n", part.len()).as_bytes())
                    .await?;
                stream.write_all(part).await?;
                stream.write_all(b"\r\n").await?;
            }
            stream.write_all(b"0\r\n\r\n").await
        }
        Manner::Drip(gap) => {
            let mut all = format!("HTTP/1.0 {status}\r\n{common}\r\n").into_bytes();
            all.extend_from_slice(&body);
            for byte in all {
                stream.write_all(&[byte]).await?;
                tokio::time::sleep(gap).await;
            }
            Ok(())
        }
        Manner::StatusLine => {
            stream
                .write_all(format!("HTTP/1.0 {status}\r\n\r\n").as_bytes())
                .await
        }
        Manner::Raw(bytes) => stream.write_all(&bytes).await,
        Manner::Redirect(to) => {
            let head = format!("HTTP/1.0 {status}\r\n{common}Location: {to}\r\n\r\n");
            stream.write_all(head.as_bytes()).await
        }
        Manner::Hang | Manner::Reset | Manner::Close => Ok(()),
    }
}

fn off_by(seconds: i64) -> SystemTime {
    let off = Duration::from_secs(seconds.unsigned_abs());
    match seconds {
        0.. => SystemTime::now() + off,
        _ => SystemTime::now() - off,
    }
}

async fn spaces(stream: &mut (impl AsyncWrite + Unpin), count: u64) -> io::Result<()> {
    let part = [b' '; 65_536];
    let mut left = count;
    while left > 0 {
        let now = usize::try_from(left.min(65_536)).unwrap_or(65_536);
        stream.write_all(&part[..now]).await?;
        left -= now as u64;
    }
    Ok(())
}

fn reason(status: u16) -> &'static str {
    match status {
        200 => "OK",
        301 => "Moved Permanently",
        401 => "Unauthorized",
        404 => "Not Found",
        500 => "Internal Server Error",
        502 => "Bad Gateway",
        503 => "Service Unavailable",
        _ => "Odd",
    }
}
