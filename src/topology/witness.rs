//! Asking a node what it sees of the cluster, while the leader itself is silent.

use std::sync::Arc;
use std::time::Duration;

use super::cadence::{LeaderInterval, Pace, Tempo};
use super::question::{Question, ask};
use super::rest::Rest;
use super::{HealthSettings, NodeId, Place, View};
use crate::clock::{BootTime, Clock};

/// What a node sees.
#[derive(Debug)]
pub(crate) struct Sight {
    pub(crate) node: NodeId,
    /// When its question was sent.
    pub(crate) sent: BootTime,
    pub(crate) view: View,
}

/// A look that has ended.
pub(super) struct Looked {
    pub(super) node: NodeId,
    sent: BootTime,
    /// From question to answer, and the node's own time of that.
    took: Option<(Duration, Duration)>,
    view: Option<View>,
}

impl Looked {
    pub(super) fn sight(self) -> Option<Sight> {
        Some(Sight {
            node: self.node,
            sent: self.sent,
            view: self.view?,
        })
    }
}

/// How one node is asked: in the rhythm of a leader, which is silent now, at rest or in use. Doubt makes it no
/// faster, for a lease is a question of seconds, and the brake is the node's own.
#[derive(Debug)]
pub(super) struct Witness {
    tempo: Tempo,
    /// Another one's word is good enough until then: one is asked instead of the leader, not all.
    rests_until: BootTime,
}

impl Default for Witness {
    fn default() -> Self {
        Self {
            tempo: Tempo::of_a_leader(),
            rests_until: BootTime::ZERO,
        }
    }
}

impl Witness {
    /// When to ask next, not before `since`; `None` while a question is under way.
    pub(super) fn next(
        &self,
        since: BootTime,
        pace: Pace,
        s: &HealthSettings,
        leader: LeaderInterval,
        jitter: f32,
    ) -> Option<BootTime> {
        let due = self.tempo.next(calm(pace), s, leader, jitter)?;
        let from = since.max(self.rests_until);
        self.tempo.under_way.is_empty().then(|| due.max(from))
    }

    pub(super) fn rest_until(&mut self, when: BootTime) {
        self.rests_until = when;
    }

    pub(super) fn sent(&mut self, now: BootTime, pace: Pace, s: &HealthSettings) {
        self.tempo.sent(now, calm(pace), s);
    }

    pub(super) fn ended(&mut self, looked: &Looked) {
        self.tempo.ended(looked.sent, looked.took);
    }

    pub(super) fn want(&mut self, since: BootTime) {
        self.tempo.want(since, since);
    }

    pub(super) fn under_way(&self) -> usize {
        self.tempo.under_way.len()
    }

    pub(super) fn forget_before(&mut self, when: BootTime) {
        self.tempo.forget_before(when);
    }
}

fn calm(pace: Pace) -> Pace {
    Pace {
        in_use: pace.in_use || pace.held,
        ..Pace::default()
    }
}

/// `GET /cluster`, sent now.
pub(super) async fn look(
    node: NodeId,
    sent: BootTime,
    place: Place,
    rest: Arc<Rest>,
    clock: Clock,
) -> Looked {
    let path = "/cluster";
    let reply = ask(Question { place, rest, path }, clock).await.ok();
    let took = |own_time| (clock.now().saturating_sub(sent), own_time);
    Looked {
        node,
        sent,
        took: reply.as_ref().map(|reply| took(reply.own_time)),
        view: reply.and_then(|reply| View::read(reply.status, &reply.body)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const T0: BootTime = BootTime::ZERO;
    const LEASE_THIRD: LeaderInterval = LeaderInterval(Duration::from_millis(3333));

    fn next(witness: &Witness, since: BootTime, pace: Pace) -> Option<BootTime> {
        witness.next(since, pace, &HealthSettings::default(), LEASE_THIRD, 1.0)
    }

    fn asked() -> Witness {
        let mut witness = Witness::default();
        witness.sent(T0, Pace::default(), &HealthSettings::default());
        witness.ended(&Looked {
            node: NodeId(1),
            sent: T0,
            took: None,
            view: None,
        });
        witness
    }

    #[test]
    fn it_is_asked_at_once_when_the_silence_begins() {
        let since = T0 + Duration::from_secs(7);
        assert_eq!(
            next(&Witness::default(), since, Pace::default()),
            Some(since)
        );
    }

    #[test]
    fn it_is_asked_as_often_as_a_leader_and_doubt_makes_it_no_faster() {
        let doubt = Pace {
            doubt: true,
            lock_ends: true,
            ..Pace::default()
        };
        let ms = |at: Option<BootTime>| (at.unwrap() + Duration::from_micros(500)).as_millis();
        assert_eq!(ms(next(&asked(), T0, Pace::default())), 3333);
        assert_eq!(ms(next(&asked(), T0, doubt)), 3333);
        for busy in [
            Pace {
                in_use: true,
                ..doubt
            },
            Pace {
                held: true,
                ..doubt
            },
        ] {
            assert_eq!(ms(next(&asked(), T0, busy)), 1000);
        }
    }

    #[test]
    fn it_is_left_alone_while_another_ones_word_is_good() {
        let mut witness = Witness::default();
        let later = T0 + Duration::from_secs(3);
        witness.rest_until(later);
        witness.want(T0);
        assert_eq!(next(&witness, T0, Pace::default()), Some(later));
    }

    #[test]
    fn it_is_asked_one_question_at_a_time() {
        let mut witness = Witness::default();
        witness.sent(T0, Pace::default(), &HealthSettings::default());
        assert_eq!(next(&witness, T0, Pace::default()), None);
    }
}
