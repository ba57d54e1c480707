//! The tracker's task: the one writer of the picture.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;

use super::decider::Decider;
use super::record::Record;
use super::{Demand, Heir, Orders, Picture, Reordered, Succession, Told};
use crate::clock::{BootTime, Clock};
use crate::metrics::Metrics;
use crate::topology::{Chaos, Dynamic, News, NodeId, NodeSettings, Poller, Sight};

/// A sign of life at least so often, also when nothing happens.
pub(super) const HEARTBEAT: Duration = Duration::from_secs(1);

/// When the tracker last went around its loop, for the watchdog: a hung poller must not look alive.
#[derive(Clone, Debug, Default)]
pub(crate) struct Progress(Arc<AtomicU64>);

impl Progress {
    fn mark(&self, now: BootTime) {
        self.0.store(now.as_millis(), Ordering::Relaxed);
    }

    /// How long ago the loop was last seen.
    pub(crate) fn age(&self, now: BootTime) -> Duration {
        now.saturating_sub(BootTime::from_millis(self.0.load(Ordering::Relaxed)))
    }
}

/// Whom the tracker listens to, beside the nodes.
pub(crate) struct Ears {
    /// The house, at a reload.
    pub(crate) orders: mpsc::Receiver<Reordered>,
    pub(crate) operator: mpsc::Receiver<Told>,
    /// The house, when another process takes over from this one, or this one from another.
    pub(crate) succession: mpsc::Receiver<Succession>,
}

/// Asks, decides and publishes, until it is stopped.
pub(crate) struct Tracker {
    pub(super) clock: Clock,
    pub(super) poller: Poller,
    /// What the poller brings passes through here.
    pub(super) chaos: Chaos,
    pub(super) decider: Decider,
    pub(super) demand: Arc<Demand>,
    pub(super) metrics: Arc<Metrics>,
    pub(super) picture: watch::Sender<Picture>,
    progress: Progress,
    next_id: u64,
    pub(super) started: BootTime,
    /// Questions that have not ended once since the start.
    pub(super) unasked: Vec<NodeId>,
    /// The newest failed dial, until a dial reaches its first ReadyForQuery.
    pub(super) dial_failed: Option<BootTime>,
    /// When a closed session last made us ask.
    pub(super) asked_for_close: BootTime,
    pub(super) next_dynamic: BootTime,
    /// What the cluster last said about itself: only another word is worth a warning.
    pub(super) told_dynamic: Option<Dynamic>,
    pub(super) in_doubt: bool,
    /// Are members taken in that nobody has configured?
    pub(super) discover: bool,
    /// Members that are no node of ours: each is said once.
    pub(super) strangers_said: BTreeSet<(Arc<str>, String)>,
}

impl Tracker {
    /// Must be called on the runtime that will run it: host names begin to be looked up.
    pub(crate) fn new(
        clock: Clock,
        orders: Orders,
        demand: Arc<Demand>,
        metrics: Arc<Metrics>,
        picture: watch::Sender<Picture>,
        progress: Progress,
    ) -> Self {
        let lease = orders.tracker.lease_timeout;
        let decider = Decider::new(orders.tracker.clone(), &orders.health, Arc::clone(&metrics));
        let started = clock.now();
        progress.mark(started);
        let mut tracker = Self {
            clock,
            poller: Poller::new(
                clock,
                orders.health.clone(),
                Arc::clone(&orders.source),
                orders.rest,
                lease,
            ),
            chaos: Chaos::default(),
            decider,
            demand,
            metrics,
            picture,
            progress,
            next_id: 0,
            started,
            unasked: Vec::new(),
            dial_failed: None,
            asked_for_close: BootTime::ZERO,
            next_dynamic: BootTime::ZERO,
            told_dynamic: None,
            in_doubt: false,
            discover: false,
            strangers_said: BTreeSet::new(),
        };
        tracker.set_views(&orders.source);
        for node in orders.nodes {
            tracker.add(node);
        }
        tracker.unasked = tracker.decider.records.iter().map(|r| r.id).collect();
        tracker.publish(started);
        tracker
    }

    /// Begins where the tracker of another process has come to, before anything was asked.
    pub(crate) fn inheriting(mut self, heir: &Heir) -> Self {
        self.inherit(heir, self.started);
        self.tell_poller_who_stands_how(self.started);
        self.publish(self.started);
        self
    }

    /// Runs until `stop`, or until nobody can give orders any more.
    pub(crate) async fn run(mut self, ears: Ears, stop: CancellationToken) {
        let Ears {
            mut orders,
            mut operator,
            mut succession,
        } = ears;
        loop {
            let now = self.clock.now();
            self.progress.mark(now);
            let pace = self.pace(now);
            self.enter_or_leave_doubt(pace.doubt, now);
            let wake = self.next_wake(now);
            let mut fact = false;
            let (mut obeyed, mut answered, mut inherited) = (None, None, None);
            tokio::select! {
                () = stop.cancelled() => return,
                told = orders.recv() => match told {
                    Some((told, done)) => { self.obey(told); fact = true; obeyed = Some(done); }
                    None => return,
                },
                Some((order, asker)) = operator.recv() => {
                    let done = self.follow(order);
                    fact = done.is_ok();
                    answered = Some((asker, done));
                }
                Some(word) = succession.recv() => match word {
                    // Whoever asked may have given up.
                    Succession::Leave(heard) => drop(heard.send(self.leave())),
                    Succession::Inherit(heir, done) => {
                        self.inherit(&heir, self.clock.now());
                        (fact, inherited) = (true, Some(done));
                    }
                },
                news = self.poller.next(pace) => fact = self.take_in(news),
                () = self.demand.changed() => self.heed_wishes(),
                () = self.clock.sleep_until(wake) => fact = self.decider.decide(self.clock.now()),
            }
            if fact {
                self.poller.fact();
            }
            let now = self.clock.now();
            self.tell_poller_who_stands_how(now);
            if self.decider.gap.deadline().is_some_and(|at| at <= now) {
                self.decider.gap.write(None);
            }
            self.publish(now);
            if let Some(done) = obeyed {
                // Whoever reloaded may have stopped waiting.
                let _ = done.send(());
            }
            if let Some(done) = inherited {
                let _ = done.send(());
            }
            if let Some((asker, done)) = answered {
                // As may whoever gave the order.
                let _ = asker.send(done);
            }
        }
    }

    pub(super) fn take_in(&mut self, news: News) -> bool {
        let now = self.clock.now();
        match news {
            News::Observed(seen) => {
                self.unasked.retain(|id| *id != seen.node);
                let fact = self.decider.observe(self.chaos.pass(seen), now);
                self.look_again(now) || fact
            }
            News::Viewed(seen) => self.look(seen, now),
            News::Dynamic(dynamic) => {
                self.learn(dynamic);
                false
            }
            News::Saw(sight) if !self.hears(&sight) => false,
            News::Saw(sight) => {
                let vouched = self.decider.testify(&sight, now);
                if vouched {
                    self.poller.vouched(sight.node, sight.sent);
                }
                false
            }
        }
    }

    /// A silence that is played has its effect, on who sees and on who is seen.
    fn hears(&self, sight: &Sight) -> bool {
        let leader = self.decider.reign.as_ref().map(|reign| reign.id);
        let mut concerned = leader.into_iter().chain([sight.node]);
        !concerned.any(|id| self.chaos.is_silenced(id))
    }

    pub(super) fn add(&mut self, node: NodeSettings) {
        let id = NodeId(self.next_id);
        self.next_id += 1;
        self.poller.add(id, node.clone());
        self.decider.records.push(Record::new(id, node));
    }

    pub(super) fn remove(&mut self, id: NodeId) {
        self.decider.remove(id);
        self.poller.remove(id);
        self.chaos.restore(id);
    }
}
