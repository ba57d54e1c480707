//! Finds servers whose kernel has fallen silent, as TCP alone does not while data waits.

use std::os::fd::BorrowedFd;
use std::time::Duration;

use super::registry::{Order, Place, Registry};
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
        if is_dead(place, &look, limit, now) {
            tracing::debug!(node = %place.node, client = %place.peer, ?look, "the server is dead");
            place.give(Order::DeadPeer);
        }
    });
}

/// Nothing was acknowledged for `limit` while data is unacknowledged or probes are unanswered, on two looks. A
/// server that merely does not read answers the probes of its closed window, so it lives.
///
/// After an idle hour the last acknowledgement is an hour old as soon as something is sent: the age of the
/// unacknowledged data counts as well.
fn is_dead(place: &Place, look: &TcpLook, limit: Duration, now: BootTime) -> bool {
    let since = match place.unacked_since.get() {
        _ if look.unacked == 0 => None,
        Some(since) if look.last_ack_recv >= now.saturating_sub(since) => Some(since),
        // The first look at this data, or something was acknowledged meanwhile.
        _ => Some(now),
    };
    place.unacked_since.set(since);
    let waits = since.is_some_and(|since| now.saturating_sub(since) >= limit);
    let is_silent = look.last_ack_recv >= limit && (waits || look.probes > 0);
    place.suspect.replace(is_silent) && is_silent
}
