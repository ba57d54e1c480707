//! What the two processes of a hand-over say to each other.
//!
//! ```text
//! old                                   new
//!  ├─ Hello ───────────────────────────▶ │
//!  │ ◀─────────────────────────── Hello ─┤   another protocol: both give up
//!  ├─ Listener… , Estate ──────────────▶ │   binds what is new, asks its first round
//!  │ ◀──────────────── Refused | Ready ──┤
//!  ├─ Go ──────────────────────────────▶ │   the state once more, as it is now
//!  │ ◀───────────────────────── Serving ─┤   accepts; from here on there is no way back
//!  ├─ Named ───────────────────────────▶ │   systemd knows the new main process
//!  ├─ Parcel… ─────────────────────────▶ │
//!  │ ◀────────────── Taken | GivenBack … ┤
//! ```

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::error::Broken;
use super::link::{Frame, Link};
use crate::daemon::house::House;
use crate::primary_tracker::Heir;
use crate::session::{Cancel, Census};

/// Two processes hand over only if both speak the same. What is added without one of them needing it, needs no other
/// number.
pub(super) const PROTOCOL: u32 = 1;

/// The first words of each side. Every protocol begins with these.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Hello {
    pub(super) protocol: u32,
    pub(super) version: String,
    pub(super) pid: u32,
}

/// What the old process says.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum ToNew {
    /// A listening socket, as the frame's descriptor.
    Listener {
        /// Under which name systemd keeps it, if it does.
        kept_as: Option<String>,
    },
    /// All sockets are sent.
    Estate(Box<Estate>),
    /// The new one may begin.
    Go(Box<Heir>),
    /// The service manager knows who is the main process now.
    Named,
    /// A session or a client that waits, in the frame's bytes and descriptors.
    Parcel { id: u64 },
    /// What is still there, so that limits and sums are those of both processes.
    Census(Census),
    /// What became of an errand: was its key known?
    Done { id: u64, known: bool },
}

/// What the new process says.
#[derive(Serialize, Deserialize)]
pub(super) enum ToOld {
    /// It cannot start, for this reason.
    Refused { words: String },
    /// It has bound, and asked the nodes once.
    Ready,
    /// It accepts.
    Serving,
    /// It goes on with the parcel; the old process must forget it.
    Taken { id: u64 },
    /// It does not: it has touched nothing of it.
    GivenBack { id: u64, words: String },
    /// A cancel whose key is not known in the new process: the session may have stayed.
    Errand { id: u64, cancel: Cancel },
}

/// What the new process begins with.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(in crate::daemon) struct Estate {
    pub(in crate::daemon) heir: Heir,
    /// Hand-overs before this one that went well, and that did not.
    pub(in crate::daemon) handovers: Handovers,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(in crate::daemon) struct Handovers {
    pub(in crate::daemon) ok: u64,
    pub(in crate::daemon) failed: u64,
}

impl Handovers {
    /// As this process has counted them.
    pub(in crate::daemon) fn of(house: &House) -> Self {
        let count = |result| house.handovers(result).get();
        Self {
            ok: count("ok"),
            failed: count("failed"),
        }
    }
}

impl Hello {
    pub(super) fn ours() -> Self {
        Self {
            protocol: PROTOCOL,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            pid: std::process::id(),
        }
    }

    /// # Errors
    /// The other one does not speak our protocol.
    pub(super) fn understood(self) -> Result<Self, Broken> {
        if self.protocol == PROTOCOL {
            Ok(self)
        } else {
            Err(Broken::Protocol {
                version: self.version,
                theirs: self.protocol,
                ours: PROTOCOL,
            })
        }
    }
}

impl Link {
    pub(super) async fn say(&self, words: &impl Serialize) -> Result<(), Broken> {
        self.say_with(words, Frame::default()).await
    }

    /// `more` are the bytes and descriptors that go along.
    pub(super) async fn say_with(&self, words: &impl Serialize, more: Frame) -> Result<(), Broken> {
        let words = serde_json::to_vec(words).map_err(Broken::Words)?;
        let frame = Frame { words, ..more };
        self.send(&frame).await.map_err(Broken::of)
    }

    /// What the other one says next, with the frame that it came in.
    pub(super) async fn hear<T: DeserializeOwned>(&mut self) -> Result<(T, Frame), Broken> {
        let frame = self.receive().await.map_err(Broken::of)?;
        let frame = frame.ok_or(Broken::Ended)?;
        let words = serde_json::from_slice(&frame.words).map_err(Broken::Words)?;
        Ok((words, frame))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_protocol_is_not_understood_whatever_else_it_says() {
        let hello: Hello = serde_json::from_str(
            r#"{"protocol": 2, "version": "9.0", "pid": 7, "colour": "blue"}"#,
        )
        .unwrap();

        let error = hello.understood().unwrap_err().to_string();

        assert_eq!(error, "version 9.0 speaks hand-over protocol 2, this one 1");
    }

    #[test]
    fn an_estate_with_less_in_it_is_one() {
        let estate: Estate = serde_json::from_str("{}").unwrap();

        assert_eq!(estate.handovers, Handovers::default());
    }
}
