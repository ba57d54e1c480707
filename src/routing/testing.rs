//! Pictures for tests.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use uuid::Uuid;

use super::{Intent, ReadSettings, Route, Router, RoutingSettings};
use crate::clock::{BootTime, Clock};
use crate::metrics::{Metrics, RevokeReason};
pub(crate) use crate::primary_tracker::Wish;
use crate::primary_tracker::{
    Demand, Leader, Lease, NodePicture, Picture, Reading, Revocation, WhyNobody,
};
use crate::topology::{Feed, Provider};

/// A read port's, changed from the defaults.
pub(crate) fn reads(change: impl FnOnce(&mut ReadSettings)) -> Intent {
    let mut intent = Intent {
        route: Route::Replica,
        ..Intent::default()
    };
    change(&mut intent.reads);
    intent
}

/// One node is known, nobody leads.
pub(crate) fn nobody() -> Picture {
    Picture {
        provider: Provider::Check,
        lease: None,
        why: Some(WhyNobody::NoProof),
        epoch: 0,
        pending: None,
        scope: Some("main".into()),
        nodes: Arc::new([NodePicture {
            name: "pg1".into(),
            node_id: Uuid::nil(),
            address: "10.0.0.11:5432".into(),
            enabled: true,
            readers: Default::default(),
            forced: false,
            checks: Arc::from([]),
            up: true,
            leader: false,
            role: Some("replica".into()),
            state: Some("running".into()),
            timeline: Some(5),
            lag_bytes: None,
            failures: 0,
            last_check: None,
            last_answer: None,
            latency: None,
            last_error: None,
            words: "503 running replica 5".into(),
            verdict: Default::default(),
            reading: Reading::default(),
        }]),
        last_failover: None,
        changes: Arc::new([]),
        dial_failed: None,
        first_round_done: true,
        conflicts: 0,
        failsafe: false,
        paused: false,
        lease_timeout: Duration::from_secs(10),
    }
}

/// A streaming replica that is up and has just answered.
pub(crate) fn replica(addr: SocketAddr, asked: BootTime) -> NodePicture {
    let mut node = nobody().nodes[0].clone();
    node.name = addr.to_string().into();
    node.lag_bytes = Some(0);
    node.reading.addr = Some(addr);
    node.reading.feed = Some(Feed::Streaming);
    node.reading.asked = asked;
    node
}

/// Ten seconds from `proved`.
pub(crate) fn lease(addr: SocketAddr, epoch: u64, proved: BootTime) -> Lease {
    Lease {
        leader: Leader {
            name: format!("node{epoch}").into(),
            node_id: Uuid::nil(),
            addr,
            timeline: Some(5),
        },
        epoch,
        until: Some(proved + Duration::from_secs(10)),
        proved,
        usual: Duration::from_millis(2),
        open: true,
        revocation: Revocation::default(),
    }
}

/// A router whose tracker is the test.
pub(crate) struct Script {
    pub(crate) clock: Clock,
    pub(crate) router: Arc<Router>,
    pub(crate) demand: Arc<Demand>,
    pub(crate) metrics: Arc<Metrics>,
    picture: watch::Sender<Picture>,
    epoch: std::cell::Cell<u64>,
}

impl Script {
    pub(crate) fn new(clock: Clock, settings: RoutingSettings) -> Self {
        let (picture, watched) = watch::channel(nobody());
        let demand = Demand::new(clock);
        let metrics = Arc::new(Metrics::new());
        let (_, settings) = watch::channel(settings);
        let router = Router::new(
            clock,
            watched,
            settings,
            Arc::clone(&demand),
            Arc::clone(&metrics),
        );
        Self {
            clock,
            router: Arc::new(router),
            demand,
            metrics,
            picture,
            epoch: std::cell::Cell::new(0),
        }
    }

    /// A new epoch at `addr`; the sessions of the old one are revoked after the new one was published, as the
    /// tracker does.
    pub(crate) fn leads(&self, addr: SocketAddr) {
        self.epoch.set(self.epoch.get() + 1);
        let lease = lease(addr, self.epoch.get(), self.clock.now());
        self.swap(Some(lease), RevokeReason::moved);
    }

    /// The same leader was heard again.
    pub(crate) fn proves(&self) {
        let now = self.clock.now();
        self.picture.send_modify(|picture| {
            if let Some(lease) = &mut picture.lease {
                lease.proved = now;
                lease.until = Some(now + Duration::from_secs(10));
            }
        });
    }

    /// Changes the present lease.
    pub(crate) fn amend(&self, change: impl FnOnce(&mut Lease)) {
        self.picture.send_modify(|picture| {
            change(picture.lease.as_mut().unwrap());
        });
    }

    /// The nodes that are known from now on.
    pub(crate) fn nodes(&self, nodes: impl IntoIterator<Item = NodePicture>) {
        let nodes = nodes.into_iter().collect();
        self.picture.send_modify(|picture| picture.nodes = nodes);
    }

    /// As [`Self::nodes`], but nobody is woken: positions and times are no news.
    pub(crate) fn nodes_in_silence(&self, nodes: impl IntoIterator<Item = NodePicture>) {
        let nodes = nodes.into_iter().collect();
        self.picture.send_if_modified(|picture| {
            picture.nodes = nodes;
            false
        });
    }

    pub(crate) fn follows(&self) {
        self.swap(None, RevokeReason::follows);
    }

    fn swap(&self, lease: Option<Lease>, reason: RevokeReason) {
        let mut old = None;
        self.picture.send_modify(|picture| {
            picture.why = lease.is_none().then_some(WhyNobody::NobodyLeads);
            old = std::mem::replace(&mut picture.lease, lease);
        });
        if let Some(old) = old {
            old.revocation.revoke(reason);
        }
    }
}
