//! systemd's fd store, scripted: keeps the descriptors that come with FDSTORE=1 and hands them to the next process.

use std::io::{self, IoSliceMut};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

use nix::sys::socket::{ControlMessageOwned, MsgFlags, recvmsg};
use nix::sys::stat::fstat;
use tokio::net::UnixDatagram;
use tokio::process::Command;

use super::daemon::Notice;

/// What a service has stored, by name.
#[derive(Debug, Default)]
pub struct Shelf(Vec<(String, OwnedFd)>);

/// Where systemd begins to hand over.
const FIRST: RawFd = 3;
/// Above all that a child gets there.
const ASIDE: RawFd = 200;

impl Shelf {
    pub fn put(&mut self, name: &str, fd: impl Into<OwnedFd>) {
        self.0.push((name.to_owned(), fd.into()));
    }

    pub fn names(&self) -> Vec<&str> {
        let mut names: Vec<_> = self.0.iter().map(|(name, _)| name.as_str()).collect();
        names.sort_unstable();
        names
    }

    /// As systemd does: the same one again is dropped, a name is removed with all that it stands for.
    pub fn hear(&mut self, notice: &Notice, with: Vec<OwnedFd>) {
        let name = notice.get("FDNAME").unwrap_or("stored");
        if notice.get("FDSTOREREMOVE") == Some("1") {
            self.0.retain(|(stored, _)| stored != name);
        }
        if notice.get("FDSTORE") == Some("1") {
            assert_eq!(notice.get("FDPOLL"), Some("0"), "{notice:?}");
            for fd in with {
                if !self.0.iter().any(|(_, stored)| same(stored, &fd)) {
                    self.put(name, fd);
                }
            }
        }
    }

    /// `command` as a child that finds all of this from descriptor 3 on. It must be started as long as this lives.
    pub fn hand_to(&self, program: &str) -> Command {
        // Only the child knows its own number.
        let mut command = Command::new("sh");
        command.args(["-c", "LISTEN_PID=$$ exec \"$@\"", "sh", program, "run"]);
        let names: Vec<_> = self.0.iter().map(|(name, _)| name.as_str()).collect();
        command
            .env("LISTEN_FDS", names.len().to_string())
            .env("LISTEN_FDNAMES", names.join(":"))
            .env("FDSTORE", "16");
        let aside = self.0.iter().map(|(_, fd)| {
            // SAFETY: it only makes another descriptor, which becomes owned at once.
            let copy = unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_DUPFD_CLOEXEC, ASIDE) };
            assert!(copy >= ASIDE, "{}", io::Error::last_os_error());
            // SAFETY: nobody else knows of it.
            unsafe { OwnedFd::from_raw_fd(copy) }
        });
        let aside: Vec<OwnedFd> = aside.collect();
        let place = move || {
            for (fd, at) in aside.iter().zip(FIRST..) {
                // SAFETY: both are plain numbers of this child, which runs nothing else.
                if unsafe { libc::dup2(fd.as_raw_fd(), at) } < 0 {
                    return Err(io::Error::last_os_error());
                }
            }
            Ok(())
        };
        // SAFETY: between fork and exec it makes one system call after the other, and allocates nothing.
        unsafe { command.pre_exec(place) };
        command
    }
}

/// One datagram and what came with it.
pub async fn receive(socket: &UnixDatagram) -> io::Result<(Notice, Vec<OwnedFd>)> {
    let read = || receive_now(socket);
    socket.async_io(tokio::io::Interest::READABLE, read).await
}

pub fn receive_now(socket: &UnixDatagram) -> io::Result<(Notice, Vec<OwnedFd>)> {
    let mut bytes = [0; 4096];
    let mut parts = [IoSliceMut::new(&mut bytes)];
    let mut space = nix::cmsg_space!([RawFd; 16]);
    let flags = MsgFlags::MSG_CMSG_CLOEXEC | MsgFlags::MSG_DONTWAIT;
    let got = recvmsg::<()>(socket.as_raw_fd(), &mut parts, Some(&mut space), flags)?;
    let mut with = Vec::new();
    for message in got.cmsgs()? {
        if let ControlMessageOwned::ScmRights(fds) = message {
            // SAFETY: the kernel has just made them for us.
            with.extend(
                fds.into_iter()
                    .map(|fd| unsafe { OwnedFd::from_raw_fd(fd) }),
            );
        }
    }
    let length = got.bytes;
    Ok((Notice::read(&bytes[..length]), with))
}

fn same(a: &OwnedFd, b: &OwnedFd) -> bool {
    let [a, b] = [a, b].map(|fd| fstat(fd).unwrap());
    (a.st_dev, a.st_ino) == (b.st_dev, b.st_ino)
}
