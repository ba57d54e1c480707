//! The choice of a node: what is known of the cluster, and what this process has met at its doors.

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
        let now = self.clock.now();
        if ticket.line.intent.route.writes() {
            return self.leader(ticket, picture, now);
        }
        let closed = match self.replica(ticket, picture, now) {
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
        prefer(&mut open, |member| !self.doors.is_busy(member.addr));
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
    fn full_until(
        &self,
        ticket: &Ticket,
        addr: std::net::SocketAddr,
        now: BootTime,
    ) -> Option<BootTime> {
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
