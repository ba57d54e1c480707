//! The line in the log that splits the gap of a leader change.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};

use super::Leader;
use crate::clock::BootTime;

/// The line is written with the first session at the new leader, or after so long without one.
const PATIENCE: Duration = Duration::from_secs(2);
/// So many changes are kept for who looks later.
const KEPT: usize = 20;

/// What happened between the last proof of one leader and the first session at the next.
#[derive(Debug, Default)]
pub(super) struct Gap {
    lost: Option<(Arc<str>, BootTime)>,
    promotion: Option<(Arc<str>, BootTime)>,
    /// The question of the newest proof of the present leader.
    last_proof: Option<BootTime>,
    owed: Option<Owed>,
    /// Newest first. Shared with each picture, so it is made anew with a change only.
    kept: Arc<[LeaderChange]>,
}

/// A change of leader, split into its parts. Times count from the last proof of the old leader, or from the first of
/// the new one where there was none.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct LeaderChange {
    /// When the new leader was first proved.
    pub(crate) at: SystemTime,
    pub(crate) node: Arc<str>,
    pub(crate) address: SocketAddr,
    pub(crate) epoch: u64,
    pub(crate) timeline: Option<u32>,
    pub(crate) was: Option<Arc<str>>,
    pub(crate) promotion_seen: Option<Duration>,
    pub(crate) first_proof: Duration,
    /// `None` until there is one; later than two seconds after the proof it is not waited for.
    pub(crate) first_session: Option<Duration>,
}

/// The newest of the kept changes, as long as its line is not written.
#[derive(Debug)]
struct Owed {
    /// What its times count from.
    from: BootTime,
    first_proof: BootTime,
}

impl Gap {
    pub(super) fn promotion(&mut self, node: Arc<str>, now: BootTime) {
        if self
            .promotion
            .as_ref()
            .is_none_or(|(seen, _)| *seen != node)
        {
            self.promotion = Some((node, now));
        }
    }

    pub(super) fn proof(&mut self, sent: BootTime) {
        self.last_proof = Some(sent);
    }

    pub(super) fn lost(&mut self, node: &Arc<str>, proved: BootTime) {
        self.lost = Some((Arc::clone(node), proved));
    }

    pub(super) fn begin(&mut self, leader: &Leader, epoch: u64, sent: BootTime, now: BootTime) {
        self.write(None);
        let was = self.lost.take();
        let from = was.as_ref().map_or(now, |(_, proved)| *proved);
        let promotion = self.promotion.take();
        let promotion = promotion.filter(|(node, _)| *node == leader.name);
        let change = LeaderChange {
            at: SystemTime::now(),
            node: Arc::clone(&leader.name),
            address: leader.addr,
            epoch,
            timeline: leader.timeline,
            was: was.map(|(node, _)| node),
            promotion_seen: promotion.map(|(_, at)| at.saturating_sub(from)),
            first_proof: now.saturating_sub(from),
            first_session: None,
        };
        let older = self.kept.iter().take(KEPT - 1).cloned();
        self.kept = std::iter::once(change).chain(older).collect();
        self.owed = Some(Owed {
            from,
            first_proof: now,
        });
        self.last_proof = Some(sent);
    }

    /// The last changes, newest first.
    pub(super) fn changes(&self) -> Arc<[LeaderChange]> {
        Arc::clone(&self.kept)
    }

    /// The changes that the process before this one has seen.
    pub(super) fn inherit(&mut self, changes: Vec<LeaderChange>) {
        self.kept = changes.into();
        self.owed = None;
    }

    /// When the line is written at the latest.
    pub(super) fn deadline(&self) -> Option<BootTime> {
        self.owed.as_ref().map(|owed| owed.first_proof + PATIENCE)
    }

    /// Writes the line, if one is owed: with the first session's time, or without.
    pub(super) fn write(&mut self, first_session: Option<BootTime>) {
        let Some(owed) = self.owed.take() else {
            return;
        };
        let mut kept = self.kept.to_vec();
        let Some(change) = kept.first_mut() else {
            return;
        };
        change.first_session = first_session.map(|at| at.saturating_sub(owed.from));
        let since = |part: Duration| format!("+{} ms", part.as_millis());
        let none = || "none seen".to_owned();
        tracing::info!(
            node = &*change.node,
            address = %change.address,
            epoch = change.epoch,
            timeline = change.timeline,
            was = change.was.as_deref(),
            promotion_seen = change.promotion_seen.map_or_else(none, since),
            first_proof = since(change.first_proof),
            first_session = change.first_session.map_or_else(none, since),
            "the leader is {}; times count from the last proof of the old one",
            change.node
        );
        self.kept = kept.into();
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    const START: BootTime = BootTime::ZERO;

    fn after(ms: u64) -> BootTime {
        START + Duration::from_millis(ms)
    }

    fn leader(name: &str) -> Leader {
        Leader {
            name: name.into(),
            node_id: Uuid::nil(),
            addr: ([127, 0, 0, 1], 5432).into(),
            timeline: Some(5),
        }
    }

    #[test]
    fn a_change_is_kept_with_the_split_of_its_gap() {
        let mut gap = Gap::default();
        gap.lost(&"pg1".into(), START);
        gap.promotion("pg2".into(), after(2_000));
        gap.begin(&leader("pg2"), 2, after(2_090), after(2_100));
        assert_eq!(gap.changes()[0].first_session, None);

        gap.write(Some(after(2_120)));

        let kept = gap.changes();
        let ms = |d: Duration| d.as_millis();
        assert_eq!(
            (&*kept[0].node, kept[0].was.as_deref()),
            ("pg2", Some("pg1"))
        );
        assert_eq!(kept[0].promotion_seen.map(ms), Some(2_000));
        assert_eq!(ms(kept[0].first_proof), 2_100);
        assert_eq!(kept[0].first_session.map(ms), Some(2_120));
    }

    #[test]
    fn the_newest_change_comes_first_and_the_oldest_are_forgotten() {
        let mut gap = Gap::default();
        for epoch in 1..=30 {
            gap.begin(&leader("pg1"), epoch, after(epoch), after(epoch));
        }

        let epochs: Vec<_> = gap.changes().iter().map(|change| change.epoch).collect();
        assert_eq!(epochs, (11..=30).rev().collect::<Vec<_>>());
    }
}
