//! The line in which clients wait for a leader and for their turn to dial it.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Semaphore, watch};

use super::decide::{NoRoute, decide};
use super::door::{Doors, Slot};
use super::{Route, RouteError, RoutingSettings, Target, Ticket};
use crate::clock::{BootTime, Clock};
use crate::metrics::Metrics;
use crate::primary_tracker::{Demand, OpenGuard, Picture, Wish};

/// One per house, shared by all sessions.
pub(crate) struct Router {
    pub(super) clock: Clock,
    pub(super) picture: watch::Receiver<Picture>,
    pub(super) settings: watch::Receiver<RoutingSettings>,
    pub(super) demand: Arc<Demand>,
    metrics: Arc<Metrics>,
    /// First come, first served: only the head of the line watches the picture, so that ten thousand held clients
    /// are not woken by each answer of a node.
    turn: Semaphore,
    doors: Doors,
}

/// A target, and the right to dial it now.
#[derive(Debug)]
pub(crate) struct Routed {
    pub(crate) target: Target,
    pub(crate) slot: Slot,
}

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
            turn: Semaphore::new(1),
            doors: Doors::default(),
        }
    }

    /// A client's time starts to run.
    pub(crate) fn ticket(&self) -> Ticket {
        Ticket::new(self.settings.borrow().write_timeout)
    }

    /// Waits for a leader and for a slot to dial it, in order of arrival, until the ticket's deadline.
    pub(crate) async fn route(
        &self,
        route: Route,
        ticket: &mut Ticket,
    ) -> Result<Routed, RouteError> {
        let deadline = ticket.deadline;
        let routed = tokio::time::timeout_at(deadline, self.wait(route, ticket)).await;
        ticket.release();
        routed.map_err(|_late| self.time_is_up(route, ticket))
    }

    /// May a session on `target` still start, or go on starting?
    pub(crate) fn still_valid(&self, target: &Target) -> bool {
        let picture = self.picture.borrow();
        picture
            .valid_lease(self.clock.now())
            .is_some_and(|lease| lease.epoch == target.epoch && lease.leader.addr == target.addr)
    }

    /// A dial of `ticket`'s client failed: nobody dials there before the leader was proved anew.
    pub(crate) fn dial_failed(&self, ticket: &mut Ticket, addr: SocketAddr, why: String) {
        self.fail(addr);
        ticket.failure = Some(why);
    }

    /// An attempt failed in a way that may be this client's own doing: it alone waits for a new proof.
    pub(crate) fn attempt_failed(&self, ticket: &mut Ticket, why: String) {
        let now = self.clock.now();
        self.demand.wish(Wish::Fresh(now));
        ticket.after = Some(now);
        ticket.failure = Some(why);
    }

    /// The proof was wrong or came too early for `addr`: as after a failed dial, nobody goes there before a new one.
    pub(crate) fn distrust(&self, addr: SocketAddr) {
        self.fail(addr);
    }

    /// The tracker first: a success in between is then told again, rather than overtaken.
    fn fail(&self, addr: SocketAddr) {
        let now = self.clock.now();
        self.demand.wish(Wish::DialFailed(addr, now));
        self.doors.note_failed(addr, now);
    }

    /// A dial reached its first ReadyForQuery. The tracker is told only what it does not know: the first of an epoch,
    /// and the first after a failure.
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
    pub(crate) fn server_closed(&self) {
        self.demand.wish(Wish::ServerClosed(self.clock.now()));
    }

    /// A read-write session is open, as long as the guard lives.
    pub(crate) fn open(&self) -> OpenGuard {
        self.demand.open()
    }

    pub(crate) fn now(&self) -> BootTime {
        self.clock.now()
    }

    async fn wait(&self, route: Route, ticket: &mut Ticket) -> Routed {
        let at_once = self.choose(route, &self.picture.borrow());
        let is_free = at_once.is_ok_and(|target| self.may_be_dialled(&target));
        let is_behind = self.turn.available_permits() == 0 && self.demand.held_now() > 0;
        if !is_free || is_behind {
            // Behind somebody who is held, one waits for the same; behind somebody who waits for a slot, one does not.
            ticket.hold(&self.demand, &self.metrics);
        }
        self.own_proof(ticket).await;
        let _turn = self.turn.acquire().await;
        let mut picture = self.picture.clone();
        loop {
            let target = self.target(route, ticket, &mut picture).await;
            if let Some(routed) = self.slot(route, &target, ticket, &mut picture).await {
                return routed;
            }
        }
    }

    /// A client whose attempt has failed by its own doing waits for news of the leader before it joins the line, so
    /// that nobody waits behind it.
    async fn own_proof(&self, ticket: &mut Ticket) {
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
    async fn target(
        &self,
        route: Route,
        ticket: &mut Ticket,
        picture: &mut watch::Receiver<Picture>,
    ) -> Target {
        loop {
            let chosen = self.choose(route, &picture.borrow_and_update());
            let mut pause = None;
            if let Ok(target) = chosen {
                pause = self.pause(&target, ticket);
                if pause == Some(Duration::ZERO) {
                    return target;
                }
            }
            ticket.hold(&self.demand, &self.metrics);
            tokio::select! {
                () = changed(picture) => {}
                () = tokio::time::sleep(pause.unwrap_or_default()), if pause.is_some() => {}
            }
        }
    }

    /// `None` when the target is no longer the one to dial.
    async fn slot(
        &self,
        route: Route,
        target: &Target,
        ticket: &Ticket,
        picture: &mut watch::Receiver<Picture>,
    ) -> Option<Routed> {
        let size = self.settings.borrow().dial_concurrency;
        let slots = self.doors.slots(target.addr, size);
        let permit = slots.acquire_owned();
        tokio::pin!(permit);
        let is_same = |picture: &Picture| {
            self.choose(route, picture)
                .is_ok_and(|now| now.epoch == target.epoch && now.addr == target.addr)
        };
        loop {
            tokio::select! {
                permit = &mut permit => {
                    let slot = Slot::new(permit.ok()?);
                    // Those before us may have met a closed door.
                    let now = self.choose(route, &picture.borrow()).ok()?;
                    let is_open = self.pause(&now, ticket) == Some(Duration::ZERO);
                    return (now.addr == target.addr && is_open).then_some(Routed { target: now, slot });
                }
                () = changed(picture) => {
                    if !is_same(&picture.borrow_and_update()) {
                        return None;
                    }
                }
            }
        }
    }

    /// How long a target must be left alone, `None` for until it is proved anew.
    fn pause(&self, target: &Target, ticket: &Ticket) -> Option<Duration> {
        if !self.may_be_dialled(target) {
            return None;
        }
        Some(match ticket.was_held() {
            true => self.doors.pause(target.addr, self.clock.now()),
            // Whoever never waited is told at once that the node is full.
            false => Duration::ZERO,
        })
    }

    /// No dial has failed there since the leader was last proved.
    fn may_be_dialled(&self, target: &Target) -> bool {
        !self.doors.failed_since(target.addr, target.proved)
    }

    fn choose(&self, route: Route, picture: &Picture) -> Result<Target, NoRoute> {
        decide(route, picture, self.clock.now())
    }

    fn time_is_up(&self, route: Route, ticket: &Ticket) -> RouteError {
        let picture = self.picture.borrow();
        match (self.choose(route, &picture), &ticket.failure) {
            (Ok(_), Some(failure)) => {
                RouteError::unreachable(&picture, failure.clone(), ticket.limit)
            }
            (Ok(target), None) => {
                let detail = format!("no turn to dial {} came in time", target.name);
                RouteError::unreachable(&picture, detail, ticket.limit)
            }
            (Err(NoRoute(why)), _) => {
                if route == Route::Primary {
                    self.metrics.failovers.inc();
                }
                RouteError::no_healthy_nodes(&picture, why, ticket.limit, self.clock.now())
            }
        }
    }

    /// The words for a client whose last attempt failed when its time was up.
    pub(crate) fn give_up(&self, route: Route, ticket: &Ticket) -> RouteError {
        self.time_is_up(route, ticket)
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
            let mut ticket = router.ticket();
            router.route(Route::Primary, &mut ticket).await
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
        let mut failed = script.router.ticket();
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
            let mut ticket = router.ticket();
            router.attempt_failed(&mut ticket, "closed".into());
            router.route(Route::Primary, &mut ticket).await
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

        let mut ticket = script.router.ticket();
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

        script.router.distrust(addr(A));
        script.demand.take_wishes();

        assert_eq!([ready(2), ready(2)], [1, 0]);
    }
}
