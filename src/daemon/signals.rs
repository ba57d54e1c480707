//! Signals as values: reload, hand over, or end.

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};

/// The signals of a daemon. They are caught from the moment this exists: a SIGHUP during the start waits for its
/// end, and does not kill.
pub(super) struct Signals {
    hangup: Signal,
    terminate: Signal,
    interrupt: Signal,
    user2: Signal,
}

/// What a signal asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Call {
    Reload,
    /// A new process is to take over, whether its file is another one or not.
    HandOver,
    End(&'static str),
}

impl Signals {
    pub(super) fn catch() -> io::Result<Self> {
        Ok(Self {
            hangup: signal(SignalKind::hangup())?,
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            user2: signal(SignalKind::user_defined2())?,
        })
    }

    pub(super) async fn next(&mut self) -> Call {
        tokio::select! {
            biased;
            Some(()) = self.terminate.recv() => Call::End("SIGTERM"),
            Some(()) = self.interrupt.recv() => Call::End("SIGINT"),
            Some(()) = self.hangup.recv() => Call::Reload,
            Some(()) = self.user2.recv() => Call::HandOver,
            else => std::future::pending().await,
        }
    }

    /// The next one that asks for the end; what else is asked for while starting is kept for later.
    pub(super) async fn end(&mut self) -> &'static str {
        tokio::select! {
            Some(()) = self.terminate.recv() => "SIGTERM",
            Some(()) = self.interrupt.recv() => "SIGINT",
            else => std::future::pending().await,
        }
    }
}
