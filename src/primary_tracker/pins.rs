//! Which cluster this is: scope, system identifier, and the highest timeline that has led.

use std::sync::Arc;
use std::time::Duration;

use super::heir::Pinned;
use super::record::Claim;
use crate::clock::BootTime;
use crate::topology::Answer;

/// A learnt identifier gives way when no node has shown it for so long.
const FORGOTTEN: Duration = Duration::from_secs(30);

/// What is known of the cluster's identity, configured or learnt from the first leader.
#[derive(Debug)]
pub(super) struct Pins {
    pub(super) scope: Option<Arc<str>>,
    identifier: Option<Arc<str>>,
    /// A configured identifier never gives way.
    identifier_configured: bool,
    /// When a node last showed `identifier`.
    shown: BootTime,
    /// The one other identifier that leads, and since when: time in which nobody was heard does not count.
    successor: Option<(Arc<str>, BootTime)>,
    /// The highest timeline that has led under `identifier`.
    pub(super) highest_timeline: Option<u32>,
    /// When the question was sent whose answer raised it: what was said before is history, not contradiction.
    raised: BootTime,
}

/// How an answer's cluster differs from the pinned one.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Foreign {
    Scope(Arc<str>),
    Identifier(Arc<str>),
}

impl Pins {
    pub(super) fn new(scope: Option<Arc<str>>, identifier: Option<Arc<str>>) -> Self {
        Self {
            scope,
            identifier_configured: identifier.is_some(),
            identifier,
            shown: BootTime::ZERO,
            successor: None,
            highest_timeline: None,
            raised: BootTime::ZERO,
        }
    }

    /// What a reload configures replaces what was learnt; what it no longer configures stays, as learnt.
    pub(super) fn reconfigure(&mut self, scope: Option<Arc<str>>, identifier: Option<Arc<str>>) {
        self.scope = scope.or(self.scope.take());
        self.identifier_configured = identifier.is_some();
        if identifier.is_some() && identifier != self.identifier {
            self.identifier = identifier;
            self.highest_timeline = None;
        }
    }

    /// As a plain value, for the next process.
    pub(super) fn leave(&self) -> Pinned {
        Pinned {
            scope: self.scope.as_deref().map(str::to_owned),
            identifier: self.identifier.as_deref().map(str::to_owned),
            shown: self.shown,
            highest_timeline: self.highest_timeline,
            raised: self.raised,
        }
    }

    /// What the configuration names goes before what was learnt, and timelines belong to their identifier.
    pub(super) fn inherit(&mut self, left: &Pinned) {
        if self.scope.is_none() {
            self.scope = left.scope.as_deref().map(Into::into);
        }
        if self.identifier.is_none() {
            self.identifier = left.identifier.as_deref().map(Into::into);
        }
        if self.identifier.as_deref() != left.identifier.as_deref() {
            return;
        }
        self.shown = self.shown.max(left.shown);
        if left.highest_timeline > self.highest_timeline {
            self.highest_timeline = left.highest_timeline;
            self.raised = left.raised;
        }
    }

    pub(super) fn identifier(&self) -> Option<&str> {
        self.identifier.as_deref()
    }

    /// Is this another cluster? What an answer leaves out distinguishes nothing.
    pub(super) fn foreign(&mut self, said: &Answer, now: BootTime) -> Option<Foreign> {
        if let (Some(pinned), Some(named)) = (&self.scope, &said.scope)
            && pinned != named
        {
            return Some(Foreign::Scope(Arc::clone(named)));
        }
        match (&self.identifier, &said.system_identifier) {
            (Some(known), Some(named)) if known != named => {
                Some(Foreign::Identifier(Arc::clone(named)))
            }
            (Some(_), Some(_)) => {
                self.shown = now;
                None
            }
            _ => None,
        }
    }

    /// A leader of an older timeline than the last one of this identifier.
    pub(super) fn is_stale(&self, claim: &Claim) -> bool {
        claim.timeline.is_some() && claim.timeline < self.highest_timeline
    }

    /// It was made after the newer leader's: a dead leader's last word, before that, contradicts nobody.
    pub(super) fn contradicts(&self, claim: &Claim) -> bool {
        self.is_stale(claim) && claim.sent > self.raised
    }

    /// This claim is authorised: it pins what is not pinned yet.
    pub(super) fn learn(&mut self, claim: &Claim, now: BootTime) {
        if self.scope.is_none() {
            self.scope.clone_from(&claim.scope);
        }
        if self.identifier.is_none() && claim.identifier.is_some() {
            self.identifier.clone_from(&claim.identifier);
            self.shown = now;
        }
        if claim.timeline > self.highest_timeline {
            self.highest_timeline = claim.timeline;
            self.raised = claim.sent;
        }
    }

    /// What `pg_upgrade` and a re-bootstrap look like: no node has shown the learnt identifier for 30 s, and
    /// exactly one other leads. Forgets the old one with its timelines; the new one's leader is learnt as any is.
    pub(super) fn give_way<'a>(
        &mut self,
        foreign: impl Iterator<Item = &'a Claim>,
        now: BootTime,
    ) -> Option<(Arc<str>, Arc<str>)> {
        let mut others = foreign
            .filter(|claim| now < claim.until)
            .filter_map(|claim| claim.identifier.as_ref());
        let other = others.next().map(Arc::clone);
        let other = other.filter(|first| others.all(|another| another == first));
        self.successor = match (other, self.successor.take()) {
            (Some(other), Some((known, since))) if known == other => Some((other, since)),
            (Some(other), _) => Some((other, now)),
            (None, _) => None,
        };
        let (other, since) = self.successor.as_ref()?;
        let is_long = |at: BootTime| now.saturating_sub(at) >= FORGOTTEN;
        if self.identifier_configured || !is_long(self.shown) || !is_long(*since) {
            return None;
        }
        let other = Arc::clone(other);
        let before = self.identifier.replace(Arc::clone(&other))?;
        self.successor = None;
        self.shown = now;
        self.highest_timeline = None;
        Some((before, other))
    }
}
