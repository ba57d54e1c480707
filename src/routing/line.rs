//! The lines in which clients wait: one for each thing that a listener's clients may want.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Semaphore;

use super::Intent;
use super::policy::Turns;

/// Readers wait behind no writer and writers behind no reader; nor does one who may fall back on the leader wait
/// behind one who may not.
#[derive(Debug)]
pub(super) struct Line {
    pub(super) intent: Intent,
    /// First come, first served: only the head of the line watches the picture, so that ten thousand held clients
    /// are not woken by each answer of a node.
    pub(super) turn: Semaphore,
    held: AtomicUsize,
    /// Whose turn it is to be read from. Tiny and never held across an await.
    turns: Mutex<Turns>,
}

/// All lines of a house.
#[derive(Debug, Default)]
pub(super) struct Lines {
    /// Tiny and never held across an await: one line is found or made.
    lines: Mutex<HashMap<Intent, Arc<Line>>>,
}

/// A held client's place.
#[derive(Debug)]
pub(super) struct Held(Arc<Line>);

impl Lines {
    pub(super) fn of(&self, intent: Intent) -> Arc<Line> {
        // Nothing else is asked of writers.
        let intent = match intent.route.writes() {
            true => Intent::default(),
            false => intent,
        };
        let mut lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        if !lines.contains_key(&intent) {
            // Those that a reload has left without a listener, once they are empty.
            lines.retain(|_, line| Arc::strong_count(line) > 1);
        }
        Arc::clone(lines.entry(intent).or_insert_with(|| {
            Arc::new(Line {
                intent,
                turn: Semaphore::new(1),
                held: AtomicUsize::new(0),
                turns: Mutex::default(),
            })
        }))
    }
}

impl Line {
    pub(super) fn hold(self: &Arc<Self>) -> Held {
        self.held.fetch_add(1, Ordering::Relaxed);
        Held(Arc::clone(self))
    }

    /// Must whoever comes now wait behind somebody who is held?
    pub(super) fn is_held_up(&self) -> bool {
        self.turn.available_permits() == 0 && self.held.load(Ordering::Relaxed) > 0
    }

    pub(super) fn turns(&self) -> MutexGuard<'_, Turns> {
        self.turns.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.0.held.fetch_sub(1, Ordering::Relaxed);
    }
}
