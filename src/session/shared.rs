//! What the sessions of a house share, on whichever worker they run.

use std::sync::Arc;

use tokio::sync::watch;

use super::SessionSettings;
use super::cancel::CancelTable;
use super::limits::Limits;
use crate::metrics::Metrics;
use crate::routing::Router;

/// One per house.
pub(crate) struct Shared {
    pub(super) router: Arc<Router>,
    pub(super) metrics: Arc<Metrics>,
    pub(super) settings: watch::Receiver<SessionSettings>,
    pub(super) cancels: CancelTable,
    pub(super) limits: Limits,
}

impl Shared {
    /// `descriptor_limit` is the process's RLIMIT_NOFILE.
    pub(crate) fn new(
        router: Arc<Router>,
        metrics: Arc<Metrics>,
        settings: watch::Receiver<SessionSettings>,
        descriptor_limit: u64,
    ) -> Arc<Self> {
        Arc::new(Self {
            router,
            metrics,
            settings,
            cancels: CancelTable::default(),
            limits: Limits::new(descriptor_limit),
        })
    }

    /// Clients that have spoken and are not gone, held ones included.
    pub(crate) fn connections(&self) -> usize {
        self.limits.counted()
    }
}
