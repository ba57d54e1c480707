//! One thread's share of the sessions: it accepts, it serves, and it ends them.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Notify, mpsc, oneshot};
use tokio::task::LocalSet;
use tokio::time::MissedTickBehavior;
use tokio_util::sync::CancellationToken;

use super::adopt::Adoption;
use super::census::Census;
use super::errand::Errand;
use super::listener::{Acceptor, Listener, accept};
use super::pack::{Packed, Packer};
use super::registry::Registry;
use super::shared::Shared;
use super::sweep::sweep;
use super::tally::Tally;
use super::{ListenerSettings, cancel, goodbye};
use crate::metrics;
use crate::net::{Address, Socket};
use crate::routing::Intent;

/// Lent to whichever session moves bytes at the moment; an idle one owns none.
const BUFFER: usize = 256 * 1024;
/// Dead peers are looked for, and sums are logged, this often.
const TICK: Duration = Duration::from_secs(1);

/// What a worker is told by the house.
pub(crate) enum Command {
    /// Serves an address: a set of sockets that are bound and listen. Under an address that is served already,
    /// the new sockets join the old ones and the settings are replaced.
    Listen {
        settings: ListenerSettings,
        sockets: Vec<Socket>,
    },
    /// Stops accepting there; its sessions live on.
    Unlisten(Address),
    /// Stops accepting everywhere, and serves who waits in the kernel's queues already.
    Quiet,
    /// Hands out whoever can go on in another process, now and later, until the receiver is dropped. Once it is also
    /// quiet, the worker ends with the last one.
    Pack(mpsc::Sender<Packed>),
    /// Goes on with what another process has handed out.
    Adopt(Adoption),
    /// Stops accepting everywhere. Who waits in the kernel's queues is for whoever has the sockets next.
    Leave,
    /// Dropped when all clients that are here now are gone.
    Mark(oneshot::Sender<()>),
    /// Passes a cancel on for the process that came after this one.
    Run(Errand),
    /// What is open here, for the process that came after this one.
    Count(oneshot::Sender<Census>),
    /// Closes idle sessions from now on, and ends with the last one once it is also quiet.
    Drain,
}

/// What the sessions of one thread share.
pub(super) struct Worker {
    pub(super) shared: Arc<Shared>,
    pub(super) registry: Rc<Registry>,
    pub(super) tally: Tally,
    pub(super) buffer: RefCell<Box<[u8]>>,
    /// Idle sessions are closed.
    pub(super) draining: Cell<bool>,
    /// The same for whoever waits rather than looks.
    pub(super) drain: CancellationToken,
    pub(super) packer: Rc<Packer>,
    /// Shared by the clients that have come since the last [`Command::Mark`].
    company: RefCell<Company>,
    /// Connections that are not closed, from their first moment on, and whoever may accept another one.
    alive: Rc<Cell<usize>>,
    /// One of them has gone.
    gone: Rc<Notify>,
}

/// Goes with its last client, and whoever waits for that then knows.
type Company = Rc<RefCell<Option<oneshot::Sender<()>>>>;

/// Where a worker accepts.
#[derive(Default)]
struct Doors {
    listeners: HashMap<Address, Rc<Listener>>,
    /// It has been told to accept nowhere.
    is_quiet: bool,
    /// Its clients are another process's to take, also once that takes no more.
    are_handed_over: bool,
}

/// Keeps the worker while a connection lives, or may still be accepted.
pub(super) struct Alive {
    /// None for whoever accepts.
    _company: Option<Company>,
    alive: Rc<Cell<usize>>,
    gone: Rc<Notify>,
}

/// Runs until `stop`, which drops whatever is open, or until it is quiet, drained and empty. Sessions run on the
/// calling thread, whose runtime must have one thread only to keep its promise of order.
pub(crate) async fn run(
    shared: Arc<Shared>,
    commands: mpsc::Receiver<Command>,
    stop: CancellationToken,
) {
    let worker = Rc::new(Worker {
        shared,
        registry: Rc::default(),
        tally: Tally::default(),
        buffer: RefCell::new(vec![0; BUFFER].into_boxed_slice()),
        draining: Cell::new(false),
        drain: CancellationToken::new(),
        packer: Rc::default(),
        company: RefCell::default(),
        alive: Rc::default(),
        gone: Rc::default(),
    });
    let sessions = LocalSet::new();
    sessions
        .run_until(stop.run_until_cancelled(worker.serve(commands)))
        .await;
    worker.tally.flush();
}

impl Worker {
    async fn serve(self: &Rc<Self>, mut commands: mpsc::Receiver<Command>) {
        let mut doors = Doors::default();
        let mut tick = tokio::time::interval(TICK);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let may_end = self.draining.get() || doors.are_handed_over;
            if doors.is_quiet && may_end && self.alive.get() == 0 {
                return;
            }
            tokio::select! {
                command = commands.recv() => match command {
                    Some(command) => self.obey(command, &mut doors),
                    // The house is gone.
                    None => return,
                },
                _ = tick.tick() => self.look_around(),
                () = self.gone.notified() => {}
            }
        }
    }

    fn obey(self: &Rc<Self>, command: Command, doors: &mut Doors) {
        match command {
            Command::Listen { settings, sockets } => {
                // A hand-over that came to nothing ends with this.
                doors.is_quiet &= sockets.is_empty();
                if let Err(error) = self.listen(&mut doors.listeners, &settings, sockets) {
                    tracing::error!(listener = %settings.address, %error, "cannot be served");
                }
            }
            Command::Unlisten(address) => unlisten(doors.listeners.remove(&address)),
            Command::Quiet => doors.shut(|listener| listener.stop.cancel()),
            Command::Leave => doors.shut(|listener| listener.leave()),
            Command::Mark(here) => {
                self.company.take().borrow_mut().replace(here);
            }
            Command::Pack(to) => {
                doors.are_handed_over = true;
                self.packer.begin(&self.registry, to);
            }
            Command::Adopt(adoption) => {
                let head = &adoption.parcel.head;
                let known = doors.listeners.get(&head.listener).cloned();
                let listener = known.unwrap_or_else(|| self.removed(&head.listener, head.intent));
                self.adopt(&listener, adoption);
            }
            Command::Run(errand) => self.run_errand(errand),
            Command::Count(asked) => {
                // Who asked may be gone.
                let _ = asked.send(Census::take(&self.registry, &self.shared.elsewhere));
            }
            Command::Drain => {
                self.draining.set(true);
                self.drain.cancel();
                self.registry.wake_all();
            }
        }
    }

    fn run_errand(self: &Rc<Self>, errand: Errand) {
        let Errand { cancel, done } = errand;
        let worker = Rc::clone(self);
        tokio::task::spawn_local(async move {
            let is_known = cancel::run(&worker, &cancel).await;
            // Who asked may be gone.
            let _ = done.send(is_known);
        });
    }

    fn listen(
        self: &Rc<Self>,
        listeners: &mut HashMap<Address, Rc<Listener>>,
        settings: &ListenerSettings,
        sockets: Vec<Socket>,
    ) -> io::Result<()> {
        // All or none, and before anything changes: whoever accepts must be known to be stopped.
        let acceptors: Vec<_> = sockets
            .into_iter()
            .map(Acceptor::new)
            .collect::<io::Result<_>>()?;
        let listener = listeners
            .entry(settings.address.clone())
            .or_insert_with(|| self.removed(&settings.address, settings.intent));
        // Whoever is here already keeps what it came for.
        listener.intent.set(settings.intent);
        listener.max_connections.set(settings.max_connections);
        for acceptor in acceptors {
            let (worker, listener) = (Rc::clone(self), Rc::clone(listener));
            tokio::task::spawn_local(accept(worker, listener, acceptor, self.keep(None)));
        }
        Ok(())
    }

    /// One that accepts nobody, for those who came before.
    fn removed(&self, address: &Address, intent: Intent) -> Rc<Listener> {
        Rc::new(Listener {
            address: address.clone(),
            intent: Cell::new(intent),
            max_connections: Cell::new(None),
            count: self.shared.limits.of(address),
            stop: CancellationToken::new(),
            leaves_queue: Cell::new(false),
        })
    }

    fn look_around(&self) {
        let dead_peer = self.shared.settings.borrow().dead_peer;
        if let Some(limit) = dead_peer {
            sweep(&self.registry, limit, self.shared.router.now());
        }
        self.tally.flush();
    }

    /// For a client.
    pub(super) fn alive(&self) -> Alive {
        self.keep(Some(self.company.borrow().clone()))
    }

    fn keep(&self, company: Option<Company>) -> Alive {
        self.alive.set(self.alive.get() + 1);
        Alive {
            _company: company,
            alive: Rc::clone(&self.alive),
            gone: Rc::clone(&self.gone),
        }
    }

    /// Counts a refusal of a client that had reached `node` already.
    pub(super) fn refused(&self, reason: metrics::Refusal, node: &str) {
        self.shared.metrics.refuse(reason);
        self.tally
            .refused(reason, &goodbye::in_recovery(node).message);
    }
}

impl Doors {
    fn shut(&mut self, end: impl Fn(&Listener)) {
        self.is_quiet = true;
        self.listeners
            .drain()
            .for_each(|(_, listener)| end(&listener));
    }
}

impl Drop for Alive {
    fn drop(&mut self) {
        self.alive.set(self.alive.get() - 1);
        self.gone.notify_one();
    }
}

fn unlisten(listener: Option<Rc<Listener>>) {
    if let Some(listener) = listener {
        listener.stop.cancel();
    }
}
