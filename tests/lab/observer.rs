//! Watches what each node says of itself and keeps when it changed its mind.
//!
//! Calmly, because a Patroni that is asked a hundred times a second by its observer answers others later; only a node
//! that has just taken the lock, or is about to be writable again, is asked often.

use std::{
    net::SocketAddr,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use super::{
    cluster::Lab,
    http,
    https::Caller,
    net::{NODES, Node},
};

const EVERY: Duration = Duration::from_millis(40);
/// A node that says 200 and is not writable yet: the moment at which it is, is what everything is measured from.
const CLOSELY: Duration = Duration::from_millis(20);

/// What `GET /primary` said; nothing at all is `status: None`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Word {
    pub status: Option<u16>,
    pub state: String,
    pub role: String,
    pub timeline: Option<u64>,
}

impl Word {
    /// The answer by which a router may send writes here.
    pub fn is_writable(&self) -> bool {
        self.status == Some(200)
            && self.state == "running"
            && matches!(self.role.as_str(), "primary" | "master")
    }

    /// The answer by which it must not keep any.
    pub fn is_demoted(&self) -> bool {
        self.status == Some(503) && self.role == "replica"
    }
}

/// A change of a node's word: when it was asked and when the answer was there.
#[derive(Clone, Debug)]
pub struct Sighting {
    pub node: Node,
    pub asked: Instant,
    pub heard: Instant,
    pub word: Word,
}

/// Asks until it is dropped.
pub struct Observer {
    seen: Arc<Mutex<Vec<Sighting>>>,
    over: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Observer {
    /// Asks each node 25 times a second.
    pub fn of(lab: &Lab) -> Self {
        Self::every(lab, EVERY)
    }

    /// Asks less often, where the asking itself would weigh.
    pub fn every(lab: &Lab, pause: Duration) -> Self {
        let seen = Arc::<Mutex<Vec<Sighting>>>::default();
        let over = Arc::<AtomicBool>::default();
        let threads = NODES
            .into_iter()
            .map(|node| {
                let (at, seen, over) = (lab.rest_at(node), Arc::clone(&seen), Arc::clone(&over));
                let caller = lab.caller();
                thread::spawn(move || {
                    let ask = || ask(caller.as_ref(), at);
                    watch(node, ask, pause, &seen, &over);
                })
            })
            .collect();
        Self {
            seen,
            over,
            threads,
        }
    }

    pub fn sightings(&self) -> Vec<Sighting> {
        self.seen
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// The first time after `since` that a node other than `not` became writable.
    pub fn first_writable(&self, since: Instant, not: Option<Node>) -> Option<Sighting> {
        self.first(since, |seen| {
            Some(seen.node) != not && seen.word.is_writable()
        })
    }

    /// The first time after `since` that this very node said it was demoted.
    pub fn first_demoted(&self, since: Instant, node: Node) -> Option<Sighting> {
        self.first(since, |seen| seen.node == node && seen.word.is_demoted())
    }

    /// The first time after `since` that this node was writable *again*, after it was not.
    pub fn writable_again(&self, since: Instant, node: Node) -> Option<Sighting> {
        let gone = self.first(since, |seen| seen.node == node && !seen.word.is_writable())?;
        self.first(gone.heard, |seen| {
            seen.node == node && seen.word.is_writable()
        })
    }

    fn first(&self, since: Instant, wanted: impl Fn(&Sighting) -> bool) -> Option<Sighting> {
        let mut found: Vec<Sighting> = self.sightings();
        found.retain(|seen| seen.heard > since && wanted(seen));
        found.into_iter().min_by_key(|seen| seen.heard)
    }
}

impl Drop for Observer {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

fn watch(
    node: Node,
    ask: impl Fn() -> Word,
    pause: Duration,
    seen: &Mutex<Vec<Sighting>>,
    over: &AtomicBool,
) {
    let mut last = None;
    while !over.load(Ordering::Relaxed) {
        let asked = Instant::now();
        let word = ask();
        if last.as_ref() != Some(&word) {
            let heard = Instant::now();
            let sighting = Sighting {
                node,
                asked,
                heard,
                word: word.clone(),
            };
            seen.lock()
                .unwrap_or_else(PoisonError::into_inner)
                .push(sighting);
            last = Some(word);
        }
        let is_close = last
            .as_ref()
            .is_some_and(|word| word.status == Some(200) && !word.is_writable());
        let pause = if is_close { pause.min(CLOSELY) } else { pause };
        thread::sleep(pause.saturating_sub(asked.elapsed()));
    }
}

fn ask(caller: Option<&Caller>, at: SocketAddr) -> Word {
    let limit = Duration::from_secs(1);
    let Ok(answer) = http::ask_over(caller, at, "GET", "/primary", None, limit) else {
        return Word::default();
    };
    let body = answer.json();
    let text = |key: &str| body[key].as_str().unwrap_or_default().to_owned();
    Word {
        status: Some(answer.status),
        state: text("state"),
        role: text("role"),
        timeline: body["timeline"].as_u64(),
    }
}
