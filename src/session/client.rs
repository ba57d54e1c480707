//! A client that has not got a server yet: what it has said, and what it was told.

use std::time::Duration;

use tokio::io::AsyncWriteExt;

use super::error::End;
use super::stream::{Peer, Stream};
use crate::protocol::{NO, Opening, Refusal, Request, classify, is_well_formed};

/// More than any client says before it is answered; past it nothing is read until there is a server.
const INBOX: usize = 64 * 1024;

#[derive(Debug)]
pub(super) struct Client {
    pub(super) stream: Stream,
    pub(super) peer: Peer,
    /// Read and not yet answered for: kept until a server has taken it, so that the next server can have it too.
    pub(super) inbox: Vec<u8>,
    /// The requests that were answered with `N`, in order: another server must answer the same.
    pub(super) told: Vec<Request>,
    /// How often a server closed on a ClientHello without a word.
    pub(super) shied: u32,
}

/// What the client wants next. Its bytes are the front of the inbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// TLS from the first byte.
    Hello,
    Request(Request),
    Startup {
        length: usize,
    },
    /// A startup message whose parameters cannot be read.
    Broken,
    Cancel {
        length: usize,
    },
}

impl Client {
    pub(super) fn new(stream: Stream, peer: Peer) -> Self {
        Self {
            stream,
            peer,
            inbox: Vec::new(),
            told: Vec::new(),
            shied: 0,
        }
    }

    /// Reads until it is known what the client wants.
    pub(super) async fn next(&mut self, limit: Duration) -> Result<Next, End> {
        let read = async {
            loop {
                match self.judge()? {
                    Some(next) => return Ok(next),
                    None => match self.stream.read_into(&mut self.inbox, INBOX).await? {
                        0 => return Err(End::ClientLeft),
                        _ => continue,
                    },
                }
            }
        };
        match tokio::time::timeout(limit, read).await {
            Ok(next) => next,
            Err(_late) => Err(End::Silent(limit)),
        }
    }

    /// Ends when the client has left. Meanwhile what it says is kept, not lost.
    pub(super) async fn left(&mut self) -> End {
        loop {
            match self.more().await {
                Ok(()) => {}
                Err(end) => return end,
            }
        }
    }

    /// Reads what the client has to say, whatever it is.
    pub(super) async fn more(&mut self) -> Result<(), End> {
        match self.stream.read_into(&mut self.inbox, INBOX).await {
            Ok(0) => Err(End::ClientLeft),
            Ok(_) => Ok(()),
            Err(source) => Err(End::ClientLost(source)),
        }
    }

    /// A request has got its answer.
    pub(super) async fn answer(&mut self, request: Request, answer: u8) -> Result<(), End> {
        self.inbox.drain(..request.bytes().len());
        if answer == NO {
            self.told.push(request);
        }
        Ok(self.stream.write_all(&[answer]).await?)
    }

    /// Answers what the client wants with words, after `N` to what stands before its startup message.
    pub(super) async fn refuse(&mut self, refusal: &Refusal, limit: Duration) -> Result<(), End> {
        let speak = async {
            loop {
                match self.next(limit).await? {
                    Next::Request(request) => self.answer(request, NO).await?,
                    Next::Startup { .. } | Next::Broken => {
                        self.stream.write_all(&refusal.encode()).await?;
                        return Ok(());
                    }
                    Next::Cancel { length } => return Err(End::Cancel { length }),
                    // A client that insists on TLS cannot be told anything.
                    Next::Hello => return Ok(()),
                }
            }
        };
        // A client that does not read its answer is not waited for either.
        match tokio::time::timeout(limit, speak).await {
            Ok(spoken) => spoken,
            Err(_late) => Err(End::Silent(limit)),
        }
    }

    fn judge(&self) -> Result<Option<Next>, End> {
        Ok(match classify(&self.inbox) {
            Opening::Incomplete => None,
            Opening::Tls if self.told.is_empty() => Some(Next::Hello),
            Opening::Request(request) if !self.told.contains(&request) => {
                Some(Next::Request(request))
            }
            Opening::Startup { length } if is_well_formed(&self.inbox[..length]) => {
                Some(Next::Startup { length })
            }
            Opening::Startup { .. } => Some(Next::Broken),
            Opening::Cancel { length } => Some(Next::Cancel { length }),
            Opening::Tls | Opening::Request(_) | Opening::NotPostgres => {
                return Err(End::NotPostgres);
            }
        })
    }
}
