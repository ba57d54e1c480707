//! A life from start to end: start a house, follow its signals, tell systemd, drain.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use tokio::time::{Instant, MissedTickBehavior, interval_at, timeout};
use toml::Table;
use tracing::{error, info, warn};

use super::cli::chain;
use super::house::House;
use super::limits;
use super::outcome::{Bound, StartError};
use super::signals::{Call, Signals};
use super::store::Store;
use super::systemd::Manager;
use crate::{Config, ConfigError};

/// READY waits for the first round of questions, but not longer than this: dead nodes must not delay a boot.
const FIRST_ROUND: Duration = Duration::from_secs(2);
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
    #[error("{0}: ending, so that systemd starts afresh")]
    Broken(String),
}

impl Source {
    fn load(&self) -> Result<Config, ConfigError> {
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
    let config = source.load()?;
    doubt(&config);
    let mut inherited = Store::handed(&config);
    let house = House::start_with(config, &mut inherited).await?;
    for listener in house.listeners() {
        match listener {
            Bound::Tcp(address) => info!(%address, "listening"),
            Bound::Unix(path) => info!(address = %path.display(), "listening"),
        }
    }
    if let Some(address) = house.admin() {
        info!(%address, "admin API");
    }
    let life = Life {
        house,
        signals,
        manager: Manager::from_environment(),
        store: Store::from_environment(),
        reload: String::new(),
    };
    life.live(source).await
}

/// What is allowed and probably not meant.
fn doubt(config: &Config) {
    let room = limits::make_room(config.session.max_connections);
    for doubt in config.warnings().into_iter().chain(room) {
        warn!("{doubt}");
    }
}

struct Life {
    house: House,
    signals: Signals,
    manager: Manager,
    store: Store,
    /// How the last reload went, for the status line; empty before the first.
    reload: String,
}

impl Life {
    async fn live(mut self, source: &Source) -> Result<(), Failure> {
        self.store.keep(&self.house);
        let signal = match self.first_round().await? {
            Some(signal) => signal,
            None => {
                let status = self.status();
                self.manager.ready(&status);
                self.follow(source).await?
            }
        };
        self.end(signal).await
    }

    /// The signal, if one ends us before we were ready.
    async fn first_round(&mut self) -> Result<Option<&'static str>, Failure> {
        tokio::select! {
            _ = timeout(FIRST_ROUND, self.house.first_round()) => Ok(None),
            signal = self.signals.end() => Ok(Some(signal)),
            what = self.house.failed() => Err(Failure::Broken(what)),
        }
    }

    /// The long time between READY and the signal that ends it.
    async fn follow(&mut self, source: &Source) -> Result<&'static str, Failure> {
        let mut beat = Beat::new(self.manager.beat());
        loop {
            let told = self.house.status_line();
            let status = self.status();
            self.manager.status(&status);
            tokio::select! {
                call = self.signals.next() => match call {
                    Call::Reload => self.reload(source).await,
                    Call::End(signal) => return Ok(signal),
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
    async fn end(mut self, signal: &'static str) -> Result<(), Failure> {
        let kept = self.house.all_kept();
        let newcomers = if kept { "still served" } else { "refused" };
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
                        warn!("{again} again: ending at once");
                        return Ok("bye, with sessions open");
                    }
                    what = self.house.failed() => return Err(Failure::Broken(what)),
                    () = beat.next() => self.manager.alive(self.house.poller_progress()),
                }
            }
        };
        let words = drained.await?;
        if timeout(GOODBYE, self.house.stop()).await.is_err() {
            warn!("a thread does not end; leaving it");
        }
        info!("{words}");
        Ok(())
    }

    fn status(&self) -> String {
        let leader = self.house.status_line();
        if self.reload.is_empty() {
            leader
        } else {
            format!("{leader}; {}", self.reload)
        }
    }
}

/// Ticks as often as the watchdog wants to be fed, or never.
struct Beat(Option<tokio::time::Interval>);

impl Beat {
    fn new(every: Option<Duration>) -> Self {
        Self(every.map(|every| {
            let mut beat = interval_at(Instant::now() + every, every);
            beat.set_missed_tick_behavior(MissedTickBehavior::Delay);
            beat
        }))
    }

    async fn next(&mut self) {
        match &mut self.0 {
            Some(beat) => {
                beat.tick().await;
            }
            None => std::future::pending().await,
        }
    }
}
