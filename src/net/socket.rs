//! What a connected socket is told and what the kernel knows of it.

use std::io;
use std::mem::{MaybeUninit, size_of};
use std::os::fd::{AsFd, AsRawFd};
use std::time::Duration;

use nix::sys::resource::{Resource, getrlimit, setrlimit};
use socket2::{SockRef, TcpKeepalive};

/// The kernel's view of a TCP connection, as far as it tells a dead peer from one that merely does not read.
///
/// A server behind a lock answers window probes, so `last_ack_recv` stays small; `TCP_USER_TIMEOUT` would end it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TcpLook {
    /// Segments sent and not acknowledged.
    pub(crate) unacked: u32,
    /// Probes (of a zero window, or keepalive) since the peer last answered one.
    pub(crate) probes: u8,
    /// How long ago the peer last acknowledged anything.
    pub(crate) last_ack_recv: Duration,
    /// Smoothed.
    pub(crate) rtt: Duration,
}

/// First probe after `idle`, then one each `interval`, dead after `count`. Only for TCP.
pub(crate) fn keepalive(
    socket: &impl AsFd,
    idle: Duration,
    interval: Duration,
    count: u32,
) -> io::Result<()> {
    let probes = TcpKeepalive::new()
        .with_time(idle)
        .with_interval(interval)
        .with_retries(count);
    SockRef::from(socket).set_tcp_keepalive(&probes)
}

/// Sends small messages at once. Only for TCP.
pub(crate) fn nodelay(socket: &impl AsFd) -> io::Result<()> {
    SockRef::from(socket).set_tcp_nodelay(true)
}

/// Asks the kernel for `TCP_INFO`: one system call, no traffic.
///
/// Source: tcp(7); `struct tcp_info` in linux/tcp.h.
pub(crate) fn tcp_info(socket: &impl AsFd) -> io::Result<TcpLook> {
    let fd = socket.as_fd();
    let mut info = MaybeUninit::<libc::tcp_info>::zeroed();
    let mut len = size_of::<libc::tcp_info>() as libc::socklen_t;
    // SAFETY: `fd` is open as long as `socket` is borrowed; the kernel writes at most `len` bytes to `info`,
    // which has that size, and the length written to `len`.
    let rc = unsafe {
        libc::getsockopt(
            fd.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            info.as_mut_ptr().cast(),
            &raw mut len,
        )
    };
    if rc != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: all fields are integers, so every bit pattern is one, and what an older kernel (which knows fewer
    // fields) left out is zero from the start.
    let info = unsafe { info.assume_init() };
    Ok(TcpLook {
        unacked: info.tcpi_unacked,
        probes: info.tcpi_probes,
        last_ack_recv: Duration::from_millis(info.tcpi_last_ack_recv.into()),
        rtt: Duration::from_micros(info.tcpi_rtt.into()),
    })
}

/// Raises the soft limit of open descriptors to the hard one and returns what holds from now on.
pub(crate) fn descriptor_limit() -> io::Result<u64> {
    let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE)?;
    if soft < hard {
        setrlimit(Resource::RLIMIT_NOFILE, hard, hard)?;
    }
    Ok(hard)
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};
    use std::thread::sleep;

    use super::*;

    fn pair() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        (client, listener.accept().unwrap().0)
    }

    #[test]
    fn keepalive_and_nodelay_reach_the_kernel() {
        let (client, _server) = pair();

        let seconds = Duration::from_secs;
        keepalive(&client, seconds(15), seconds(5), 3).unwrap();
        nodelay(&client).unwrap();

        let asked = SockRef::from(&client);
        assert!(asked.keepalive().unwrap());
        assert_eq!(asked.tcp_keepalive_time().unwrap(), seconds(15));
        assert_eq!(asked.tcp_keepalive_interval().unwrap(), seconds(5));
        assert_eq!(asked.tcp_keepalive_retries().unwrap(), 3);
        assert!(client.nodelay().unwrap());
    }

    #[test]
    fn a_peer_that_answers_looks_alive() {
        let (mut client, mut server) = pair();
        client.write_all(b"ping").unwrap();
        server.read_exact(&mut [0; 4]).unwrap();
        sleep(Duration::from_millis(100));

        let look = tcp_info(&client).unwrap();

        assert_eq!((look.unacked, look.probes), (0, 0));
        assert!(look.last_ack_recv < Duration::from_secs(5), "{look:?}");
        assert!(look.rtt > Duration::ZERO && look.rtt < Duration::from_secs(1));
    }

    #[test]
    fn a_peer_that_merely_does_not_read_still_answers_probes() {
        let (client, _server) = pair();
        client.set_nonblocking(true).unwrap();
        let chunk = vec![0; 1 << 20];
        while (&client).write(&chunk).is_ok() {}

        // Zero window: the first probes go out after the retransmission timeout, 200 ms and doubling.
        sleep(Duration::from_millis(1500));
        let look = tcp_info(&client).unwrap();

        assert!(look.last_ack_recv < Duration::from_millis(1400), "{look:?}");
    }

    #[test]
    fn what_is_not_tcp_is_an_error_and_no_guess() {
        let (unix, _other) = std::os::unix::net::UnixStream::pair().unwrap();
        assert!(tcp_info(&unix).is_err());
    }

    #[test]
    fn the_soft_descriptor_limit_is_raised_to_the_hard_one() {
        let limit = descriptor_limit().unwrap();
        assert_eq!(getrlimit(Resource::RLIMIT_NOFILE).unwrap(), (limit, limit));
    }
}
