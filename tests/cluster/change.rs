//! A change of leader under a crowd, and what must be true of every one of them.

use std::{
    sync::atomic::Ordering,
    thread,
    time::{Duration, Instant},
};

use super::stage::{SOON, Stage};
use crate::lab::{Lab, Node, observer::Observer, poll, sessions::Sessions};

/// Within this time after a living node has said that it follows, no session may be left on it.
pub const GRACE: Duration = Duration::from_millis(1500);

/// What became of a change.
pub struct Change {
    pub old: Node,
    pub new: Node,
    /// When the old leader first said that it follows; `None` when it was gone.
    pub demoted: Option<Instant>,
}

impl Stage {
    /// Lets `how` take the leadership from its holder, while short clients come and write and five sessions ask where
    /// they are. Whoever comes is served, and by a leader; no acknowledged row is lost; there is one epoch more.
    pub fn change(&self, what: &str, how: impl FnOnce(&Lab, Node)) -> Change {
        let old = self.settle();
        let epoch = self.epoch();
        let observer = Observer::of(&self.lab);
        let sessions = Sessions::start(self.proxy.listens, 5).unwrap();
        let writers = self.writers();
        // Both ways of counting see those that are there, else their zero afterwards would say nothing.
        self.wait("sessions on the old leader", || {
            (self.sessions_at(old) >= 5.0 && self.backends_at(old) >= Some(5)).then_some(())
        });

        let began = Instant::now();
        how(&self.lab, old);
        let new = self
            .wait("new leader", || observer.first_writable(began, Some(old)))
            .node;
        self.proxy.wait_for_leader(&self.lab, new).unwrap();
        let demoted = self
            .is_running(old)
            .then(|| self.assert_left(what, &observer, began, old));
        thread::sleep(Duration::from_millis(500));
        let attempts = writers.stop();

        let tally = &sessions.tally;
        assert!(tally.answered.load(Ordering::Relaxed) > 0);
        let in_recovery = tally.in_recovery.load(Ordering::Relaxed);
        assert_eq!(in_recovery, 0, "{what}: answers by a node in recovery");
        drop((sessions, observer));
        if demoted.is_none() {
            self.lab.start(old).unwrap();
        }
        self.assert_all_served(what, &attempts);
        assert_eq!(self.epoch(), epoch + 1, "{what}: epochs");
        Change { old, new, demoted }
    }

    /// Waits until the old leader says that it follows, and looks for sessions that are still there.
    fn assert_left(&self, what: &str, observer: &Observer, began: Instant, old: Node) -> Instant {
        let demoted = self
            .wait("word of the old leader that it follows", || {
                observer.first_demoted(began, old)
            })
            .heard;
        thread::sleep((demoted + GRACE).saturating_duration_since(Instant::now()));
        assert_eq!(self.sessions_at(old), 0.0, "{what}: sessions on {old}");
        // It serves reads by now, or will in a moment: nobody may come back to it either.
        let seen = poll(SOON, Duration::from_millis(50), || self.backends_at(old));
        assert_eq!(seen, Some(0), "{what}: sessions on {old}");
        demoted
    }
}
