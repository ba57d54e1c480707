//! The name of a unix socket in the file system: taken over from a dead process, never from a living one.

use std::fs;
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

use nix::sys::socket::getsockopt;
use nix::sys::socket::sockopt::PeerCredentials;
use nix::unistd::{Gid, Group, chown};
use socket2::{Domain, SockAddr, Socket as RawSocket, Type};

use super::Address;
use super::listen::{BACKLOG, BindError, BindOptions, PATH_MAX, refusal};

/// A unix socket's file, removed on drop if it is still ours.
#[derive(Debug)]
pub(crate) struct SocketFile {
    path: PathBuf,
    /// Device and inode: after a hand-over or a replacement the same path is another file.
    identity: (u64, u64),
    /// Somebody else has the socket too, so the file is not ours to remove.
    stays: bool,
}

impl SocketFile {
    pub(super) fn bind(
        path: &Path,
        options: &BindOptions,
    ) -> Result<(UnixListener, Self), BindError> {
        check(path)?;
        let group = group_id(path, options)?;
        let address = Address::Unix(path.to_owned());
        let refused = |source| refusal(&address, source);
        if let Some(found) = look(path).map_err(refused)? {
            clear(path, &found)?;
        }

        let socket = RawSocket::new(Domain::UNIX, Type::STREAM, None).map_err(refused)?;
        let name = SockAddr::unix(path).map_err(refused)?;
        socket.bind(&name).map_err(refused)?;
        let made = look(path)
            .map_err(refused)?
            .ok_or_else(|| refused(io::ErrorKind::NotFound.into()))?;
        // From here on an error drops the file too.
        let file = Self {
            path: path.to_owned(),
            identity: identity(&made),
            stays: false,
        };
        // Before `listen`: until then nobody can connect, whatever the umask has left open.
        open_up(path, options.mode.unwrap_or(0o777), group).map_err(refused)?;
        socket.listen(BACKLOG).map_err(refused)?;
        socket.set_nonblocking(true).map_err(refused)?;
        Ok((socket.into(), file))
    }

    /// The file of a socket that comes from outside. `None`: nobody who follows the path comes to that socket.
    pub(super) fn adopt(path: &Path, socket: &UnixListener) -> io::Result<Option<Self>> {
        let Some(found) = look(path)? else {
            return Ok(None);
        };
        let leads_here = match probe(path) {
            // Of a listener as of whoever has connected to it, the kernel tells who has called `listen`.
            Ok(probe) => {
                getsockopt(&probe, PeerCredentials)? == getsockopt(socket, PeerCredentials)?
            }
            // Its queue is full, or we may not connect: somebody listens there.
            Err(e) => matches!(
                e.kind(),
                io::ErrorKind::WouldBlock | io::ErrorKind::PermissionDenied
            ),
        };
        Ok(leads_here.then(|| Self {
            path: path.to_owned(),
            identity: identity(&found),
            stays: false,
        }))
    }

    /// Whether the file outlives this value.
    pub(crate) fn stay(&mut self, stays: bool) {
        self.stays = stays;
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        if !self.stays
            && let Ok(Some(found)) = look(&self.path)
            && identity(&found) == self.identity
        {
            // A file that cannot be removed is found stale by the next start.
            let _ = fs::remove_file(&self.path);
        }
    }
}

fn check(path: &Path) -> Result<(), BindError> {
    let path = path.to_owned();
    if path.as_os_str().len() > PATH_MAX {
        return Err(BindError::PathTooLong { path });
    }
    if !path.parent().is_some_and(Path::is_dir) {
        return Err(BindError::NoDirectory { path });
    }
    Ok(())
}

fn group_id(path: &Path, options: &BindOptions) -> Result<Option<Gid>, BindError> {
    let Some(name) = &options.group else {
        return Ok(None);
    };
    match Group::from_name(name) {
        Ok(Some(group)) => Ok(Some(group.gid)),
        Ok(None) => Err(BindError::NoGroup {
            path: path.to_owned(),
            group: name.clone(),
        }),
        Err(errno) => Err(refusal(&Address::Unix(path.to_owned()), errno.into())),
    }
}

fn look(path: &Path) -> io::Result<Option<fs::Metadata>> {
    match fs::symlink_metadata(path) {
        Ok(found) => Ok(Some(found)),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(e) => Err(e),
    }
}

fn identity(file: &fs::Metadata) -> (u64, u64) {
    (file.dev(), file.ino())
}

/// Removes what a killed process has left; anything that answers stays.
fn clear(path: &Path, found: &fs::Metadata) -> Result<(), BindError> {
    let address = Address::Unix(path.to_owned());
    if !found.file_type().is_socket() {
        return Err(BindError::NotASocket {
            path: path.to_owned(),
        });
    }
    match probe(path) {
        // Its owner is gone.
        Err(e) if e.kind() == io::ErrorKind::ConnectionRefused => {}
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(()),
        // Somebody answers, also when its queue is full (EAGAIN) or it speaks datagrams (EPROTOTYPE).
        Ok(_) => return Err(BindError::InUse { address }),
        Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
            return Err(BindError::InUse { address });
        }
        Err(e) if e.raw_os_error() == Some(libc::EPROTOTYPE) => {
            return Err(BindError::InUse { address });
        }
        Err(source) => return Err(BindError::Refused { address, source }),
    }
    // Somebody may have replaced it since we looked: then `bind` below says that it is in use.
    match look(path) {
        Ok(Some(now)) if identity(&now) == identity(found) => {
            fs::remove_file(path).map_err(|source| BindError::Refused { address, source })
        }
        _ => Ok(()),
    }
}

/// Nonblocking: a connect to a listener whose queue is full would wait for it.
fn probe(path: &Path) -> io::Result<RawSocket> {
    let socket = RawSocket::new(Domain::UNIX, Type::STREAM, None)?;
    socket.set_nonblocking(true)?;
    socket.connect(&SockAddr::unix(path)?)?;
    Ok(socket)
}

fn open_up(path: &Path, mode: u32, group: Option<Gid>) -> io::Result<()> {
    if group.is_some() {
        chown(path, None, group)?;
    }
    fs::set_permissions(path, fs::Permissions::from_mode(mode))
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::{UnixDatagram, UnixStream};

    use super::*;
    use crate::net::listen::{BoundSet, bind};

    struct Place {
        dir: tempfile::TempDir,
        path: PathBuf,
    }

    impl Place {
        fn new() -> Self {
            let dir = tempfile::tempdir().unwrap();
            let path = dir.path().join(".s.PGSQL.5432");
            Self { dir, path }
        }

        fn bind(&self) -> Result<BoundSet, BindError> {
            bind_with(&self.path, BindOptions::default())
        }
    }

    fn bind_with(path: &Path, options: BindOptions) -> Result<BoundSet, BindError> {
        bind(&Address::Unix(path.to_owned()), &options)
    }

    #[test]
    fn a_unix_socket_is_open_to_everybody_unless_told_otherwise() {
        let place = Place::new();
        let bits = || fs::metadata(&place.path).unwrap().permissions().mode() & 0o777;

        let bound = place.bind().unwrap();
        assert_eq!(bits(), 0o777);
        drop(bound);

        let ours = Group::from_gid(nix::unistd::getgid()).unwrap().unwrap();
        let options = BindOptions {
            mode: Some(0o660),
            group: Some(ours.name),
        };
        let _bound = bind_with(&place.path, options).unwrap();
        assert_eq!(bits(), 0o660);
        assert_eq!(fs::metadata(&place.path).unwrap().gid(), ours.gid.as_raw());
        UnixStream::connect(&place.path).unwrap();
    }

    #[test]
    fn the_socket_of_a_killed_process_is_replaced() {
        let place = Place::new();
        // std's listener leaves its file behind, as a killed process does.
        drop(UnixListener::bind(&place.path).unwrap());
        assert!(place.path.exists());

        let _bound = place.bind().unwrap();

        UnixStream::connect(&place.path).unwrap();
    }

    #[test]
    fn the_socket_of_a_living_process_is_not_touched() {
        let place = Place::new();
        let _first = place.bind().unwrap();

        let second = place.bind().unwrap_err();

        assert_eq!(
            second.to_string(),
            format!("{} is in use by another process", place.path.display())
        );
        UnixStream::connect(&place.path).unwrap();
    }

    #[test]
    fn a_living_process_that_does_not_accept_is_in_use_too() {
        let place = Place::new();
        let full = RawSocket::new(Domain::UNIX, Type::STREAM, None).unwrap();
        full.bind(&SockAddr::unix(&place.path).unwrap()).unwrap();
        full.listen(0).unwrap();
        let _waiting = UnixStream::connect(&place.path).unwrap();

        assert!(matches!(place.bind(), Err(BindError::InUse { .. })));
    }

    #[test]
    fn what_is_not_our_kind_of_socket_is_never_removed() {
        let place = Place::new();
        fs::write(&place.path, "precious").unwrap();
        assert!(matches!(place.bind(), Err(BindError::NotASocket { .. })));
        assert_eq!(fs::read(&place.path).unwrap(), b"precious");

        fs::remove_file(&place.path).unwrap();
        let _datagrams = UnixDatagram::bind(&place.path).unwrap();
        assert!(matches!(place.bind(), Err(BindError::InUse { .. })));
        assert!(place.path.exists());
    }

    #[test]
    fn the_file_goes_with_its_owner_but_not_with_a_predecessor() {
        let place = Place::new();
        let first = place.bind().unwrap();
        fs::remove_file(&place.path).unwrap();
        let second = place.bind().unwrap();

        drop(first);
        assert!(place.path.exists(), "it is the second one's by now");

        drop(second);
        assert!(!place.path.exists());
    }

    #[test]
    fn a_bind_that_fails_half_way_leaves_no_file() {
        let place = Place::new();
        let options = BindOptions {
            mode: None,
            group: Some("no-such-group".into()),
        };

        let refused = bind_with(&place.path, options).unwrap_err();

        assert!(refused.to_string().contains("no group \"no-such-group\""));
        assert!(!place.path.exists());
    }

    #[test]
    fn a_path_may_have_107_bytes_and_needs_its_directory() {
        let place = Place::new();
        let room = PATH_MAX - place.dir.path().as_os_str().len() - 1;
        bind_with(
            &place.dir.path().join("x".repeat(room)),
            BindOptions::default(),
        )
        .unwrap();

        let long = place.dir.path().join("x".repeat(room + 1));
        assert!(matches!(
            bind_with(&long, BindOptions::default()),
            Err(BindError::PathTooLong { .. })
        ));
        let homeless = place.dir.path().join("missing/s");
        assert!(matches!(
            bind_with(&homeless, BindOptions::default()),
            Err(BindError::NoDirectory { .. })
        ));
    }
}
