//! A life that goes on in another process: it begins where an older one was, and it ends in a newer one.

use tokio::sync::mpsc;
use tokio::time::timeout;
use tracing::{error, info, warn};

use super::house::House;
use super::run::{Beat, FIRST_ROUND, Failure, Life, Source, announce, doubt};
use super::signals::{Call, Signals};
use super::store::Store;
use super::upgrade::{Elder, Handovers, NotHandedOver, Program, Ready, Successor};
use crate::causes::chain;
use crate::net::Inherited;
use crate::session::Errand;

/// A house that has taken over.
struct Arrived {
    house: House,
    /// What the old process had and this one's configuration does not want.
    unwanted: Inherited,
    counted: Handovers,
    errands: mpsc::Receiver<Errand>,
}

/// What became of an attempt to hand over.
pub(super) enum Handing {
    Done(Successor),
    /// Nothing has changed.
    Failed,
    /// A signal came meanwhile.
    Ending(&'static str),
}

/// Takes over from the process that has started this one. Until then nothing of what that one has is touched.
pub(super) async fn take_over(
    mut elder: Elder,
    source: &Source,
    program: Program,
    mut signals: Signals,
) -> Result<(), Failure> {
    let (pid, version) = (elder.pid, elder.version.clone());
    let arriving = arrive(&mut elder, source);
    let arrived = tokio::select! {
        arrived = arriving => match arrived {
            Ok(arrived) => arrived,
            Err(failure) => {
                elder.refuse(chain(&failure)).await;
                return Err(failure);
            }
        },
        // The older process serves on.
        _ = signals.end() => return Ok(()),
    };
    let Arrived {
        house,
        mut unwanted,
        counted,
        errands,
    } = arrived;
    elder.serving().await;
    house.handovers("ok").inc_by(counted.ok + 1);
    house.handovers("failed").inc_by(counted.failed);
    info!("took over from process {pid} (version {version})");
    let mut life = Life::new(house, program, signals);
    Store::close_unwanted(&mut unwanted, &[]);
    life.store.keep(&life.house);
    life.reload = format!("took over from process {pid}");
    life.manager.ready(&life.status());
    tokio::spawn(elder.receive(life.house.quay(), errands));
    life.live(source).await
}

/// As far as there is a way back, and one step further.
async fn arrive(elder: &mut Elder, source: &Source) -> Result<Arrived, Failure> {
    let config = source.load()?;
    doubt(&config);
    let (mut inherited, estate) = elder.estate().await?;
    let house = House::start_with(config, &mut inherited, Some(estate.heir)).await?;
    let _ = timeout(FIRST_ROUND, house.first_round()).await;
    let heir = elder.ready().await?;
    if !house.inherit(heir).await {
        return Err(Failure::Broken("the tracker".to_owned()));
    }
    announce(&house);
    // Before the first cancel can come.
    let errands = house.quay().has_elder();
    house.open_doors();
    Ok(Arrived {
        house,
        unwanted: inherited,
        counted: estate.handovers,
        errands,
    })
}

impl Life {
    /// Starts the program anew and lets it serve. Whatever fails, this process goes on as before.
    pub(super) async fn hand_over(&mut self) -> Result<Handing, Failure> {
        self.manager.reloading();
        let mut beat = Beat::new(self.manager.beat());
        let handed = {
            let attempt = async {
                let ready = Ready::begin(&self.program, &self.house).await?;
                ready.go(&self.house).await
            };
            let mut attempt = std::pin::pin!(attempt);
            loop {
                tokio::select! {
                    handed = &mut attempt => break handed,
                    signal = self.signals.end() => return Ok(Handing::Ending(signal)),
                    what = self.house.failed() => return Err(Failure::Broken(what)),
                    () = beat.next() => self.manager.alive(self.house.poller_progress()),
                }
            }
        };
        match handed {
            Ok(successor) => {
                self.house.give_away();
                self.manager.hand_over(successor.pid.unsigned_abs());
                successor.is_named().await;
                Ok(Handing::Done(successor))
            }
            Err(not) => {
                self.stay(&not);
                Ok(Handing::Failed)
            }
        }
    }

    fn stay(&mut self, not: &NotHandedOver) {
        let words = chain(not);
        error!("hand-over failed, this process goes on: {words}");
        self.house.handovers("failed").inc();
        self.reload = format!("hand-over failed: {words}");
        let status = self.status();
        self.manager.ready(&status);
    }

    /// Another process serves. This one keeps what could not go along, watches the leader for it, and ends with the
    /// last of it, whenever that is.
    pub(super) async fn retire(mut self, successor: Successor) -> Result<(), Failure> {
        let (pid, version) = (successor.pid, successor.version.clone());
        info!(
            "handed over to process {pid} (version {version}), {} sessions are still here",
            self.house.sessions()
        );
        self.is_retired = true;
        tokio::spawn(successor.carry(self.house.quay()));
        loop {
            tokio::select! {
                () = self.house.left() => break,
                call = self.signals.next() => match call {
                    Call::End(signal) => return self.end(signal).await,
                    Call::Reload | Call::HandOver => {
                        warn!("a signal for process {pid}, which serves now, has come to this one");
                    }
                },
                what = self.house.failed() => return Err(Failure::Broken(what)),
            }
        }
        self.leave("the last session has ended; bye").await;
        Ok(())
    }
}
