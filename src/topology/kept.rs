//! The connection to a node's PostgreSQL that is kept open between questions.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::time::{Instant, timeout, timeout_at};

use super::answer::Answer;
use super::source::Told;
use super::{NoAnswer, Place};
use crate::backend::{Link, LinkError, Login};
use crate::clock::Clock;

/// Connecting and logging in never take longer than this, however seldom is asked.
pub(super) const CONNECT_MOST: Duration = Duration::from_secs(5);
/// How long a server may take to hear that a question is given up. Never longer than the question's own limit: at a
/// server that hangs, the connections that are being closed never outnumber the questions under way.
const CANCEL_MOST: Duration = Duration::from_secs(1);

/// What is asked over the connection.
pub(crate) trait Look {
    fn look(&self, kept: &Kept) -> impl Future<Output = Result<Answer, NoAnswer>> + Send;
}

/// Opens a connection when none is left from the last question.
#[derive(Clone, Debug)]
pub(crate) struct Keeper {
    clock: Clock,
    login: Arc<Login>,
    connect_limit: Duration,
    /// A question takes it out and puts it back once it is answered to the end: so a hung one holds up no other, and a
    /// broken one is never asked again. Locked for that only.
    kept: Arc<Mutex<Option<Kept>>>,
}

/// A connection and what cannot change while it lives.
#[derive(Debug)]
pub(crate) struct Kept {
    pub(crate) link: Link,
    /// The machine at the other end.
    peer: SocketAddr,
    /// The cluster's system identifier: `None` when the server does not tell it to this user.
    pub(crate) identifier: Option<Arc<str>>,
    /// What the login cost the server, for the question that needed it.
    login_took: Duration,
}

impl Keeper {
    /// `interval` is how often is asked at rest.
    pub(crate) fn new(clock: Clock, login: &Arc<Login>, interval: Duration) -> Self {
        Self {
            clock,
            login: Arc::clone(login),
            connect_limit: interval.min(CONNECT_MOST),
            kept: Arc::default(),
        }
    }

    /// Asks over the kept connection, the whole of it within the place's limit.
    pub(crate) async fn ask(&self, mut place: Place, what: &impl Look) -> Result<Told, NoAnswer> {
        let limit = place.limit;
        let ends = Instant::now() + limit;
        let late = |_elapsed| NoAnswer::TimedOut { limit };
        let kept = timeout_at(ends, self.take(&mut place))
            .await
            .map_err(late)??;
        let asked = self.clock.now();
        match timeout_at(ends, what.look(&kept)).await {
            Ok(said) => {
                let from = kept.peer;
                let own_time = kept.login_took + self.clock.now().saturating_sub(asked);
                // An error that the server puts into words ends a statement and not the connection.
                if matches!(
                    &said,
                    Ok(_) | Err(NoAnswer::Postgres(LinkError::Said { .. }))
                ) {
                    self.swap(Some(kept.again()));
                }
                Ok(Told {
                    from,
                    own_time,
                    said: Ok(said?),
                })
            }
            Err(elapsed) => {
                kept.give_up(place.name, Arc::clone(&self.login), limit.min(CANCEL_MOST));
                Err(late(elapsed))
            }
        }
    }

    /// The kept connection, as long as it lives and its machine is still the one to ask; else a new one.
    async fn take(&self, place: &mut Place) -> Result<Kept, NoAnswer> {
        let addresses = place.addresses().await;
        let lives = |kept: &Kept| !kept.link.is_over() && addresses.contains(&kept.peer);
        if let Some(kept) = self.swap(None).filter(lives) {
            return Ok(kept);
        }
        let limit = self.connect_limit;
        match timeout(limit, self.open(place)).await {
            Ok(opened) => opened,
            Err(_elapsed) => Err(NoAnswer::NotConnected { limit }),
        }
    }

    async fn open(&self, place: &mut Place) -> Result<Kept, NoAnswer> {
        let (stream, peer) = place.connect().await?;
        let connected = self.clock.now();
        let link = Link::open(stream, peer, &place.name, &self.login).await?;
        // Not every user may ask that, and without it the cluster is only not told from another one.
        let identifier = link
            .value("SELECT system_identifier FROM pg_control_system()")
            .await
            .ok()
            .flatten()
            .filter(|id| id.parse::<u64>().is_ok());
        Ok(Kept {
            link,
            peer,
            identifier: identifier.map(Arc::from),
            login_took: self.clock.now().saturating_sub(connected),
        })
    }

    fn swap(&self, other: Option<Kept>) -> Option<Kept> {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::replace(&mut *kept, other)
    }
}

impl Kept {
    /// For the next question, which need not log in.
    fn again(self) -> Self {
        Self {
            login_took: Duration::ZERO,
            ..self
        }
    }

    /// Its question was not answered in time: whatever the server still does for it is ended, and the connection.
    fn give_up(self, host: Arc<str>, login: Arc<Login>, limit: Duration) {
        tokio::spawn(async move {
            self.link.cancel(self.peer, &host, &login, limit).await;
        });
    }
}
