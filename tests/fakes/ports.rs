//! Ports that nobody has, for programs that are told where to listen before they do.

use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener};
use std::ops::Range;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU16, Ordering};

/// Below those that the kernel gives to connections on their way out and to whoever binds port 0 (32768 and more), and
/// below those that scripted nodes have (24000 and more): what is free stays free until it is bound.
const PORTS: Range<u16> = 12_000..24_000;

/// Each call gives another one, so that two who have not bound theirs yet do not share it. Where it begins is drawn: a
/// program that runs at the same time most likely begins somewhere else.
static NEXT: LazyLock<AtomicU16> = LazyLock::new(|| AtomicU16::new(fastrand::u16(..)));

/// A free port of the loopback address.
pub fn free() -> SocketAddr {
    free_of(Ipv4Addr::LOCALHOST.into())
}

/// A free port of one of this machine's addresses.
///
/// # Panics
/// All are taken, or the address is not this machine's.
pub fn free_of(ip: IpAddr) -> SocketAddr {
    for _ in PORTS {
        let port = PORTS.start + NEXT.fetch_add(1, Ordering::Relaxed) % PORTS.len() as u16;
        let address = SocketAddr::new(ip, port);
        if TcpListener::bind(address).is_ok() {
            return address;
        }
    }
    panic!(
        "{ip} has no free port from {} to {}",
        PORTS.start, PORTS.end
    );
}
