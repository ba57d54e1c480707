//! Listening sockets that come from outside: from systemd, or from the process that was here before.

use std::io;
use std::os::fd::OwnedFd;

use nix::sys::stat::fstat;
use socket2::{Domain, Protocol, SockAddr, SockRef, Type};

use super::Address;
use super::listen::{BoundSet, Socket, is_unassigned};
use super::socket_file::SocketFile;

/// Sockets that wait for the listeners of a configuration. They are matched by the address they are bound to and
/// stay as whoever bound them has made them: v6only, freebind, mode and group of a unix socket's file.
#[derive(Debug, Default)]
pub(crate) struct Inherited {
    sockets: Vec<Given>,
    /// Something was not wanted, and whoever keeps it may still have it open for a moment.
    settling: bool,
}

#[derive(Debug)]
struct Given {
    address: Address,
    socket: Socket,
    /// Of a unix socket.
    file: Option<SocketFile>,
    /// Device and inode: a socket unit and the fd store may both hand over the same socket.
    identity: (u64, u64),
    kept_as: Option<String>,
}

/// A socket that no listener wants. Dropping it closes it, and removes its file unless that stays.
#[derive(Debug)]
pub(crate) struct Unwanted {
    pub(crate) address: Address,
    pub(crate) kept_as: Option<String>,
    _socket: Socket,
    pub(crate) file: Option<SocketFile>,
}

/// Why something cannot be a listener's socket.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Unfit {
    #[error("it is no socket")]
    NoSocket,
    #[error("it is a datagram socket, and clients come by stream")]
    NoStream,
    #[error("it does not listen")]
    NotListening,
    #[error("it is neither a TCP socket nor a unix socket with a path")]
    Family,
    #[error("the file {address} is gone or leads to another socket")]
    Unreachable { address: Address },
    #[error("the kernel does not tell what it is")]
    Kernel(#[from] io::Error),
}

impl Inherited {
    /// `kept_as`: the name under which systemd keeps it, also while no process of ours runs. What is no use is closed.
    pub(crate) fn offer(&mut self, fd: OwnedFd, kept_as: Option<String>) -> Result<(), Unfit> {
        let address = judge(&fd)?;
        let found = fstat(&fd).map_err(io::Error::from)?;
        let identity = (found.st_dev, found.st_ino);
        if self.sockets.iter().any(|given| given.identity == identity) {
            return Ok(());
        }
        let raw = SockRef::from(&fd);
        raw.set_nonblocking(true)?;
        raw.set_cloexec(true)?;
        let (socket, file) = match &address {
            Address::Tcp(_) => (Socket::Tcp(fd.into()), None),
            Address::Unix(path) => {
                let socket = fd.into();
                let Some(mut file) = SocketFile::adopt(path, &socket)? else {
                    return Err(Unfit::Unreachable { address });
                };
                file.stay(kept_as.is_some());
                (Socket::Unix(socket), Some(file))
            }
        };
        self.sockets.push(Given {
            address,
            socket,
            file,
            identity,
            kept_as,
        });
        Ok(())
    }

    /// All sockets of this address.
    pub(crate) fn take(&mut self, address: &Address) -> Option<BoundSet> {
        let mut set: Option<BoundSet> = None;
        for given in self
            .sockets
            .extract_if(.., |given| given.address == *address)
        {
            let set = set.get_or_insert_with(|| BoundSet {
                unassigned: matches!(address, Address::Tcp(tcp) if is_unassigned(*tcp)),
                address: given.address,
                sockets: Vec::new(),
                file: given.file,
                kept_as: given.kept_as,
            });
            set.sockets.push(given.socket);
        }
        set
    }

    /// Whoever else has the sockets still serves: the files stay, whatever becomes of this.
    pub(crate) fn touch_no_files(&mut self) {
        for file in self
            .sockets
            .iter_mut()
            .filter_map(|given| given.file.as_mut())
        {
            file.stay(true);
        }
    }

    /// Takes out what is at none of these addresses.
    pub(crate) fn unwanted(&mut self, wanted: &[Address]) -> Vec<Unwanted> {
        let unwanted = self
            .sockets
            .extract_if(.., |given| !wanted.contains(&given.address));
        let unwanted = unwanted.map(|given| Unwanted {
            address: given.address,
            kept_as: given.kept_as,
            _socket: given.socket,
            file: given.file,
        });
        let unwanted: Vec<_> = unwanted.collect();
        self.settling |= !unwanted.is_empty();
        unwanted
    }

    /// An address may be in use a moment longer, by what was not wanted.
    pub(crate) fn is_settling(&self) -> bool {
        self.settling
    }
}

/// Where it listens, if it is a socket that clients can come to.
fn judge(fd: &OwnedFd) -> Result<Address, Unfit> {
    let raw = SockRef::from(fd);
    let is_stream = match raw.r#type() {
        Ok(found) => found == Type::STREAM,
        Err(error) if error.raw_os_error() == Some(libc::ENOTSOCK) => return Err(Unfit::NoSocket),
        Err(error) => return Err(error.into()),
    };
    let domain = raw.domain()?;
    if ![Domain::IPV4, Domain::IPV6, Domain::UNIX].contains(&domain) {
        return Err(Unfit::Family);
    }
    if !is_stream {
        return Err(Unfit::NoStream);
    }
    // SCTP has streams too.
    let tcp = [Protocol::TCP, Protocol::MPTCP];
    if domain != Domain::UNIX && !raw.protocol()?.is_some_and(|p| tcp.contains(&p)) {
        return Err(Unfit::Family);
    }
    if !raw.is_listener()? {
        return Err(Unfit::NotListening);
    }
    place(&raw.local_addr()?).ok_or(Unfit::Family)
}

fn place(bound: &SockAddr) -> Option<Address> {
    let tcp = bound.as_socket().map(Address::Tcp);
    tcp.or_else(|| Some(Address::Unix(bound.as_pathname()?.to_owned())))
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream, UdpSocket};
    use std::os::unix::fs::MetadataExt;
    use std::os::unix::net::{UnixDatagram, UnixListener, UnixStream};

    use nix::fcntl::{FcntlArg, FdFlag, OFlag, fcntl};

    use super::*;
    use crate::net::listen::{BindOptions, bind};

    fn offered(fd: impl Into<OwnedFd>) -> Result<Inherited, Unfit> {
        let mut inherited = Inherited::default();
        inherited.offer(fd.into(), None)?;
        Ok(inherited)
    }

    fn words(fd: impl Into<OwnedFd>) -> String {
        offered(fd).unwrap_err().to_string()
    }

    fn tcp(listener: &TcpListener) -> Address {
        Address::Tcp(listener.local_addr().unwrap())
    }

    #[test]
    fn a_socket_is_taken_by_the_listener_of_its_address_and_by_no_other() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = tcp(&listener);
        let mut inherited = offered(listener).unwrap();

        assert!(
            inherited
                .take(&Address::Tcp("127.0.0.1:1".parse().unwrap()))
                .is_none()
        );
        let set = inherited.take(&address).unwrap();

        assert_eq!((&set.address, set.sockets.len()), (&address, 1));
        assert!(inherited.take(&address).is_none(), "it is given once");
        let Socket::Tcp(socket) = &set.sockets[0] else {
            panic!("it is a TCP socket")
        };
        let flags = |arg| fcntl(socket, arg).unwrap();
        assert!(OFlag::from_bits_truncate(flags(FcntlArg::F_GETFL)).contains(OFlag::O_NONBLOCK));
        assert_eq!(flags(FcntlArg::F_GETFD), FdFlag::FD_CLOEXEC.bits());
    }

    #[test]
    fn the_same_socket_twice_is_one_and_another_of_the_same_address_joins_it() {
        let reusable = |address: std::net::SocketAddr| {
            let raw = socket2::Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
            raw.set_reuse_port(true).unwrap();
            raw.bind(&address.into()).unwrap();
            raw.listen(8).unwrap();
            TcpListener::from(raw)
        };
        let first = reusable("127.0.0.1:0".parse().unwrap());
        let second = reusable(first.local_addr().unwrap());
        let address = tcp(&first);
        let mut inherited = Inherited::default();

        for fd in [first.try_clone().unwrap(), first, second] {
            inherited.offer(fd.into(), None).unwrap();
        }

        assert_eq!(inherited.take(&address).unwrap().sockets.len(), 2);
    }

    #[test]
    fn what_clients_cannot_come_to_is_refused_in_words() {
        let folder = tempfile::tempdir().unwrap();
        let file = tempfile::tempfile().unwrap();
        let connected = UnixStream::pair().unwrap().0;
        let datagrams = UnixDatagram::bind(folder.path().join("datagrams")).unwrap();
        let bound = socket2::Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        let anywhere = SockAddr::from("127.0.0.1:0".parse::<std::net::SocketAddr>().unwrap());
        bound.bind(&anywhere).unwrap();
        let abstract_name = socket2::Socket::new(Domain::UNIX, Type::STREAM, None).unwrap();
        let name = format!("\0helios-test-{}", std::process::id());
        abstract_name.bind(&SockAddr::unix(name).unwrap()).unwrap();
        abstract_name.listen(1).unwrap();
        let netlink = nix::sys::socket::socket(
            nix::sys::socket::AddressFamily::Netlink,
            nix::sys::socket::SockType::Datagram,
            nix::sys::socket::SockFlag::empty(),
            None,
        );

        assert_eq!(words(file), "it is no socket");
        assert_eq!(words(connected), "it does not listen");
        assert_eq!(words(bound), "it does not listen");
        let streams = "it is a datagram socket, and clients come by stream";
        assert_eq!(words(datagrams), streams);
        assert_eq!(words(UdpSocket::bind("127.0.0.1:0").unwrap()), streams);
        let families = "it is neither a TCP socket nor a unix socket with a path";
        assert_eq!(words(abstract_name), families);
        assert_eq!(words(netlink.unwrap()), families);
    }

    #[test]
    fn a_unix_socket_brings_its_file_which_goes_with_whoever_ends_last() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("s");
        let address = Address::Unix(path.clone());
        let mut before = bind(&address, &BindOptions::default()).unwrap();
        let Socket::Unix(socket) = &before.sockets[0] else {
            panic!("it is a unix socket")
        };
        let mut inherited = offered(socket.try_clone().unwrap()).unwrap();
        let after = inherited.take(&address).unwrap();

        before.file.as_mut().unwrap().stay(true);
        drop(before);
        UnixStream::connect(&path).unwrap();

        drop(after);
        assert!(!path.exists());
    }

    #[test]
    fn a_unix_socket_whose_file_is_gone_or_anothers_is_no_use() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("s");
        let lost = UnixListener::bind(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        let said = format!(
            "the file {} is gone or leads to another socket",
            path.display()
        );
        assert_eq!(words(lost.try_clone().unwrap()), said);

        // Dead: its file leads nowhere.
        drop(UnixListener::bind(&path).unwrap());
        assert_eq!(words(lost.try_clone().unwrap()), said);
        std::fs::write(folder.path().join("plain"), "").unwrap();
        std::fs::rename(folder.path().join("plain"), &path).unwrap();
        assert_eq!(words(lost), said);
        assert_eq!(
            std::fs::metadata(&path).unwrap().size(),
            0,
            "nothing is removed"
        );
    }

    #[test]
    fn what_nobody_wants_is_closed_and_its_file_stays_while_somebody_keeps_it() {
        let folder = tempfile::tempdir().unwrap();
        let [kept, left] = ["kept", "left"].map(|name| folder.path().join(name));
        let wanted = TcpListener::bind("127.0.0.1:0").unwrap();
        let unwanted = TcpListener::bind("127.0.0.1:0").unwrap();
        let (here, gone) = (tcp(&wanted), unwanted.local_addr().unwrap());
        let mut inherited = Inherited::default();
        for (fd, kept_as) in [
            (OwnedFd::from(wanted), None),
            (unwanted.into(), Some("a")),
            (UnixListener::bind(&kept).unwrap().into(), Some("b")),
            (UnixListener::bind(&left).unwrap().into(), None),
        ] {
            inherited.offer(fd, kept_as.map(str::to_owned)).unwrap();
        }

        let closed = inherited.unwanted(std::slice::from_ref(&here));

        let names: Vec<_> = closed.iter().map(|one| one.kept_as.as_deref()).collect();
        assert_eq!(names, [Some("a"), Some("b"), None]);
        assert_eq!(closed[0].address, Address::Tcp(gone));
        drop(closed);
        assert!(TcpStream::connect(gone).is_err());
        assert!(kept.exists() && !left.exists());
        assert!(inherited.take(&here).is_some());
    }
}
