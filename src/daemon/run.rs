//! A life from start to end: start a house, follow its signals, tell systemd, drain.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use tokio::time::{MissedTickBehavior, interval, timeout};
use toml::Table;
use tracing::{error, info, warn};

use super::house::House;
use super::limits;
use super::outcome::{Bound, StartError};
use super::signals::{Call, Signals};
use super::store::Store;
use super::succession::{self, Handing};
use super::systemd::Manager;
use super::upgrade::{Broken, Elder, Program, Successor};
use crate::causes::chain;
use crate::{Config, ConfigError};

/// READY waits for the first round of questions, but not longer than this: dead nodes must not delay a boot.
pub(super) const FIRST_ROUND: Duration = Duration::from_secs(2);
/// For threads that were told to end.
const GOODBYE: Duration = Duration::from_secs(2);

/// Where the configuration comes from, now and at each reload.
pub(super) enum Source {
    File(PathBuf),
    /// The command line, as the same TOML.
    Line(Table),
}

/// Why a life ended badly.
#[derive(Debug, thiserror::Error)]
pub(super) enum Failure {
    #[error(transparent)]
    Config(#[from] ConfigError),
    #[error(transparent)]
    Start(#[from] StartError),
    #[error("the kernel refuses what a process needs")]
    Kernel(#[from] io::Error),
    #[error("the process that serves does not hand over")]
    NoHandOver(#[from] Broken),
    #[error("{0}: ending, so that systemd starts afresh")]
    Broken(String),
}

impl Source {
    pub(super) fn load(&self) -> Result<Config, ConfigError> {
        match self {
            Self::File(file) => Config::load(file),
            Self::Line(table) => Config::from_table(table.clone()),
        }
    }
}

/// Runs until a signal ends it.
pub(super) fn run(source: &Source) -> Result<(), Failure> {
    // This thread only listens to signals and to the house, which has threads of its own.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let lived = runtime.block_on(start(source));
    // Not dropped, which would wait for a thread that does not end.
    runtime.shutdown_background();
    lived
}

async fn start(source: &Source) -> Result<(), Failure> {
    let signals = Signals::catch()?;
    let program = Program::of_this_process()?;
    if let Some(elder) = Elder::meet().await? {
        return succession::take_over(elder, source, program, signals).await;
    }
    let config = source.load()?;
    doubt(&config);
    let mut inherited = Store::handed(&config);
    let house = House::start_with(config, &mut inherited, None).await?;
    announce(&house);
    let mut life = Life::new(house, program, signals);
    life.store.keep(&life.house);
    if let Some(signal) = life.first_round().await? {
        return life.end(signal).await;
    }
    life.manager.ready(&life.status());
    life.live(source).await
}

/// Where it listens, for the log.
pub(super) fn announce(house: &House) {
    for listener in house.listeners() {
        match listener {
            Bound::Tcp(address) => info!(%address, "listening"),
            Bound::Unix(path) => info!(address = %path.display(), "listening"),
        }
    }
    if let Some(address) = house.admin() {
        info!(%address, "admin API");
    }
}

/// What is allowed and probably not meant.
pub(super) fn doubt(config: &Config) {
    let room = limits::make_room(config.session.max_connections);
    for doubt in config.warnings().into_iter().chain(room) {
        warn!("{doubt}");
    }
}

pub(super) struct Life {
    pub(super) house: House,
    pub(super) program: Program,
    pub(super) signals: Signals,
    pub(super) manager: Manager,
    pub(super) store: Store,
    /// How the last reload or hand-over went, for the status line; empty before the first.
    pub(super) reload: String,
    /// Another process serves, and this one only ends.
    pub(super) is_retired: bool,
}

/// What ends the long time of service.
enum Ended {
    Signal(&'static str),
    HandedOver(Successor),
}

impl Life {
    pub(super) fn new(house: House, program: Program, signals: Signals) -> Self {
        Self {
            house,
            program,
            signals,
            manager: Manager::from_environment(),
            store: Store::from_environment(),
            reload: String::new(),
            is_retired: false,
        }
    }

    /// From READY to the end.
    pub(super) async fn live(mut self, source: &Source) -> Result<(), Failure> {
        match self.follow(source).await? {
            Ended::Signal(signal) => self.end(signal).await,
            Ended::HandedOver(successor) => self.retire(successor).await,
        }
    }

    /// The signal, if one ends us before we were ready.
    pub(super) async fn first_round(&mut self) -> Result<Option<&'static str>, Failure> {
        tokio::select! {
            _ = timeout(FIRST_ROUND, self.house.first_round()) => Ok(None),
            signal = self.signals.end() => Ok(Some(signal)),
            what = self.house.failed() => Err(Failure::Broken(what)),
        }
    }

    /// The long time between READY and what ends it.
    async fn follow(&mut self, source: &Source) -> Result<Ended, Failure> {
        let mut beat = Beat::new(self.manager.beat());
        loop {
            let told = self.house.status_line();
            let status = self.status();
            self.manager.status(&status);
            tokio::select! {
                call = self.signals.next() => match call {
                    Call::Reload if !self.program.has_changed() => self.reload(source).await,
                    Call::Reload | Call::HandOver => match self.hand_over().await? {
                        Handing::Done(successor) => return Ok(Ended::HandedOver(successor)),
                        Handing::Ending(signal) => return Ok(Ended::Signal(signal)),
                        Handing::Failed => {}
                    },
                    Call::End(signal) => return Ok(Ended::Signal(signal)),
                },
                _ = self.house.status_changed(&told) => {}
                () = beat.next() => self.manager.alive(self.house.poller_progress()),
                what = self.house.failed() => return Err(Failure::Broken(what)),
            }
        }
    }

    /// All or nothing: a file that cannot be used, or an address that is taken, changes nothing.
    async fn reload(&mut self, source: &Source) {
        self.manager.reloading();
        let done = match source.load() {
            Ok(config) => {
                doubt(&config);
                self.house.reload(config).await.map_err(|e| chain(&e))
            }
            Err(error) => {
                self.house.reload_refused();
                Err(chain(&error))
            }
        };
        self.reload = match done {
            Ok(report) if report.needs_restart.is_empty() => {
                info!("reloaded: {}", report.changes);
                "reloaded".to_owned()
            }
            Ok(report) => {
                let keys = report.needs_restart.join(", ");
                warn!(
                    "reloaded: {}; a restart is needed for {keys}",
                    report.changes
                );
                format!("reloaded, restart needed for {keys}")
            }
            Err(words) => {
                error!("reload failed, the old configuration goes on: {words}");
                format!("reload failed: {words}")
            }
        };
        self.store.keep(&self.house);
        let status = self.status();
        self.manager.ready(&status);
    }

    /// Waits for the sessions as long as the configuration says, and not at all after a second signal.
    pub(super) async fn end(mut self, signal: &'static str) -> Result<(), Failure> {
        let kept = !self.is_retired && self.house.all_kept();
        let newcomers = match (self.is_retired, kept) {
            (true, _) => "another process's",
            (false, true) => "still served",
            (false, false) => "refused",
        };
        info!("{signal}: newcomers are {newcomers}, waiting for open sessions");
        self.manager.stopping("stopping, waiting for open sessions");
        let mut beat = Beat::new(self.manager.beat());
        let drained = async {
            let drain = async {
                if kept {
                    self.house.drain_in_turn().await;
                } else {
                    self.house.drain().await;
                }
            };
            let mut drain = std::pin::pin!(drain);
            loop {
                tokio::select! {
                    () = &mut drain => return Ok("bye"),
                    again = self.signals.end() => {
                        // systemd repeats SIGTERM for those that are left when the main process has ended.
                        if self.is_retired && again == "SIGTERM" {
                            continue;
                        }
                        warn!("{again} again: ending at once");
                        return Ok("bye, with sessions open");
                    }
                    what = self.house.failed() => return Err(Failure::Broken(what)),
                    () = beat.next() => self.manager.alive(self.house.poller_progress()),
                }
            }
        };
        let words = drained.await?;
        self.leave(words).await;
        Ok(())
    }

    /// The last words, once the threads have ended.
    pub(super) async fn leave(self, words: &str) {
        if timeout(GOODBYE, self.house.stop()).await.is_err() {
            warn!("a thread does not end; leaving it");
        }
        info!("{words}");
    }

    pub(super) fn status(&self) -> String {
        let leader = self.house.status_line();
        if self.reload.is_empty() {
            leader
        } else {
            format!("{leader}; {}", self.reload)
        }
    }
}

/// Ticks as often as the watchdog wants to be fed, or never.
///
/// At once for the first time: systemd counts on from the last meal when the main process changes, and with one
/// hand-over after the other each process would leave that to the next.
pub(super) struct Beat(Option<tokio::time::Interval>);

impl Beat {
    pub(super) fn new(every: Option<Duration>) -> Self {
        Self(every.map(|every| {
            let mut beat = interval(every);
            beat.set_missed_tick_behavior(MissedTickBehavior::Delay);
            beat
        }))
    }

    pub(super) async fn next(&mut self) {
        match &mut self.0 {
            Some(beat) => {
                beat.tick().await;
            }
            None => std::future::pending().await,
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::Instant;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn whoever_begins_to_feed_the_watchdog_does_not_wait_for_the_first_time() {
        let every = Duration::from_secs(5);
        let begun = Instant::now();
        let mut beat = Beat::new(Some(every));

        beat.next().await;
        assert_eq!(begun.elapsed(), Duration::ZERO);
        beat.next().await;
        assert_eq!(begun.elapsed(), every);
    }
}
