//! Two workers as of two processes, and what carries parcels between them.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio_util::task::AbortOnDropHandle;

use super::stand::*;
use crate::metrics::SessionLabel;
use crate::session::adopt::{NotTaken, Start};
use crate::session::{Adoption, Census, Command, Errand, Packed, Parcel, Verdict};

pub(super) const SOON: Duration = Duration::from_secs(3);
/// For a server's first session.
pub(super) const CANCEL: &[u8] = b"\0\0\0\x10\x04\xd2\x16\x2e\0\0\0\0\x01\x02\x03\x04";

/// Two workers that know the same leader.
pub(super) struct Pair {
    pub(super) old: Stand,
    pub(super) new: Stand,
}

impl Pair {
    pub(super) async fn start() -> Self {
        let (old, new) = tokio::join!(Stand::start(), Stand::start());
        Self { old, new }
    }

    pub(super) fn leads(&self, server: std::net::SocketAddr) {
        self.old.script.leads(server);
        self.new.script.leads(server);
    }

    pub(super) fn connections(&self) -> (usize, usize) {
        let count = |stand: &Stand| stand.shared.connections();
        (count(&self.old), count(&self.new))
    }

    pub(super) fn open(&self) -> (usize, usize) {
        (self.old.open(), self.new.open())
    }

    /// The new one asks the old one for what it does not know, as long as this lives.
    pub(super) fn knows_its_elder(&self) -> AbortOnDropHandle<()> {
        let (errands, mut asked) = mpsc::channel(8);
        self.new.shared.set_elder(Some(errands));
        let old = self.old.commands.clone();
        AbortOnDropHandle::new(tokio::spawn(async move {
            while let Some(Errand { cancel, done }) = asked.recv().await {
                let json = serde_json::to_string(&cancel).unwrap();
                let cancel = serde_json::from_str(&json).unwrap();
                let errand = Errand { cancel, done };
                old.send(Command::Run(errand)).await.unwrap();
            }
        }))
    }

    pub(super) async fn moved(&self) -> bool {
        eventually(SOON, || self.connections() == (0, 1)).await
    }
}

/// What becomes of a parcel.
#[derive(Clone, Copy, Debug)]
pub(super) enum Fate {
    /// It goes where it may.
    Goes,
    Back,
    /// Its taker dies before it has said so.
    Dies,
}

/// Carries parcels as the two processes do: through frames, and the answer is out before the new one begins.
pub(super) struct Carrier {
    taken: Arc<AtomicUsize>,
    /// Of those, the ones that had bytes on their way.
    laden: Arc<AtomicUsize>,
    back: Arc<AtomicUsize>,
    task: JoinHandle<()>,
}

impl Carrier {
    pub(super) async fn between(from: &Stand, to: &Stand) -> Self {
        Self::with(from, to, || Fate::Goes).await
    }

    pub(super) async fn with(
        from: &Stand,
        to: &Stand,
        mut fate: impl FnMut() -> Fate + Send + 'static,
    ) -> Self {
        let (packs, mut packed) = mpsc::channel(8);
        from.commands.send(Command::Pack(packs)).await.unwrap();
        let [taken, laden, back] = [(); 3].map(|()| Arc::new(AtomicUsize::new(0)));
        let counts = [&taken, &laden, &back].map(Arc::clone);
        let to = to.commands.clone();
        let task = tokio::spawn(async move {
            while let Some(Packed { parcel, verdict }) = packed.recv().await {
                let fate = fate();
                let is_laden = parcel.server.is_some()
                    && !(parcel.bytes.down.is_empty() && parcel.bytes.up.is_empty());
                if let Fate::Back = fate {
                    counts[2].fetch_add(1, Ordering::SeqCst);
                    let _ = verdict.send(Verdict::GivenBack("a whim".into()));
                    continue;
                }
                match adopt(&to, parcel).await {
                    Ok(start) if matches!(fate, Fate::Dies) => drop((start, verdict)),
                    Ok(start) => {
                        counts[0].fetch_add(1, Ordering::SeqCst);
                        counts[1].fetch_add(usize::from(is_laden), Ordering::SeqCst);
                        verdict.send(Verdict::Taken).unwrap();
                        start.go();
                    }
                    Err(error) => {
                        counts[2].fetch_add(1, Ordering::SeqCst);
                        let words = error.to_string();
                        verdict.send(Verdict::GivenBack(words)).unwrap();
                    }
                }
            }
        });
        Self {
            taken,
            laden,
            back,
            task,
        }
    }

    pub(super) fn taken(&self) -> usize {
        self.taken.load(Ordering::SeqCst)
    }

    pub(super) fn laden(&self) -> usize {
        self.laden.load(Ordering::SeqCst)
    }

    pub(super) fn back(&self) -> usize {
        self.back.load(Ordering::SeqCst)
    }
}

impl Drop for Carrier {
    fn drop(&mut self) {
        self.task.abort();
    }
}

pub(super) async fn adopt(to: &mpsc::Sender<Command>, parcel: Parcel) -> Result<Start, NotTaken> {
    let (frame, descriptors) = parcel.into_frame().unwrap();
    let parcel = Parcel::from_frame(&frame, descriptors).unwrap();
    let (reply, answer) = oneshot::channel();
    let adoption = Adoption { parcel, reply };
    to.send(Command::Adopt(adoption)).await.unwrap();
    answer.await.unwrap()
}

/// Someone who takes parcels and lets them lie.
pub(super) async fn packs(from: &Stand) -> mpsc::Receiver<Packed> {
    let (packs, packed) = mpsc::channel(8);
    from.commands.send(Command::Pack(packs)).await.unwrap();
    packed
}

/// A session whose server is the test.
pub(super) async fn by_hand(pair: &Pair) -> (Client, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    pair.leads(listener.local_addr().unwrap());
    greeted(pair.old.client().await, &listener).await
}

/// The same for a client that has said nothing yet, at a leader that is known.
pub(super) async fn greeted(mut client: Client, leader: &TcpListener) -> (Client, TcpStream) {
    client.send(STARTUP).await;
    let (mut server, _) = within(leader.accept()).await.unwrap();
    let mut startup = [0; STARTUP.len()];
    server.read_exact(&mut startup).await.unwrap();
    let mut greeting = message(b'R', &[0; 4]);
    greeting.extend(message(b'K', &[9, 9, 9, 9, 1, 2, 3, 4]));
    greeting.extend(message(b'Z', b"I"));
    server.write_all(&greeting).await.unwrap();
    client.until_ready().await;
    (client, server)
}

pub(super) fn sessions(stand: &Stand) -> i64 {
    let label = SessionLabel {
        node: "node1".into(),
        route: "primary",
    };
    stand.script.metrics.sessions.get_or_create(&label).get()
}

pub(super) async fn count(stand: &Stand) -> Census {
    let (asked, census) = oneshot::channel();
    stand.commands.send(Command::Count(asked)).await.unwrap();
    let json = serde_json::to_string(&census.await.unwrap()).unwrap();
    serde_json::from_str(&json).unwrap()
}
