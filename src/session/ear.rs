//! Listens to a session's beginning: the cancel key, a standby that should be a leader, and when the dial is over.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::time::Sleep;

use super::cancel::CancelKey;
use super::registry::Place;
use super::shared::Shared;
use crate::protocol::{Found, READY, cancel_key, error_code, find, parameter};
use crate::routing::Slot;

/// A dial slot is given back after this, however slowly the client answers.
const SLOT: Duration = Duration::from_secs(1);
/// Messages larger than this are passed over unread.
const READ: usize = 8 * 1024;

/// A dial slot that is given back when its time is up, if not before.
pub(super) struct TimedSlot {
    slot: Option<Slot>,
    late: Pin<Box<Sleep>>,
}

/// Lives until the first ReadyForQuery, boxed: a session that has begun pays nothing for it.
pub(super) struct Ear {
    slot: TimedSlot,
    kind: Kind,
}

enum Kind {
    Clear {
        /// The beginning of a message whose end is still to come.
        part: Vec<u8>,
        /// Bytes of a large message still to pass over.
        skip: usize,
    },
    /// Server reads since the client's ClientHello.
    Opaque { reads: u32, hello: bool },
}

/// How far an ear has come, the beginning of an unfinished message apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Listening {
    Clear { skip: usize },
    Opaque { reads: u32, hello: bool },
}

/// What a chunk of the server's bytes meant.
#[derive(Default)]
pub(super) struct Heard {
    pub(super) key: Option<CancelKey>,
    /// The dial is over, the session has begun.
    pub(super) ready: bool,
    /// The node is a standby: nothing after so many bytes of the chunk may pass.
    pub(super) in_recovery: Option<usize>,
}

impl TimedSlot {
    /// Its time begins now, with the connection.
    pub(super) fn new(slot: Slot) -> Self {
        Self {
            slot: Some(slot),
            late: Box::pin(tokio::time::sleep(SLOT)),
        }
    }

    fn given_back() -> Self {
        Self {
            slot: None,
            late: Box::pin(tokio::time::sleep(Duration::ZERO)),
        }
    }

    /// Gives the slot back when its time is up; there is nothing else to wait for.
    pub(super) fn poll_late(&mut self, cx: &mut Context<'_>) -> Poll<Infallible> {
        if self.slot.is_some() && self.late.as_mut().poll(cx).is_ready() {
            self.slot = None;
        }
        Poll::Pending
    }
}

impl Ear {
    pub(super) fn clear(slot: TimedSlot) -> Self {
        let kind = Kind::Clear {
            part: Vec::new(),
            skip: 0,
        };
        Self { slot, kind }
    }

    /// `hello`: the ClientHello has been passed on. The server's answer to it is still to be heard here.
    pub(super) fn opaque(slot: TimedSlot, hello: bool) -> Self {
        let kind = Kind::Opaque { reads: 0, hello };
        Self { slot, kind }
    }

    /// What another process needs to go on listening; the slot stays.
    pub(super) fn listening(&self) -> (Listening, &[u8]) {
        match &self.kind {
            Kind::Clear { part, skip } => (Listening::Clear { skip: *skip }, part),
            Kind::Opaque { reads, hello } => {
                let (reads, hello) = (*reads, *hello);
                (Listening::Opaque { reads, hello }, &[])
            }
        }
    }

    /// As another process has left it.
    pub(super) fn resume(listening: Listening, part: Vec<u8>) -> Self {
        let kind = match listening {
            Listening::Clear { skip } => Kind::Clear { part, skip },
            Listening::Opaque { reads, hello } => Kind::Opaque { reads, hello },
        };
        let slot = TimedSlot::given_back();
        Self { slot, kind }
    }

    /// Gives the slot back when its time is up.
    pub(super) fn poll_late(&mut self, cx: &mut Context<'_>) {
        let _ = self.slot.poll_late(cx);
    }

    pub(super) fn client_spoke(&mut self) {
        if let Kind::Opaque { hello, .. } = &mut self.kind {
            *hello = true;
        }
    }

    pub(super) fn hear(&mut self, chunk: &[u8], place: &Place, shared: &Shared) -> Heard {
        let mut heard = Heard::default();
        match &mut self.kind {
            Kind::Opaque { reads, hello } => {
                *reads += u32::from(*hello);
                heard.ready = *reads >= 2;
            }
            Kind::Clear { part, skip } => {
                let skipped = chunk.len().min(*skip);
                *skip -= skipped;
                let before = part.len();
                part.extend_from_slice(&chunk[skipped..]);
                let at = listen(part, skip, place, shared, &mut heard);
                if heard.in_recovery.is_some() {
                    // What had come before this chunk is passed on already.
                    heard.in_recovery = Some(skipped + at.saturating_sub(before));
                }
                part.drain(..at.min(part.len()));
            }
        }
        if heard.ready {
            self.slot.slot = None;
            if place.leads {
                shared.router.dial_ready(place.addr, place.epoch);
            }
        }
        heard
    }
}

/// Reads the whole messages at the front of `bytes` and returns where they end.
fn listen(
    bytes: &[u8],
    skip: &mut usize,
    place: &Place,
    shared: &Shared,
    heard: &mut Heard,
) -> usize {
    let mut at = 0;
    while !heard.ready && heard.in_recovery.is_none() {
        let rest = &bytes[at..];
        match find(rest) {
            Found::Message { tag, body, length } => {
                at += length;
                understand(tag, body, place, shared, heard);
            }
            Found::Part { length, .. } if length > READ => {
                *skip = length - rest.len();
                return bytes.len();
            }
            Found::Nothing | Found::Part { .. } => break,
            Found::Broken => return bytes.len(),
        }
    }
    at
}

fn understand(tag: u8, body: &[u8], place: &Place, shared: &Shared, heard: &mut Heard) {
    match tag {
        b'K' => {
            if let Some(key) = cancel_key(body) {
                heard.key = Some(shared.cancels.issue(key, place.addr));
            }
        }
        b'S' if place.intent.route.writes()
            && parameter(body) == Some((b"in_hot_standby", b"on")) =>
        {
            heard.in_recovery = Some(0);
        }
        b'E' => match error_code(body) {
            Some(b"53300") => shared.router.node_is_full(place.addr),
            Some(b"57P01" | b"57P02" | b"57P03") => {
                shared.router.distrust(place.addr, place.leads);
            }
            _ => {}
        },
        READY => heard.ready = true,
        _ => {}
    }
}
