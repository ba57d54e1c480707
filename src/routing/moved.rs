//! What another process may go on with: where a session sits, and how long a client has waited.

use std::net::SocketAddr;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use super::decide::at_leader;
use super::door::Inside;
use super::pool;
use super::settings::OnPromotion;
use super::{Intent, Router, Target, Ticket};
use crate::clock::BootTime;
use crate::primary_tracker::Picture;

/// Where a session sits, in words that another process understands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Placed {
    pub(crate) node: String,
    pub(crate) addr: SocketAddr,
    /// The leader's; 0 at a replica.
    pub(crate) epoch: u64,
    /// The node was chosen as the leader.
    pub(crate) leads: bool,
    pub(crate) intent: Intent,
}

/// What is left of a client's time, and what it has met so far.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Waited {
    left: Duration,
    limit: Duration,
    was_held: bool,
    /// Set while it is held.
    held: Option<Duration>,
    after: Option<BootTime>,
    tried: u32,
    failure: Option<String>,
}

/// Why a session cannot go on under this process's tracker. The one that it comes from keeps it, and ends it by its own.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum NotHere {
    #[error("{addr} is not proved to lead under epoch {epoch} here")]
    NotLeading { addr: SocketAddr, epoch: u64 },

    #[error("{node} at {addr} is no node that is known here")]
    Unknown { node: String, addr: SocketAddr },

    /// Those who shall not stay there are being ended, or have been.
    #[error("{node} has become the leader, or takes no readers any more")]
    Closed { node: String },
}

impl Router {
    /// The same place for a session that another process has served so far.
    pub(crate) fn adopt(&self, placed: &Placed) -> Result<(Target, Inside), NotHere> {
        let target = adopted(placed, &self.picture.borrow(), self.clock.now())?;
        Ok((target, self.doors.enter(placed.addr)))
    }

    /// The ticket of a client that has waited in another process. It joins the line's end.
    pub(crate) fn resume(&self, intent: Intent, waited: Waited) -> Ticket {
        let mut ticket = self.ticket(intent);
        ticket.deadline = Instant::now() + waited.left;
        ticket.limit = waited.limit;
        ticket.was_held = waited.was_held;
        ticket.after = waited.after;
        ticket.tried = waited.tried;
        ticket.failure = waited.failure;
        if let Some(held) = waited.held {
            ticket.hold_since(
                &self.demand,
                &self.metrics,
                Instant::now().checked_sub(held),
            );
        }
        ticket
    }
}

impl Ticket {
    /// What another process needs to go on with it.
    pub(crate) fn waited(&self) -> Waited {
        Waited {
            left: self.deadline - Instant::now(),
            limit: self.limit,
            was_held: self.was_held,
            held: self.held_for(),
            after: self.after,
            tried: self.tried,
            failure: self.failure.clone(),
        }
    }
}

/// A session to write with goes on only under the very epoch and node it had, while that node is proved to lead: no
/// process adopts what it would not revoke. A reader's goes on at its node, whoever leads, unless it shall end when
/// the node leads.
fn adopted(placed: &Placed, picture: &Picture, now: BootTime) -> Result<Target, NotHere> {
    let intent = placed.intent;
    let same_reign = picture
        .valid_lease(now)
        .filter(|lease| lease.epoch == placed.epoch && lease.leader.addr == placed.addr);
    if intent.route.writes() {
        let not_leading = NotHere::NotLeading {
            addr: placed.addr,
            epoch: placed.epoch,
        };
        return same_reign
            .map(|lease| at_leader(intent, picture, lease))
            .ok_or(not_leading);
    }
    let is_there = |addr| addr == Some(placed.addr);
    let lead_addr = picture.lease.as_ref().map(|lease| lease.leader.addr);
    let node = picture.nodes.iter().find(|node| {
        let leads_there = node.leader && is_there(lead_addr);
        *node.name == placed.node && (is_there(node.reading.addr) || leads_there)
    });
    let node = node.ok_or_else(|| NotHere::Unknown {
        node: placed.node.clone(),
        addr: placed.addr,
    })?;
    let revocation = pool::revocation(&intent, node);
    let came_to_lead = node.leader && !(placed.leads && same_reign.is_some());
    let must_end = intent.reads.on_promotion == OnPromotion::Close && came_to_lead;
    if must_end || revocation.is_revoked() {
        return Err(NotHere::Closed {
            node: placed.node.clone(),
        });
    }
    Ok(Target {
        name: node.name.clone(),
        addr: placed.addr,
        epoch: placed.epoch,
        proved: node.reading.asked,
        revocation,
        intent,
        leads: placed.leads,
        is_fallback: false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::RevokeReason;
    use crate::routing::testing::{Script, lease, nobody, reads, replica};
    use crate::routing::{ReadSettings, RoutingSettings};

    const NOW: BootTime = BootTime::ZERO;

    fn addr() -> SocketAddr {
        "127.0.0.1:5432".parse().unwrap()
    }

    fn writer(epoch: u64) -> Placed {
        Placed {
            node: "node3".into(),
            addr: addr(),
            epoch,
            leads: true,
            intent: Intent::default(),
        }
    }

    fn reader(change: impl FnOnce(&mut ReadSettings)) -> Placed {
        Placed {
            node: addr().to_string(),
            epoch: 0,
            leads: false,
            intent: reads(change),
            ..writer(0)
        }
    }

    fn led() -> Picture {
        let mut picture = nobody();
        picture.lease = Some(lease(addr(), 3, NOW));
        picture.why = None;
        picture
    }

    fn with_replica(change: impl FnOnce(&mut crate::primary_tracker::NodePicture)) -> Picture {
        let mut picture = nobody();
        let mut node = replica(addr(), NOW);
        change(&mut node);
        picture.nodes = [node].into();
        picture
    }

    #[test]
    fn a_writer_is_adopted_only_under_the_very_epoch_and_node_it_had() {
        let ok = adopted(&writer(3), &led(), NOW).unwrap();
        assert_eq!((ok.addr, ok.epoch, ok.leads), (addr(), 3, true));

        for epoch in [2, 4] {
            let refused = adopted(&writer(epoch), &led(), NOW).unwrap_err();
            assert!(matches!(refused, NotHere::NotLeading { .. }));
        }
        let mut elsewhere = writer(3);
        elsewhere.addr.set_port(5433);
        assert!(adopted(&elsewhere, &led(), NOW).is_err());
    }

    #[test]
    fn nobody_is_adopted_onto_a_node_that_is_not_proved_to_lead() {
        assert!(adopted(&writer(3), &nobody(), NOW).is_err());
        let late = NOW + Duration::from_secs(10);
        assert!(adopted(&writer(3), &led(), late).is_err());
        let mut retiring = led();
        retiring.lease.as_mut().unwrap().open = false;
        assert!(adopted(&writer(3), &retiring, NOW).is_err());
    }

    #[test]
    fn a_session_that_was_revoked_is_given_back() {
        let revoked = led();
        let lease = revoked.lease.as_ref().unwrap();
        lease.revocation.revoke(RevokeReason::moved);
        assert!(adopted(&writer(3), &revoked, NOW).is_err());
    }

    #[test]
    fn an_adopted_writer_is_ended_with_the_epoch_here() {
        let picture = led();
        let target = adopted(&writer(3), &picture, NOW).unwrap();
        let lease = picture.lease.as_ref().unwrap();
        assert_eq!(target.revocation.id(), lease.revocation.id());
    }

    #[test]
    fn a_reader_moves_with_its_nodes_token_also_when_the_node_serves_no_new_ones() {
        let down = with_replica(|node| (node.up, node.reading.feed) = (false, None));
        let target = adopted(&reader(|_| ()), &down, NOW).unwrap();
        assert_eq!(
            target.revocation.id(),
            down.nodes[0].readers.whoever_leads.id()
        );

        let mut elsewhere = reader(|_| ());
        elsewhere.addr.set_port(1);
        let unknown = adopted(&elsewhere, &down, NOW).unwrap_err();
        assert!(matches!(unknown, NotHere::Unknown { .. }));
    }

    #[test]
    fn a_reader_who_shall_end_when_its_node_leads_is_not_adopted_after_that() {
        let close = || reader(|reads| reads.on_promotion = OnPromotion::Close);
        assert!(adopted(&close(), &with_replica(|_| ()), NOW).is_ok());

        let mut leads = with_replica(|node| node.leader = true);
        leads.lease = Some(lease(addr(), 3, NOW));
        let refused = adopted(&close(), &leads, NOW).unwrap_err();
        assert!(matches!(refused, NotHere::Closed { .. }));
        assert!(adopted(&reader(|_| ()), &leads, NOW).is_ok());

        // The fallback on the leader has come to a leader.
        let mut fallback = close();
        (fallback.epoch, fallback.leads) = (3, true);
        assert!(adopted(&fallback, &leads, NOW).is_ok());
        fallback.epoch = 1;
        assert!(adopted(&fallback, &leads, NOW).is_err());
    }

    #[test]
    fn a_node_that_is_being_removed_adopts_nobody() {
        let removed = with_replica(|node| node.readers.whoever_leads.retire());
        assert!(adopted(&reader(|_| ()), &removed, NOW).is_err());
    }

    fn text(script: &Script) -> String {
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &script.metrics.registry).unwrap();
        text
    }

    #[tokio::test(start_paused = true)]
    async fn a_held_client_has_the_rest_of_its_time_and_is_counted_once() {
        let settings = RoutingSettings::default;
        let clock = crate::clock::Clock::paused();
        let (old, new) = (
            Script::new(clock, settings()),
            Script::new(clock, settings()),
        );
        let mut ticket = old.router.ticket(Intent::default());
        let waits = tokio::time::timeout(Duration::from_secs(20), old.router.route(&mut ticket));
        assert!(waits.await.is_err());

        let mut moved = new.router.resume(Intent::default(), ticket.waited());
        ticket.leave();
        assert_eq!(old.metrics.held_clients.get(), 0);
        assert_eq!(new.metrics.held_clients.get(), 1);
        let start = Instant::now();
        let error = new.router.route(&mut moved).await.unwrap_err();

        assert_eq!(start.elapsed(), Duration::from_secs(25));
        assert_eq!(error.to_string(), "no leader of main after 45 s");
        assert!(text(&old).contains("held_seconds_count 0"));
        assert!(text(&new).contains("held_seconds_sum 45"));
    }
}
