//! Handing sessions out: each at a quiet moment, so many at a time, and each comes back unless it was taken.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::net::Shutdown;
use std::os::fd::OwnedFd;
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::time::Duration;

use socket2::SockRef;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, mpsc, oneshot};

use super::parcel::Parcel;
use super::registry::{Place, Registry};

/// A parcel on its way, and where the answer goes.
pub(crate) struct Packed {
    pub(crate) parcel: Parcel,
    /// Dropped, it says that the parcel came back.
    pub(crate) verdict: oneshot::Sender<Verdict>,
}

/// What the other process says to a parcel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It goes on with it; here it is forgotten.
    Taken,
    /// In words, why not.
    GivenBack(String),
}

/// Parcels without an answer at a time: their descriptors are open twice.
const WINDOW: usize = 64;
/// Whoever was given back is packed again after this, then twice this, up to [`MOST`].
const PAUSE: Duration = Duration::from_secs(1);
const MOST: Duration = Duration::from_secs(8);

/// Whether a worker hands its sessions out.
#[derive(Default)]
pub(super) struct Packer {
    now: RefCell<Option<Packing>>,
    /// It has begun to.
    begun: Notify,
}

struct Packing {
    to: mpsc::Sender<Packed>,
    queue: mpsc::UnboundedSender<Asks>,
}

/// Who wants to be packed, in the order in which they are.
enum Asks {
    Session(Weak<Place>),
    Client(oneshot::Sender<Turn>),
}

/// The right to be packed now: there is room for the parcel, so that no copy of a descriptor waits for any.
#[derive(Debug)]
pub(super) struct Turn {
    room: mpsc::OwnedPermit<Packed>,
    window: OwnedSemaphorePermit,
}

/// How often somebody was given back.
#[derive(Debug, Default)]
pub(super) struct Tries(Cell<u32>);

impl Packer {
    /// Hands out whoever can be, until nobody takes parcels any more.
    pub(super) fn begin(self: &Rc<Self>, registry: &Rc<Registry>, to: mpsc::Sender<Packed>) {
        let (queue, asks) = mpsc::unbounded_channel();
        self.now.replace(Some(Packing {
            to: to.clone(),
            queue,
        }));
        // Those who wait ask first, in the order in which they do.
        self.begun.notify_waiters();
        let (packer, registry) = (Rc::clone(self), Rc::clone(registry));
        tokio::task::spawn_local(async move {
            registry.each(|place| {
                if place.server.get().is_some() {
                    packer.ask(place);
                }
            });
            tokio::select! {
                () = to.closed() => {}
                () = give_turns(&to, asks) => {}
            }
            let is_mine = |now: &mut Packing| now.to.same_channel(&to);
            drop(packer.now.borrow_mut().take_if(is_mine));
        });
    }

    /// Are sessions handed out?
    pub(super) fn is_on(&self) -> bool {
        self.now.borrow().is_some()
    }

    /// A relayed session's place: it is told when its turn has come.
    pub(super) fn ask(&self, place: &Rc<Place>) {
        self.queue(Asks::Session(Rc::downgrade(place)));
    }

    /// The turn of a client that waits, in order of asking; never while nobody is handed out.
    pub(super) async fn turn(&self, tries: &Tries) -> Turn {
        if let Some(pause) = tries.pause() {
            Box::pin(tokio::time::sleep(pause)).await;
        }
        loop {
            let begun = self.begun.notified();
            let (give, turn) = oneshot::channel();
            self.queue(Asks::Client(give));
            match turn.await {
                Ok(turn) => return turn,
                Err(_over) => begun.await,
            }
        }
    }

    fn queue(&self, asks: Asks) {
        if let Some(packing) = &*self.now.borrow() {
            // Nobody is left to hear it when it is over.
            let _ = packing.queue.send(asks);
        }
    }
}

/// One by one, as long as there is room.
async fn give_turns(to: &mpsc::Sender<Packed>, mut asks: mpsc::UnboundedReceiver<Asks>) {
    let all = Arc::new(Semaphore::new(WINDOW));
    while let Some(asks) = asks.recv().await {
        let window = Arc::clone(&all).acquire_owned().await;
        let room = to.clone().reserve_owned().await;
        let (Ok(window), Ok(room)) = (window, room) else {
            return;
        };
        let turn = Turn { room, window };
        match asks {
            Asks::Session(place) => {
                if let Some(place) = place.upgrade() {
                    place.pack(turn);
                }
            }
            // It may have left.
            Asks::Client(give) => drop(give.send(turn)),
        }
    }
}

impl Turn {
    /// Ends with the other side's word. Meanwhile whoever packed has nothing but what it needs to go on.
    pub(super) async fn hand_over(self, parcel: Parcel) -> Verdict {
        let Self { room, window } = self;
        let (verdict, heard) = oneshot::channel();
        room.send(Packed { parcel, verdict });
        let gone = "the process that takes parcels is gone";
        let heard = heard.await;
        drop(window);
        heard.unwrap_or_else(|_dropped| Verdict::GivenBack(gone.to_owned()))
    }

    /// The same for a session. Its order may come while another process holds it: a connection that is shut down is
    /// so for whoever holds it, so that nobody goes on with what is over.
    pub(super) async fn hand_over_session(
        self,
        parcel: Parcel,
        place: &Place,
        server: &OwnedFd,
    ) -> Verdict {
        let verdict = self.hand_over(parcel);
        tokio::pin!(verdict);
        tokio::select! {
            biased;
            verdict = &mut verdict => return verdict,
            () = poll_fn(|cx| place.poll_ordered(cx)) => {}
        }
        if let Err(error) = SockRef::from(server).shutdown(Shutdown::Both) {
            tracing::debug!(client = %place.peer, %error, "the server's end is closed already");
        }
        verdict.await
    }
}

impl Tries {
    /// Once more.
    pub(super) fn add(&self) {
        self.0.set(self.0.get() + 1);
    }

    pub(super) fn is_first(&self) -> bool {
        self.0.get() == 0
    }

    /// Until the next one; the first needs none.
    fn pause(&self) -> Option<Duration> {
        let again = self.0.get().checked_sub(1)?;
        Some((PAUSE * 2u32.pow(again.min(8))).min(MOST))
    }

    /// Asks again for a session, when its time has come.
    pub(super) fn again(packer: &Rc<Packer>, place: &Rc<Place>) {
        place.tries.add();
        let pause = place.tries.pause();
        let (packer, place) = (Rc::clone(packer), Rc::downgrade(place));
        tokio::task::spawn_local(async move {
            tokio::time::sleep(pause.unwrap_or_default()).await;
            if let Some(place) = place.upgrade() {
                packer.ask(&place);
            }
        });
    }
}
