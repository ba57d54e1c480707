//! What the cluster says about itself, held against our own numbers.

use std::time::Duration;

use super::{Tracker, TrackerSettings};
use crate::topology::Dynamic;

impl Tracker {
    pub(super) fn learn(&mut self, dynamic: Dynamic) {
        if self.told_dynamic.replace(dynamic) != Some(dynamic) {
            warn_about(&self.decider.settings, dynamic);
        }
        self.decider.dynamic = dynamic;
    }
}

/// What the numbers of the cluster mean for ours.
fn warn_about(settings: &TrackerSettings, dynamic: Dynamic) {
    let (ttl, loop_wait) = (
        settings.patroni_ttl.unwrap_or(dynamic.ttl),
        dynamic.loop_wait,
    );
    let secs = |d: Duration| d.as_secs_f64();
    if settings.lease_timeout >= ttl.saturating_sub(loop_wait) {
        tracing::warn!(
            lease_timeout_secs = secs(settings.lease_timeout),
            ttl = secs(ttl),
            loop_wait = secs(loop_wait),
            "topology.lease_timeout_secs should be below Patroni's ttl - loop_wait"
        );
    }
    let failover = ttl + loop_wait + Duration::from_secs(5);
    if settings.write_timeout < failover {
        tracing::warn!(
            write_timeout_secs = secs(settings.write_timeout),
            failover_secs = secs(failover),
            "write_timeout_secs ends before a failover of this cluster may: ttl + loop_wait + 5 s"
        );
    }
}
