//! The choice of a node: what is known of the cluster, and what this process has met at its doors.

use std::net::SocketAddr;

use super::decide::{NoRoute, leader, read_at};
use super::policy::{Candidate, rivals};
use super::pool::{Member, pool};
use super::settings::Fallback;
use super::{Router, Target, Ticket};
use crate::clock::BootTime;
use crate::primary_tracker::Picture;

/// A target, and among whom it was chosen: the turn is taken when it is dialled.
pub(super) struct Choice {
    pub(super) target: Target,
    pub(super) rivals: Vec<Candidate>,
}

/// A door that is closed: until when, `None` for until the node is proved anew.
type Until = Option<BootTime>;

impl Router {
    /// Whom `ticket`'s client may be sent to now.
    pub(super) fn choose(&self, ticket: &Ticket, picture: &Picture) -> Result<Choice, NoRoute> {
        self.choose_with(ticket, picture, None)
    }

    /// The same for a client that has a slot at `held` already: what is busy because of itself is not busy for it.
    pub(super) fn choose_with(
        &self,
        ticket: &Ticket,
        picture: &Picture,
        held: Option<SocketAddr>,
    ) -> Result<Choice, NoRoute> {
        let now = self.clock.now();
        if ticket.line.intent.route.writes() {
            return self.leader(ticket, picture, now);
        }
        let closed = match self.replica(ticket, picture, held, now) {
            Err(closed) if ticket.line.intent.reads.fallback == Fallback::Leader => closed,
            chosen => return chosen,
        };
        let leader = self.leader(ticket, picture, now);
        leader.map_err(|no| match closed {
            NoRoute::NotNow { .. } => closed,
            NoRoute::NoLeader(_) | NoRoute::NoReplica => no,
        })
    }

    fn leader(&self, ticket: &Ticket, picture: &Picture, now: BootTime) -> Result<Choice, NoRoute> {
        let target = leader(ticket.line.intent, picture, now)?;
        let closed = |until| NoRoute::NotNow {
            name: target.name.clone(),
            until,
        };
        // No dial has failed there since it was last proved.
        if self.doors.failed_since(target.addr, target.proved) {
            return Err(closed(None));
        }
        if let Some(until) = self.full_until(ticket, target.addr, now) {
            return Err(closed(Some(until)));
        }
        let rivals = Vec::new();
        Ok(Choice { target, rivals })
    }

    fn replica(
        &self,
        ticket: &Ticket,
        picture: &Picture,
        held: Option<SocketAddr>,
        now: BootTime,
    ) -> Result<Choice, NoRoute> {
        let intent = ticket.line.intent;
        let mut shut: Option<(&Member<'_>, Until)> = None;
        let members: Vec<_> = pool(&intent, picture, now).collect();
        let mut open = Vec::new();
        for member in &members {
            match self.closed_until(member, ticket, now) {
                None => open.push(member),
                Some(until) => {
                    let sooner = |(_, known): &(_, Until)| match (until, *known) {
                        (Some(until), Some(known)) => until < known,
                        (until, None) => until.is_some(),
                        (None, Some(_)) => false,
                    };
                    if shut.as_ref().is_none_or(sooner) {
                        shut = Some((member, until));
                    }
                }
            }
        }
        prefer(&mut open, |member| member.is_live);
        prefer(&mut open, |member| {
            held == Some(member.addr) || !self.doors.is_busy(member.addr)
        });
        let candidates: Vec<_> = open.iter().map(|member| self.candidate(member)).collect();
        let rivals = rivals(intent.reads.policy, &candidates);
        let next = ticket.line.turns().next(&rivals);
        if let Some(member) = open.iter().find(|member| Some(member.addr) == next) {
            let target = read_at(intent, picture, member);
            return Ok(Choice { target, rivals });
        }
        Err(match shut {
            Some((member, until)) => NoRoute::NotNow {
                name: member.node.name.clone(),
                until,
            },
            None => NoRoute::NoReplica,
        })
    }

    /// Set when a node of the pool must be left alone.
    fn closed_until(&self, member: &Member<'_>, ticket: &Ticket, now: BootTime) -> Option<Until> {
        let proved = match member.lease {
            Some(lease) => lease.proved,
            None => member.node.reading.asked,
        };
        if ticket.after.is_some_and(|after| proved <= after)
            || member.lease.is_some() && self.doors.failed_since(member.addr, proved)
        {
            return Some(None);
        }
        let aside = self.doors.aside_until(member.addr, now);
        let full = self.full_until(ticket, member.addr, now);
        aside.max(full).map(Some)
    }

    /// Whoever never waited is told at once that the node is full.
    fn full_until(&self, ticket: &Ticket, addr: SocketAddr, now: BootTime) -> Option<BootTime> {
        self.doors
            .full_until(addr, now)
            .filter(|_| ticket.was_held())
    }

    fn candidate(&self, member: &Member<'_>) -> Candidate {
        Candidate {
            addr: member.addr,
            weight: member.node.reading.weight,
            load: self.doors.inside(member.addr),
        }
    }
}

/// Only those, if there are any.
pub(super) fn prefer<T>(all: &mut Vec<T>, is_better: impl Fn(&T) -> bool) {
    if all.iter().any(&is_better) {
        all.retain(is_better);
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;
    use std::sync::Arc;
    use std::time::Duration;

    use tokio::task::JoinHandle;

    use crate::clock::Clock;
    use crate::primary_tracker::{NodePicture, Wish};
    use crate::routing::testing::{Script, reads, replica};
    use crate::routing::{Fallback, Intent, Policy, RouteError, Routed, RoutingSettings};
    use crate::topology::Feed;

    const LEADER: &str = "127.0.0.1:1";
    const A: &str = "127.0.0.1:2";
    const B: &str = "127.0.0.1:3";

    fn script() -> Script {
        Script::new(Clock::paused(), RoutingSettings::default())
    }

    fn addr(addr: &str) -> SocketAddr {
        addr.parse().unwrap()
    }

    /// Streaming replicas that have just answered.
    fn replicas(script: &Script, addrs: &[&str]) -> Vec<NodePicture> {
        let now = script.clock.now();
        addrs.iter().map(|a| replica(addr(a), now)).collect()
    }

    fn client(script: &Script, intent: Intent) -> JoinHandle<Result<Routed, RouteError>> {
        let router = Arc::clone(&script.router);
        tokio::spawn(async move { router.route(&mut router.ticket(intent)).await })
    }

    async fn served(script: &Script, intent: Intent) -> Routed {
        client(script, intent).await.unwrap().unwrap()
    }

    async fn a_moment() {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }

    #[tokio::test(start_paused = true)]
    async fn readers_take_turns_at_the_replicas_and_the_leader_is_left_alone() {
        let script = script();
        script.leads(addr(LEADER));
        script.nodes(replicas(&script, &[A, B]));
        let mut got = Vec::new();
        for _ in 0..4 {
            let routed = served(&script, reads(|_| ())).await;
            assert!(!routed.target.leads);
            got.push(routed.target.addr);
        }
        assert_eq!(got, [A, B, A, B].map(addr));
    }

    #[tokio::test(start_paused = true)]
    async fn who_streams_is_preferred_and_without_one_all_serve() {
        let script = script();
        let mut nodes = replicas(&script, &[A, B]);
        nodes[0].reading.feed = Some(Feed::Dry);
        script.nodes(nodes.clone());
        for _ in 0..3 {
            assert_eq!(served(&script, reads(|_| ())).await.target.addr, addr(B));
        }
        nodes[1].reading.feed = Some(Feed::Dry);
        script.nodes(nodes);
        let first = served(&script, reads(|_| ())).await.target.addr;
        let second = served(&script, reads(|_| ())).await.target.addr;
        assert_ne!(first, second);
        let strict = client(&script, reads(|r| r.require_streaming = true));
        a_moment().await;
        assert!(!strict.is_finished());
    }

    #[tokio::test(start_paused = true)]
    async fn least_connections_counts_whoever_is_inside() {
        let script = script();
        script.nodes(replicas(&script, &[A, B]));
        let intent = reads(|r| r.policy = Policy::LeastConnections);
        let first = served(&script, intent).await;
        let second = served(&script, intent).await;
        assert_ne!(first.target.addr, second.target.addr);
        drop(first.inside);
        for _ in 0..3 {
            let next = served(&script, intent).await.target.addr;
            assert_eq!(next, first.target.addr, "the others left at once");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_failed_dial_sets_a_replica_aside_for_five_seconds_and_asks_it_alone() {
        let script = script();
        script.leads(addr(LEADER));
        script.nodes(replicas(&script, &[A, B]));
        let mut ticket = script.router.ticket(reads(|_| ()));
        let first = script.router.route(&mut ticket).await.unwrap();
        assert_eq!(first.target.addr, addr(A));
        let now = script.clock.now();
        script
            .router
            .dial_failed(&mut ticket, addr(A), "refused".into());

        assert_eq!(script.demand.take_wishes(), [Wish::Look(addr(A), now)]);
        let next = script.router.route(&mut ticket).await.unwrap();
        assert_eq!(next.target.addr, addr(B));
        assert!(!ticket.was_held(), "the next is tried at once");
        tokio::time::sleep(Duration::from_millis(4_900)).await;
        for _ in 0..3 {
            assert_eq!(served(&script, reads(|_| ())).await.target.addr, addr(B));
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
        let again = [(); 2].map(|()| reads(|_| ()));
        let mut got = Vec::new();
        for intent in again {
            got.push(served(&script, intent).await.target.addr);
        }
        assert!(got.contains(&addr(A)), "{got:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn after_two_failed_dials_the_leader_serves_or_news_are_waited_for() {
        let script = script();
        script.leads(addr(LEADER));
        let third = "127.0.0.1:4";
        script.nodes(replicas(&script, &[A, B, third]));
        a_moment().await;
        for fallback in [Fallback::Leader, Fallback::None] {
            let intent = reads(|r| r.fallback = fallback);
            let router = Arc::clone(&script.router);
            let mut ticket = router.ticket(intent);
            for _ in 0..2 {
                let failed = router.route(&mut ticket).await.unwrap().target.addr;
                router.dial_failed(&mut ticket, failed, "refused".into());
            }
            let waiting = tokio::spawn(async move { router.route(&mut ticket).await });
            a_moment().await;
            if fallback == Fallback::Leader {
                let target = waiting.await.unwrap().unwrap().target;
                assert!(target.is_fallback && target.addr == addr(LEADER));
                tokio::time::sleep(Duration::from_secs(5)).await;
                script.proves();
                continue;
            }
            assert!(!waiting.is_finished());
            script.nodes(replicas(&script, &[A, B, third]));
            a_moment().await;
            assert!(waiting.await.unwrap().is_ok());
        }
    }

    #[tokio::test(start_paused = true)]
    async fn with_nobody_left_readers_fall_back_on_the_leader_and_its_lease() {
        let script = script();
        script.leads(addr(LEADER));
        let target = served(&script, reads(|_| ())).await.target;
        assert!(target.is_fallback && target.leads);
        assert!(script.router.still_valid(&target));

        tokio::time::sleep(Duration::from_secs(10)).await;
        assert!(!script.router.still_valid(&target));
        let held = client(&script, reads(|_| ()));
        let error = held.await.unwrap().unwrap_err();
        assert_eq!(error.to_string(), "no leader of main after 45 s");

        let alone = reads(|r| r.fallback = Fallback::None);
        script.leads(addr(LEADER));
        let error = client(&script, alone).await.unwrap().unwrap_err();
        assert_eq!(error.to_string(), "no replica of main after 45 s");
    }

    #[tokio::test(start_paused = true)]
    async fn a_held_reader_is_let_in_when_a_replica_comes() {
        let script = script();
        let held = client(&script, reads(|_| ()));
        a_moment().await;
        assert_eq!(script.demand.held_now(), 1);

        script.nodes(replicas(&script, &[A]));

        assert_eq!(held.await.unwrap().unwrap().target.addr, addr(A));
        assert_eq!(script.demand.held_now(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn readers_wait_behind_no_writer_and_writers_behind_no_reader() {
        let script = script();
        let writer = client(&script, Intent::default());
        a_moment().await;
        script.nodes(replicas(&script, &[A]));
        served(&script, reads(|_| ())).await;
        assert!(!writer.is_finished());

        script.nodes(replicas(&script, &[]));
        let alone = reads(|r| r.fallback = Fallback::None);
        let reader = client(&script, alone);
        a_moment().await;
        script.leads(addr(LEADER));

        assert!(writer.await.unwrap().is_ok());
        served(&script, Intent::default()).await;
        served(&script, reads(|_| ())).await;
        assert!(!reader.is_finished());
    }

    #[tokio::test(start_paused = true)]
    async fn whoever_waits_for_a_lagging_replica_looks_itself() {
        let script = script();
        let mut nodes = replicas(&script, &[A]);
        nodes[0].lag_bytes = Some(1001);
        script.nodes(nodes.clone());
        let intent = reads(|r| r.max_lag_bytes = Some(1000));
        let held = client(&script, intent);
        a_moment().await;
        assert!(!held.is_finished());

        nodes[0].lag_bytes = Some(1000);
        script.nodes_in_silence(nodes);
        let since = tokio::time::Instant::now();

        assert!(held.await.unwrap().is_ok());
        assert!(since.elapsed() <= Duration::from_millis(100));
    }

    #[tokio::test(start_paused = true)]
    async fn a_reader_hears_of_a_replica_that_is_proved_anew_though_that_wakes_nobody() {
        let script = script();
        let third = "127.0.0.1:4";
        script.nodes(replicas(&script, &[A, B, third]));
        a_moment().await;
        let router = Arc::clone(&script.router);
        let mut ticket = router.ticket(reads(|_| ()));
        for _ in 0..2 {
            let failed = router.route(&mut ticket).await.unwrap().target.addr;
            router.dial_failed(&mut ticket, failed, "refused".into());
        }
        let waiting = tokio::spawn(async move { router.route(&mut ticket).await });
        a_moment().await;
        assert!(!waiting.is_finished());

        script.nodes_in_silence(replicas(&script, &[A, B, third]));
        let since = tokio::time::Instant::now();

        assert_eq!(waiting.await.unwrap().unwrap().target.addr, addr(third));
        assert!(since.elapsed() <= Duration::from_millis(100));
    }

    #[tokio::test(start_paused = true)]
    async fn whoever_gets_the_last_slot_of_a_replica_keeps_it() {
        let settings = RoutingSettings {
            dial_concurrency: 1,
            ..RoutingSettings::default()
        };
        let script = Script::new(Clock::paused(), settings);
        script.nodes(replicas(&script, &[A]));
        let slow = served(&script, reads(|_| ())).await;
        script.nodes(replicas(&script, &[A, B]));

        let soon = Duration::from_secs(1);
        for _ in 0..3 {
            let next = tokio::time::timeout(soon, served(&script, reads(|_| ()))).await;
            assert_eq!(next.unwrap().target.addr, addr(B));
        }
        drop(slow);
    }

    #[tokio::test(start_paused = true)]
    async fn readers_do_not_wait_at_a_slow_replica_while_another_is_free() {
        let settings = RoutingSettings {
            dial_concurrency: 1,
            ..RoutingSettings::default()
        };
        let script = Script::new(Clock::paused(), settings);
        script.nodes(replicas(&script, &[A, B]));
        let slow = served(&script, reads(|_| ())).await;
        let quick = served(&script, reads(|_| ())).await;
        assert_eq!([slow.target.addr, quick.target.addr], [A, B].map(addr));
        let next = client(&script, reads(|_| ()));
        a_moment().await;
        assert!(!next.is_finished());

        drop(quick);
        let since = tokio::time::Instant::now();

        assert_eq!(next.await.unwrap().unwrap().target.addr, addr(B));
        assert!(since.elapsed() <= Duration::from_millis(20));
        drop(slow);
    }

    #[tokio::test(start_paused = true)]
    async fn a_target_that_is_no_replica_any_more_is_not_valid_any_more() {
        let script = script();
        let nodes = replicas(&script, &[A]);
        script.nodes(nodes.clone());
        let target = served(&script, reads(|_| ())).await.target;
        assert!(script.router.still_valid(&target));
        for change in [
            (|n| n.enabled = false) as fn(&mut NodePicture),
            |n| n.up = false,
            |n| n.reading.feed = None,
            |n| n.reading.addr = Some(addr(B)),
        ] {
            let mut changed = nodes.clone();
            change(&mut changed[0]);
            script.nodes(changed);
            assert!(!script.router.still_valid(&target));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_leader_that_failed_is_dialled_by_readers_after_its_next_proof() {
        let script = script();
        script.leads(addr(LEADER));
        a_moment().await;
        script.router.distrust(addr(LEADER), true);
        let held = client(&script, reads(|_| ()));
        a_moment().await;
        assert!(!held.is_finished());

        script.proves();

        assert!(held.await.unwrap().is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn a_reader_whose_replicas_all_refuse_hears_of_whom_it_waited_for() {
        let script = script();
        script.nodes(replicas(&script, &[A, B]));
        a_moment().await;
        for (fallback, words) in [
            (Fallback::None, "no replica of main after 45 s"),
            (Fallback::Leader, "no leader of main after 45 s"),
        ] {
            let mut ticket = script.router.ticket(reads(|r| r.fallback = fallback));
            for addr in [A, B].map(addr) {
                script
                    .router
                    .dial_failed(&mut ticket, addr, "refused".into());
            }
            let error = script.router.give_up(&ticket);
            assert_eq!(error.to_string(), words);
            assert!(
                fallback == Fallback::Leader
                    || error.detail().starts_with("The last dial: refused.")
            );
        }
    }
}
