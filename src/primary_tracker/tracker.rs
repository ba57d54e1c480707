//! The public tracker: a provider's word, or yours, becomes who leads, until when, and one event for each transition.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::broadcast;
use uuid::Uuid;

use super::PrimaryInfo;
use super::authority::{Authority, Now, PrimaryChangeEvent};
use crate::clock::{BootTime, Clock};
use crate::topology::{ObservingProvider, TopologyProvider};

/// A lease lasts so long unless [`PrimaryTracker::with_lease_timeout`] says otherwise.
const LEASE_TIMEOUT: Duration = Duration::from_secs(10);
/// Events that a subscriber may leave unread before it lags.
const EVENTS: usize = 64;

/// Who leads, and whether that may be relied on now.
///
/// With a provider, [`Self::run`] takes in what it says:
///
/// ```
/// # use std::sync::Arc;
/// # use heliosdb_proxy::primary_tracker::{PrimaryTracker, TopologyProvider};
/// # async fn example(provider: Arc<dyn TopologyProvider>) {
/// let tracker = Arc::new(PrimaryTracker::with_provider(provider));
/// tokio::spawn({
///     let tracker = Arc::clone(&tracker);
///     async move { tracker.run().await }
/// });
/// let mut changes = tracker.subscribe();
/// while let Ok(change) = changes.recv().await {
///     println!("{change:?}, authority: {}", tracker.authority_valid());
/// }
/// # }
/// ```
///
/// Without one, you say it:
///
/// ```
/// # let (node_id, new_node_id) = (uuid::Uuid::from_u128(1), uuid::Uuid::from_u128(2));
/// use heliosdb_proxy::primary_tracker::PrimaryTracker;
///
/// let tracker = PrimaryTracker::new_standalone();
///
/// tracker.set_primary(node_id, "pg-primary.local:5432".to_string()); // is_confirmed = false
/// tracker.confirm_primary();                                          // is_confirmed = true
///
/// // On failover:
/// tracker.clear_primary();                                           // emits Lost
/// tracker.set_primary(new_node_id, "pg-standby.local:5432".to_string());
/// tracker.confirm_primary();
/// # assert_eq!((tracker.get_primary().unwrap().node_id, tracker.get_epoch()), (new_node_id, 2));
/// ```
///
/// **What ends a primary.** Proof: another one leads, the node left, several claim to lead. Or the end of its lease,
/// which each answer of the provider extends. Nothing else; `HealthChanged { is_healthy: false }` in particular does not,
/// because a lost check closes nothing.
///
/// **Epochs.** 0 at first, one more for each observed change of leader. A leader whose lease ended in silence is `Lost`,
/// and when it is heard again it is `Changed` back in with the *same* epoch, for the cluster has not changed. One that
/// was disproved comes back as a new epoch.
///
/// **Events** come in order, exactly one for each transition. A subscriber that lagged
/// ([`RecvError::Lagged`](broadcast::error::RecvError::Lagged)) reads [`Self::get_primary`] instead of what it missed.
///
/// **Time** is measured on `CLOCK_BOOTTIME`, which runs through suspend. Tests that pause tokio's time call
/// [`Self::with_clock`] with [`Clock::tokio`].
pub struct PrimaryTracker {
    pub(super) source: Source,
    pub(super) clock: Clock,
    /// The one writer's state: whoever holds the lock decides and sends the event, so that events come in the order of
    /// the transitions. Tiny, and never held across an await.
    state: Mutex<State>,
    events: broadcast::Sender<PrimaryChangeEvent>,
    /// Nobody has run it, and somebody asked: said once.
    said_unstarted: AtomicBool,
}

pub(super) enum Source {
    Standalone,
    Plain(Arc<dyn TopologyProvider>),
    Observing(Arc<dyn ObservingProvider>),
}

pub(super) struct State {
    pub(super) authority: Authority,
    pub(super) status: TrackerStatus,
    /// The node that the provider said has left. It is not believed to lead again before the provider has said something
    /// else in between.
    pub(super) left: Option<Uuid>,
}

/// Whether the absence of a primary says anything about the cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TrackerStatus {
    /// There is no provider: primaries are set by hand.
    Standalone,
    /// [`PrimaryTracker::run`] was never called: nobody listens to the provider.
    NotStarted,
    /// The provider has not finished its first look at the cluster.
    Starting,
    /// The provider is listened to: no primary means that nobody leads.
    Running,
    /// The provider has ended: nothing extends the lease any more.
    ProviderGone,
    /// The future of [`PrimaryTracker::run`] was dropped, or has panicked with its provider.
    Stopped,
}

/// No node may be written to within the time that a writer had.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no healthy nodes: nobody had the authority of a leader within {waited:?}")]
pub struct NoHealthyNodes {
    /// The time that the writer had.
    pub waited: Duration,
}

impl PrimaryTracker {
    /// Follows a provider, once [`Self::run`] runs. The lease counts from the provider's answers, which carry no time.
    pub fn with_provider(provider: Arc<dyn TopologyProvider>) -> Self {
        Self::new(Source::Plain(provider))
    }

    /// Follows a provider that says when it asked: the lease counts from the question.
    pub fn with_observing_provider(provider: Arc<dyn ObservingProvider>) -> Self {
        Self::new(Source::Observing(provider))
    }

    /// Has no provider: the primary is whatever [`Self::set_primary`] says, without a lease, until it is changed.
    pub fn new_standalone() -> Self {
        Self::new(Source::Standalone)
    }

    fn new(source: Source) -> Self {
        let status = match source {
            Source::Standalone => TrackerStatus::Standalone,
            Source::Plain(_) | Source::Observing(_) => TrackerStatus::NotStarted,
        };
        Self {
            source,
            clock: Clock::Boot,
            state: Mutex::new(State {
                authority: Authority::new(LEASE_TIMEOUT),
                status,
                left: None,
            }),
            events: broadcast::channel(EVENTS).0,
            said_unstarted: AtomicBool::new(false),
        }
    }

    /// How long a leader may be relied on after it was last heard. Default: 10 s.
    #[must_use]
    pub fn with_lease_timeout(self, lease_timeout: Duration) -> Self {
        self.lock().authority.lease_timeout = lease_timeout;
        self
    }

    /// Measures time on another clock than `CLOCK_BOOTTIME`: [`Clock::tokio`] in tests with paused time.
    ///
    /// ```
    /// use std::time::Duration;
    /// use heliosdb_proxy::clock::Clock;
    /// use heliosdb_proxy::primary_tracker::PrimaryTracker;
    /// # use heliosdb_proxy::primary_tracker::{TopologyEvent, TopologyNodeInfo, TopologyProvider};
    /// # use std::sync::Arc;
    /// # struct SaysItOnce(tokio::sync::broadcast::Sender<TopologyEvent>);
    /// # const PG1: uuid::Uuid = uuid::Uuid::from_u128(1);
    /// # impl TopologyProvider for SaysItOnce {
    /// #     fn subscribe(&self) -> tokio::sync::broadcast::Receiver<TopologyEvent> {
    /// #         let heard = self.0.subscribe();
    /// #         let _ = self.0.send(TopologyEvent::PrimaryChanged { old_primary: None, new_primary: PG1 });
    /// #         heard
    /// #     }
    /// #     fn get_primary(&self) -> Option<TopologyNodeInfo> { None }
    /// #     fn get_node(&self, id: uuid::Uuid) -> Option<TopologyNodeInfo> {
    /// #         Some(TopologyNodeInfo { node_id: id, client_addr: "10.0.0.11:5432".into(), is_healthy: true })
    /// #     }
    /// # }
    ///
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// # let provider = Arc::new(SaysItOnce(tokio::sync::broadcast::channel(1).0));
    /// let tracker = Arc::new(PrimaryTracker::with_provider(provider).with_clock(Clock::tokio()));
    /// # let running = Arc::clone(&tracker);
    /// # tokio::spawn(async move { running.run().await });
    /// # tokio::time::sleep(Duration::from_millis(1)).await;
    /// assert!(tracker.authority_valid());
    /// tokio::time::sleep(Duration::from_secs(10)).await;
    /// assert!(!tracker.authority_valid());
    /// # }
    /// ```
    #[must_use]
    pub fn with_clock(mut self, clock: Clock) -> Self {
        self.clock = clock;
        self
    }

    /// Names the primary: pending until [`Self::confirm_primary`], in a new epoch, told as `Changed`. Each call is an
    /// order of its own, also when it names the primary there is. Only without a provider: what a provider says is not
    /// for others to say, so this is refused then, in the log.
    pub fn set_primary(&self, node_id: Uuid, address: String) {
        self.by_hand("set_primary", |authority, now| {
            authority.set(node_id, address, now)
        });
    }

    /// The pending primary was verified; told as `Confirmed`. Nothing without a pending one, and only without a provider.
    pub fn confirm_primary(&self) {
        self.by_hand("confirm_primary", Authority::confirm);
    }

    /// Nobody leads; told as `Lost`. Nothing without a primary, and only without a provider.
    pub fn clear_primary(&self) {
        self.by_hand("clear_primary", Authority::clear);
    }

    /// Hears of each transition from here on.
    pub fn subscribe(&self) -> broadcast::Receiver<PrimaryChangeEvent> {
        self.events.subscribe()
    }

    /// Who leads now, pending or confirmed. `None`: nobody, or nobody is known to; [`Self::status`] tells which.
    pub fn get_primary(&self) -> Option<PrimaryInfo> {
        self.warn_unstarted();
        self.read(|authority, now| authority.primary(now).cloned())
    }

    /// May the primary be written to *now*? It is confirmed and its lease has not ended. Ask each time, at the moment of
    /// use: a `true` is worth nothing later.
    pub fn authority_valid(&self) -> bool {
        self.warn_unstarted();
        self.read(|authority, now| authority.is_valid(now))
    }

    /// What is left of the lease. `None` without a primary, and for one that was set by hand, which stands until changed.
    pub fn lease_remaining(&self) -> Option<Duration> {
        self.read(|authority, now| Some(authority.ends(now)?.saturating_sub(now)))
    }

    /// Counts the observed changes of leader.
    pub fn get_epoch(&self) -> u64 {
        self.read(|authority, _| authority.epoch())
    }

    /// Whether the absence of a primary says anything about the cluster.
    pub fn status(&self) -> TrackerStatus {
        self.lock().status
    }

    /// Waits until the primary may be written to, at most for `limit`.
    ///
    /// # Errors
    /// [`NoHealthyNodes`], when the time is up.
    pub async fn primary_within(&self, limit: Duration) -> Result<PrimaryInfo, NoHealthyNodes> {
        let mut changes = self.subscribe();
        let found = async {
            loop {
                let valid = self.read(|a, now| a.primary(now).filter(|_| a.is_valid(now)).cloned());
                match valid {
                    Some(info) => return info,
                    // A lagging subscriber reads the state, and the sender lives as long as `self`.
                    None => drop(changes.recv().await),
                }
            }
        };
        let found = tokio::time::timeout(limit, found).await;
        found.map_err(|_late| NoHealthyNodes { waited: limit })
    }

    fn by_hand(
        &self,
        order: &'static str,
        act: impl FnOnce(&mut Authority, Now) -> Option<PrimaryChangeEvent>,
    ) {
        if !matches!(self.source, Source::Standalone) {
            tracing::warn!(
                order,
                "refused: the primary is the topology provider's to name"
            );
            return;
        }
        self.decide(|state, now| act(&mut state.authority, now));
    }

    /// A lease may have ended since anybody looked: whoever notices tells it.
    pub(super) fn read<T>(&self, look: impl FnOnce(&Authority, BootTime) -> T) -> T {
        let mut state = self.lock();
        let now = self.now();
        let lapsed = state.authority.settle(now);
        self.tell(lapsed);
        look(&state.authority, now.at)
    }

    pub(super) fn decide(&self, act: impl FnOnce(&mut State, Now) -> Option<PrimaryChangeEvent>) {
        let mut state = self.lock();
        let event = act(&mut state, self.now());
        self.tell(event);
    }

    /// To be called with the lock held, so that events keep the order of the transitions.
    fn tell(&self, event: Option<PrimaryChangeEvent>) {
        if let Some(event) = event {
            // Nobody need listen.
            let _ = self.events.send(event);
        }
    }

    fn now(&self) -> Now {
        Now {
            at: self.clock.now(),
            instant: self.clock.instant(),
        }
    }

    fn warn_unstarted(&self) {
        if self.status() == TrackerStatus::NotStarted
            && !self.said_unstarted.swap(true, Ordering::Relaxed)
        {
            tracing::warn!("a tracker is asked for its primary, but nobody has called run()");
        }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl std::fmt::Debug for PrimaryTracker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let state = self.lock();
        f.debug_struct("PrimaryTracker")
            .field("status", &state.status)
            .field("authority", &state.authority)
            .finish_non_exhaustive()
    }
}
