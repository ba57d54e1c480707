//! Two connections and what is on its way between them: a session at rest, as a plain value.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use serde::{Deserialize, Serialize};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

use super::stream::Stream;
use crate::protocol::{READY, Refusal, Scanner};

/// Nothing here belongs to a task: it can be handed to another process.
#[derive(Debug)]
pub(super) struct Forward {
    pub(super) client: Stream,
    pub(super) server: TcpStream,
    /// From the client to the server.
    pub(super) up: Way,
    /// From the server to the client.
    pub(super) down: Way,
    /// `None` when the bytes cannot be read: TLS or GSS encryption.
    pub(super) scan: Option<Scan>,
}

/// One direction: what was read and could not be written yet, and how far its end has come.
#[derive(Debug, Default)]
pub(super) struct Way {
    /// Empty, and without memory, unless the reader is slow.
    pending: Vec<u8>,
    written: usize,
    pub(super) reached: Reached,
}

/// How far a direction's end has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Reached {
    /// The source has sent its end.
    pub(super) ended: bool,
    /// The end was passed on.
    pub(super) closed: bool,
    /// Nobody takes the bytes any more: they are read and dropped.
    pub(super) sunk: bool,
}

/// Both scanners' places, and what is still owed to the client.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Scan {
    pub(super) up: Scanner,
    pub(super) down: Scanner,
    /// ReadyForQuery that the client's messages have asked for and that did not come yet.
    asked: u32,
    /// The client has sent something since the last ReadyForQuery.
    since: bool,
    /// The statement under way came with Execute: its Sync is a message of its own.
    extended: bool,
}

/// How far a direction has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Moved {
    /// The source has just ended; the next call passes that on.
    Ended,
    /// The end was passed on.
    Closed,
}

/// How much of a chunk is passed on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pass {
    All,
    /// Only so many bytes, and nothing of what follows: the stream ends there.
    Cut(usize),
}

/// Which side has failed.
#[derive(Debug)]
pub(super) enum Broken {
    Source(io::Error),
    Sink(io::Error),
}

impl Forward {
    /// Says last words where they can be understood: in clear text, between two messages, with nothing on its way.
    /// Once and without waiting: a client that does not read gets none.
    pub(super) fn say(&self, words: &Refusal) -> bool {
        let is_between = self.scan.is_some_and(|scan| scan.down.at_boundary());
        let is_heard = is_between && self.down.is_clear() && !self.down.reached.ended;
        is_heard && self.client.try_write(&words.encode()).is_ok()
    }
}

impl Way {
    pub(super) fn new(pending: Vec<u8>) -> Self {
        Self {
            pending,
            ..Self::default()
        }
    }

    /// As another process has left it.
    pub(super) fn resume(reached: Reached, pending: Vec<u8>) -> Self {
        Self {
            pending,
            written: 0,
            reached,
        }
    }

    /// What was read and could not be written yet.
    pub(super) fn rest(&self) -> &[u8] {
        &self.pending[self.written..]
    }

    pub(super) fn is_clear(&self) -> bool {
        self.pending.is_empty()
    }

    /// What is on its way, to be looked at before it goes on.
    pub(super) fn take(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.pending)
    }

    /// Says something of ours after what is on its way.
    pub(super) fn append(&mut self, bytes: &[u8]) {
        self.pending.extend_from_slice(bytes);
    }

    /// Nobody takes the bytes any more.
    pub(super) fn sink(&mut self) {
        self.reached.sunk = true;
        self.pending = Vec::new();
        self.written = 0;
    }

    /// Moves what can be moved. `read` sees each chunk before it is written and says how much of it is passed on.
    pub(super) fn poll_move<S, D>(
        &mut self,
        cx: &mut Context<'_>,
        source: &mut S,
        sink: &mut D,
        buffer: &mut [u8],
        mut read: impl FnMut(&[u8]) -> Pass,
    ) -> Poll<Result<Moved, Broken>>
    where
        S: AsyncRead + Unpin,
        D: AsyncWrite + Unpin,
    {
        loop {
            ready!(self.poll_pending(cx, sink)).map_err(Broken::Sink)?;
            if self.reached.ended {
                if !self.reached.closed && !self.reached.sunk {
                    ready!(Pin::new(sink).poll_shutdown(cx)).map_err(Broken::Sink)?;
                }
                self.reached.closed = true;
                return Poll::Ready(Ok(Moved::Closed));
            }
            let mut chunk = ReadBuf::new(buffer);
            ready!(Pin::new(&mut *source).poll_read(cx, &mut chunk)).map_err(Broken::Source)?;
            let chunk = chunk.filled();
            if chunk.is_empty() {
                self.reached.ended = true;
                return Poll::Ready(Ok(Moved::Ended));
            }
            let pass = read(chunk);
            let passed = match pass {
                Pass::All => chunk,
                Pass::Cut(end) => &chunk[..end],
            };
            if !self.reached.sunk {
                self.write(cx, sink, passed)?;
            }
            if pass != Pass::All {
                self.reached.ended = true;
                return Poll::Ready(Ok(Moved::Ended));
            }
        }
    }

    fn poll_pending(
        &mut self,
        cx: &mut Context<'_>,
        sink: &mut (impl AsyncWrite + Unpin),
    ) -> Poll<io::Result<()>> {
        while self.written < self.pending.len() {
            let rest = &self.pending[self.written..];
            self.written += ready!(Pin::new(&mut *sink).poll_write(cx, rest))?;
        }
        if !self.pending.is_empty() {
            self.pending = Vec::new();
            self.written = 0;
        }
        Poll::Ready(Ok(()))
    }

    /// Writes at once; only what does not fit is copied.
    fn write(
        &mut self,
        cx: &mut Context<'_>,
        sink: &mut (impl AsyncWrite + Unpin),
        bytes: &[u8],
    ) -> Result<(), Broken> {
        let written = match Pin::new(sink).poll_write(cx, bytes) {
            Poll::Ready(written) => written.map_err(Broken::Sink)?,
            Poll::Pending => 0,
        };
        self.pending.extend_from_slice(&bytes[written..]);
        Ok(())
    }
}

impl Scan {
    pub(super) fn pass_up(&mut self, bytes: &[u8]) {
        self.since = true;
        let (asked, extended) = (&mut self.asked, &mut self.extended);
        self.up.pass(bytes, |tag| {
            // Query, Sync, FunctionCall.
            if matches!(tag, b'Q' | b'S' | b'F') {
                *asked = asked.saturating_add(1);
            }
            // Query, Execute.
            if matches!(tag, b'Q' | b'E') {
                *extended = tag == b'E';
            }
        });
    }

    pub(super) fn pass_down(&mut self, bytes: &[u8]) {
        let (asked, since, extended) = (&mut self.asked, &mut self.since, self.extended);
        self.down.pass(bytes, |tag| match tag {
            READY => {
                *asked = asked.saturating_sub(1);
                *since = false;
            }
            // CopyIn: a Sync that came with the statement is swallowed, and another one follows the data.
            b'G' => *asked = u32::from(!extended),
            // CopyBoth is a plain statement's.
            b'W' => *asked = 1,
            _ => {}
        });
    }

    /// Nothing is under way: the server waits for the client's next statement, outside of a transaction.
    pub(super) fn is_idle(&self) -> bool {
        self.down.is_ready_idle() && self.asked == 0 && !self.since
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn messages(tags: &[u8]) -> Vec<u8> {
        let bodies = tags.iter().map(|tag| match *tag {
            READY => vec![READY, 0, 0, 0, 5, b'I'],
            tag => vec![tag, 0, 0, 0, 4],
        });
        bodies.flatten().collect()
    }

    /// What client and server say by turns, the client first.
    fn after(turns: &[&[u8]]) -> Scan {
        let mut scan = Scan::default();
        for (turn, tags) in turns.iter().enumerate() {
            match turn % 2 {
                0 => scan.pass_up(&messages(tags)),
                _ => scan.pass_down(&messages(tags)),
            }
        }
        scan
    }

    #[test]
    fn a_session_is_idle_after_a_copy_of_either_kind() {
        let copies: [&[&[u8]]; 4] = [
            &[b"Q", b"G", b"ddc", b"CZ"],
            &[b"PBDES", b"12nG", b"ddcS", b"CZ"],
            &[b"PBDEH", b"12nG", b"ddcS", b"CZ"],
            &[b"Q", b"W", b"dc", b"CZ"],
        ];
        for copy in copies {
            for end in 1..copy.len() {
                assert!(!after(&copy[..end]).is_idle(), "{copy:?} {end}");
            }
            assert!(after(copy).is_idle(), "{copy:?}");
        }
    }

    #[test]
    fn a_session_is_idle_after_the_last_of_a_pipelines_answers() {
        assert!(!after(&[b"PBESPBES", b"12CZ"]).is_idle());
        assert!(after(&[b"PBESPBES", b"12CZ12CZ"]).is_idle());
    }
}
