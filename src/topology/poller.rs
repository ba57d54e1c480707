//! The one loop that asks: all nodes in parallel, each with its own deadline and its own rhythm.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;

use super::asked::{Asked, Found};
use super::cadence::{LeaderInterval, Pace, Tempo};
use super::dynamic::Dynamic;
use super::news::{Heard, News, NodeId, Observation, Stands};
use super::question::{NoAnswer, Question, Reply, ask};
use super::rest::Rest;
use super::source::{Observe, Source, Sources, Told};
use super::views::{ViewAsked, Views};
use super::witness::{Looked, Sight, Witness, look};
use super::{HealthSettings, NoView, NodeSettings, ViewSettings};
use crate::clock::{BootTime, Clock};
use crate::net::{Host, at_port};

/// Asks, and knows nothing of leases: the tracker hands in the pace with each call of [`Poller::next`].
pub(crate) struct Poller {
    clock: Clock,
    settings: HealthSettings,
    /// How each node is asked.
    source: Arc<Sources>,
    /// One for all nodes: its files are looked at once for each question, and not in each node's way.
    rest: Arc<Rest>,
    leader_interval: LeaderInterval,
    /// The leader that is silent, from when on the others are asked what they see.
    silent: Option<(NodeId, BootTime)>,
    nodes: Vec<Asked>,
    /// Only where the topology comes from views.
    views: Option<Views>,
    under_way: JoinSet<Done>,
}

/// A question that has ended.
enum Done {
    Asked(NodeId, Ended),
    /// Whatever else came back is no news.
    Dynamic(Option<Dynamic>),
    Looked(Looked),
    Viewed(ViewAsked, Result<Reply, NoAnswer>),
}

/// When a question was sent and how it ended.
struct Ended {
    /// Before the connection was made: the strictest reading of "sent".
    sent: BootTime,
    received: BootTime,
    outcome: Result<Told, NoAnswer>,
}

impl Poller {
    /// `lease_timeout` sets how often a leader is asked at least. Nothing is asked before the first `next`.
    pub(crate) fn new(
        clock: Clock,
        settings: HealthSettings,
        source: Arc<Sources>,
        rest: Arc<Rest>,
        lease_timeout: Duration,
    ) -> Self {
        Self {
            clock,
            settings: at_rest(settings, &source),
            source,
            rest,
            leader_interval: LeaderInterval(lease_timeout / 3),
            silent: None,
            nodes: Vec::new(),
            views: None,
            under_way: JoinSet::new(),
        }
    }

    pub(crate) fn reconfigure(
        &mut self,
        settings: HealthSettings,
        source: Arc<Sources>,
        rest: Arc<Rest>,
        lease_timeout: Duration,
    ) {
        if !Arc::ptr_eq(&source, &self.source) || !Arc::ptr_eq(&rest, &self.rest) {
            for node in &mut self.nodes {
                node.source = Source::new(&source, &rest, &node.settings, self.clock);
            }
        }
        self.settings = at_rest(settings, &source);
        self.source = source;
        self.rest = rest;
        self.leader_interval = LeaderInterval(lease_timeout / 3);
    }

    /// A node to ask, from the next call of [`Self::next`] on.
    pub(crate) fn add(&mut self, id: NodeId, settings: NodeSettings) {
        let (asked_at, port) = self.source.asks(&settings);
        let elsewhere = *asked_at != settings.host;
        self.nodes.push(Asked {
            id,
            source: Source::new(&self.source, &self.rest, &settings, self.clock),
            name: Arc::clone(asked_at),
            host: Host::new(asked_at),
            port,
            postgres: elsewhere.then(|| Host::new(&settings.host)),
            settings,
            answered: None,
            bound: None,
            leased: false,
            tempo: Tempo::default(),
            witness: Witness::default(),
            jitter: fastrand::f32(),
        });
    }

    /// The same machine with other settings.
    pub(crate) fn change(&mut self, id: NodeId, settings: NodeSettings) {
        let (source, rest, clock) = (&self.source, &self.rest, self.clock);
        if let Some(node) = self.nodes.iter_mut().find(|node| node.id == id)
            && node.settings != settings
        {
            node.source = Source::new(source, rest, &settings, clock);
            node.settings = settings;
        }
    }

    pub(crate) fn remove(&mut self, id: NodeId) {
        self.nodes.retain(|node| node.id != id);
    }

    /// How a node stands: for its rhythm, and for which of its addresses are asked.
    pub(crate) fn stands(&mut self, id: NodeId, stands: Stands) {
        if let Some(node) = self.node(id) {
            node.tempo.rising = stands.rising;
            node.tempo.leads = stands.leads;
            node.tempo.knows_a_lock = stands.knows_a_lock;
            node.leased = stands.leased;
        }
    }

    /// The leader that is silent, and from when on the other nodes are asked what they see of it.
    pub(crate) fn silent(&mut self, leader: Option<(NodeId, BootTime)>) {
        self.silent = leader;
    }

    /// What this node saw at `sent` was good: as long as it is, the others need not be asked.
    pub(crate) fn vouched(&mut self, witness: NodeId, sent: BootTime) {
        let until = sent + self.leader_interval.0;
        for node in &mut self.nodes {
            let goes_on = node.id == witness;
            node.witness
                .rest_until(if goes_on { BootTime::ZERO } else { until });
        }
    }

    /// A fact has changed: fast questions start again, at every node.
    pub(crate) fn fact(&mut self) {
        self.nodes.iter_mut().for_each(|node| node.tempo.fact());
    }

    /// A doubt begins: every node is to answer a question sent not before `since`.
    pub(crate) fn doubt(&mut self, since: BootTime) {
        for node in &mut self.nodes {
            node.tempo.doubt(since, &self.settings, node.jitter);
        }
        if let Some(views) = &mut self.views {
            views.doubt(since);
        }
    }

    /// One node is to answer a question sent not before `since`; for a silent leader the others may.
    pub(crate) fn want(&mut self, id: NodeId, since: BootTime) {
        let is_silent = self.silent.is_some_and(|(leader, _)| leader == id);
        for node in &mut self.nodes {
            if node.id == id {
                node.tempo.want(since, since);
            } else if is_silent {
                node.witness.want(since);
            }
        }
    }

    /// Where the node's PostgreSQL is by what is known of its host now: the machine that answered last, while its name
    /// still has it.
    pub(crate) fn address(&self, id: NodeId) -> Option<SocketAddr> {
        let node = self.nodes.iter().find(|node| node.id == id)?;
        let known = node.postgres.as_ref().unwrap_or(&node.host).addresses();
        let answered = node.answers_at().filter(|addr| known.contains(addr));
        Some(at_port(
            answered.or(known.first().copied())?,
            node.settings.port,
        ))
    }

    /// Where the node was found.
    pub(crate) fn found(&self, id: NodeId) -> Found {
        let node = self.nodes.iter().find(|node| node.id == id);
        node.map(Asked::found).unwrap_or_default()
    }

    /// Where the process before this one has found it. An answer of its own comes before that.
    pub(crate) fn find(&mut self, id: NodeId, found: Found) {
        if let Some(node) = self.node(id) {
            node.find(found);
        }
    }

    /// Where views are asked for from now on. Must be called on the runtime that asks.
    pub(crate) fn set_views(&mut self, settings: Option<&ViewSettings>) {
        self.views = settings.map(|settings| Views::new(settings, &self.settings));
    }

    /// The last view is of use: the round is over.
    pub(crate) fn close_view(&mut self) {
        if let Some(views) = &mut self.views {
            views.close();
        }
    }

    /// The last view is of no use, or no longer: the next endpoint is asked.
    pub(crate) fn refuse_view(&mut self) -> Option<NoView> {
        let now = self.clock.now();
        self.views.as_mut()?.refuse(now)
    }

    /// How long the node usually takes to answer.
    pub(crate) fn usual(&self, id: NodeId) -> Duration {
        self.nodes
            .iter()
            .find(|node| node.id == id)
            .and_then(|node| node.tempo.usual)
            .unwrap_or_default()
    }

    /// Asks a node for the cluster's dynamic configuration. Its absence is no news.
    pub(crate) fn ask_dynamic(&mut self, id: NodeId) {
        let (clock, limit) = (self.clock, self.settings.check_timeout);
        let rest = Arc::clone(&self.rest);
        if let Some(node) = self.node(id) {
            let (place, path) = (node.place(limit), "/config");
            self.under_way.spawn(async move {
                let said = ask(Question { place, rest, path }, clock).await.ok();
                let said = said.filter(|r| r.status == 200);
                Done::Dynamic(said.and_then(|r| Dynamic::read(&r.body)))
            });
        }
    }

    /// Sends what is due and waits for the next answer. May be dropped at any await: nothing is lost.
    pub(crate) async fn next(&mut self, pace: Pace) -> News {
        loop {
            let next = sooner(self.send_due(pace), self.send_looks(pace));
            let now = self.clock.now();
            let until = next.unwrap_or(now + Duration::from_secs(3600));
            tokio::select! {
                Some(ended) = self.under_way.join_next() => {
                    let news = match ended {
                        Ok(Done::Asked(id, ended)) => self.read(id, ended).map(News::Observed),
                        Ok(Done::Dynamic(dynamic)) => dynamic.map(News::Dynamic),
                        Ok(Done::Looked(looked)) => self.note(looked).map(News::Saw),
                        Ok(Done::Viewed(asked, outcome)) => self.read_view(asked, outcome),
                        // A question that panicked is silence.
                        Err(_panic) => None,
                    };
                    if let Some(news) = news {
                        return news;
                    }
                }
                () = self.clock.sleep_until(until) => {}
            }
        }
    }

    /// Sends every question that is due; the time of the next one.
    fn send_due(&mut self, pace: Pace) -> Option<BootTime> {
        let now = self.clock.now();
        let (clock, limit) = (self.clock, self.settings.check_timeout);
        let mut next = None;
        for node in &mut self.nodes {
            // One that has not even timed out has died by a bug of ours: its place is free again.
            node.tempo.forget_before(now.back(limit * 2));
            node.witness.forget_before(now.back(limit * 2));
            let due = |node: &Asked| {
                let due = node
                    .tempo
                    .next(pace, &self.settings, self.leader_interval, node.jitter);
                due.filter(|_| node.has_room())
            };
            if due(node).is_some_and(|at| at <= now) {
                node.tempo.sent(now, pace, &self.settings);
                node.jitter = fastrand::f32();
                let (id, place, source) = (node.id, node.place(limit), node.source.clone());
                self.under_way.spawn(async move {
                    let outcome = source.observe(place).await;
                    let ended = Ended {
                        sent: now,
                        received: clock.now(),
                        outcome,
                    };
                    Done::Asked(id, ended)
                });
            }
            next = sooner(next, due(node));
        }
        sooner(next, self.send_view(now, pace))
    }

    /// Asks the next endpoint for its view, if it is time; when it will be.
    fn send_view(&mut self, now: BootTime, pace: Pace) -> Option<BootTime> {
        let views = self.views.as_mut()?;
        if views.due(pace).is_some_and(|at| at <= now)
            && let Some((asked, place)) = views.ask(now, pace)
        {
            let (rest, path, clock) = (Arc::clone(&self.rest), "/cluster", self.clock);
            self.under_way.spawn(async move {
                let outcome = ask(Question { place, rest, path }, clock).await;
                Done::Viewed(asked, outcome)
            });
        }
        views.due(pace)
    }

    fn read_view(&mut self, asked: ViewAsked, outcome: Result<Reply, NoAnswer>) -> Option<News> {
        let now = self.clock.now();
        let seen = self.views.as_mut()?.ended(asked, now, outcome);
        seen.map(News::Viewed)
    }

    /// The same for what the others see of a silent leader.
    fn send_looks(&mut self, pace: Pace) -> Option<BootTime> {
        let (leader, since) = self.silent?;
        let now = self.clock.now();
        let limit = self.settings.check_timeout.min(self.leader_interval.0 * 3);
        let mut next = None;
        for node in self.nodes.iter_mut().filter(|node| node.id != leader) {
            let due = |node: &Asked| {
                let due = node.witness.next(
                    since,
                    pace,
                    &self.settings,
                    self.leader_interval,
                    node.jitter,
                );
                due.filter(|_| node.has_room() && node.source.has_views())
            };
            if due(node).is_some_and(|at| at <= now) {
                node.witness.sent(now, pace, &self.settings);
                let (id, place) = (node.id, node.place(limit));
                let (rest, clock) = (Arc::clone(&self.rest), self.clock);
                self.under_way
                    .spawn(async move { Done::Looked(look(id, now, place, rest, clock).await) });
            }
            next = sooner(next, due(node));
        }
        next
    }

    /// `None` when nothing was seen, or the node has been removed meanwhile.
    fn note(&mut self, looked: Looked) -> Option<Sight> {
        let node = self.node(looked.node)?;
        node.witness.ended(&looked);
        looked.sight()
    }

    /// `None` when the node has been removed meanwhile.
    fn read(&mut self, id: NodeId, ended: Ended) -> Option<Observation> {
        let node = self.node(id)?;
        let took = ended.received.saturating_sub(ended.sent);
        let heard = match ended.outcome {
            Ok(told) => {
                node.tempo.ended(ended.sent, Some((took, told.own_time)));
                tracing::trace!(
                    node = &*node.settings.name,
                    status = told.said.as_ref().ok().map(|said| said.status),
                    ?took,
                    own_time = ?told.own_time,
                    "answered"
                );
                told.said.and_then(|said| {
                    node.heard_at(told.from, ended.sent);
                    node.dial(told.from).map(|dial| Heard { dial, said })
                })
            }
            Err(error) => {
                node.tempo.ended(ended.sent, None);
                Err(error.into())
            }
        };
        Some(Observation {
            node: id,
            sent: ended.sent,
            took,
            heard,
        })
    }

    fn node(&mut self, id: NodeId) -> Option<&mut Asked> {
        self.nodes.iter_mut().find(|node| node.id == id)
    }
}

fn sooner(a: Option<BootTime>, b: Option<BootTime>) -> Option<BootTime> {
    a.into_iter().chain(b).min()
}

/// The source says how often is asked at rest.
fn at_rest(health: HealthSettings, source: &Sources) -> HealthSettings {
    HealthSettings {
        check_interval: source.at_rest(&health),
        ..health
    }
}

#[cfg(test)]
mod tests {
    use super::super::answer::{Answer, Role, State};
    use super::super::{NodeRole, RestSettings};
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_late_answer_of_another_address_says_nothing_of_where_the_node_is() {
        let clock = Clock::paused();
        let rest = Arc::new(Rest::open(RestSettings::default()).unwrap());
        let lease = Duration::from_secs(10);
        let source = Arc::new(Sources::Check);
        let mut poller = Poller::new(clock, HealthSettings::default(), source, rest, lease);
        let node = NodeSettings {
            name: "pg1".into(),
            host: "10.0.0.1".into(),
            port: 5432,
            rest_host: None,
            rest_port: 8008,
            role: NodeRole::Auto,
            enabled: true,
            weight: 100,
        };
        poller.add(NodeId(1), node);
        let mut answers = |from: &str, sent| {
            let told = Told {
                from: from.parse().unwrap(),
                own_time: Duration::ZERO,
                said: Ok(Answer::of(503, Role::Replica, State::Running)),
            };
            let ended = Ended {
                sent,
                received: clock.now(),
                outcome: Ok(told),
            };
            poller.read(NodeId(1), ended);
            poller.nodes[0].place(lease).prefer
        };
        let early = clock.now();
        let late = early + Duration::from_secs(1);
        let first = Some("10.0.0.1:0".parse().unwrap());

        assert_eq!(answers("10.0.0.1:8008", late), first);
        assert_eq!(answers("10.0.0.2:8008", early), first);
        assert_ne!(answers("10.0.0.2:8008", late + lease), first);
    }
}
