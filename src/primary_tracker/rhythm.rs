//! What the poller is told: how each node stands, what all are asked for, and when to think again without news.

use std::time::Duration;

use super::Tracker;
use super::run::HEARTBEAT;
use crate::clock::BootTime;
use crate::topology::{Pace, Stands};

/// A read-write session that was open within this keeps the leader in use, and a failed dial keeps the doubt.
const RECENT: Duration = Duration::from_secs(10);
/// Either side of the moment at which a dead leader's lock runs out.
const AROUND_LOCK_END: Duration = Duration::from_secs(2);
/// What the cluster says about itself is asked so often, outside of doubt.
const DYNAMIC_EVERY: Duration = Duration::from_secs(60);
/// … and so often until it was heard once.
const DYNAMIC_RETRY: Duration = Duration::from_secs(5);

impl Tracker {
    pub(super) fn tell_poller_who_stands_how(&mut self, now: BootTime) {
        let reign = self.decider.reign.as_ref();
        let by_patroni = self.decider.settings.provider.is_patroni();
        for record in &self.decider.records {
            let reigns = reign.filter(|reign| reign.id == record.id);
            let stands = Stands {
                rising: record.is_rising(),
                leads: reigns.is_some(),
                leased: reigns.is_some_and(|reign| now < reign.until),
                knows_a_lock: by_patroni && record.knows_a_lock(),
            };
            self.poller.stands(record.id, stands);
        }
        // A silence that is played is to have its effect.
        let silent = reign.filter(|reign| !self.chaos.is_silenced(reign.id));
        let silent = silent.and_then(|reign| {
            let usual = self.poller.usual(reign.id);
            Some((reign.id, self.decider.silent_since(usual, now)?))
        });
        self.poller.silent(silent);
    }

    /// What all nodes are asked for, now.
    pub(super) fn pace(&self, now: BootTime) -> Pace {
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
            doubt: !settled || dial_failed || self.decider.pending(now).is_some(),
            held: self.demand.held_now() > 0,
            in_use: self
                .demand
                .last_open(now)
                .is_some_and(|at| now.saturating_sub(at) < RECENT),
            lock_ends: !settled && lock_ends,
        }
    }

    pub(super) fn enter_or_leave_doubt(&mut self, doubt: bool, now: BootTime) {
        if doubt && !self.in_doubt {
            self.poller.doubt(now);
        }
        self.in_doubt = doubt;
        if let Some(reign) = self.decider.reign.as_ref().filter(|_| !doubt)
            && self.decider.settings.provider.is_patroni()
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
    pub(super) fn next_wake(&self, now: BootTime) -> BootTime {
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
}
