//! What the tracker may be told.

use std::sync::Arc;
use std::time::Duration;

use crate::topology::Provider;

/// `[topology]` of the configuration, as far as the tracker is concerned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TrackerSettings {
    /// Whose word counts, and what a word without a timeline is worth.
    pub(crate) provider: Provider,
    pub(crate) lease_timeout: Duration,
    pub(crate) on_lease_expired: OnLeaseExpired,
    /// Pins the cluster; else the first cluster that proves a leader does.
    pub(crate) scope: Option<Arc<str>>,
    pub(crate) system_identifier: Option<Arc<str>>,
    /// Overrides what `GET /config` says.
    pub(crate) patroni_ttl: Option<Duration>,
    /// Only for the warning that a hold is shorter than a failover.
    pub(crate) write_timeout: Duration,
}

/// What happens to open sessions when silence has outlasted the lease.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum OnLeaseExpired {
    #[default]
    Keep,
    Close,
}

impl Default for TrackerSettings {
    fn default() -> Self {
        Self {
            provider: Provider::default(),
            lease_timeout: Duration::from_secs(10),
            on_lease_expired: OnLeaseExpired::Keep,
            scope: None,
            system_identifier: None,
            patroni_ttl: None,
            write_timeout: Duration::from_secs(45),
        }
    }
}
