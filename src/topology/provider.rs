//! Where a leader's name may come from when it is not this crate that asks: the public contract.

use tokio::sync::broadcast;
use uuid::Uuid;

use crate::clock::BootTime;

/// A source of topology: translate your own leader election into these three methods, and
/// [`PrimaryTracker::with_provider`](crate::primary_tracker::PrimaryTracker::with_provider) does the rest.
///
/// Events wake and are taken in order; state counts. Whoever answers `Some` in [`Self::get_primary`] says that it
/// knows this *now*: the tracker's lease is extended by it. A provider whose own knowledge is old, or whose source does
/// not answer, must answer `None`, which ends nothing by itself: the lease does, when its time is over.
///
/// ```
/// # use heliosdb_proxy::primary_tracker::{TopologyEvent, TopologyNodeInfo};
/// # use tokio::sync::broadcast;
/// # use uuid::Uuid;
/// pub trait TopologyProvider: Send + Sync + 'static {
///     /// Subscribe to topology change events.
///     fn subscribe(&self) -> broadcast::Receiver<TopologyEvent>;
///
///     /// Get the current primary node, if one exists.
///     fn get_primary(&self) -> Option<TopologyNodeInfo>;
///
///     /// Look up a node by its UUID.
///     fn get_node(&self, id: Uuid) -> Option<TopologyNodeInfo>;
/// }
/// # struct Same<P>(P);
/// # // The trait above and the crate's own are the same three methods.
/// # impl<P: TopologyProvider> heliosdb_proxy::primary_tracker::TopologyProvider for Same<P> {
/// #     fn subscribe(&self) -> broadcast::Receiver<TopologyEvent> { self.0.subscribe() }
/// #     fn get_primary(&self) -> Option<TopologyNodeInfo> { self.0.get_primary() }
/// #     fn get_node(&self, id: Uuid) -> Option<TopologyNodeInfo> { self.0.get_node(id) }
/// # }
/// ```
///
/// A leader election of one's own, the Consul shape:
///
/// ```
/// # use std::sync::Arc;
/// # use heliosdb_proxy::primary_tracker::{PrimaryTracker, TopologyEvent, TopologyNodeInfo, TopologyProvider};
/// # use parking_lot::RwLock;
/// # use tokio::sync::broadcast;
/// # use uuid::Uuid;
/// struct ConsulTopologyProvider {
///     event_tx: broadcast::Sender<TopologyEvent>,
///     primary: RwLock<Option<TopologyNodeInfo>>,
///     /* consul client, service name, … */
/// }
///
/// impl TopologyProvider for ConsulTopologyProvider {
///     fn subscribe(&self) -> broadcast::Receiver<TopologyEvent> {
///         self.event_tx.subscribe()
///     }
///     fn get_primary(&self) -> Option<TopologyNodeInfo> {
///         self.primary.read().clone()
///     }
///     fn get_node(&self, id: Uuid) -> Option<TopologyNodeInfo> {
///         self.primary.read().as_ref().filter(|n| n.node_id == id).cloned()
///     }
/// }
///
/// # let consul_provider = ConsulTopologyProvider {
/// #     event_tx: broadcast::channel(16).0,
/// #     primary: RwLock::new(None),
/// # };
/// let tracker = PrimaryTracker::with_provider(Arc::new(consul_provider));
/// # assert!(tracker.get_primary().is_none());
/// ```
pub trait TopologyProvider: Send + Sync + 'static {
    /// Subscribe to topology change events.
    fn subscribe(&self) -> broadcast::Receiver<TopologyEvent>;

    /// Get the current primary node, if one exists. Must not block.
    fn get_primary(&self) -> Option<TopologyNodeInfo>;

    /// Look up a node by its UUID. Must not block.
    fn get_node(&self, id: Uuid) -> Option<TopologyNodeInfo>;
}

/// What a provider may know beyond the three methods: when it asked, on which timeline the leader is, that several
/// nodes claim to lead. Taken by
/// [`PrimaryTracker::with_observing_provider`](crate::primary_tracker::PrimaryTracker::with_observing_provider), whose
/// lease then counts from the question and not from the answer.
pub trait ObservingProvider: TopologyProvider {
    /// The newest look at the cluster; `None` before the first has ended. Must not block.
    fn sighting(&self) -> Option<Sighting>;
}

/// One node as a provider knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopologyNodeInfo {
    /// The same in every process: see [`NODE_NAMESPACE`](crate::primary_tracker::NODE_NAMESPACE).
    pub node_id: Uuid,
    /// Where clients reach its PostgreSQL, `host:port`.
    pub client_addr: String,
    /// It answers. This follows up and down, not leadership.
    pub is_healthy: bool,
}

/// What a provider has seen change.
///
/// ```
/// # use uuid::Uuid;
/// pub enum TopologyEvent {
///     PrimaryChanged { old_primary: Option<Uuid>, new_primary: Uuid },
///     NodeLeft { node_id: Uuid },
///     HealthChanged { node_id: Uuid, is_healthy: bool },
/// }
/// # fn same(event: TopologyEvent) -> heliosdb_proxy::primary_tracker::TopologyEvent {
/// #     use heliosdb_proxy::primary_tracker::TopologyEvent as Ours;
/// #     match event {
/// #         TopologyEvent::PrimaryChanged { old_primary, new_primary } => Ours::PrimaryChanged { old_primary, new_primary },
/// #         TopologyEvent::NodeLeft { node_id } => Ours::NodeLeft { node_id },
/// #         TopologyEvent::HealthChanged { node_id, is_healthy } => Ours::HealthChanged { node_id, is_healthy },
/// #     }
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TopologyEvent {
    /// The primary role moved between nodes.
    PrimaryChanged {
        /// Who led before, if that is known.
        old_primary: Option<Uuid>,
        /// Who leads now. An id that [`TopologyProvider::get_node`] cannot resolve is no leader: this crate's own
        /// providers say with the nil UUID that the old one leads no more and that nobody else does.
        new_primary: Uuid,
    },
    /// A node left the cluster; if it led, nobody leads.
    NodeLeft {
        /// Which.
        node_id: Uuid,
    },
    /// A node went up or down. Says nothing about who leads: a lost check closes nothing, the lease does.
    HealthChanged {
        /// Which.
        node_id: Uuid,
        /// It answers.
        is_healthy: bool,
    },
}

/// One look at the cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sighting {
    /// The node that was last proved to lead and that nothing has disproved. One that only fell silent stays here, with
    /// its age. `None` is proof that nobody leads.
    pub leader: Option<SightedLeader>,
    /// More than one node claims to lead and none of them wins: nobody leads, whatever `leader` says.
    pub conflict: bool,
}

/// The leader of a [`Sighting`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SightedLeader {
    /// Who.
    pub node: TopologyNodeInfo,
    /// The database timeline; the same node on another one is another epoch.
    pub timeline: Option<u32>,
    /// When the question was sent whose answer proved it, on the clock that the tracker was given.
    pub asked: BootTime,
    /// Where the provider knows an earlier end than the tracker's own lease.
    pub ends: Option<BootTime>,
    /// The node's own word was heard. Until then it is pending, without authority.
    pub confirmed: bool,
}
