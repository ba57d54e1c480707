//! The whole proxy as one value: start it, learn its addresses, watch who leads, stop it. Several fit in a process.

mod by_hand;
mod doors;
mod furnish;
mod handing;
mod reload;
mod words;

pub(crate) use doors::Listening;
pub(crate) use handing::Quay;

use std::net::{SocketAddr, TcpListener};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;

use super::opening::{self, Door, OpenListener};
use super::outcome::{Bound, FileFailed, StartError};
use super::threads::Threads;
use super::window::{Window, WindowNow};
use crate::admin;
use crate::clock::Clock;
use crate::config::Config;
use crate::metrics::Metrics;
use crate::net::{Address, Inherited};
use crate::primary_tracker::{
    Demand, Ears, Heir, Operator, Orders, Picture, PrimaryWatch, Progress, Reordered, Succession,
    Tracker,
};
use crate::routing::RoutingSettings;
use crate::session::{self, Command, SessionSettings, Shared};
use crate::topology::{Rest, Sources};

/// A running proxy. Dropping it ends its threads and closes its sessions.
///
/// ```no_run
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// use heliosdb_proxy::{Config, House};
///
/// let house = House::start(Config::from_toml(
///     r#"
///     listeners = [{ address = "127.0.0.1:0", route = "primary" }]
///     nodes = [{ name = "pg1", host = "10.0.0.11" }, { name = "pg2", host = "10.0.0.12" }]
///     "#,
/// )?)
/// .await?;
/// println!("listening on {:?}", house.listeners());
///
/// let mut primary = house.primary();
/// while let Ok(now) = primary.changed().await {
///     println!("the leader is {:?}", now.map(|info| info.address));
/// }
/// house.stop().await;
/// # Ok(())
/// # }
/// ```
pub struct House {
    clock: Clock,
    picture: watch::Receiver<Picture>,
    demand: Arc<Demand>,
    metrics: Arc<Metrics>,
    progress: Progress,
    orders: mpsc::Sender<Reordered>,
    operator: Operator,
    succession: mpsc::Sender<Succession>,
    shared: Arc<Shared>,
    worker: mpsc::Sender<Command>,
    /// Clients are accepted, and operators answered.
    doors: CancellationToken,
    /// Operators are answered by another process.
    window_closed: CancellationToken,
    /// The worker may end by itself: it has been told to drain.
    draining: CancellationToken,
    /// The worker has ended.
    drained: CancellationToken,
    routing: watch::Sender<RoutingSettings>,
    session: watch::Sender<SessionSettings>,
    window: Option<Window>,
    /// What changes at a reload. Held for the swap only, which does not wait for anything.
    state: Mutex<State>,
    threads: Threads,
    handles: Mutex<Vec<JoinHandle<()>>>,
    rung: watch::Receiver<Option<String>>,
}

struct State {
    config: Config,
    /// The files of `config.rest`, and the TLS sessions that may be resumed.
    rest: Arc<Rest>,
    /// The files of `config.source`.
    source: Arc<Sources>,
    open: Vec<OpenListener>,
    admin: Option<Door>,
}

impl House {
    /// Binds the sockets and starts the threads. Clients are held from here on until a leader is proved.
    ///
    /// # Errors
    /// See [`StartError`].
    pub async fn start(config: Config) -> Result<Self, StartError> {
        Self::start_with(config, &mut Inherited::default(), None).await
    }

    /// Takes what listens at its addresses already, and binds the rest. With an heir of another process, which still
    /// serves, it only gets ready: [`Self::open_doors`] does the rest.
    pub(crate) async fn start_with(
        config: Config,
        inherited: &mut Inherited,
        heir: Option<Heir>,
    ) -> Result<Self, StartError> {
        let rest = Rest::open(config.rest.clone()).map_err(FileFailed::from)?;
        let source = Sources::open(config.source.clone()).map_err(FileFailed::from)?;
        let admin = config.admin.as_ref();
        let admin = admin.map(|settings| opening::open_admin(settings, inherited));
        let (admin_door, admin_listener) = admin.transpose()?.unzip();
        let opened = opening::open_all(&config.listeners, inherited)?;
        let (house, ends) = Self::furnish(config, rest, source, admin_door);
        let heir = heir.map(|heir| house.as_it_may_be(heir));
        let is_ready = heir.is_none();
        let admin = admin_listener.zip(ends.window);
        house.spawn_control(ends.picture, ends.ears, admin, heir)?;
        house.spawn_worker(ends.commands)?;
        let listeners = opened.into_iter().map(|opened| opened.listener);
        house.state().open = listeners.collect();
        if is_ready {
            house.open_doors();
        } else {
            house.touch_no_files();
        }
        Ok(house)
    }

    /// The listeners, in the order of the configuration.
    pub fn listeners(&self) -> Vec<Bound> {
        self.state().open.iter().map(|l| l.bound()).collect()
    }

    /// The admin API's address, where it is on.
    pub fn admin(&self) -> Option<SocketAddr> {
        match self.state().admin.as_ref()?.address {
            Address::Tcp(address) => Some(address),
            Address::Unix(_) => None,
        }
    }

    /// Watches who leads.
    pub fn primary(&self) -> PrimaryWatch {
        PrimaryWatch::new(self.picture.clone())
    }

    /// Ends when each node has been asked once and has answered or was given up, at most two seconds after the
    /// start.
    pub async fn first_round(&self) {
        let mut picture = self.picture.clone();
        let _ = picture.wait_for(|picture| picture.first_round_done).await;
    }

    /// Open sessions, held clients included.
    pub fn sessions(&self) -> usize {
        self.shared.connections()
    }

    /// Ends everything, now: sessions are closed.
    pub async fn stop(self) {
        self.threads.stop.cancel();
        let handles = std::mem::take(&mut *lock(&self.handles));
        let joined = tokio::task::spawn_blocking(|| {
            for handle in handles {
                let _ = handle.join();
            }
        });
        let _ = joined.await;
    }

    /// Ends when a background task has ended unasked, with the words for it: the house is no longer whole.
    pub async fn failed(&self) -> String {
        let mut rung = self.rung.clone();
        match rung.wait_for(Option::is_some).await {
            Ok(words) => words.clone().unwrap_or_default(),
            Err(_never) => std::future::pending().await,
        }
    }

    /// How long ago the poller last went around its loop. Dead nodes do not age it; a hang does.
    pub(crate) fn poller_progress(&self) -> Duration {
        self.progress.age(self.clock.now())
    }

    fn spawn_control(
        &self,
        publish: watch::Sender<Picture>,
        ears: Ears,
        admin: Option<(TcpListener, WindowNow)>,
        heir: Option<Heir>,
    ) -> Result<(), StartError> {
        let (clock, stop) = (self.clock, self.threads.stop.clone());
        let first = {
            let state = self.state();
            tracker_orders(&state.config, &state.rest, &state.source)
        };
        let (demand, metrics) = (Arc::clone(&self.demand), Arc::clone(&self.metrics));
        let progress = self.progress.clone();
        let (doors, closed) = (self.doors.clone(), self.window_closed.clone());
        let admin = admin.map(|(listener, (settings, config))| {
            let facts = admin::Facts {
                picture: self.picture.clone(),
                metrics: Arc::clone(&self.metrics),
                demand: Arc::clone(&self.demand),
                operator: self.operator.clone(),
                settings,
                config,
                clock,
                started: clock.now(),
            };
            (listener, facts)
        });
        self.spawn("control", self.threads.stop.clone(), move || async move {
            let tracker = Tracker::new(clock, first, demand, metrics, publish, progress);
            let tracker = match heir {
                Some(heir) => tracker.inheriting(&heir),
                None => tracker,
            };
            let answering = async {
                doors.cancelled().await;
                serve_admin(admin, closed.clone()).await;
                if closed.is_cancelled() {
                    std::future::pending::<()>().await;
                }
            };
            tokio::select! {
                () = tracker.run(ears, stop) => {}
                () = answering => {}
            }
        })
    }

    fn spawn_worker(&self, commands: mpsc::Receiver<Command>) -> Result<(), StartError> {
        let (shared, stop) = (Arc::clone(&self.shared), self.threads.stop.clone());
        let drained = self.drained.clone().drop_guard();
        self.spawn("worker", self.draining.clone(), move || async move {
            let _drained = drained;
            session::run(shared, commands, stop).await;
        })
    }

    /// The channel holds more than a reload can say, and the worker reads it at once.
    fn tell(&self, command: Command) {
        if let Err(error) = self.worker.try_send(command) {
            tracing::error!(%error, "the worker does not take a command");
        }
    }

    fn spawn<F, L>(
        &self,
        thread: &'static str,
        may_end: CancellationToken,
        life: L,
    ) -> Result<(), StartError>
    where
        F: Future<Output = ()>,
        L: FnOnce() -> F + Send + 'static,
    {
        let handle = self
            .threads
            .spawn(thread, may_end, life)
            .map_err(|source| StartError::Thread { thread, source })?;
        lock(&self.handles).push(handle);
        Ok(())
    }

    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }
}

impl Drop for House {
    fn drop(&mut self) {
        self.threads.stop.cancel();
    }
}

/// Without an admin API there is nothing to serve, until the end.
async fn serve_admin(admin: Option<(TcpListener, admin::Facts)>, stop: CancellationToken) {
    let Some((listener, facts)) = admin else {
        return stop.cancelled().await;
    };
    match tokio::net::TcpListener::from_std(listener) {
        Ok(listener) => admin::serve(listener, facts, stop).await,
        Err(error) => tracing::error!(%error, "the admin API cannot listen"),
    }
}

fn tracker_orders(config: &Config, rest: &Arc<Rest>, source: &Arc<Sources>) -> Orders {
    Orders {
        nodes: config.nodes.clone(),
        health: config.health.clone(),
        source: Arc::clone(source),
        tracker: config.tracker.clone(),
        rest: Arc::clone(rest),
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
