//! Signals as values: reload, or end.

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};

/// The signals of a daemon. They are caught from the moment this exists: a SIGHUP during the start waits for its
/// end, and does not kill.
pub(super) struct Signals {
    hangup: Signal,
    terminate: Signal,
    interrupt: Signal,
}

/// What a signal asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Call {
    Reload,
    End(&'static str),
}

impl Signals {
    pub(super) fn catch() -> io::Result<Self> {
        Ok(Self {
            hangup: signal(SignalKind::hangup())?,
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
        })
    }

    pub(super) async fn next(&mut self) -> Call {
        tokio::select! {
            biased;
            Some(()) = self.terminate.recv() => Call::End("SIGTERM"),
            Some(()) = self.interrupt.recv() => Call::End("SIGINT"),
            Some(()) = self.hangup.recv() => Call::Reload,
            else => std::future::pending().await,
        }
    }

    /// The next one that asks for the end; a reload while starting is kept for later.
    pub(super) async fn end(&mut self) -> &'static str {
        tokio::select! {
            Some(()) = self.terminate.recv() => "SIGTERM",
            Some(()) = self.interrupt.recv() => "SIGINT",
            else => std::future::pending().await,
        }
    }
}
