//! Who leads by somebody's word, and until when: the state machine behind the public tracker, without clock or lock.

use std::time::{Duration, Instant};

use uuid::Uuid;

use super::PrimaryInfo;
use crate::clock::BootTime;

/// What subscribers of a tracker hear: exactly one for each transition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PrimaryChangeEvent {
    /// A new primary was set, by the provider or by hand.
    Changed {
        /// Who led until now.
        old: Option<Uuid>,
        /// Who leads from now on.
        new: Uuid,
        /// Where clients reach it.
        address: String,
    },
    /// The primary is gone and nobody leads.
    Lost {
        /// Who led.
        old: Uuid,
    },
    /// The pending primary was confirmed.
    Confirmed {
        /// Who.
        node_id: Uuid,
    },
}

/// A leader as somebody names it.
#[derive(Clone, Debug)]
pub(super) struct Named {
    pub(super) node_id: Uuid,
    pub(super) address: String,
    pub(super) timeline: Option<u32>,
    pub(super) confirmed: bool,
}

/// A moment, on both clocks: leases are measured with one, people are shown the other.
#[derive(Clone, Copy, Debug)]
pub(super) struct Now {
    pub(super) at: BootTime,
    pub(super) instant: Instant,
}

/// Holds the present leader, the epoch, and what was last told. `now` is an argument.
///
/// Each method does one thing and answers with the one event of the transition that was, if there was one; a lease that
/// has ended meanwhile is part of it.
#[derive(Debug)]
pub(super) struct Authority {
    pub(super) lease_timeout: Duration,
    epoch: u64,
    /// Stays when it falls silent, for it comes back with its epoch; goes when it is revoked, and never comes back.
    reign: Option<Reign>,
    /// What the last event left the subscribers with.
    told: Option<Told>,
}

#[derive(Debug)]
struct Reign {
    info: PrimaryInfo,
    timeline: Option<u32>,
    /// When the question of its newest proof was sent.
    asked: BootTime,
    /// `None` stands until changed.
    until: Option<BootTime>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Told {
    node_id: Uuid,
    epoch: u64,
    confirmed: bool,
}

impl Authority {
    pub(super) fn new(lease_timeout: Duration) -> Self {
        Self {
            lease_timeout,
            epoch: 0,
            reign: None,
            told: None,
        }
    }

    /// A provider names the leader by the answer to a question sent at `asked`. The lease counts from there, and ends no
    /// later than `ends`.
    pub(super) fn hear(
        &mut self,
        named: Named,
        asked: BootTime,
        ends: Option<BootTime>,
        now: Now,
    ) -> Option<PrimaryChangeEvent> {
        // A question cannot have been sent later than now.
        let asked = asked.min(now.at);
        let lease_ends = asked + self.lease_timeout;
        let until = ends.map_or(lease_ends, |ends| ends.min(lease_ends));
        match &mut self.reign {
            Some(reign) if reign.is_same(&named) => {
                let first_word = named.confirmed && !reign.info.is_confirmed;
                if first_word || asked >= reign.asked {
                    (reign.asked, reign.until) = (asked, Some(until));
                }
                reign.timeline = if first_word {
                    named.timeline
                } else {
                    reign.timeline.or(named.timeline)
                };
                reign.info.is_confirmed |= named.confirmed;
                reign.info.address = named.address;
            }
            _ if now.at < until => self.begin(named, asked, Some(until), now),
            // Another one leads, but its proof is too old to follow it: nobody.
            _ => self.reign = None,
        }
        self.settle(now)
    }

    /// Named by hand: pending, without an end. Each order begins an epoch.
    pub(super) fn set(
        &mut self,
        node_id: Uuid,
        address: String,
        now: Now,
    ) -> Option<PrimaryChangeEvent> {
        let named = Named {
            node_id,
            address,
            timeline: None,
            confirmed: false,
        };
        self.begin(named, now.at, None, now);
        self.settle(now)
    }

    pub(super) fn confirm(&mut self, now: Now) -> Option<PrimaryChangeEvent> {
        if let Some(reign) = &mut self.reign {
            reign.info.is_confirmed = true;
        }
        self.settle(now)
    }

    /// Proof that nobody leads, or an order to that effect: a revoked epoch never comes back.
    pub(super) fn clear(&mut self, now: Now) -> Option<PrimaryChangeEvent> {
        self.reign = None;
        self.settle(now)
    }

    /// Has the lease ended?
    pub(super) fn settle(&mut self, now: Now) -> Option<PrimaryChangeEvent> {
        let present = self.present(now.at).map(|reign| Told {
            node_id: reign.info.node_id,
            epoch: reign.info.epoch,
            confirmed: reign.info.is_confirmed,
        });
        let before = std::mem::replace(&mut self.told, present);
        match (before, present) {
            (Some(before), None) => Some(PrimaryChangeEvent::Lost {
                old: before.node_id,
            }),
            (before, Some(new)) if before.is_none_or(|before| before.epoch != new.epoch) => {
                Some(PrimaryChangeEvent::Changed {
                    old: before.map(|before| before.node_id),
                    new: new.node_id,
                    address: self.reign.as_ref()?.info.address.clone(),
                })
            }
            (Some(before), Some(new)) if before.confirmed != new.confirmed => {
                Some(PrimaryChangeEvent::Confirmed {
                    node_id: new.node_id,
                })
            }
            _ => None,
        }
    }

    /// Who leads at `now`.
    pub(super) fn primary(&self, now: BootTime) -> Option<&PrimaryInfo> {
        self.present(now).map(|reign| &reign.info)
    }

    /// May the primary be written to at `now`? A pending one may not: nothing is routed to a node before it was proved.
    pub(super) fn is_valid(&self, now: BootTime) -> bool {
        self.primary(now).is_some_and(|info| info.is_confirmed)
    }

    /// When the present lease ends, if it does.
    pub(super) fn ends(&self, now: BootTime) -> Option<BootTime> {
        self.present(now)?.until
    }

    /// Is this the leader, or the one that only fell silent?
    pub(super) fn is_held_by(&self, node_id: Uuid) -> bool {
        let holder = self.reign.as_ref().map(|reign| reign.info.node_id);
        holder == Some(node_id)
    }

    pub(super) fn epoch(&self) -> u64 {
        self.epoch
    }

    fn present(&self, now: BootTime) -> Option<&Reign> {
        let lasts = |reign: &&Reign| reign.until.is_none_or(|until| now < until);
        self.reign.as_ref().filter(lasts)
    }

    fn begin(&mut self, named: Named, asked: BootTime, until: Option<BootTime>, now: Now) {
        self.epoch += 1;
        self.reign = Some(Reign {
            info: PrimaryInfo {
                node_id: named.node_id,
                address: named.address,
                became_primary_at: now.instant,
                is_confirmed: named.confirmed,
                epoch: self.epoch,
            },
            timeline: named.timeline,
            asked,
            until,
        });
    }
}

impl Reign {
    /// The same node at the same address on the same timeline; one that is left out is the same. Of a pending one both
    /// are hearsay: its own word may come from what the name means, and a cluster's view is a timeline behind for a
    /// moment after a promotion.
    fn is_same(&self, named: &Named) -> bool {
        let same_timeline =
            self.timeline.is_none() || named.timeline.is_none() || self.timeline == named.timeline;
        let agrees = self.info.address == named.address && same_timeline;
        self.info.node_id == named.node_id && (agrees || !self.info.is_confirmed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use PrimaryChangeEvent::{Changed, Confirmed, Lost};

    const LEASE: Duration = Duration::from_secs(10);

    struct Stage {
        authority: Authority,
        now: Now,
    }

    fn id(n: u8) -> Uuid {
        Uuid::from_u128(n.into())
    }

    fn named(n: u8) -> Named {
        Named {
            node_id: id(n),
            address: format!("10.0.0.{n}:5432"),
            timeline: Some(5),
            confirmed: true,
        }
    }

    fn changed(old: Option<u8>, new: u8) -> Option<PrimaryChangeEvent> {
        Some(Changed {
            old: old.map(id),
            new: id(new),
            address: named(new).address,
        })
    }

    impl Stage {
        fn new() -> Self {
            Self {
                authority: Authority::new(LEASE),
                now: Now {
                    at: BootTime::ZERO + Duration::from_secs(3600),
                    instant: Instant::now(),
                },
            }
        }

        fn pass(&mut self, secs: u64) -> Option<PrimaryChangeEvent> {
            self.now.at = self.now.at + Duration::from_secs(secs);
            self.authority.settle(self.now)
        }

        /// An answer to a question sent just now.
        fn hear(&mut self, named: Named) -> Option<PrimaryChangeEvent> {
            self.authority.hear(named, self.now.at, None, self.now)
        }

        fn leads(&self) -> Option<(Uuid, u64)> {
            let info = self.authority.primary(self.now.at)?;
            Some((info.node_id, info.epoch))
        }
    }

    #[test]
    fn the_same_leader_heard_again_is_no_change() {
        let mut stage = Stage::new();
        assert_eq!(stage.authority.epoch(), 0);

        assert_eq!(stage.hear(named(1)), changed(None, 1));
        assert_eq!(stage.pass(9), None);
        assert_eq!(stage.hear(named(1)), None);
        assert_eq!(stage.pass(9), None);

        assert_eq!(stage.leads(), Some((id(1), 1)));
    }

    #[test]
    fn a_to_b_to_a_is_two_changes_and_a_timeline_is_one() {
        let mut stage = Stage::new();
        stage.hear(named(1));

        assert_eq!(stage.hear(named(2)), changed(Some(1), 2));
        assert_eq!(stage.hear(named(1)), changed(Some(2), 1));
        let next = Named {
            timeline: Some(6),
            ..named(1)
        };
        assert_eq!(stage.hear(next), changed(Some(1), 1));

        assert_eq!(stage.leads(), Some((id(1), 4)));
    }

    #[test]
    fn the_lease_counts_from_the_question_and_its_end_is_told_once() {
        let mut stage = Stage::new();
        stage.pass(4);
        let asked = stage.now.at;
        stage.pass(4);
        stage.authority.hear(named(1), asked, None, stage.now);

        assert_eq!(stage.pass(5), None);
        assert!(stage.authority.is_valid(stage.now.at));
        assert_eq!(stage.pass(1), Some(Lost { old: id(1) }));
        assert!(!stage.authority.is_valid(stage.now.at));
        assert_eq!(stage.pass(1), None);
    }

    #[test]
    fn one_that_only_fell_silent_comes_back_with_its_epoch() {
        let mut stage = Stage::new();
        stage.hear(named(1));
        assert_eq!(stage.pass(10), Some(Lost { old: id(1) }));

        assert_eq!(stage.hear(named(1)), changed(None, 1));
        assert_eq!(stage.leads(), Some((id(1), 1)));
    }

    #[test]
    fn a_revoked_epoch_never_comes_back() {
        let mut stage = Stage::new();
        stage.hear(named(1));
        assert_eq!(stage.authority.clear(stage.now), Some(Lost { old: id(1) }));
        assert_eq!(stage.authority.clear(stage.now), None);

        assert_eq!(stage.hear(named(1)), changed(None, 1));
        assert_eq!(stage.leads(), Some((id(1), 2)));
    }

    #[test]
    fn one_that_fell_silent_and_then_was_disproved_does_not_come_back() {
        let mut stage = Stage::new();
        stage.hear(named(1));
        stage.pass(10);
        assert_eq!(stage.authority.clear(stage.now), None);

        stage.hear(named(1));
        assert_eq!(stage.leads(), Some((id(1), 2)));
    }

    #[test]
    fn a_proof_that_is_over_when_it_comes_ends_the_old_leader_and_makes_no_new_one() {
        let mut stage = Stage::new();
        let long_ago = stage.now.at;
        stage.pass(10);
        stage.hear(named(1));

        let event = stage.authority.hear(named(2), long_ago, None, stage.now);

        assert_eq!(event, Some(Lost { old: id(1) }));
        assert_eq!(stage.authority.epoch(), 1);
    }

    #[test]
    fn a_late_answer_to_an_early_question_takes_nothing_back() {
        let mut stage = Stage::new();
        let early = stage.now.at;
        stage.pass(5);
        stage.hear(named(1));

        stage.authority.hear(named(1), early, None, stage.now);

        assert_eq!(
            stage.authority.ends(stage.now.at),
            Some(stage.now.at + LEASE)
        );
    }

    #[test]
    fn an_earlier_end_only_shortens() {
        let mut stage = Stage::new();
        let (soon, late) = (
            stage.now.at + Duration::from_secs(3),
            stage.now.at + LEASE * 2,
        );

        stage
            .authority
            .hear(named(1), stage.now.at, Some(late), stage.now);
        assert_eq!(
            stage.authority.ends(stage.now.at),
            Some(stage.now.at + LEASE)
        );
        stage
            .authority
            .hear(named(1), stage.now.at, Some(soon), stage.now);
        assert_eq!(stage.pass(3), Some(Lost { old: id(1) }));
    }

    #[test]
    fn pending_has_no_authority_until_it_is_confirmed() {
        let mut stage = Stage::new();
        let pending = Named {
            confirmed: false,
            ..named(1)
        };
        assert_eq!(stage.hear(pending.clone()), changed(None, 1));
        assert!(!stage.authority.is_valid(stage.now.at));

        assert_eq!(stage.hear(named(1)), Some(Confirmed { node_id: id(1) }));
        assert!(stage.authority.is_valid(stage.now.at));
        assert_eq!(stage.hear(pending), None);
        assert!(stage.authority.is_valid(stage.now.at));
    }

    #[test]
    fn a_pending_leaders_own_word_may_come_from_another_address() {
        let mut stage = Stage::new();
        let pending = Named {
            address: "pg1:5432".to_owned(),
            confirmed: false,
            ..named(1)
        };
        stage.hear(pending);

        assert_eq!(stage.hear(named(1)), Some(Confirmed { node_id: id(1) }));
        let info = stage.authority.primary(stage.now.at).unwrap();
        assert_eq!((&*info.address, info.epoch), ("10.0.0.1:5432", 1));
    }

    #[test]
    fn a_pending_leader_that_was_just_promoted_is_confirmed_on_its_own_timeline_and_from_its_own_question()
     {
        let mut stage = Stage::new();
        let asked = stage.now.at;
        stage.pass(2);
        let pending = Named {
            timeline: Some(4),
            confirmed: false,
            ..named(1)
        };
        assert_eq!(stage.hear(pending), changed(None, 1));

        // Sent before the view was shown, answered after it.
        let told = stage.authority.hear(named(1), asked, None, stage.now);

        assert_eq!(told, Some(Confirmed { node_id: id(1) }));
        assert_eq!(stage.leads(), Some((id(1), 1)));
        assert_eq!(stage.authority.ends(stage.now.at), Some(asked + LEASE));
        assert_eq!(stage.hear(named(1)), None, "on the timeline that it named");
    }

    #[test]
    fn by_hand_there_is_no_lease_and_each_order_is_an_epoch() {
        let mut stage = Stage::new();
        let set = |stage: &mut Stage| stage.authority.set(id(1), named(1).address, stage.now);
        assert_eq!(set(&mut stage), changed(None, 1));
        assert_eq!(
            stage.authority.confirm(stage.now),
            Some(Confirmed { node_id: id(1) })
        );
        assert_eq!(stage.authority.confirm(stage.now), None);
        assert_eq!(stage.pass(1_000_000), None);
        assert!(stage.authority.is_valid(stage.now.at));

        assert_eq!(set(&mut stage), changed(Some(1), 1));
        assert_eq!(stage.leads(), Some((id(1), 2)));
        assert!(!stage.authority.is_valid(stage.now.at));
    }
}
