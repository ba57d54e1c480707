//! When a node is asked next: pure, and the whole of it.

use std::time::Duration;

use super::HealthSettings;
use crate::clock::BootTime;

/// Two hundred proxies in the same doubt must not slow a Patroni: a question costs it about 0.7 ms of CPU in the
/// process that keeps its lock, so an interval is never shorter than this many times the node's own time for its
/// answers of the last while …
const BRAKE: u32 = 25;
/// … which is about so long …
const WHILE: Duration = Duration::from_secs(15);
/// … and than this many times what its last few answers took …
const BRAKE_IN_A_SPELL: u32 = 100;
/// … beyond this. A Patroni in an election is busy by itself: as long as it waits, two seconds, for a member that is cut
/// off, each answer waits for Python's lock, which changes hands every 5 ms, once to three times; 9 to 11 ms in the mean.
const BUSY_BY_ITSELF: Duration = Duration::from_millis(10);
/// … up to here.
const BRAKE_MOST: Duration = Duration::from_secs(1);
/// Whatever makes one proxy doubt makes a whole fleet doubt in the same moment: the first question to a node that does
/// not lead comes within so many fast intervals.
const SPREAD: u32 = 3;
/// A follower that knows of a held lock is asked so many fast intervals apart: it says that the lock is free before it
/// leads, mostly 100 to 200 ms before …
const WHILE_LOCKED: u32 = 2;
/// … and around the end of a dead leader's lock not closer than this many times its own time for its answers of the last
/// while …
const BRAKE_AT_THE_LOCKS_END: u32 = 200;
/// … up to so many fast intervals. A question to a replica that knows of no lock costs ten times as much: without a
/// leader's timeline Patroni asks PostgreSQL for its own on a new replication connection (`replica_cached_timeline`,
/// 3.0.2 to 4.1.5). A fleet that is together in doubt by then holds up the very election that it waits for. On a quiet
/// machine a proxy alone sees 1.0 to 1.3 ms, each of two hundred 1.5 to 4 ms.
const AT_THE_LOCKS_END: u32 = 4;
/// A single answer's share in a smoothed time, at most.
const FEW: f32 = 1.0 / 8.0;
/// So many fast questions a node, then they slow down.
const FAST_QUESTIONS: u32 = 40;
const SLOW_WHILE_HELD: Duration = Duration::from_millis(500);
const SLOW: Duration = Duration::from_secs(1);

/// What all nodes are asked for, as the tracker sees it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Pace {
    /// Something is unclear: every node now, then fast.
    pub(crate) doubt: bool,
    /// Clients are waiting.
    pub(crate) held: bool,
    /// A read-write session is open or was within the last 10 s.
    pub(crate) in_use: bool,
    /// A dead leader's lock runs out about now.
    pub(crate) lock_ends: bool,
}

/// A third of the lease: the leader is asked at least so often, whatever `check_interval` says.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LeaderInterval(pub(crate) Duration);

/// How one node has been asked and has answered so far.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tempo {
    pub(crate) last_sent: Option<BootTime>,
    /// When the questions under way were sent, oldest first; at most two.
    pub(crate) under_way: Vec<BootTime>,
    /// Answer time, smoothed; `None` before the first answer.
    pub(crate) usual: Option<Duration>,
    /// The node's own time for an answer, smoothed over a few answers.
    pub(crate) own_time: Duration,
    /// The same, over a while.
    pub(crate) lasting: Duration,
    /// When the last question that was answered had been sent.
    pub(crate) answered: Option<BootTime>,
    /// Fast questions since the last fact.
    pub(crate) fast: u32,
    /// The last interval, once the fast ones are used up.
    pub(crate) slowed: Option<Duration>,
    /// Answers, but is not up yet.
    pub(crate) rising: bool,
    pub(crate) leads: bool,
    /// Follows, and knows that a leader's lock is held.
    pub(crate) knows_a_lock: bool,
    /// An answer is wanted, from this time on: the brake alone holds it back.
    pub(crate) wanted: Option<BootTime>,
}

impl Tempo {
    pub(crate) fn of_a_leader() -> Self {
        Self {
            leads: true,
            ..Self::default()
        }
    }

    /// The interval from the last sending to the next, before the brake and without jitter.
    fn interval(&self, pace: Pace, s: &HealthSettings, leader: LeaderInterval) -> Duration {
        let mut rest = s.check_interval;
        if self.leads {
            rest = rest.min(leader.0);
            if pace.in_use {
                rest = rest.min(s.active_interval);
            }
        }
        if self.rising {
            rest = rest.min(s.fast_interval);
        }
        if pace.doubt {
            rest = rest.min(self.in_doubt(pace, s));
        }
        rest
    }

    fn in_doubt(&self, pace: Pace, s: &HealthSettings) -> Duration {
        let fast = self.fast_interval(pace, s);
        if !pace.held && !pace.in_use {
            s.active_interval
        } else if pace.lock_ends || self.fast < FAST_QUESTIONS {
            fast
        } else {
            let slowest = if pace.held { SLOW_WHILE_HELD } else { SLOW };
            self.slowed
                .map_or(fast, |last| last.mul_f32(1.5))
                .min(slowest)
                .max(fast)
        }
    }

    fn fast_interval(&self, pace: Pace, s: &HealthSettings) -> Duration {
        if !self.knows_a_lock {
            return s.fast_interval;
        }
        let least = s.fast_interval * WHILE_LOCKED;
        if !pace.lock_ends {
            return least;
        }
        let most = s.fast_interval * AT_THE_LOCKS_END;
        (self.lasting * BRAKE_AT_THE_LOCKS_END).clamp(least, most)
    }

    /// Smoothed times count: single answers may be held up by 10 to 20 ms just when the new leader is to be found; a
    /// Patroni that is drowning is slow again and again.
    fn brake(&self) -> Duration {
        let spell = self.own_time.saturating_sub(BUSY_BY_ITSELF) * BRAKE_IN_A_SPELL;
        (self.lasting * BRAKE).max(spell).min(BRAKE_MOST)
    }

    /// A second question may start when the first is older than this.
    fn patience(&self) -> Duration {
        Duration::from_secs(1).max(self.usual.unwrap_or_default() * 4)
    }

    /// When to ask next; `None` while two questions are under way. `jitter` from 0 to 1 shortens or lengthens
    /// fast intervals by up to a fifth and shortens others by up to a tenth, so that proxies do not march in step.
    pub(crate) fn next(
        &self,
        pace: Pace,
        s: &HealthSettings,
        leader: LeaderInterval,
        jitter: f32,
    ) -> Option<BootTime> {
        // Lengthened, never shortened: a fleet that was braked together must not ask together again.
        let brake = self.brake().mul_f32(1.0 + 0.2 * jitter);
        let mut due = match (self.last_sent, self.wanted) {
            (None, _) => BootTime::ZERO,
            (Some(sent), Some(from)) => from.max(sent + brake),
            (Some(sent), None) => {
                let interval = self.interval(pace, s, leader);
                let spread = if interval < s.active_interval {
                    0.8 + 0.4 * jitter
                } else {
                    0.9 + 0.1 * jitter
                };
                sent + interval.mul_f32(spread).max(brake)
            }
        };
        match *self.under_way {
            [] => {}
            [oldest] => due = due.max(oldest + self.patience()),
            _ => return None,
        }
        Some(due)
    }

    /// A question is sent.
    pub(crate) fn sent(&mut self, now: BootTime, pace: Pace, s: &HealthSettings) {
        if pace.doubt && (pace.held || pace.in_use) && !pace.lock_ends {
            if self.fast < FAST_QUESTIONS {
                self.fast += 1;
            } else {
                self.slowed = Some(self.in_doubt(pace, s));
            }
        }
        self.last_sent = Some(now);
        self.under_way.push(now);
        self.wanted = None;
    }

    /// A question has ended, by an answer that took so long (whole, and the node's own time) or without one.
    pub(crate) fn ended(&mut self, sent: BootTime, took: Option<(Duration, Duration)>) {
        if let Some(at) = self.under_way.iter().position(|s| *s == sent) {
            self.under_way.remove(at);
        }
        if let Some((whole, own)) = took {
            let since = self.answered.map(|last| sent.saturating_sub(last));
            self.answered = self.answered.max(Some(sent));
            self.own_time = smoothed(self.own_time, own, since.map(|_| FEW));
            // More than the whole brake says no more.
            let own = own.min(BRAKE_MOST / BRAKE);
            let share = since.map(|since| FEW.min(since.div_duration_f32(WHILE)));
            self.lasting = smoothed(self.lasting, own, share);
            self.usual = Some(smoothed(
                self.usual.unwrap_or_default(),
                whole,
                self.usual.map(|_| FEW),
            ));
        }
    }

    /// Questions under way that were sent before `when` will not end any more.
    pub(crate) fn forget_before(&mut self, when: BootTime) {
        self.under_way.retain(|sent| *sent >= when);
    }

    /// A fact has changed: the fast questions start again.
    pub(crate) fn fact(&mut self) {
        self.fast = 0;
        self.slowed = None;
    }

    /// A doubt begins: an answer is wanted within `share` (0 to 1) of the time for it. Only the present leader is asked
    /// within one fast interval: the doubt is about its word, and the others had no time for an election yet.
    pub(crate) fn doubt(&mut self, since: BootTime, s: &HealthSettings, share: f32) {
        let intervals = if self.leads { 1 } else { SPREAD };
        self.want(since, since + (s.fast_interval * intervals).mul_f32(share));
    }

    /// Wants an answer to a question sent not before `since`: the one under way may do. It is asked at `from`.
    pub(crate) fn want(&mut self, since: BootTime, from: BootTime) {
        if self.under_way.last().is_none_or(|sent| *sent < since) {
            self.wanted = Some(self.wanted.map_or(from, |wanted| wanted.min(from)));
        }
    }
}

/// The newest time has this share in the smoothed one; the first has all.
fn smoothed(before: Duration, newest: Duration, share: Option<f32>) -> Duration {
    share.map_or(newest, |share| {
        before.mul_f32(1.0 - share) + newest.mul_f32(share)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const T0: BootTime = BootTime::ZERO;
    const LEASE_THIRD: LeaderInterval = LeaderInterval(Duration::from_millis(3333));

    fn ms(n: u64) -> Duration {
        Duration::from_millis(n)
    }

    fn due(tempo: &Tempo, pace: Pace) -> Option<Duration> {
        let s = HealthSettings::default();
        // Jitter that leaves each kind of interval as it is.
        let plain = if tempo.interval(pace, &s, LEASE_THIRD) < s.active_interval {
            0.5
        } else {
            1.0
        };
        tempo
            .next(pace, &s, LEASE_THIRD, plain)
            .map(|at| ms((at.saturating_sub(T0).as_secs_f64() * 1000.0).round() as u64))
    }

    /// A client waits while the leader is in doubt.
    fn held_in_doubt() -> Pace {
        Pace {
            doubt: true,
            held: true,
            ..Pace::default()
        }
    }

    /// The same around the end of a dead leader's lock.
    fn at_a_locks_end() -> Pace {
        Pace {
            lock_ends: true,
            ..held_in_doubt()
        }
    }

    fn asked() -> Tempo {
        Tempo {
            last_sent: Some(T0),
            ..Tempo::default()
        }
    }

    fn asked_and_knows_a_lock() -> Tempo {
        Tempo {
            knows_a_lock: true,
            ..asked()
        }
    }

    #[test]
    fn a_new_node_is_asked_at_once() {
        assert_eq!(due(&Tempo::default(), Pace::default()), Some(ms(0)));
    }

    #[test]
    fn at_rest_a_node_is_asked_each_check_interval_and_the_leader_each_third_of_the_lease() {
        assert_eq!(due(&asked(), Pace::default()), Some(ms(5000)));
        let leader = Tempo {
            leads: true,
            ..asked()
        };
        assert_eq!(due(&leader, Pace::default()), Some(ms(3333)));
    }

    #[test]
    fn a_leader_in_use_is_asked_each_active_interval_and_the_others_are_not() {
        let pace = Pace {
            in_use: true,
            ..Pace::default()
        };
        let leader = Tempo {
            leads: true,
            ..asked()
        };
        assert_eq!(due(&leader, pace), Some(ms(1000)));
        assert_eq!(due(&asked(), pace), Some(ms(5000)));
    }

    #[test]
    fn a_rising_node_is_asked_fast() {
        let rising = Tempo {
            rising: true,
            ..asked()
        };
        assert_eq!(due(&rising, Pace::default()), Some(ms(100)));
    }

    #[test]
    fn doubt_is_fast_for_forty_questions_and_then_slows_to_half_a_second_while_held() {
        let pace = held_in_doubt();
        let s = HealthSettings::default();
        let mut tempo = Tempo::default();
        let mut intervals = Vec::new();
        for _ in 0..50 {
            tempo.last_sent = Some(T0);
            tempo.under_way.clear();
            intervals.push(due(&tempo, pace).unwrap().as_millis());
            tempo.sent(T0, pace, &s);
        }
        assert!(intervals[..=40].iter().all(|i| *i == 100), "{intervals:?}");
        assert_eq!(intervals[41..47], [150, 225, 338, 500, 500, 500]);

        tempo.under_way.clear();
        tempo.fact();
        assert_eq!(due(&tempo, pace), Some(ms(100)));
    }

    #[test]
    fn a_follower_that_knows_a_lock_is_asked_every_second_fast_interval_until_the_lock_is_free() {
        let mut follower = asked_and_knows_a_lock();
        assert_eq!(due(&follower, held_in_doubt()), Some(ms(200)));
        follower.fast = FAST_QUESTIONS;
        assert_eq!(due(&follower, held_in_doubt()), Some(ms(200)));
        follower.slowed = Some(ms(200));
        assert_eq!(due(&follower, held_in_doubt()), Some(ms(300)));

        assert_eq!(due(&follower, at_a_locks_end()), Some(ms(200)));
        follower.knows_a_lock = false;
        assert_eq!(due(&follower, at_a_locks_end()), Some(ms(100)));
    }

    #[test]
    fn around_the_end_of_a_dead_leaders_lock_a_follower_that_answers_slowly_is_asked_less() {
        let mut follower = asked_and_knows_a_lock();
        for (lasting, interval) in [(500, 200), (1500, 300), (5000, 400)] {
            follower.lasting = Duration::from_micros(lasting);
            assert_eq!(due(&follower, at_a_locks_end()), Some(ms(interval)));
        }
        follower.lasting = ms(2);
        assert_eq!(due(&follower, held_in_doubt()), Some(ms(200)));
        follower.knows_a_lock = false;
        assert_eq!(due(&follower, at_a_locks_end()), Some(ms(100)));
    }

    #[test]
    fn doubt_that_concerns_nobody_is_asked_each_active_interval() {
        let pace = Pace {
            doubt: true,
            lock_ends: true,
            ..Pace::default()
        };
        assert_eq!(due(&asked(), pace), Some(ms(1000)));
    }

    #[test]
    fn around_the_end_of_a_dead_leaders_lock_the_forty_do_not_count() {
        let pace = Pace {
            doubt: true,
            in_use: true,
            lock_ends: true,
            ..Pace::default()
        };
        let mut tired = asked();
        tired.fast = FAST_QUESTIONS;
        assert_eq!(due(&tired, pace), Some(ms(100)));
    }

    #[test]
    fn the_brake_holds_for_fast_and_for_wanted_questions_up_to_a_second() {
        let pace = held_in_doubt();
        let mut slow = asked();
        slow.own_time = ms(15);
        assert_eq!(due(&slow, pace), Some(ms(550)));
        slow.wanted = Some(T0);
        assert_eq!(due(&slow, pace), Some(ms(550)));
        slow.own_time = ms(900);
        assert_eq!(due(&slow, pace), Some(ms(1100)));
    }

    #[test]
    fn one_slow_answer_is_not_a_slow_node_but_several_are() {
        let pace = held_in_doubt();
        let mut node = asked();
        let mut answers_in = |own| {
            node.ended(T0, Some((ms(own), ms(own))));
            due(&node, pace).unwrap()
        };
        assert_eq!(answers_in(1), ms(100));
        assert_eq!(answers_in(50), ms(100));
        assert_eq!(answers_in(1), ms(100));
        for _ in 0..12 {
            answers_in(50);
        }
        assert_eq!(answers_in(50), ms(1100));
    }

    #[test]
    fn a_patroni_that_waits_for_a_member_that_is_cut_off_is_asked_fast() {
        let pace = held_in_doubt();
        let mut node = asked();
        node.ended(T0, Some((ms(1), ms(1))));
        // As it was measured, at intervals of 100 to 200 ms.
        let mut sent = T0;
        for own in [8, 13, 10, 9, 8, 14, 12, 17, 7, 12, 7, 9, 8, 14, 14, 12, 6] {
            sent = sent + ms(150);
            node.ended(sent, Some((ms(own), ms(own))));
            assert!(due(&node, pace).unwrap() <= ms(220), "{node:?}");
        }
    }

    #[test]
    fn a_patroni_that_is_slow_for_long_is_asked_in_proportion() {
        let pace = held_in_doubt();
        let mut node = asked();
        node.ended(T0, Some((ms(1), ms(1))));
        for second in 1..=40 {
            node.ended(T0 + ms(second * 1000), Some((ms(10), ms(10))));
        }
        let asked_every = due(&node, pace).unwrap();
        assert!(
            (ms(220)..=ms(275)).contains(&asked_every),
            "{asked_every:?}"
        );
        // Not because of one answer, however slow.
        let mut node = asked();
        node.ended(T0, Some((ms(1), ms(1))));
        node.ended(T0 + ms(5000), Some((ms(70), ms(70))));
        assert!(due(&node, pace).unwrap() < ms(200));
    }

    #[test]
    fn a_doubt_asks_the_leader_within_a_fast_interval_and_the_others_within_three() {
        let pace = held_in_doubt();
        let s = HealthSettings::default();
        let first = |leads, share| {
            let mut node = Tempo { leads, ..asked() };
            node.doubt(T0, &s, share);
            due(&node, pace).unwrap()
        };
        assert_eq!([first(true, 0.0), first(false, 0.0)], [ms(0), ms(0)]);
        assert_eq!([first(true, 1.0), first(false, 1.0)], [ms(100), ms(300)]);
    }

    #[test]
    fn a_hung_question_delays_the_next_by_a_second_and_a_third_is_never_asked() {
        let pace = held_in_doubt();
        let mut hung = asked();
        hung.under_way = vec![T0];
        assert_eq!(due(&hung, pace), Some(ms(1000)));
        hung.usual = Some(ms(600));
        assert_eq!(due(&hung, pace), Some(ms(2400)));
        hung.under_way.push(T0);
        assert_eq!(due(&hung, pace), None);
    }

    #[test]
    fn a_wanted_answer_shares_the_question_under_way() {
        let mut tempo = asked();
        tempo.under_way = vec![T0 + ms(10)];
        tempo.want(T0 + ms(5), T0);
        assert_eq!(tempo.wanted, None);
        tempo.want(T0 + ms(11), T0);
        assert_eq!(tempo.wanted, Some(T0));
    }
}
