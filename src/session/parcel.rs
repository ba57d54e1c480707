//! A session, or a client that waits for one, as a plain value: what another process needs to go on with it.

use std::fmt;
use std::os::fd::OwnedFd;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::ear::Listening;
use super::forward::{Reached, Scan};
use super::stream::Peer;
use crate::net::Address;
use crate::protocol::Request;
use crate::routing::{Intent, Placed, Waited};

/// Whoever holds one owns the connection: nobody else reads or writes it.
pub(crate) struct Parcel {
    pub(super) head: Head,
    pub(super) bytes: Bytes,
    pub(super) client: OwnedFd,
    /// Set for a session.
    pub(super) server: Option<OwnedFd>,
}

#[derive(Serialize, Deserialize)]
pub(super) struct Head {
    /// As its worker calls it.
    pub(super) listener: Address,
    /// What that listener's clients wanted when this one came.
    pub(super) intent: Intent,
    pub(super) peer: Peer,
    pub(super) what: What,
}

#[derive(Serialize, Deserialize)]
pub(super) enum What {
    Session(Box<Session>),
    /// Its first packet has not come yet, or not as a whole.
    Greeting {
        left: Duration,
    },
    Held(Box<Held>),
}

/// A relayed one, between two of its steps.
#[derive(Serialize, Deserialize)]
pub(super) struct Session {
    pub(super) placed: Placed,
    pub(super) up: Reached,
    pub(super) down: Reached,
    /// `None` when its bytes cannot be read.
    pub(super) scan: Option<Scan>,
    /// Until the first ReadyForQuery.
    pub(super) ear: Option<Listening>,
    pub(super) cancel_key: Option<Vec<u8>>,
}

/// A client that waits for a node.
#[derive(Serialize, Deserialize)]
pub(super) struct Held {
    pub(super) told: Vec<Request>,
    pub(super) shied: u32,
    pub(super) waited: Waited,
}

/// Apart from the head: they are many, and may be secret.
#[derive(Default)]
pub(super) struct Bytes {
    /// Of the client, on their way; of a client that has no server yet, all that was read and not answered for.
    pub(super) up: Vec<u8>,
    /// Of the server, on their way.
    pub(super) down: Vec<u8>,
    /// Of a message of the server's beginning that has not come as a whole.
    pub(super) part: Vec<u8>,
}

/// A frame that this version does not understand.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Unreadable {
    #[error("a parcel's frame is too short")]
    Short,

    #[error("a parcel's head cannot be read")]
    Head(#[from] serde_json::Error),

    #[error("a parcel came with {0} descriptors")]
    Descriptors(usize),
}

impl Parcel {
    /// For a stream that carries bytes and descriptors.
    ///
    /// # Errors
    /// What the head names cannot be written as JSON.
    pub(crate) fn into_frame(self) -> Result<(Vec<u8>, Vec<OwnedFd>), Unreadable> {
        let head = serde_json::to_vec(&self.head)?;
        let Bytes { up, down, part } = &self.bytes;
        let blocks = [&head, up, down, part];
        let mut frame = Vec::with_capacity(blocks.iter().map(|block| block.len() + 4).sum());
        for block in blocks {
            // None of them is larger than what a relay reads at once and a few words.
            frame.extend_from_slice(&(block.len() as u32).to_be_bytes());
            frame.extend_from_slice(block);
        }
        let descriptors = [Some(self.client), self.server];
        Ok((frame, descriptors.into_iter().flatten().collect()))
    }

    /// # Errors
    /// It is not what [`Self::into_frame`] of the same version makes.
    pub(crate) fn from_frame(
        mut frame: &[u8],
        descriptors: Vec<OwnedFd>,
    ) -> Result<Self, Unreadable> {
        let head: Head = serde_json::from_slice(block(&mut frame)?)?;
        let [up, down, part] = [block(&mut frame)?, block(&mut frame)?, block(&mut frame)?];
        let came = descriptors.len();
        let mut descriptors = descriptors.into_iter();
        let (client, server) = (descriptors.next(), descriptors.next());
        let is_session = matches!(head.what, What::Session(_));
        let client = client.filter(|_| came == 1 + usize::from(is_session));
        Ok(Self {
            head,
            bytes: Bytes {
                up: up.to_vec(),
                down: down.to_vec(),
                part: part.to_vec(),
            },
            client: client.ok_or(Unreadable::Descriptors(came))?,
            server,
        })
    }
}

/// For logs: whose it is, and nothing that was said.
impl fmt::Display for Parcel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let peer = &self.head.peer;
        match &self.head.what {
            What::Session(session) => write!(f, "session of {peer} at {}", session.placed.node),
            What::Greeting { .. } => write!(f, "{peer}, who has not spoken"),
            What::Held(_) => write!(f, "{peer}, who waits"),
        }
    }
}

/// The next block, its length before it.
fn block<'a>(frame: &mut &'a [u8]) -> Result<&'a [u8], Unreadable> {
    let (length, rest) = frame.split_first_chunk().ok_or(Unreadable::Short)?;
    let length = u32::from_be_bytes(*length) as usize;
    let (block, rest) = rest.split_at_checked(length).ok_or(Unreadable::Short)?;
    *frame = rest;
    Ok(block)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn descriptor() -> OwnedFd {
        std::fs::File::open("/dev/null").unwrap().into()
    }

    fn greeting(up: &[u8]) -> Parcel {
        Parcel {
            head: Head {
                listener: Address::Unix("/run/x/.s.PGSQL.5432".into()),
                intent: Intent::default(),
                peer: Peer::Local,
                what: What::Greeting {
                    left: Duration::from_millis(1_500),
                },
            },
            bytes: Bytes {
                up: up.to_vec(),
                ..Bytes::default()
            },
            client: descriptor(),
            server: None,
        }
    }

    #[test]
    fn a_parcel_comes_out_of_its_frame_as_it_went_in() {
        let (frame, descriptors) = greeting(b"\0\xff\0").into_frame().unwrap();
        let parcel = Parcel::from_frame(&frame, descriptors).unwrap();

        assert_eq!(parcel.bytes.up, b"\0\xff\0");
        assert_eq!(parcel.head.peer, Peer::Local);
        assert!(matches!(parcel.head.what, What::Greeting { left } if left.as_millis() == 1_500));
    }

    #[test]
    fn a_broken_frame_is_an_error_whatever_is_broken() {
        let (frame, _) = greeting(b"abc").into_frame().unwrap();
        for end in 0..frame.len() {
            let read = Parcel::from_frame(&frame[..end], vec![descriptor()]);
            assert!(read.is_err(), "{end}");
        }
        for count in [0, 2, 3] {
            let descriptors = std::iter::repeat_with(descriptor).take(count).collect();
            let read = Parcel::from_frame(&frame, descriptors);
            assert!(matches!(read, Err(Unreadable::Descriptors(n)) if n == count));
        }
    }

    #[test]
    fn what_was_said_is_in_no_log() {
        let parcel = greeting(b"secret");
        assert!(!parcel.to_string().contains("secret"));
    }
}
