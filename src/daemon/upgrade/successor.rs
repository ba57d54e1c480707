//! The old side: starts the new process, tells it everything, and lets it begin.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tokio::time::{Instant, timeout_at};

use super::error::{Broken, NotHandedOver};
use super::link::{Frame, Link};
use super::message::{Estate, Handovers, Hello, ToNew, ToOld};
use super::program::Program;
use crate::causes::chain;
use crate::daemon::house::House;

/// A start takes a second or two: the first round of questions is not waited for longer.
const LIMIT: Duration = Duration::from_secs(10);
/// For a few words from a process that has just shown that it lives.
const ANSWER: Duration = Duration::from_secs(10);

/// The new process: it has bound and asked, and waits for the word. Dropping this ends it.
pub(in crate::daemon) struct Ready {
    fresh: Fresh,
    link: Link,
    path: PathBuf,
    version: String,
}

/// The new process, which serves.
pub(in crate::daemon) struct Successor {
    pub(in crate::daemon) pid: i32,
    pub(in crate::daemon) version: String,
    pub(super) link: Link,
}

/// A process that is ended unless it has come to serve.
struct Fresh {
    pid: i32,
    is_on_its_own: bool,
}

impl Ready {
    /// Starts the program anew and waits until it is ready. May be dropped at any await: then it is ended.
    pub(in crate::daemon) async fn begin(
        program: &Program,
        house: &House,
    ) -> Result<Self, NotHandedOver> {
        if std::process::id() == 1 {
            return Err(NotHandedOver::Init);
        }
        let path = program.path().to_owned();
        let spawned = program.start().and_then(|(pid, stream)| {
            let fresh = Fresh {
                pid,
                is_on_its_own: false,
            };
            Ok((fresh, Link::new(stream)?))
        });
        let (mut fresh, mut link) = match spawned {
            Ok(both) => both,
            Err(source) => return Err(NotHandedOver::Spawn { path, source }),
        };
        let until = Instant::now() + LIMIT;
        let version = match timeout_at(until, bring_up(&mut link, house)).await {
            Ok(Ok(version)) => version,
            Ok(Err(not)) => return Err(not.of(&mut fresh, path)),
            Err(_late) => return Err(fresh.late(path, LIMIT)),
        };
        Ok(Self {
            fresh,
            link,
            path,
            version,
        })
    }

    /// Gives it the word. Until it serves, this process serves too.
    pub(in crate::daemon) async fn go(mut self, house: &House) -> Result<Successor, NotHandedOver> {
        let heir = house.heir().await.ok_or(NotHandedOver::Tracker)?;
        let serving = async {
            self.link.say(&ToNew::Go(Box::new(heir))).await?;
            match self.link.hear().await?.0 {
                ToOld::Serving => Ok(()),
                ToOld::Refused { words } => Err(Not::Refused(words)),
                _ => Err(Not::Broken(Broken::Order)),
            }
        };
        match timeout_at(Instant::now() + ANSWER, serving).await {
            Ok(Ok(())) => {}
            Ok(Err(not)) => return Err(not.of(&mut self.fresh, self.path)),
            Err(_late) => return Err(self.fresh.late(self.path, ANSWER)),
        }
        self.fresh.is_on_its_own = true;
        Ok(Successor {
            pid: self.fresh.pid,
            version: self.version,
            link: self.link,
        })
    }
}

impl Successor {
    /// The service manager knows it.
    pub(in crate::daemon) async fn is_named(&self) {
        if let Err(error) = self.link.say(&ToNew::Named).await {
            // It may have ended meanwhile; whoever watches it hears of that.
            tracing::warn!(error = %chain(&error), pid = self.pid, "the new process is told nothing");
        }
    }
}

/// From its first words until it is ready; its version.
async fn bring_up(link: &mut Link, house: &House) -> Result<String, Not> {
    heard_next(link.say(&Hello::ours()).await)?;
    let hello: Hello = link.hear().await?.0;
    let hello = hello.understood()?;
    for socket in house.listening().map_err(Not::Sockets)? {
        let more = Frame {
            descriptors: vec![socket.fd],
            ..Frame::default()
        };
        let words = ToNew::Listener {
            kept_as: socket.kept_as,
        };
        heard_next(link.say_with(&words, more).await)?;
    }
    let estate = Estate {
        heir: house.heir().await.ok_or(Not::Tracker)?,
        handovers: Handovers::of(house),
    };
    heard_next(link.say(&ToNew::Estate(Box::new(estate))).await)?;
    match link.hear().await?.0 {
        ToOld::Ready => Ok(hello.version),
        ToOld::Refused { words } => Err(Not::Refused(words)),
        _ => Err(Not::Broken(Broken::Order)),
    }
}

/// Whoever has ended may have said why: that waits in the link.
fn heard_next(said: Result<(), Broken>) -> Result<(), Broken> {
    match said {
        Err(Broken::Ended) => Ok(()),
        said => said,
    }
}

/// Why not, before it is said of which program.
enum Not {
    Broken(Broken),
    Refused(String),
    Sockets(io::Error),
    Tracker,
}

impl From<Broken> for Not {
    fn from(broken: Broken) -> Self {
        Self::Broken(broken)
    }
}

impl Not {
    fn of(self, fresh: &mut Fresh, path: PathBuf) -> NotHandedOver {
        match self {
            Self::Broken(source) => {
                // Its process id may be another one's by now.
                fresh.is_on_its_own |= matches!(source, Broken::Ended);
                NotHandedOver::Broken { path, source }
            }
            Self::Refused(words) => {
                // It ends by itself.
                fresh.is_on_its_own = true;
                NotHandedOver::Refused { path, words }
            }
            Self::Sockets(source) => NotHandedOver::Sockets(source),
            Self::Tracker => NotHandedOver::Tracker,
        }
    }
}

impl Fresh {
    fn late(&self, path: PathBuf, limit: Duration) -> NotHandedOver {
        NotHandedOver::Late {
            path,
            pid: self.pid,
            limit,
        }
    }
}

impl Drop for Fresh {
    fn drop(&mut self) {
        if !self.is_on_its_own {
            // Gone already, perhaps.
            let _ = kill(Pid::from_raw(self.pid), Signal::SIGKILL);
        }
    }
}
