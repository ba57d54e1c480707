//! Sums over two processes: what the one before this one still has counts here, until it comes or ends.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use serde::{Deserialize, Serialize};

use super::limits::Limits;
use super::registry::{Place, Registry};
use crate::metrics::{Metrics, SessionLabel};
use crate::net::Address;
use crate::routing::Route;

/// The sessions of a process, and of those before it. Those on their way to another one are left out: counted by
/// neither for a moment, rather than twice and so that somebody is refused.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Census {
    sorts: Vec<(Sort, usize)>,
}

/// What sessions have in common that are counted together.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
struct Sort {
    listener: Address,
    node: String,
    route: Route,
}

/// The sessions elsewhere, as the limits and the metrics count them here.
#[derive(Default)]
pub(super) struct Elsewhere {
    /// Tiny and never held across an await: sums are compared and added.
    sorts: Mutex<BTreeMap<Sort, usize>>,
}

impl Census {
    pub(super) fn take(registry: &Registry, elsewhere: &Elsewhere) -> Self {
        let mut sorts = elsewhere.now().clone();
        registry.each(|place| {
            if !place.on_its_way.get() {
                *sorts.entry(Sort::of(place)).or_default() += 1;
            }
        });
        Self {
            sorts: sorts.into_iter().collect(),
        }
    }
}

impl Elsewhere {
    /// From now on it is these.
    pub(super) fn set(&self, census: Census, limits: &Limits, metrics: &Metrics) {
        let mut sorts = self.now();
        for (sort, count) in std::mem::take(&mut *sorts) {
            sort.remove(count, limits, metrics);
        }
        for (sort, count) in census.sorts {
            sort.add(count, limits, metrics);
            *sorts.entry(sort).or_default() += count;
        }
    }

    /// One of them is here now, and counted as such.
    pub(super) fn has_come(&self, place: &Place, limits: &Limits, metrics: &Metrics) {
        let sort = Sort::of(place);
        if let Some(count) = self.now().get_mut(&sort)
            && *count > 0
        {
            *count -= 1;
            sort.remove(1, limits, metrics);
        }
    }

    fn now(&self) -> std::sync::MutexGuard<'_, BTreeMap<Sort, usize>> {
        self.sorts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Sort {
    fn of(place: &Place) -> Self {
        Self {
            listener: place.listener.address.clone(),
            node: place.node.to_string(),
            route: place.intent.route,
        }
    }

    fn label(&self) -> SessionLabel {
        SessionLabel {
            node: self.node.clone(),
            route: self.route.word(),
        }
    }

    fn add(&self, count: usize, limits: &Limits, metrics: &Metrics) {
        limits.more_elsewhere(&self.listener, count);
        let sessions = metrics.sessions.get_or_create(&self.label());
        sessions.inc_by(i64::try_from(count).unwrap_or(i64::MAX));
    }

    fn remove(&self, count: usize, limits: &Limits, metrics: &Metrics) {
        limits.fewer_elsewhere(&self.listener, count);
        let sessions = metrics.sessions.get_or_create(&self.label());
        sessions.dec_by(i64::try_from(count).unwrap_or(i64::MAX));
    }
}
