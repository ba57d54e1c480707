//! Sessions on their way from the old process to the new one. Each is owned by exactly one of them at any time: by the
//! old one until it has read `Taken`, which the new one says before it touches a byte.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior};

use super::elder::Elder;
use super::error::Broken;
use super::link::Frame;
use super::message::{ToNew, ToOld};
use super::successor::Successor;
use crate::causes::chain;
use crate::daemon::house::Quay;
use crate::session::{Adoption, Cancel, Errand, Packed, Parcel, Verdict};

/// Parcels that are ready to be sent.
const READY: usize = 8;
/// How often the new process is told what is still here.
const COUNT: Duration = Duration::from_secs(1);
/// A new process that owes an answer for so long hangs.
const PATIENCE: Duration = Duration::from_secs(10);

/// What the new process has not answered yet, in the order in which it was sent and will be.
#[derive(Default)]
struct Owed {
    next: u64,
    verdicts: VecDeque<(u64, Instant, oneshot::Sender<Verdict>)>,
}

impl Successor {
    /// Carries over whoever can go, until the other process or this one ends. Whoever is under way then comes back.
    pub(in crate::daemon) async fn carry(mut self, quay: Quay) {
        let (to, mut packed) = mpsc::channel(READY);
        if !quay.pack(to).await {
            return;
        }
        let mut owed = Owed::default();
        let broken = self.carry_on(&mut packed, &mut owed, &quay).await;
        match broken {
            Broken::Ended => {}
            error => {
                tracing::error!(pid = self.pid, error = %chain(&error), "the process that took over is ended");
                // The link is open, so it is that very process. It must not go on with what comes back here.
                let _ = kill(Pid::from_raw(self.pid), Signal::SIGKILL);
            }
        }
        self.hear_out(&mut owed).await;
        tracing::info!(pid = self.pid, "the process that took over has ended");
    }

    async fn carry_on(
        &mut self,
        packed: &mut mpsc::Receiver<Packed>,
        owed: &mut Owed,
        quay: &Quay,
    ) -> Broken {
        let mut errands = JoinSet::new();
        let mut count = tokio::time::interval(COUNT);
        count.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let late = owed.late();
            let done = tokio::select! {
                // What it has answered is read before it is found to be late: what was taken is not here any more.
                biased;
                heard = self.link.hear() => match heard {
                    Ok((ToOld::Errand { id, cancel }, _)) => {
                        errands.spawn(run(quay.clone(), id, cancel));
                        Ok(())
                    }
                    Ok((word, _)) => owed.settle(word),
                    Err(broken) => Err(broken),
                },
                _ = count.tick() => match quay.census().await {
                    Some(census) => self.link.say(&ToNew::Census(census)).await,
                    // The last client has left.
                    None => Ok(()),
                },
                Some(Ok(done)) = errands.join_next() => self.link.say(&done).await,
                Some(packed) = packed.recv() => self.send(packed, owed).await,
                () = tokio::time::sleep_until(late), if owed.is_something() => {
                    Err(Broken::Late(PATIENCE))
                }
            };
            if let Err(broken) = done {
                return broken;
            }
        }
    }

    /// What it took before its end it has touched, so that must not come back: its last words count.
    async fn hear_out(&mut self, owed: &mut Owed) {
        let rest = async {
            while let Ok((word, _)) = self.link.hear().await {
                // Whatever is no verdict is for nobody any more.
                let _ = owed.settle(word);
            }
        };
        let _ = tokio::time::timeout(PATIENCE, rest).await;
    }

    async fn send(&self, packed: Packed, owed: &mut Owed) -> Result<(), Broken> {
        let Packed { parcel, verdict } = packed;
        let whose = parcel.to_string();
        match parcel.into_frame() {
            Ok((bytes, descriptors)) => {
                let id = owed.add(verdict);
                let more = Frame {
                    bytes,
                    descriptors,
                    ..Frame::default()
                };
                self.link.say_with(&ToNew::Parcel { id }, more).await
            }
            // The verdict is dropped: it stays here.
            Err(error) => {
                tracing::warn!(error = %chain(&error), "cannot go along: {whose}");
                Ok(())
            }
        }
    }
}

impl Owed {
    fn add(&mut self, verdict: oneshot::Sender<Verdict>) -> u64 {
        let id = self.next;
        self.next += 1;
        self.verdicts.push_back((id, Instant::now(), verdict));
        id
    }

    fn settle(&mut self, word: ToOld) -> Result<(), Broken> {
        let (answered, verdict) = match word {
            ToOld::Taken { id } => (id, Verdict::Taken),
            ToOld::GivenBack { id, words } => (id, Verdict::GivenBack(words)),
            _ => return Err(Broken::Order),
        };
        let (id, _, asker) = self.verdicts.pop_front().ok_or(Broken::Order)?;
        if id != answered {
            return Err(Broken::Order);
        }
        // The session may have ended meanwhile.
        let _ = asker.send(verdict);
        Ok(())
    }

    fn is_something(&self) -> bool {
        !self.verdicts.is_empty()
    }

    fn late(&self) -> Instant {
        let oldest = self.verdicts.front().map(|(_, sent, _)| *sent);
        oldest.unwrap_or_else(Instant::now) + PATIENCE
    }
}

/// An errand of the new process, and what it is told of it.
async fn run(quay: Quay, id: u64, cancel: Cancel) -> ToNew {
    let (done, known) = oneshot::channel();
    let asked = quay.run(Errand { cancel, done }).await;
    let known = asked && known.await.unwrap_or(false);
    ToNew::Done { id, known }
}

/// What was asked of the old process and is not answered yet.
#[derive(Default)]
struct Asked {
    next: u64,
    waiting: HashMap<u64, oneshot::Sender<bool>>,
}

impl Elder {
    /// Takes in what the other process hands out, and has it do what it alone can, until it ends.
    pub(in crate::daemon) async fn receive(mut self, quay: Quay, errands: mpsc::Receiver<Errand>) {
        let broken = self.take_in(&quay, errands).await;
        quay.elder_is_gone();
        match broken {
            Broken::Ended => {
                tracing::info!(pid = self.pid, "the process before this one has ended");
            }
            error => {
                tracing::error!(pid = self.pid, error = %chain(&error), "the process before this one hands out no more");
            }
        }
    }

    async fn take_in(&mut self, quay: &Quay, mut errands: mpsc::Receiver<Errand>) -> Broken {
        let mut asked = Asked::default();
        loop {
            let done = tokio::select! {
                heard = self.link.hear() => match heard {
                    Ok((ToNew::Parcel { id }, frame)) => self.adopt(id, frame, quay).await,
                    Ok((ToNew::Done { id, known }, _)) => {
                        asked.settle(id, known);
                        Ok(())
                    }
                    Ok((ToNew::Census(census), _)) => {
                        quay.elsewhere(census);
                        Ok(())
                    }
                    // It was not waited for any longer.
                    Ok((ToNew::Named, _)) => Ok(()),
                    Ok(_) => Err(Broken::Order),
                    Err(broken) => Err(broken),
                },
                Some(errand) = errands.recv() => {
                    let word = asked.add(errand);
                    self.tell(&word).await
                }
            };
            if let Err(broken) = done {
                return broken;
            }
        }
    }

    async fn adopt(&self, id: u64, frame: Frame, quay: &Quay) -> Result<(), Broken> {
        let refused = match Parcel::from_frame(&frame.bytes, frame.descriptors) {
            Ok(parcel) => {
                let (reply, answer) = oneshot::channel();
                let asked = quay.adopt(Adoption { parcel, reply }).await;
                match answer.await {
                    Ok(Ok(start)) if asked => {
                        let told = self.tell(&ToOld::Taken { id }).await;
                        // A process that cannot be told has ended: it closes a link in no other way, and nobody but
                        // this one has the connection then.
                        start.go();
                        return told;
                    }
                    Ok(Err(not)) => not.to_string(),
                    Ok(Ok(_)) | Err(_) => "the process ends".to_owned(),
                }
            }
            Err(error) => error.to_string(),
        };
        let word = ToOld::GivenBack { id, words: refused };
        self.tell(&word).await
    }

    /// One that has ended hears nothing; what it has sent before is still to be read, and nobody else's.
    async fn tell(&self, word: &ToOld) -> Result<(), Broken> {
        match self.link.say(word).await {
            Err(Broken::Ended) => Ok(()),
            told => told,
        }
    }
}

impl Asked {
    fn add(&mut self, errand: Errand) -> ToOld {
        let Errand { cancel, done } = errand;
        let id = self.next;
        self.next += 1;
        self.waiting.insert(id, done);
        ToOld::Errand { id, cancel }
    }

    fn settle(&mut self, id: u64, known: bool) {
        if let Some(asker) = self.waiting.remove(&id) {
            // Who asked may be gone.
            let _ = asker.send(known);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::net::TcpStream;
    use std::os::unix::net::UnixStream;

    use super::super::link::Link;
    use super::*;
    use crate::daemon::house::House;
    use crate::{Bound, Config};

    async fn house() -> House {
        let config = r#"
            admin_address = ""
            listeners = [{ address = "127.0.0.1:0", route = "primary" }]
            nodes = [{ name = "n1", host = "127.0.0.1", port = 1, rest_port = 1 }]
        "#;
        let config = Config::from_toml(config).unwrap();
        House::start(config).await.unwrap()
    }

    fn is_open(client: &mut TcpStream) -> bool {
        let limit = Duration::from_millis(100);
        client.set_read_timeout(Some(limit)).unwrap();
        let read = client.read(&mut [0]);
        read.is_err_and(|error| error.kind() == std::io::ErrorKind::WouldBlock)
    }

    #[tokio::test]
    async fn who_was_sent_by_a_process_that_has_ended_since_goes_on_here() {
        let (old, new) = (house().await, house().await);
        let Bound::Tcp(address) = old.listeners()[0] else {
            panic!("it is a TCP address");
        };
        let connect = || TcpStream::connect(address).unwrap();
        let mut clients = [connect(), connect(), connect()];
        let (to, mut packed) = mpsc::channel(READY);
        assert!(old.quay().pack(to).await);
        let (ours, theirs) = UnixStream::pair().unwrap();
        let link = Link::new(ours).unwrap();
        for id in 0..3 {
            let parcel = packed.recv().await.unwrap().parcel;
            let (bytes, descriptors) = parcel.into_frame().unwrap();
            let more = Frame {
                bytes,
                descriptors,
                ..Frame::default()
            };
            link.say_with(&ToNew::Parcel { id }, more).await.unwrap();
        }
        drop((link, packed));
        old.stop().await;

        let elder = Elder {
            link: Link::new(theirs).unwrap(),
            pid: 0,
            version: String::new(),
        };
        let quay = new.quay();
        let errands = quay.has_elder();
        elder.receive(quay, errands).await;

        assert_eq!(clients.each_mut().map(is_open), [true; 3]);
        new.stop().await;
        assert_eq!(clients.each_mut().map(is_open), [false; 3]);
    }

    #[tokio::test]
    async fn verdicts_come_in_the_order_of_the_parcels_and_no_other() {
        let mut owed = Owed::default();
        let (first, heard) = oneshot::channel();
        let (second, unheard) = oneshot::channel();
        let ids = [owed.add(first), owed.add(second)];
        assert!(owed.is_something());

        owed.settle(ToOld::Taken { id: ids[0] }).unwrap();
        assert_eq!(heard.await, Ok(Verdict::Taken));

        let wrong = ToOld::Taken { id: ids[1] + 1 };
        assert!(matches!(owed.settle(wrong), Err(Broken::Order)));
        assert!(unheard.await.is_err(), "what is in doubt comes back");
        assert!(!owed.is_something());
        assert!(matches!(
            owed.settle(ToOld::Taken { id: 9 }),
            Err(Broken::Order)
        ));
    }
}
