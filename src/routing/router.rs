//! The lines in which clients wait for a node and for their turn to dial it.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

use super::choice::Choice;
use super::decide::{NoRoute, is_still_valid, leader};
use super::door::{Doors, Inside, Slot};
use super::line::Lines;
use super::settings::Fallback;
use super::{Intent, RouteError, RoutingSettings, Target, Ticket};
use crate::clock::{BootTime, Clock};
use crate::metrics::Metrics;
use crate::primary_tracker::{Demand, OpenGuard, Picture, Wish};

/// One per house, shared by all sessions.
pub(crate) struct Router {
    pub(super) clock: Clock,
    pub(super) picture: watch::Receiver<Picture>,
    pub(super) settings: watch::Receiver<RoutingSettings>,
    pub(super) demand: Arc<Demand>,
    pub(super) metrics: Arc<Metrics>,
    lines: Lines,
    pub(super) doors: Doors,
}

/// A target, and the right to dial it now.
#[derive(Debug)]
pub(crate) struct Routed {
    pub(crate) target: Target,
    pub(crate) slot: Slot,
    pub(crate) inside: Inside,
}

/// Neither a replica's position nor its proof anew is news, so whoever waits for one of them looks itself.
const LOOK_AGAIN: Duration = Duration::from_millis(100);
/// No picture tells that another replica's door is free.
const LOOK_AROUND: Duration = Duration::from_millis(20);
/// A reader dials two nodes in a row; then it waits for news of one.
const TRIES: u32 = 2;

impl Router {
    pub(crate) fn new(
        clock: Clock,
        picture: watch::Receiver<Picture>,
        settings: watch::Receiver<RoutingSettings>,
        demand: Arc<Demand>,
        metrics: Arc<Metrics>,
    ) -> Self {
        Self {
            clock,
            picture,
            settings,
            demand,
            metrics,
            lines: Lines::default(),
            doors: Doors::default(),
        }
    }

    /// A client's time starts to run.
    pub(crate) fn ticket(&self, intent: Intent) -> Ticket {
        let limit = self.settings.borrow().write_timeout;
        Ticket::new(self.lines.of(intent), limit)
    }

    /// Waits for a node and for a slot to dial it, in order of arrival, until the ticket's deadline.
    pub(crate) async fn route(&self, ticket: &mut Ticket) -> Result<Routed, RouteError> {
        let deadline = ticket.deadline;
        let routed = tokio::time::timeout_at(deadline, self.wait(ticket)).await;
        ticket.release();
        routed.map_err(|_late| self.give_up(ticket))
    }

    /// May a session on `target` still start, or go on starting?
    pub(crate) fn still_valid(&self, target: &Target) -> bool {
        is_still_valid(target, &self.picture.borrow(), self.clock.now())
    }

    /// A dial of `ticket`'s client failed. Nobody dials the leader before it was proved anew; readers pass by a replica
    /// for a while, and this one tries the next.
    pub(crate) fn dial_failed(&self, ticket: &mut Ticket, addr: SocketAddr, why: String) {
        let leads = ticket.last.as_ref().is_none_or(|target| target.leads);
        self.distrust(addr, leads);
        ticket.failure = Some(why);
        ticket.tried += 1;
        if !ticket.line.intent.route.writes() && ticket.tried >= TRIES {
            ticket.after = Some(self.clock.now());
        }
    }

    /// An attempt failed in a way that may be this client's own doing: it alone waits for a new proof, or tries the
    /// next replica.
    pub(crate) fn attempt_failed(&self, ticket: &mut Ticket, why: String) {
        let now = self.clock.now();
        match &ticket.last {
            Some(target) if !target.leads => self.demand.wish(Wish::Look(target.addr, now)),
            _ => self.demand.wish(Wish::Fresh(now)),
        }
        if ticket.line.intent.route.writes() {
            ticket.after = Some(now);
        }
        ticket.failure = Some(why);
    }

    /// The proof was wrong or came too early for `addr`: as after a failed dial.
    ///
    /// Only the leader's failure is a doubt of everything. A replica's concerns its readers: it alone is asked, once.
    /// The tracker is told first: a success in between is then told again, rather than overtaken.
    pub(crate) fn distrust(&self, addr: SocketAddr, leads: bool) {
        let now = self.clock.now();
        self.demand.wish(match leads {
            true => Wish::DialFailed(addr, now),
            false => Wish::Look(addr, now),
        });
        self.doors.note_failed(addr, now);
    }

    /// A dial to the leader reached its first ReadyForQuery. The tracker is told only what it does not know: the first
    /// of an epoch, and the first after a failure.
    pub(crate) fn dial_ready(&self, addr: SocketAddr, epoch: u64) {
        if self.doors.is_ready_news(addr, epoch) {
            self.demand.wish(Wish::DialReady(addr, self.clock.now()));
        }
    }

    /// The node said 53300: those who can wait leave it alone for a moment.
    pub(crate) fn node_is_full(&self, addr: SocketAddr) {
        self.doors.note_full(addr, self.clock.now());
    }

    /// A server closed an established session that its client did not end.
    pub(crate) fn server_closed(&self, addr: SocketAddr, leads: bool) {
        let now = self.clock.now();
        self.demand.wish(match leads {
            true => Wish::ServerClosed(now),
            false => Wish::Look(addr, now),
        });
    }

    /// A session is open, as long as the guard lives: one to write with keeps the leader in use.
    pub(crate) fn open(&self, target: &Target) -> Option<OpenGuard> {
        if target.is_fallback {
            self.metrics.read_fallback.inc();
        }
        target.intent.route.writes().then(|| self.demand.open())
    }

    pub(crate) fn now(&self) -> BootTime {
        self.clock.now()
    }

    async fn wait(&self, ticket: &mut Ticket) -> Routed {
        let line = Arc::clone(&ticket.line);
        let is_free = self.choose(ticket, &self.picture.borrow()).is_ok();
        if !is_free || line.is_held_up() {
            // Behind somebody who is held, one waits for the same; behind somebody who waits for a slot, one does not.
            ticket.hold(&self.demand, &self.metrics);
        }
        self.own_proof(ticket).await;
        let _turn = line.turn.acquire().await;
        let mut picture = self.picture.clone();
        loop {
            let target = self.target(ticket, &mut picture).await;
            if let Some(routed) = self.slot(&target, ticket, &mut picture).await {
                ticket.after = None;
                ticket.last = Some(routed.target.clone());
                return routed;
            }
        }
    }

    /// A client whose attempt to write has failed by its own doing waits for news of the leader before it joins the
    /// line, so that nobody waits behind it.
    async fn own_proof(&self, ticket: &mut Ticket) {
        if !ticket.line.intent.route.writes() {
            return;
        }
        let Some(after) = ticket.after.take() else {
            return;
        };
        ticket.hold(&self.demand, &self.metrics);
        let mut picture = self.picture.clone();
        let heard = picture.wait_for(|picture| {
            picture
                .valid_lease(self.clock.now())
                .is_none_or(|lease| lease.proved > after)
        });
        if heard.await.is_err() {
            std::future::pending::<()>().await;
        }
    }

    /// The head of the line waits for somebody who may be dialled.
    async fn target(&self, ticket: &mut Ticket, picture: &mut watch::Receiver<Picture>) -> Target {
        loop {
            let no = match self.choose(ticket, &picture.borrow_and_update()) {
                Ok(choice) => return choice.target,
                Err(no) => no,
            };
            ticket.hold(&self.demand, &self.metrics);
            let now = self.clock.now();
            let intent = &ticket.line.intent;
            let (until, is_shut) = match no {
                NoRoute::NotNow { until, .. } => (until, true),
                NoRoute::NoLeader(_) | NoRoute::NoReplica => (None, false),
            };
            let looks = !intent.route.writes() && (is_shut || intent.reads.max_lag_bytes.is_some());
            let look = looks.then_some(now + LOOK_AGAIN);
            let again = until.into_iter().chain(look).min();
            tokio::select! {
                () = changed(picture) => {}
                () = self.clock.sleep_until(again.unwrap_or(now)), if again.is_some() => {}
            }
        }
    }

    /// `None` when the target is no longer the one to dial.
    async fn slot(
        &self,
        target: &Target,
        ticket: &Ticket,
        picture: &mut watch::Receiver<Picture>,
    ) -> Option<Routed> {
        let size = self.settings.borrow().dial_concurrency;
        let slots = self.doors.slots(target.addr, size);
        let permit = slots.acquire_owned();
        tokio::pin!(permit);
        let is_same = |now: &Target| now.epoch == target.epoch && now.addr == target.addr;
        let looks_around = !ticket.line.intent.route.writes();
        loop {
            tokio::select! {
                biased;
                permit = &mut permit => {
                    let slot = Slot::new(permit.ok()?);
                    // Those before us may have met a closed door.
                    let held = Some(target.addr);
                    let choice = self.choose_with(ticket, &picture.borrow(), held).ok()?;
                    return is_same(&choice.target).then(|| self.let_in(choice, ticket, slot));
                }
                () = changed(picture) => {}
                // A node that takes its time with those before us keeps nobody from one that does not.
                () = tokio::time::sleep(LOOK_AROUND), if looks_around => {}
            }
            let choice = self.choose(ticket, &picture.borrow_and_update()).ok()?;
            if !is_same(&choice.target) {
                return None;
            }
        }
    }

    fn let_in(&self, choice: Choice, ticket: &Ticket, slot: Slot) -> Routed {
        let Choice { target, rivals } = choice;
        if !rivals.is_empty() {
            ticket.line.turns().take(&rivals, target.addr);
        }
        Routed {
            inside: self.doors.enter(target.addr),
            target,
            slot,
        }
    }

    /// The words for a client whose time is up.
    pub(crate) fn give_up(&self, ticket: &Ticket) -> RouteError {
        let picture = self.picture.borrow();
        let (intent, now) = (ticket.line.intent, self.clock.now());
        let failure = ticket.failure.as_deref();
        let no = match self.choose(ticket, &picture) {
            // There is somebody, only not for this client in its time.
            Ok(Choice { target, .. }) => NoRoute::NotNow {
                name: target.name,
                until: None,
            },
            Err(no) => in_the_end(no, intent, &picture, now),
        };
        if intent.route.writes() && matches!(no, NoRoute::NoLeader(_)) {
            self.metrics.failovers.inc();
        }
        RouteError::new(no, failure, intent, &picture, ticket.limit, now)
    }
}

/// A reader whose time is up hears of whom it waited for, not of the replicas that were passed by meanwhile.
fn in_the_end(no: NoRoute, intent: Intent, picture: &Picture, now: BootTime) -> NoRoute {
    let is_passed_by = matches!(no, NoRoute::NotNow { .. }) && !intent.route.writes();
    match intent.reads.fallback {
        Fallback::None if is_passed_by => NoRoute::NoReplica,
        Fallback::Leader if is_passed_by => leader(intent, picture, now).err().unwrap_or(no),
        Fallback::None | Fallback::Leader => no,
    }
}

/// Never ends when there is no tracker any more: the deadline does.
async fn changed(picture: &mut watch::Receiver<Picture>) {
    if picture.changed().await.is_err() {
        std::future::pending::<()>().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::routing::testing::Script;

    const A: &str = "127.0.0.1:1";
    const B: &str = "127.0.0.1:2";

    fn script(dial_concurrency: usize) -> Script {
        let settings = RoutingSettings {
            dial_concurrency,
            ..RoutingSettings::default()
        };
        Script::new(Clock::paused(), settings)
    }

    fn addr(addr: &str) -> SocketAddr {
        addr.parse().unwrap()
    }

    /// Waits in the line as a client does, and says which node it got.
    fn client(script: &Script) -> tokio::task::JoinHandle<Result<Routed, RouteError>> {
        let router = Arc::clone(&script.router);
        tokio::spawn(async move {
            let mut ticket = router.ticket(Intent::default());
            router.route(&mut ticket).await
        })
    }

    async fn a_moment() {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }

    #[tokio::test(start_paused = true)]
    async fn time_runs_out_for_whoever_waits_in_vain() {
        let script = script(1);
        let start = tokio::time::Instant::now();

        let error = client(&script).await.unwrap().unwrap_err();

        assert_eq!(error.to_string(), "no leader of main after 45 s");
        assert!(matches!(error, RouteError::NoHealthyNodes { .. }));
        assert_eq!(script.metrics.failovers.get(), 1);
        assert_eq!(start.elapsed(), Duration::from_secs(45));
        assert_eq!(script.demand.held_now(), 0);
        assert_eq!(script.metrics.held_clients.get(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn the_head_of_the_line_looks_again_when_the_leader_moves_while_it_waits_for_a_slot() {
        let script = script(1);
        script.leads(addr(A));
        let first = client(&script).await.unwrap().unwrap();
        assert_eq!(first.target.addr, addr(A));
        let waiting = client(&script);
        a_moment().await;
        assert!(!waiting.is_finished());

        script.leads(addr(B));

        assert_eq!(waiting.await.unwrap().unwrap().target.addr, addr(B));
    }

    #[tokio::test(start_paused = true)]
    async fn a_slot_that_is_given_back_goes_to_the_next() {
        let script = script(2);
        script.leads(addr(A));
        let mut out = Vec::new();
        for _ in 0..2 {
            out.push(client(&script).await.unwrap().unwrap());
        }
        let waiting = [client(&script), client(&script)];
        a_moment().await;
        assert!(waiting.iter().all(|w| !w.is_finished()));
        assert_eq!(script.demand.held_now(), 0, "there is a leader");

        out.pop();
        a_moment().await;

        assert!(waiting[0].is_finished() && !waiting[1].is_finished());
    }

    #[tokio::test(start_paused = true)]
    async fn after_a_failed_dial_nobody_dials_before_the_next_proof() {
        let script = script(20);
        script.leads(addr(A));
        a_moment().await;
        let mut failed = script.router.ticket(Intent::default());
        let words = "connection refused".to_owned();
        script.router.dial_failed(&mut failed, addr(A), words);
        let waiting = [client(&script), client(&script)];
        a_moment().await;
        assert!(waiting.iter().all(|w| !w.is_finished()));
        assert_eq!(script.demand.held_now(), 2);

        script.proves();
        a_moment().await;

        assert!(waiting.iter().all(|w| w.is_finished()));
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_with_trouble_of_its_own_lets_the_others_pass() {
        let script = script(20);
        script.leads(addr(A));
        a_moment().await;
        let router = Arc::clone(&script.router);
        let shy = tokio::spawn(async move {
            let mut ticket = router.ticket(Intent::default());
            router.attempt_failed(&mut ticket, "closed".into());
            router.route(&mut ticket).await
        });
        a_moment().await;

        assert!(client(&script).await.unwrap().is_ok());
        assert!(!shy.is_finished());
        script.proves();
        assert!(shy.await.unwrap().is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_gives_up_leaves_the_line() {
        let script = script(1);
        let gone = client(&script);
        let next = client(&script);
        a_moment().await;
        assert_eq!(script.demand.held_now(), 2);

        gone.abort();
        a_moment().await;
        assert_eq!(script.demand.held_now(), 1);
        script.leads(addr(A));

        assert!(next.await.unwrap().is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn whoever_waited_leaves_a_full_node_alone_for_a_moment() {
        let script = script(20);
        let waiting = client(&script);
        a_moment().await;
        script.router.node_is_full(addr(A));
        let start = tokio::time::Instant::now();

        script.leads(addr(A));

        assert!(waiting.await.unwrap().is_ok());
        assert!(start.elapsed() >= Duration::from_millis(250));
    }

    #[tokio::test(start_paused = true)]
    async fn a_retiring_leader_gets_nobody_new() {
        let script = script(1);
        script.leads(addr(A));
        let target = client(&script).await.unwrap().unwrap().target;
        script.amend(|lease| lease.open = false);

        assert!(!script.router.still_valid(&target));
        let waiting = client(&script);
        a_moment().await;
        assert!(!waiting.is_finished());
    }
    #[tokio::test(start_paused = true)]
    async fn whoever_gets_a_slot_looks_at_the_door_again() {
        let script = script(1);
        script.leads(addr(A));
        let first = client(&script).await.unwrap().unwrap();
        let next = client(&script);
        a_moment().await;

        let mut ticket = script.router.ticket(Intent::default());
        let words = "connection refused".to_owned();
        script.router.dial_failed(&mut ticket, addr(A), words);
        drop(first);
        a_moment().await;
        assert!(!next.is_finished(), "nobody hammers a closed port");
        script.proves();

        let proved = script.clock.now();
        assert_eq!(next.await.unwrap().unwrap().target.proved, proved);
    }

    #[tokio::test(start_paused = true)]
    async fn the_tracker_hears_of_a_ready_dial_only_what_it_does_not_know() {
        let script = script(1);
        let ready = |epoch| {
            script.router.dial_ready(addr(A), epoch);
            script.demand.take_wishes().len()
        };
        assert_eq!([ready(1), ready(1), ready(1)], [1, 0, 0]);
        assert_eq!([ready(2), ready(2)], [1, 0]);

        script.router.distrust(addr(A), true);
        script.demand.take_wishes();

        assert_eq!([ready(2), ready(2)], [1, 0]);
    }
}
