//! Binds a listener's address: one address becomes a set of sockets that accept.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixListener;
use std::path::PathBuf;

use socket2::{Domain, Protocol, SockAddr, Socket as RawSocket, Type};

use super::Address;
use super::socket_file::SocketFile;

/// What a unix socket may be told; TCP has no say in it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct BindOptions {
    /// Permission bits, default 0777: who may connect is PostgreSQL's business.
    pub(crate) mode: Option<u32>,
    /// The group's name, default the process's own.
    pub(crate) group: Option<String>,
}

/// A bound address. Dropping it closes the sockets and removes the file of a unix socket.
#[derive(Debug)]
pub(crate) struct BoundSet {
    /// Where it really is: port 0 is resolved.
    pub(crate) address: Address,
    /// A set, because one address may have a socket per worker, or one that was inherited.
    pub(crate) sockets: Vec<Socket>,
    /// True when no interface carries the address yet: clients reach it once one does. Worth one warning.
    pub(crate) unassigned: bool,
    /// Apart from the sockets, so that they can be moved to where they are served while the name stays.
    pub(crate) file: Option<SocketFile>,
    /// Of an inherited one: the name under which systemd keeps it, also while no process of ours runs.
    pub(crate) kept_as: Option<String>,
}

/// One listening socket, nonblocking, still without a runtime.
#[derive(Debug)]
pub(crate) enum Socket {
    Tcp(TcpListener),
    Unix(UnixListener),
}

impl Socket {
    /// Another descriptor of the same socket.
    pub(crate) fn try_clone(&self) -> io::Result<Self> {
        Ok(match self {
            Self::Tcp(socket) => Self::Tcp(socket.try_clone()?),
            Self::Unix(socket) => Self::Unix(socket.try_clone()?),
        })
    }
}

impl From<Socket> for OwnedFd {
    fn from(socket: Socket) -> Self {
        match socket {
            Socket::Tcp(socket) => socket.into(),
            Socket::Unix(socket) => socket.into(),
        }
    }
}

/// Why an address cannot be listened on. All of these are for the operator to mend.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BindError {
    #[error("{address} is in use by another process")]
    InUse { address: Address },

    #[error("{address}: cannot be bound")]
    Refused { address: Address, source: io::Error },

    #[error("{}: a unix socket's path has at most {PATH_MAX} bytes, this one has {}", path.display(), path.as_os_str().len())]
    PathTooLong { path: PathBuf },

    #[error("{}: its directory does not exist", path.display())]
    NoDirectory { path: PathBuf },

    #[error("{} exists and is not a socket", path.display())]
    NotASocket { path: PathBuf },

    #[error("{}: there is no group {group:?}", path.display())]
    NoGroup { path: PathBuf, group: String },
}

/// `sun_path` has 108 bytes, one of them for the end.
///
/// Source: unix(7).
pub(super) const PATH_MAX: usize = 107;

/// The kernel cuts it to `net.core.somaxconn`.
pub(super) const BACKLOG: i32 = 4096;

pub(crate) fn bind(address: &Address, options: &BindOptions) -> Result<BoundSet, BindError> {
    match address {
        Address::Tcp(tcp) => bind_tcp(*tcp).map_err(|source| refusal(address, source)),
        Address::Unix(path) => {
            let (listener, file) = SocketFile::bind(path, options)?;
            Ok(BoundSet {
                address: address.clone(),
                sockets: vec![Socket::Unix(listener)],
                unassigned: false,
                file: Some(file),
                kept_as: None,
            })
        }
    }
}

pub(super) fn refusal(address: &Address, source: io::Error) -> BindError {
    let address = address.clone();
    match source.kind() {
        io::ErrorKind::AddrInUse => BindError::InUse { address },
        _ => BindError::Refused { address, source },
    }
}

fn bind_tcp(address: SocketAddr) -> io::Result<BoundSet> {
    let listener = tcp_socket(address)?;
    // Without it, the connections of an earlier process in TIME_WAIT would block the port for a minute. It does
    // not let two processes listen at once.
    listener.set_reuse_address(true)?;
    freebind(&listener, address)?;
    listener.bind(&address.into())?;
    listener.listen(BACKLOG)?;
    listener.set_nonblocking(true)?;
    let listener = TcpListener::from(listener);
    Ok(BoundSet {
        address: Address::Tcp(listener.local_addr()?),
        sockets: vec![Socket::Tcp(listener)],
        unassigned: is_unassigned(address),
        file: None,
        kept_as: None,
    })
}

fn tcp_socket(address: SocketAddr) -> io::Result<RawSocket> {
    let socket = RawSocket::new(
        Domain::for_address(address),
        Type::STREAM,
        Some(Protocol::TCP),
    )?;
    if address.is_ipv6() {
        // `[::]` and `0.0.0.0` are two listeners, whatever net.ipv6.bindv6only says.
        socket.set_only_v6(true)?;
    }
    Ok(socket)
}

/// An address that a bridge, a VPN or a virtual IP brings later can be bound now.
fn freebind(socket: &RawSocket, address: SocketAddr) -> io::Result<()> {
    match address {
        SocketAddr::V4(_) => socket.set_freebind_v4(true),
        SocketAddr::V6(_) => socket.set_freebind_v6(true),
    }
}

/// Asks the kernel by binding a second socket the strict way: that needs no netlink, which a unit's
/// `RestrictAddressFamilies` may forbid.
pub(crate) fn is_unassigned(address: SocketAddr) -> bool {
    let mut probe = address;
    probe.set_port(0);
    let bound = tcp_socket(probe).and_then(|socket| socket.bind(&SockAddr::from(probe)));
    matches!(bound, Err(e) if e.kind() == io::ErrorKind::AddrNotAvailable)
}

#[cfg(test)]
mod tests {
    use std::net::TcpStream;

    use super::*;

    fn tcp(address: &str) -> Address {
        Address::Tcp(address.parse().unwrap())
    }

    fn bind_plain(address: &Address) -> Result<BoundSet, BindError> {
        bind(address, &BindOptions::default())
    }

    fn connect(bound: &BoundSet) -> io::Result<TcpStream> {
        match &bound.address {
            Address::Tcp(tcp) => TcpStream::connect(tcp),
            Address::Unix(_) => unreachable!("a TCP test"),
        }
    }

    #[test]
    fn port_zero_is_resolved_and_the_socket_accepts_at_once() {
        for address in ["127.0.0.1:0", "[::1]:0"] {
            let bound = bind_plain(&tcp(address)).unwrap();

            assert!(!bound.address.to_string().ends_with(":0"));
            assert!(!bound.unassigned);
            connect(&bound).unwrap();
        }
    }

    #[test]
    fn an_address_that_no_interface_carries_is_bound_and_reported() {
        // TEST-NET-1 and the documentation prefix: no interface has them.
        for address in ["192.0.2.1:0", "[2001:db8::1]:0"] {
            assert!(bind_plain(&tcp(address)).unwrap().unassigned, "{address}");
        }
    }

    #[test]
    fn wildcards_of_both_families_share_a_port() {
        let v4 = bind_plain(&tcp("0.0.0.0:0")).unwrap();
        let Address::Tcp(SocketAddr::V4(taken)) = v4.address else {
            panic!("v4 asked for")
        };

        let v6 = bind_plain(&tcp(&format!("[::]:{}", taken.port()))).unwrap();

        assert!(!v4.unassigned && !v6.unassigned);
    }

    #[test]
    fn a_taken_address_is_refused_by_name() {
        let first = bind_plain(&tcp("127.0.0.1:0")).unwrap();

        let second = bind_plain(&first.address).unwrap_err();

        assert_eq!(
            second.to_string(),
            format!("{} is in use by another process", first.address)
        );
    }

    #[test]
    fn a_port_is_free_again_while_old_connections_linger() {
        let bound = bind_plain(&tcp("127.0.0.1:0")).unwrap();
        let address = bound.address.clone();
        let client = connect(&bound).unwrap();
        let [Socket::Tcp(listener)] = bound.sockets.as_slice() else {
            panic!("one TCP socket")
        };
        // Our side closes first, so the TIME_WAIT is ours.
        drop(listener.accept().unwrap());
        drop(client);
        drop(bound);

        bind_plain(&address).unwrap();
    }
}
