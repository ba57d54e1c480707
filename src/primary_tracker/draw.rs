//! Drawing the picture: what was decided and what is known, for everybody outside.

use std::time::Duration;

use super::record::Record;
use super::{NodePicture, Pending, Picture, Tracker, WhyNobody};
use crate::clock::BootTime;

/// The first round is over by then, whoever is silent.
const FIRST_ROUND: Duration = Duration::from_secs(2);

impl Tracker {
    pub(super) fn publish(&self, now: BootTime) {
        let decider = &self.decider;
        let reign = decider.reign.as_ref();
        let leader = reign.and_then(|reign| decider.record(reign.id));
        let named = || {
            let mut latest = decider.records.iter().filter_map(|r| r.latest.as_ref());
            latest.find_map(|l| l.answer.scope.clone())
        };
        let enabled = leader.is_some_and(|record| record.is_enabled());
        let valid = reign.is_some_and(|r| r.open && now < r.until) && enabled;
        let picture = Picture {
            provider: decider.settings.provider,
            lease: reign.map(|r| r.lease(self.poller.usual(r.id), enabled)),
            why: (!valid).then(|| decider.why.unwrap_or(WhyNobody::NoProof)),
            epoch: decider.epoch,
            pending: (!valid)
                .then(|| decider.pending(now))
                .flatten()
                .map(pending),
            scope: decider.pins.scope.clone().or_else(named),
            nodes: decider
                .records
                .iter()
                .filter(|record| record.is_used())
                .map(|record| {
                    let leads = reign.is_some_and(|r| r.id == record.id);
                    let verdict = decider.verdict(record, now);
                    NodePicture {
                        forced: self.chaos.is_silenced(record.id),
                        ..record.picture(leads, verdict)
                    }
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
            lease_timeout: decider.settings.lease_timeout,
        };
        // Whoever waits is woken by what it may wait for; the rest is there for whoever looks.
        self.picture.send_if_modified(|before| {
            let is_news = picture.is_news_after(before);
            *before = picture;
            is_news
        });
    }
}

fn pending((record, timeline): (&Record, Option<u32>)) -> Pending {
    Pending {
        node_id: record.node_id,
        address: record.settings.address().into(),
        timeline,
    }
}
