//! The new side: the process that started this one, from which it takes over.

use std::env;
use std::io;
use std::os::fd::{FromRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use nix::fcntl::{FcntlArg, FdFlag, fcntl};
use nix::sys::socket::{SockType, getsockopt, sockopt};

use super::error::Broken;
use super::link::Link;
use super::message::{Estate, Hello, ToNew, ToOld};
use super::program::LINK;
use crate::causes::chain;
use crate::net::Inherited;
use crate::primary_tracker::Heir;

/// The process before this one, which serves until this one does.
pub(in crate::daemon) struct Elder {
    pub(super) link: Link,
    pub(in crate::daemon) pid: u32,
    pub(in crate::daemon) version: String,
}

/// For a few words from a process that has just spoken.
const PATIENCE: Duration = Duration::from_secs(10);

impl Elder {
    /// `None` when nobody hands over: an ordinary start.
    ///
    /// # Errors
    /// The other one speaks another protocol, or is gone.
    pub(in crate::daemon) async fn meet() -> Result<Option<Self>, Broken> {
        let Some(stream) = link_of_this_process().map_err(Broken::Link)? else {
            return Ok(None);
        };
        let mut link = Link::new(stream).map_err(Broken::Link)?;
        // Both say who they are before either judges.
        link.say(&Hello::ours()).await?;
        let hello: Hello = link.hear().await?.0;
        let hello = hello.understood()?;
        Ok(Some(Self {
            link,
            pid: hello.pid,
            version: hello.version,
        }))
    }

    /// The sockets, and what to go on from.
    pub(in crate::daemon) async fn estate(&mut self) -> Result<(Inherited, Estate), Broken> {
        let mut inherited = Inherited::default();
        loop {
            let (words, frame) = self.link.hear().await?;
            match words {
                ToNew::Listener { kept_as } => {
                    for fd in frame.descriptors {
                        if let Err(unfit) = inherited.offer(fd, kept_as.clone()) {
                            tracing::warn!("a socket of the old process is not used: {unfit}");
                        }
                        inherited.touch_no_files();
                    }
                }
                ToNew::Estate(estate) => return Ok((inherited, *estate)),
                _ => return Err(Broken::Order),
            }
        }
    }

    /// This process will not start; the other one goes on and says why.
    pub(in crate::daemon) async fn refuse(&self, words: String) {
        // It may be gone itself.
        let _ = self.link.say(&ToOld::Refused { words }).await;
    }

    /// All is bound and asked; what is known at the very moment of the hand-over.
    pub(in crate::daemon) async fn ready(&mut self) -> Result<Heir, Broken> {
        self.link.say(&ToOld::Ready).await?;
        match self.link.hear().await?.0 {
            ToNew::Go(heir) => Ok(*heir),
            _ => Err(Broken::Order),
        }
    }

    /// This process accepts. Ends when the service manager knows it; whether the other one still lives, or hangs, is
    /// no matter from here on.
    pub(in crate::daemon) async fn serving(&mut self) {
        let told = async {
            self.link.say(&ToOld::Serving).await?;
            match self.link.hear().await?.0 {
                ToNew::Named => Ok(()),
                _ => Err(Broken::Order),
            }
        };
        let told = tokio::time::timeout(PATIENCE, told).await;
        if let Err(error) = told.unwrap_or(Err(Broken::Late(PATIENCE))) {
            tracing::warn!(error = %chain(&error), "the old process does not finish the hand-over");
        }
    }
}

/// The descriptor that was left open for us, and only then.
fn link_of_this_process() -> io::Result<Option<UnixStream>> {
    let Some(number) = env::var_os(LINK) else {
        return Ok(None);
    };
    let number: Option<RawFd> = number.to_str().and_then(|text| text.parse().ok());
    let number = number.filter(|number| *number > 2);
    let number = number.ok_or_else(|| io::Error::other(format!("{LINK} names no descriptor")))?;
    // SAFETY: asks for a flag; a number that is no descriptor is an error.
    if unsafe { libc::fcntl(number, libc::F_GETFD) } == -1 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: whoever has set the variable has opened this descriptor for us, and nothing else here uses it.
    let fd = unsafe { OwnedFd::from_raw_fd(number) };
    fcntl(&fd, FcntlArg::F_SETFD(FdFlag::FD_CLOEXEC))?;
    match getsockopt(&fd, sockopt::SockType)? {
        SockType::Stream => Ok(Some(fd.into())),
        _ => Err(io::Error::other(format!("{LINK} names no stream"))),
    }
}
