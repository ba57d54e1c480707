//! What the sessions of a house share, on whichever worker they run.

use std::sync::Arc;

use tokio::sync::{mpsc, watch};

use super::SessionSettings;
use super::cancel::CancelTable;
use super::census::{Census, Elsewhere};
use super::errand::{Elder, Errand};
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
    pub(super) elder: Elder,
    pub(super) elsewhere: Elsewhere,
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
            elder: Elder::default(),
            elsewhere: Elsewhere::default(),
        })
    }

    /// Who else may know a cancel's key: the process before this one, as long as it lives.
    pub(crate) fn set_elder(&self, errands: Option<mpsc::Sender<Errand>>) {
        self.elder.set(errands);
    }

    /// What the processes before this one have open counts here as well; nothing, once they have ended.
    pub(crate) fn elsewhere(&self, census: Census) {
        self.elsewhere.set(census, &self.limits, &self.metrics);
    }

    /// Clients that have spoken and are not gone, held ones included.
    pub(crate) fn connections(&self) -> usize {
        self.limits.counted()
    }
}
