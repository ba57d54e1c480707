//! From one process to the next: what a house is told before its doors open, and after another's have.

use std::sync::Arc;

use tokio::sync::{mpsc, oneshot};

use super::House;
use crate::metrics::{Counter, ReloadLabel};
use crate::primary_tracker::{Heir, Succession};
use crate::session::{Adoption, Census, Command, Errand, Packed, Shared};

/// Cancels that wait to be passed on.
const ERRANDS: usize = 64;

/// The way to a house's sessions, for the task that carries them from process to process.
#[derive(Clone)]
pub(crate) struct Quay {
    worker: mpsc::Sender<Command>,
    shared: Arc<Shared>,
}

impl House {
    /// What the house of the next process goes on from; `None` when the tracker is gone.
    pub(crate) async fn heir(&self) -> Option<Heir> {
        let (said, heard) = oneshot::channel();
        self.succession.send(Succession::Leave(said)).await.ok()?;
        heard.await.ok()
    }

    /// Goes on from there, before the doors are open. False when the tracker is gone.
    pub(crate) async fn inherit(&self, heir: Heir) -> bool {
        let (said, heard) = oneshot::channel();
        let heir = self.as_it_may_be(heir);
        let word = Succession::Inherit(Box::new(heir), said);
        self.succession.send(word).await.is_ok() && heard.await.is_ok()
    }

    /// A fault that is played could be ended by nobody where none may be.
    pub(super) fn as_it_may_be(&self, heir: Heir) -> Heir {
        match self.may_play() {
            true => heir,
            false => heir.without_faults(),
        }
    }

    /// The files of unix sockets stay whatever happens: as long as these doors are closed, they are another's.
    pub(crate) fn touch_no_files(&self) {
        self.state().doors().for_each(|door| door.leave_file());
    }

    /// Accepts: clients, and the operator's questions.
    pub(crate) fn open_doors(&self) {
        self.state().doors().for_each(|door| door.own_file());
        self.step_forward();
        self.doors.cancel();
    }

    /// Another process has the sockets and accepts: nobody new comes here any more, and who is here stays. The files of
    /// unix sockets are the other one's.
    pub(crate) fn give_away(&self) {
        self.draining.cancel();
        self.window_closed.cancel();
        self.step_back();
        for door in self.state().doors() {
            door.leave_file();
            door.sockets.clear();
        }
    }

    /// The way to its sessions.
    pub(crate) fn quay(&self) -> Quay {
        Quay {
            worker: self.worker.clone(),
            shared: Arc::clone(&self.shared),
        }
    }

    /// Ends when the last client of a house that was given away is gone.
    pub(crate) async fn left(&self) {
        self.drained.cancelled().await;
    }

    /// How many hand-overs have ended so: `ok`, `failed`.
    pub(crate) fn handovers(&self, result: &'static str) -> Counter {
        let label = ReloadLabel { result };
        self.metrics.handovers.get_or_create(&label).clone()
    }
}

impl Quay {
    /// Hands out whoever can go on in another process, until the receiver is dropped. False when there is nobody left.
    pub(crate) async fn pack(&self, to: mpsc::Sender<Packed>) -> bool {
        self.worker.send(Command::Pack(to)).await.is_ok()
    }

    /// Goes on with what another process has handed out. False when the worker is gone.
    pub(crate) async fn adopt(&self, adoption: Adoption) -> bool {
        self.worker.send(Command::Adopt(adoption)).await.is_ok()
    }

    /// Does what another process cannot do, for a session that has stayed here. False when the worker is gone.
    pub(crate) async fn run(&self, errand: Errand) -> bool {
        self.worker.send(Command::Run(errand)).await.is_ok()
    }

    /// What is open here; `None` when the worker is gone.
    pub(crate) async fn census(&self) -> Option<Census> {
        let (asked, counted) = oneshot::channel();
        self.worker.send(Command::Count(asked)).await.ok()?;
        counted.await.ok()
    }

    /// What is open in the process before this one.
    pub(crate) fn elsewhere(&self, census: Census) {
        self.shared.elsewhere(census);
    }

    /// What is not known here is asked of the process before this one, from now on.
    pub(crate) fn has_elder(&self) -> mpsc::Receiver<Errand> {
        let (ask, errands) = mpsc::channel(ERRANDS);
        self.shared.set_elder(Some(ask));
        errands
    }

    /// That has ended, and all of its sessions with it.
    pub(crate) fn elder_is_gone(&self) {
        self.shared.set_elder(None);
        self.shared.elsewhere(Census::default());
    }
}
