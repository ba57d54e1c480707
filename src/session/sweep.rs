//! Finds servers whose kernel has fallen silent, as TCP alone does not while data waits.

use std::os::fd::BorrowedFd;
use std::time::Duration;

use super::registry::{Order, Registry};
use crate::clock::BootTime;
use crate::net::{TcpLook, tcp_info};

/// One look at every relayed session: one system call each, no traffic.
pub(super) fn sweep(registry: &Registry, limit: Duration, now: BootTime) {
    registry.each(|place| {
        let Some(fd) = place.server.get() else { return };
        // SAFETY: `server` is set by the relay that owns the socket, and its seat (which takes the place out of
        // the registry) is dropped before the socket is; both happen on this thread.
        let socket = unsafe { BorrowedFd::borrow_raw(fd) };
        let Ok(look) = tcp_info(&socket) else { return };
        let mut looks = place.looks.get();
        let is_dead = looks.is_dead(&look, limit, now);
        place.looks.set(looks);
        if is_dead {
            tracing::debug!(node = %place.node, client = %place.peer, ?look, "the server is dead");
            place.give(Order::DeadPeer);
        }
    });
}

/// One may be lost on the way: those of a closed window are up to two minutes apart.
const PROBES: u8 = 2;

/// What two looks must agree on.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Looks {
    /// The first look that saw the data that is unacknowledged now.
    unacked_since: Option<BootTime>,
    /// The last look found a dead peer's signs.
    suspect: bool,
}

impl Looks {
    /// Nothing was acknowledged for `limit` while data is unacknowledged or probes are unanswered, on two looks. A
    /// server that merely does not read answers the probes of its closed window, so it lives.
    ///
    /// After an idle hour the last acknowledgement is an hour old as soon as something is sent: the age of the
    /// unacknowledged data counts as well.
    fn is_dead(&mut self, look: &TcpLook, limit: Duration, now: BootTime) -> bool {
        self.unacked_since = match self.unacked_since {
            _ if look.unacked == 0 => None,
            Some(since) if look.last_ack_recv >= now.saturating_sub(since) => Some(since),
            // The first look at this data, or something was acknowledged meanwhile.
            _ => Some(now),
        };
        let waits = self
            .unacked_since
            .is_some_and(|since| now.saturating_sub(since) >= limit);
        let is_silent = look.last_ack_recv >= limit && (waits || look.probes >= PROBES);
        std::mem::replace(&mut self.suspect, is_silent) && is_silent
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Duration = Duration::from_secs(30);
    const SECOND: Duration = Duration::from_secs(1);

    /// The seconds at which a peer is found dead that is looked at once a second.
    fn dead_after(look: impl Fn(u32) -> TcpLook) -> Option<u32> {
        let mut looks = Looks::default();
        (0..200).find(|second| {
            let now = BootTime::ZERO + Duration::from_secs(3600) + SECOND * *second;
            looks.is_dead(&look(*second), LIMIT, now)
        })
    }

    fn look(unacked: u32, probes: u8, last_ack_recv: Duration) -> TcpLook {
        TcpLook {
            unacked,
            probes,
            last_ack_recv,
            rtt: Duration::from_millis(1),
        }
    }

    #[test]
    fn a_peer_that_acknowledges_nothing_is_dead_after_the_limit() {
        assert_eq!(dead_after(|s| look(3, 0, SECOND * s)), Some(31));
    }

    #[test]
    fn the_first_bytes_after_an_idle_hour_have_the_whole_time() {
        let hour = Duration::from_secs(3600);
        assert_eq!(dead_after(|s| look(1, 0, hour + SECOND * s)), Some(31));
    }

    #[test]
    fn unanswered_probes_of_an_idle_connection_count_too() {
        let probes = |s: u32| (s.saturating_sub(10) / 5) as u8;
        assert_eq!(dead_after(|s| look(0, probes(s), SECOND * s)), Some(31));
    }

    #[test]
    fn a_single_lost_probe_of_a_closed_window_kills_nobody() {
        assert_eq!(dead_after(|s| look(0, u8::from(s > 60), SECOND * s)), None);
    }

    #[test]
    fn a_server_that_does_not_read_but_answers_probes_lives() {
        assert_eq!(
            dead_after(|s| look(0, u8::from(s % 3 == 0), SECOND * (s % 3))),
            None
        );
    }

    #[test]
    fn an_idle_connection_without_probes_lives() {
        assert_eq!(dead_after(|s| look(0, 0, SECOND * s)), None);
    }

    #[test]
    fn a_slow_network_that_acknowledges_now_and_then_lives() {
        assert_eq!(dead_after(|s| look(9, 0, SECOND * (s % 29))), None);
    }
}
