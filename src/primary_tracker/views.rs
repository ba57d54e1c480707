//! What the cluster's view of itself comes to: hearsay, weighed against what the nodes say themselves.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::WhyNobody;
use super::decider::Decider;
use super::record::Record;
use crate::clock::BootTime;
use crate::metrics::RevokeReason;
use crate::topology::{Evidence, Member, NodeId, View, ViewSeen};

/// What is remembered of views.
#[derive(Debug, Default)]
pub(super) struct Viewed {
    /// The newest one that counted.
    shown: Option<Shown>,
    /// Views are asked for, and no round of questions has ended yet: a first leader waits for that.
    awaited: bool,
    /// Endpoints that show another cluster; each is said once.
    foreign: BTreeSet<Arc<str>>,
    conflict_said: bool,
}

/// A view, as far as it concerns who leads.
#[derive(Clone, Debug)]
struct Shown {
    /// When it was asked for.
    sent: BootTime,
    leaders: Vec<Named>,
}

/// A member that leads, by a view.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Named {
    pub(super) name: Arc<str>,
    /// `None`: no node of ours.
    pub(super) node: Option<NodeId>,
    pub(super) timeline: Option<u32>,
}

/// What the newest view comes to now. It authorises nobody: it names who is to be asked, and who is to wait.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ByView {
    /// There is no view, or it is older than a lease.
    Blind,
    Nobody,
    Names(Named),
    /// Two lead, neither of which says itself that it follows.
    Conflict,
    /// A node that is cut off from the DCS shows an old view for ever: who is better informed contradicts this one.
    Old,
}

/// What became of a view.
#[derive(Debug, Default)]
pub(super) struct Heeded {
    /// Else the next endpoint is asked.
    pub(super) counts: bool,
    /// Something has changed.
    pub(super) fact: bool,
    /// Nodes whose own word is wanted.
    pub(super) wanted: Vec<NodeId>,
    /// Members that are no node of ours.
    pub(super) strangers: Vec<Member>,
}

impl Decider {
    /// Takes in a view. Whoever it names is pending until that node's own word.
    pub(super) fn hear_view(&mut self, seen: &ViewSeen, now: BootTime) -> Heeded {
        if self.is_of_another_cluster(seen) {
            return Heeded::default();
        }
        let nodes = self.nodes_of(&seen.view);
        let members = || seen.view.members.iter().zip(&nodes);
        let leaders = members().filter(|(member, _)| member.leads);
        let shown = Shown {
            sent: seen.sent,
            leaders: leaders
                .map(|(member, node)| Named {
                    name: Arc::clone(&member.name),
                    node: *node,
                    timeline: member.timeline,
                })
                .collect(),
        };
        let by_view = self.weigh_view(&shown, now);
        if by_view == ByView::Old {
            tracing::debug!(endpoint = &*seen.endpoint, "an old view of the cluster");
            return Heeded::default();
        }
        let wanted = self.whom_to_ask(&shown);
        let strangers = members().filter(|(_, node)| node.is_none());
        let strangers = strangers.map(|(member, _)| member.clone()).collect();
        if by_view == ByView::Conflict {
            self.metrics.conflicting_primaries.inc();
        }
        let before = self.by_view(now);
        self.viewed.awaited = false;
        let known = self.viewed.shown.as_ref();
        if known.is_none_or(|known| known.sent <= shown.sent) {
            self.viewed.shown = Some(shown);
        }
        self.note_listed(&nodes, now);
        let ruled = self.decide(now);
        Heeded {
            counts: true,
            fact: ruled || before != self.by_view(now),
            wanted,
            strangers,
        }
    }

    /// The newest view, weighed with what is known by now.
    pub(super) fn by_view(&self, now: BootTime) -> ByView {
        let shown = self.viewed.shown.as_ref();
        match shown.filter(|shown| now < shown.sent + self.settings.lease_timeout) {
            Some(shown) => self.weigh_view(shown, now),
            None => ByView::Blind,
        }
    }

    /// Are views asked for, from now on?
    pub(super) fn expect_views(&mut self, asked: bool) {
        if asked {
            self.viewed.awaited = self.viewed.shown.is_none() && self.epoch == 0;
        } else {
            self.viewed = Viewed::default();
        }
    }

    /// No endpoint has shown a view that counts: the nodes' own words decide alone.
    pub(super) fn hear_no_view(&mut self, now: BootTime) -> bool {
        std::mem::take(&mut self.viewed.awaited) && self.decide(now)
    }

    /// True once, when the view that counted proves to be old: the next endpoint is asked.
    pub(super) fn drop_old_view(&mut self, now: BootTime) -> bool {
        let old = self.by_view(now) == ByView::Old;
        if old {
            self.viewed.shown = None;
        }
        old
    }

    /// The node that a view names and that has not led since: pending, never routable.
    pub(super) fn pending(&self, now: BootTime) -> Option<(&Record, Option<u32>)> {
        let ByView::Names(named) = self.by_view(now) else {
            return None;
        };
        let reigns = self
            .reign
            .as_ref()
            .is_some_and(|r| Some(r.id) == named.node);
        let record = self.record(named.node?).filter(|_| !reigns)?;
        Some((record, named.timeline))
    }

    /// Why a claim is not authorised although no other claim contradicts it: a view names another node.
    ///
    /// A new leader waits until its own word is newer than the view. The present one gives way only to a strictly
    /// higher timeline, and only when the node that has it cannot be heard itself: then two lead, as far as is known.
    pub(super) fn contradicted(
        &self,
        id: NodeId,
        by_view: &ByView,
    ) -> Option<(WhyNobody, RevokeReason)> {
        if self.viewed.awaited {
            return Some((WhyNobody::Pending, RevokeReason::moved));
        }
        let (ByView::Names(named), Some(shown)) = (by_view, &self.viewed.shown) else {
            return None;
        };
        let claim = self.record(id)?.latest.as_ref()?.claim.as_ref()?;
        if named.node == Some(id) {
            return None;
        }
        let higher = named.timeline > claim.timeline;
        if self.reign.as_ref().is_none_or(|reign| reign.id != id) {
            let waits = higher || named.node.is_some();
            return waits.then_some((WhyNobody::Pending, RevokeReason::moved));
        }
        let unheard = named
            .node
            .and_then(|node| self.record(node))
            .is_none_or(|other| other.silent >= shown.sent);
        (higher && unheard && claim.sent >= shown.sent)
            .then_some((WhyNobody::Conflict, RevokeReason::conflict))
    }

    /// Said once an episode.
    pub(super) fn note_conflict_in_view(&mut self, by_view: &ByView) {
        let conflict = *by_view == ByView::Conflict;
        if conflict
            && !self.viewed.conflict_said
            && let Some(shown) = &self.viewed.shown
        {
            let names: Vec<_> = shown.leaders.iter().map(|named| &*named.name).collect();
            tracing::error!(
                claimants = names.join(", "),
                "conflict: by its own view the cluster has several leaders; nobody is routed to"
            );
        }
        self.viewed.conflict_said = conflict;
    }

    fn weigh_view(&self, shown: &Shown, now: BootTime) -> ByView {
        let left: Vec<_> = shown
            .leaders
            .iter()
            .filter(|named| !self.is_denied(named, shown, now))
            .collect();
        let is_news = left.iter().any(|named| !self.is_old(named, shown, now));
        match left[..] {
            _ if shown.leaders.is_empty() => ByView::Nobody,
            _ if !is_news => ByView::Old,
            [named] => ByView::Names(named.clone()),
            _ => ByView::Conflict,
        }
    }

    /// It says itself that it follows. Of one leader that counts when it was asked after the view: a replica that is
    /// promoted was following a moment ago. Of several, its newest word counts.
    fn is_denied(&self, named: &Named, shown: &Shown, now: BootTime) -> bool {
        let Some(record) = named.node.and_then(|id| self.record(id)) else {
            return false;
        };
        let lasts = self.settings.lease_timeout;
        record.latest.as_ref().is_some_and(|latest| {
            let newest = record.failures == 0 && now < latest.sent + lasts;
            let several = shown.leaders.len() > 1;
            latest.evidence == Evidence::Follows && (latest.sent >= shown.sent || several && newest)
        })
    }

    /// A higher timeline is known, or another node that leads was asked after the view. What a node says of itself is
    /// newer: the DCS learns its next timeline a moment later.
    fn is_old(&self, named: &Named, shown: &Shown, now: BootTime) -> bool {
        let itself = named.node.and_then(|id| self.record(id));
        if itself.is_some_and(|r| r.promotes(now, self.settings.lease_timeout)) {
            return false;
        }
        let own = itself.and_then(|record| record.claim(now));
        let timeline = named.timeline.max(own.and_then(|claim| claim.timeline));
        let lower = |known| timeline.is_some() && timeline < known;
        let others = self.records.iter();
        let others = others.filter(|r| Some(r.id) != named.node && !self.is_double(r));
        let mut claims = others.filter_map(|record| record.claim(now));
        lower(self.pins.highest_timeline)
            || claims.any(|claim| {
                let later = claim.sent >= shown.sent && claim.timeline >= timeline;
                lower(claim.timeline) || later && itself.is_some() && own.is_none()
            })
    }

    /// Whoever a view names is asked, and the present leader, if the view does not name it.
    fn whom_to_ask(&self, shown: &Shown) -> Vec<NodeId> {
        let present = self.reign.as_ref().map(|reign| reign.id);
        if let ([only], Some(_)) = (&shown.leaders[..], present)
            && only.node == present
        {
            return Vec::new();
        }
        let named = shown.leaders.iter().filter_map(|named| named.node);
        let others = named.filter(|id| Some(*id) != present);
        others.chain(present).collect()
    }

    /// Which node each member is. A name is not enough where another member has the node's address.
    fn nodes_of(&self, view: &View) -> Vec<Option<NodeId>> {
        let has = |member: &Member, r: &Record| {
            member.has_address_of(&r.settings, r.dial) && !self.is_double(r)
        };
        let by_address = |member| self.records.iter().find(|r| has(member, r));
        let by_name = |member: &Member| {
            self.records.iter().find(|r| {
                r.discovered.is_none()
                    && r.settings.name == member.name
                    && !view.members.iter().any(|other| has(other, r))
            })
        };
        let node = |member| by_address(member).or_else(|| by_name(member));
        view.members.iter().map(|m| node(m).map(|r| r.id)).collect()
    }

    fn is_of_another_cluster(&mut self, seen: &ViewSeen) -> bool {
        let (Some(expected), Some(named)) = (&self.pins.scope, &seen.view.scope) else {
            return false;
        };
        if expected == named {
            self.viewed.foreign.remove(&seen.endpoint);
            return false;
        }
        if self.viewed.foreign.insert(Arc::clone(&seen.endpoint)) {
            tracing::warn!(
                endpoint = &*seen.endpoint, scope = %named, %expected,
                "the endpoint shows another cluster and is ignored"
            );
        }
        true
    }
}
