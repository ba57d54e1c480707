//! Why a hand-over does not happen. The old process goes on as if nothing had been asked of it.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

/// What breaks between the two processes, seen from either side.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Broken {
    #[error("the other process has ended")]
    Ended,

    #[error("the other process owes an answer for {0:?}")]
    Late(Duration),

    #[error("the link to the other process is broken")]
    Link(#[source] io::Error),

    #[error("the other process says what cannot be understood")]
    Words(#[source] serde_json::Error),

    #[error("the other process says something else than is its turn")]
    Order,

    #[error("version {version} speaks hand-over protocol {theirs}, this one {ours}")]
    Protocol {
        version: String,
        theirs: u32,
        ours: u32,
    },
}

impl Broken {
    /// A peer that has ended with something unread is reset by the kernel; it may have ended within a frame.
    pub(super) fn of(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::ConnectionReset
            | io::ErrorKind::BrokenPipe
            | io::ErrorKind::UnexpectedEof => Self::Ended,
            _ => Self::Link(error),
        }
    }
}

/// Why the process that runs goes on.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NotHandedOver {
    #[error("{}: cannot be started", path.display())]
    Spawn { path: PathBuf, source: io::Error },

    #[error("this is process 1, whose end would end its container: restart that instead")]
    Init,

    #[error("{} (process {pid}) was not ready within {limit:?} and was ended", path.display())]
    Late {
        path: PathBuf,
        pid: i32,
        limit: Duration,
    },

    #[error("{} refuses: {words}", path.display())]
    Refused { path: PathBuf, words: String },

    #[error("{} did not become ready", path.display())]
    Broken { path: PathBuf, source: Broken },

    #[error("the listening sockets cannot be handed over")]
    Sockets(#[source] io::Error),

    #[error("the tracker does not answer")]
    Tracker,
}
