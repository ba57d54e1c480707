//! One node as the poller asks it: where, by what means, in which rhythm, and who answered.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::cadence::Tempo;
use super::news::{NodeId, Silence};
use super::source::Source;
use super::witness::Witness;
use super::{NodeSettings, Place};
use crate::clock::BootTime;
use crate::net::{Host, at_port};

pub(super) struct Asked {
    pub(super) id: NodeId,
    pub(super) settings: NodeSettings,
    pub(super) source: Source,
    /// Where the questions go, as it is written.
    pub(super) name: Arc<str>,
    pub(super) host: Host,
    pub(super) port: u16,
    /// Only when the REST API is elsewhere: then PostgreSQL's host is bound to it by configuration.
    pub(super) postgres: Option<Host>,
    /// The address that answered the newest question, and when that was sent.
    pub(super) answered: Option<(SocketAddr, BootTime)>,
    /// The address that PostgreSQL was last found at, as long as `postgres` still has it.
    pub(super) bound: Option<SocketAddr>,
    /// Holds a lease: its questions go to that address alone.
    pub(super) leased: bool,
    pub(super) tempo: Tempo,
    pub(super) witness: Witness,
    /// Drawn anew for each question.
    pub(super) jitter: f32,
}

/// The addresses of a node that another process goes on with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Found {
    /// As [`Asked::answered`].
    answered: Option<SocketAddr>,
    /// As [`Asked::bound`].
    bound: Option<SocketAddr>,
}

impl Asked {
    /// Patroni serves with a handful of threads: never more than two questions are under way.
    pub(super) fn has_room(&self) -> bool {
        self.tempo.under_way.len() + self.witness.under_way() < 2
    }

    pub(super) fn answers_at(&self) -> Option<SocketAddr> {
        self.answered.map(|(addr, _)| addr)
    }

    /// The answer to an earlier question, which may come from another address of the node, says nothing new.
    pub(super) fn heard_at(&mut self, from: SocketAddr, sent: BootTime) {
        if self.answered.is_none_or(|(_, newest)| newest <= sent) {
            self.answered = Some((at_port(from, 0), sent));
        }
    }

    pub(super) fn found(&self) -> Found {
        Found {
            answered: self.answers_at(),
            bound: self.bound,
        }
    }

    pub(super) fn find(&mut self, found: Found) {
        if self.answered.is_none() {
            self.answered = found.answered.map(|addr| (addr, BootTime::ZERO));
            self.bound = found.bound;
        }
    }

    pub(super) fn place(&self, limit: Duration) -> Place {
        Place {
            name: Arc::clone(&self.name),
            host: self.host.asker(),
            port: self.port,
            prefer: self.answers_at(),
            only: self.leased,
            limit,
        }
    }

    /// One node is one machine: a session dials the address that gave the proof.
    pub(super) fn dial(&mut self, answered: SocketAddr) -> Result<SocketAddr, Silence> {
        let Some(postgres) = &self.postgres else {
            return Ok(at_port(answered, self.settings.port));
        };
        let known = postgres.addresses();
        self.bound = self
            .bound
            .filter(|bound| known.contains(bound))
            .or(known.first().copied());
        match self.bound {
            Some(bound) => Ok(at_port(bound, self.settings.port)),
            None => Err(Silence::NoAddress {
                host: Arc::clone(&self.settings.host),
            }),
        }
    }
}
