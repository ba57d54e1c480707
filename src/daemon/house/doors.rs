//! The bound addresses of a house: shown to others, closed for a while, given away, and closed for good.

use std::io;
use std::os::fd::OwnedFd;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::{Instant, timeout, timeout_at};

use super::House;
use crate::daemon::opening::Door;
use crate::net::{Address, Socket};
use crate::session::Command;

/// An idle session of a house that drains is gone sooner than this.
const LULL: Duration = Duration::from_secs(2);

/// One listening socket of a house, as another descriptor of it.
pub(crate) struct Listening {
    pub(crate) address: Address,
    pub(crate) fd: OwnedFd,
    /// The name under which systemd keeps it while no process of ours runs.
    pub(crate) kept_as: Option<String>,
}

impl House {
    /// All listening sockets, the admin API's included.
    pub(crate) fn listening(&self) -> io::Result<Vec<Listening>> {
        let mut state = self.state();
        let mut listening = Vec::new();
        for door in state.doors() {
            for socket in &door.sockets {
                listening.push(Listening {
                    address: door.address.clone(),
                    fd: socket.try_clone()?.into(),
                    kept_as: door.kept_as.clone(),
                });
            }
        }
        Ok(listening)
    }

    /// systemd keeps the sockets of this address from now on, so the file of a unix socket outlives this house.
    pub(crate) fn is_kept(&self, address: &Address, name: &str) {
        let mut state = self.state();
        for door in state.doors().filter(|door| door.address == *address) {
            door.kept_as = Some(name.to_owned());
            door.leave_file();
        }
    }

    /// Whoever comes while no process of ours runs waits, at each listener.
    pub(crate) fn all_kept(&self) -> bool {
        let state = self.state();
        state.open.iter().all(|l| l.door.kept_as.is_some())
    }

    /// Accepts nobody for now. Who waits in the kernel's queues stays there: for [`Self::step_forward`], or for whoever
    /// has the sockets next.
    pub(crate) fn step_back(&self) {
        self.tell(Command::Leave);
    }

    /// Accepts again.
    pub(crate) fn step_forward(&self) {
        for listener in &self.state().open {
            let sockets = listener.door.sockets.iter().map(Socket::try_clone);
            match sockets.collect() {
                Ok(sockets) => self.tell(listener.serve(sockets)),
                Err(error) => {
                    tracing::error!(listener = %listener.door.address, %error, "cannot be served");
                }
            }
        }
    }

    /// Stops accepting after `drain_delay_secs`, and waits for sessions up to `drain_timeout_secs`: idle ones are
    /// ended once they have stayed idle for a second.
    pub async fn drain(&self) {
        let limit = self.drain_delay().await;
        // First ours, so that the worker's are the last: it serves who is in the queue before it closes them.
        self.state()
            .open
            .iter_mut()
            .for_each(|l| l.door.sockets.clear());
        self.tell(Command::Quiet);
        self.tell(Command::Drain);
        let _ = timeout(limit, self.drained.cancelled()).await;
    }

    /// As [`Self::drain`], where the sockets are kept for the process after this one: newcomers are served as long as
    /// somebody is here who came before. Only then does it close its doors, for a lull in which the last ones may
    /// leave: newcomers wait in the kernel's queue. Who does not leave in a lull is waited for with open doors again.
    pub(crate) async fn drain_in_turn(&self) {
        let limit = self.drain_delay().await;
        let end = Instant::now() + limit;
        let lull = LULL.min(limit / 2);
        self.tell(Command::Drain);
        loop {
            let (here, gone) = oneshot::channel();
            self.tell(Command::Mark(here));
            let _ = timeout_at(end - lull, gone).await;
            self.step_back();
            let empty = timeout(lull, self.drained.cancelled()).await;
            if empty.is_ok() || Instant::now() >= end {
                return;
            }
            self.step_forward();
        }
    }

    async fn drain_delay(&self) -> Duration {
        let (delay, limit) = {
            let state = self.state();
            (state.config.drain_delay, state.config.drain_timeout)
        };
        tokio::time::sleep(delay).await;
        self.draining.cancel();
        limit
    }
}

impl super::State {
    pub(super) fn doors(&mut self) -> impl Iterator<Item = &mut Door> {
        let listeners = self.open.iter_mut().map(|listener| &mut listener.door);
        listeners.chain(&mut self.admin)
    }
}
