//! The tracker's task: the one writer of the picture.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::{mpsc, oneshot, watch};
use tokio_util::sync::CancellationToken;

use super::decider::Decider;
use super::record::Record;
use super::{Demand, Picture, TrackerSettings, WhyNobody, Wish};
use crate::clock::{BootTime, Clock};
use crate::metrics::Metrics;
use crate::topology::{Dynamic, HealthSettings, News, NodeId, NodeSettings, Pace, Poller, Stands};

/// A read-write session that was open within this keeps the leader in use, and a failed dial keeps the doubt.
const RECENT: Duration = Duration::from_secs(10);
/// Either side of the moment at which a dead leader's lock runs out.
const AROUND_LOCK_END: Duration = Duration::from_secs(2);
/// What the cluster says about itself is asked so often, outside of doubt.
const DYNAMIC_EVERY: Duration = Duration::from_secs(60);
/// … and so often until it was heard once.
const DYNAMIC_RETRY: Duration = Duration::from_secs(5);
/// A sign of life at least so often, also when nothing happens.
const HEARTBEAT: Duration = Duration::from_secs(1);
/// The first round is over by then, whoever is silent.
const FIRST_ROUND: Duration = Duration::from_secs(2);

/// Everything the tracker is told: at the start, and again at a reload.
#[derive(Clone, Debug)]
pub(crate) struct Orders {
    pub(crate) nodes: Vec<NodeSettings>,
    pub(crate) health: HealthSettings,
    pub(crate) tracker: TrackerSettings,
}

/// Orders at a reload, and whom to tell once the picture shows them.
pub(crate) type Reordered = (Orders, oneshot::Sender<()>);

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

/// Asks, decides and publishes, until it is stopped.
pub(crate) struct Tracker {
    clock: Clock,
    poller: Poller,
    decider: Decider,
    demand: Arc<Demand>,
    metrics: Arc<Metrics>,
    picture: watch::Sender<Picture>,
    progress: Progress,
    next_id: u64,
    started: BootTime,
    /// Questions that have not ended once since the start.
    unasked: Vec<NodeId>,
    /// The newest failed dial, until a dial reaches its first ReadyForQuery.
    dial_failed: Option<BootTime>,
    /// When a closed session last made us ask.
    asked_for_close: BootTime,
    next_dynamic: BootTime,
    /// What the cluster last said about itself: only another word is worth a warning.
    told_dynamic: Option<Dynamic>,
    in_doubt: bool,
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
        let health = &orders.health;
        let decider = Decider::new(
            orders.tracker.clone(),
            health.success_threshold,
            health.failure_threshold,
            Arc::clone(&metrics),
        );
        let started = clock.now();
        progress.mark(started);
        let mut tracker = Self {
            clock,
            poller: Poller::new(clock, orders.health.clone(), lease),
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
        };
        for node in orders.nodes {
            tracker.add(node);
        }
        tracker.unasked = tracker.decider.records.iter().map(|r| r.id).collect();
        tracker.publish(started);
        tracker
    }

    /// Runs until `stop`, or until nobody can give orders any more.
    pub(crate) async fn run(
        mut self,
        mut orders: mpsc::Receiver<Reordered>,
        stop: CancellationToken,
    ) {
        loop {
            let now = self.clock.now();
            self.progress.mark(now);
            let pace = self.pace(now);
            self.enter_or_leave_doubt(pace.doubt, now);
            let wake = self.next_wake(now);
            let mut fact = false;
            let mut obeyed = None;
            tokio::select! {
                () = stop.cancelled() => return,
                told = orders.recv() => match told {
                    Some((told, done)) => { self.obey(told); fact = true; obeyed = Some(done); }
                    None => return,
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
        }
    }

    fn take_in(&mut self, news: News) -> bool {
        let now = self.clock.now();
        match news {
            News::Observed(seen) => {
                self.unasked.retain(|id| *id != seen.node);
                self.decider.observe(seen, now)
            }
            News::Dynamic(dynamic) => {
                self.learn(dynamic);
                false
            }
        }
    }

    fn tell_poller_who_stands_how(&mut self, now: BootTime) {
        let reign = self.decider.reign.as_ref();
        for record in &self.decider.records {
            let reigns = reign.filter(|reign| reign.id == record.id);
            let stands = Stands {
                rising: record.is_rising(),
                leads: reigns.is_some(),
                leased: reigns.is_some_and(|reign| now < reign.until),
            };
            self.poller.stands(record.id, stands);
        }
    }

    /// What all nodes are asked for, now.
    fn pace(&self, now: BootTime) -> Pace {
        let lease = self.decider.settings.lease_timeout;
        let settled = self.decider.reign.as_ref().is_some_and(|reign| {
            reign.open && now < reign.until && now.saturating_sub(reign.proved) < lease / 2
        });
        let dial_failed = self
            .dial_failed
            .is_some_and(|at| now.saturating_sub(at) < RECENT);
        let lock_ends = self
            .decider
            .dead_lock_ends
            .is_some_and(|at| now >= at.back(AROUND_LOCK_END) && now < at + AROUND_LOCK_END);
        Pace {
            doubt: !settled || dial_failed,
            held: self.demand.held_now() > 0,
            in_use: self
                .demand
                .last_open(now)
                .is_some_and(|at| now.saturating_sub(at) < RECENT),
            lock_ends: !settled && lock_ends,
        }
    }

    fn enter_or_leave_doubt(&mut self, doubt: bool, now: BootTime) {
        if doubt && !self.in_doubt {
            self.poller.want_all(now);
        }
        self.in_doubt = doubt;
        if let Some(reign) = self.decider.reign.as_ref().filter(|_| !doubt)
            && now >= self.next_dynamic
        {
            self.poller.ask_dynamic(reign.id);
            let again = match self.told_dynamic {
                Some(_) => DYNAMIC_EVERY,
                None => DYNAMIC_RETRY,
            };
            self.next_dynamic = now + again;
        }
    }

    /// When to think again without news: an authority ends, a doubt begins or ends, or just a sign of life.
    fn next_wake(&self, now: BootTime) -> BootTime {
        let half = self.decider.settings.lease_timeout / 2;
        let reign = self.decider.reign.as_ref();
        [
            self.decider.next_deadline(now),
            reign.map(|r| r.proved + half).filter(|at| *at > now),
            self.decider
                .dead_lock_ends
                .map(|at| at.back(AROUND_LOCK_END))
                .filter(|at| *at > now),
            self.decider.gap.deadline(),
            Some(now + HEARTBEAT),
        ]
        .into_iter()
        .flatten()
        .min()
        .unwrap_or(now + HEARTBEAT)
    }

    fn heed_wishes(&mut self) {
        let leader = self
            .decider
            .reign
            .as_ref()
            .map(|reign| (reign.id, reign.leader.addr));
        for wish in self.demand.take_wishes() {
            match wish {
                Wish::Fresh(since) => {
                    if let Some((id, _)) = leader {
                        self.poller.want(id, since);
                    }
                }
                // The first failure begins a doubt, which asks now; those of a crowd are the same doubt.
                Wish::DialFailed(_, at) => {
                    self.dial_failed = Some(self.dial_failed.map_or(at, |before| before.max(at)));
                }
                Wish::DialReady(addr, at) => {
                    if leader.is_some_and(|(_, leads)| leads == addr) {
                        self.decider.gap.write(Some(at));
                        self.dial_failed = self.dial_failed.filter(|failed| *failed > at);
                    }
                }
                Wish::ServerClosed(at) => {
                    if let Some((id, _)) = leader
                        && at.saturating_sub(self.asked_for_close) >= HEARTBEAT
                    {
                        self.asked_for_close = at;
                        self.poller.want(id, at);
                    }
                }
            }
        }
    }

    /// Nodes are matched by name; a changed address is a removal and an addition.
    fn obey(&mut self, orders: Orders) {
        let health = orders.health;
        self.decider.reconfigure(
            orders.tracker.clone(),
            health.success_threshold,
            health.failure_threshold,
        );
        self.poller
            .reconfigure(health, orders.tracker.lease_timeout);
        let mut wanted: HashMap<_, _> = orders
            .nodes
            .iter()
            .map(|n| (Arc::clone(&n.name), n.clone()))
            .collect();
        let mut gone = Vec::new();
        for record in &mut self.decider.records {
            match wanted.get(&record.settings.name) {
                Some(node) if node.is_same_machine(&record.settings) => {
                    record.settings = node.clone();
                    wanted.remove(&node.name.clone());
                }
                _ => gone.push(record.id),
            }
        }
        for id in gone {
            self.decider.remove(id);
            self.poller.remove(id);
        }
        for node in orders.nodes {
            if wanted.contains_key(&node.name) {
                self.add(node);
            }
        }
        self.decider.decide(self.clock.now());
    }

    fn add(&mut self, node: NodeSettings) {
        let id = NodeId(self.next_id);
        self.next_id += 1;
        self.poller.add(id, node.clone());
        self.decider.records.push(Record::new(id, node));
    }

    fn learn(&mut self, dynamic: Dynamic) {
        if self.told_dynamic.replace(dynamic) != Some(dynamic) {
            warn_about(&self.decider.settings, dynamic);
        }
        self.decider.dynamic = dynamic;
    }

    fn publish(&self, now: BootTime) {
        let decider = &self.decider;
        let reign = decider.reign.as_ref();
        let leader = reign.and_then(|r| decider.records.iter().find(|record| record.id == r.id));
        let position = leader
            .and_then(|record| record.latest.as_ref())
            .and_then(|l| l.answer.position);
        let named = || {
            let mut latest = decider.records.iter().filter_map(|r| r.latest.as_ref());
            latest.find_map(|l| l.answer.scope.clone())
        };
        let enabled = leader.is_some_and(|record| record.settings.enabled);
        let valid = reign.is_some_and(|r| r.open && now < r.until) && enabled;
        let picture = Picture {
            lease: reign.map(|r| r.lease(self.poller.usual(r.id), enabled)),
            why: (!valid).then(|| decider.why.unwrap_or(WhyNobody::NoProof)),
            epoch: decider.epoch,
            scope: decider.pins.scope.clone().or_else(named),
            nodes: decider
                .records
                .iter()
                .map(|record| {
                    let leads = reign.is_some_and(|r| r.id == record.id);
                    record.picture(leads, position, decider.verdict(record, now))
                })
                .collect(),
            last_failover: decider.last_failover,
            changes: decider.gap.changes(),
            dial_failed: self.dial_failed,
            first_round_done: self.unasked.is_empty()
                || now.saturating_sub(self.started) >= FIRST_ROUND,
            conflicts: self.metrics.conflicting_primaries.get(),
            failsafe: decider.failsafe,
            paused: decider.paused,
        };
        // Whoever waits is woken by what it may wait for; the rest is there for whoever looks.
        self.picture.send_if_modified(|before| {
            let is_news = picture.is_news_after(before);
            *before = picture;
            is_news
        });
    }
}

/// What the numbers of the cluster mean for ours.
fn warn_about(settings: &TrackerSettings, dynamic: Dynamic) {
    let (ttl, loop_wait) = (
        settings.patroni_ttl.unwrap_or(dynamic.ttl),
        dynamic.loop_wait,
    );
    let secs = |d: Duration| d.as_secs_f64();
    if settings.lease_timeout >= ttl.saturating_sub(loop_wait) {
        tracing::warn!(
            lease_timeout_secs = secs(settings.lease_timeout),
            ttl = secs(ttl),
            loop_wait = secs(loop_wait),
            "topology.lease_timeout_secs should be below Patroni's ttl - loop_wait"
        );
    }
    let failover = ttl + loop_wait + Duration::from_secs(5);
    if settings.write_timeout < failover {
        tracing::warn!(
            write_timeout_secs = secs(settings.write_timeout),
            failover_secs = secs(failover),
            "write_timeout_secs ends before a failover of this cluster may: ttl + loop_wait + 5 s"
        );
    }
}
