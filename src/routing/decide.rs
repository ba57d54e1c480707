//! Where a session goes, and whether it may still go there: pure functions of what is known and of `now`.

use std::net::SocketAddr;
use std::sync::Arc;

use super::Intent;
use super::pool::{self, Member};
use crate::clock::BootTime;
use crate::primary_tracker::{Lease, Picture, Revocation, WhyNobody};

/// Where a session goes: an address, and the token that ends the session. Chosen together, so that no session can
/// belong to one leader and be ended with another.
#[derive(Clone, Debug)]
pub(crate) struct Target {
    pub(crate) name: Arc<str>,
    pub(crate) addr: SocketAddr,
    /// The leader's; 0 at a replica.
    pub(crate) epoch: u64,
    /// When the question was sent whose answer last spoke for the node.
    pub(crate) proved: BootTime,
    pub(crate) revocation: Revocation,
    pub(crate) intent: Intent,
    /// Chosen as the leader: then the lease decides, and a failed dial is everybody's doubt.
    pub(crate) leads: bool,
    /// A reader gets the leader because no replica is left.
    pub(crate) is_fallback: bool,
}

/// Nobody can be had now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum NoRoute {
    NoLeader(WhyNobody),
    /// And the leader may not stand in.
    NoReplica,
    /// Somebody is there and must be left alone; until when, `None` for until its next proof.
    NotNow {
        name: Arc<str>,
        until: Option<BootTime>,
    },
}

/// Fails closed: without a lease that is valid at `now` there is no target.
pub(super) fn leader(intent: Intent, picture: &Picture, now: BootTime) -> Result<Target, NoRoute> {
    let Some(lease) = picture.valid_lease(now) else {
        let ended = match picture.lease {
            Some(_) => WhyNobody::LeaseEnded,
            None => WhyNobody::NoProof,
        };
        return Err(NoRoute::NoLeader(picture.why.unwrap_or(ended)));
    };
    let mut target = at_leader(intent, picture, lease);
    target.is_fallback = !intent.route.writes();
    Ok(target)
}

pub(super) fn read_at(intent: Intent, picture: &Picture, member: &Member<'_>) -> Target {
    match member.lease {
        Some(lease) => at_leader(intent, picture, lease),
        None => Target {
            name: Arc::clone(&member.node.name),
            addr: member.addr,
            epoch: 0,
            proved: member.node.reading.asked,
            revocation: pool::revocation(&intent, member.node),
            intent,
            leads: false,
            is_fallback: false,
        },
    }
}

/// A reader's session is never ended with the epoch, only with its node.
pub(super) fn at_leader(intent: Intent, picture: &Picture, lease: &Lease) -> Target {
    let node = picture
        .nodes
        .iter()
        .find(|node| node.name == lease.leader.name);
    let revocation = match node.filter(|_| !intent.route.writes()) {
        Some(node) => pool::revocation(&intent, node),
        None => lease.revocation.clone(),
    };
    Target {
        name: Arc::clone(&lease.leader.name),
        addr: lease.leader.addr,
        epoch: lease.epoch,
        proved: lease.proved,
        revocation,
        intent,
        leads: true,
        is_fallback: false,
    }
}

/// May a session on `target` still start, or go on starting?
pub(super) fn is_still_valid(target: &Target, picture: &Picture, now: BootTime) -> bool {
    if target.leads {
        return picture
            .valid_lease(now)
            .is_some_and(|lease| lease.epoch == target.epoch && lease.leader.addr == target.addr);
    }
    pool::pool(&target.intent, picture, now)
        .any(|member| member.node.name == target.name && member.addr == target.addr)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::metrics::RevokeReason;
    use crate::routing::testing::{lease, nobody};

    const NOW: BootTime = BootTime::ZERO;

    fn addr() -> SocketAddr {
        "127.0.0.1:5432".parse().unwrap()
    }

    fn writable(picture: &Picture, now: BootTime) -> Result<Target, NoRoute> {
        leader(Intent::default(), picture, now)
    }

    #[test]
    fn the_leader_is_the_target_only_while_its_lease_lasts() {
        let mut picture = nobody();
        picture.lease = Some(lease(addr(), 3, NOW));
        picture.why = None;

        let target = writable(&picture, NOW + Duration::from_secs(9)).unwrap();
        assert_eq!((target.addr, target.epoch), (addr(), 3));
        assert_eq!(
            writable(&picture, NOW + Duration::from_secs(10)).unwrap_err(),
            NoRoute::NoLeader(WhyNobody::LeaseEnded)
        );
    }

    #[test]
    fn a_closed_or_revoked_lease_is_no_target() {
        let mut picture = nobody();
        let mut closed = lease(addr(), 1, NOW);
        closed.open = false;
        picture.lease = Some(closed);
        picture.why = Some(WhyNobody::Retiring);
        assert_eq!(
            writable(&picture, NOW).unwrap_err(),
            NoRoute::NoLeader(WhyNobody::Retiring)
        );

        let revoked = lease(addr(), 1, NOW);
        revoked.revocation.revoke(RevokeReason::follows);
        picture.lease = Some(revoked);
        assert!(writable(&picture, NOW).is_err());
    }

    #[test]
    fn without_proof_there_is_nobody() {
        assert!(writable(&nobody(), NOW).is_err());
    }
}
