//! The choice itself: a pure function of what is known and of `now`.

use std::net::SocketAddr;
use std::sync::Arc;

use super::Route;
use crate::clock::BootTime;
use crate::primary_tracker::{Picture, Revocation, WhyNobody};

/// Where a session goes: an address, and the token that ends the session. Chosen together, so that no session can
/// belong to one leader and be ended with another.
#[derive(Clone, Debug)]
pub(crate) struct Target {
    pub(crate) name: Arc<str>,
    pub(crate) addr: SocketAddr,
    pub(crate) epoch: u64,
    /// When the question was sent whose answer last proved the leader.
    pub(crate) proved: BootTime,
    pub(crate) revocation: Revocation,
}

/// Nobody may be written to now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NoRoute(pub(crate) WhyNobody);

/// Fails closed: without a lease that is valid at `now` there is no target.
pub(super) fn decide(route: Route, picture: &Picture, now: BootTime) -> Result<Target, NoRoute> {
    match route {
        Route::Primary => leader(picture, now),
    }
}

fn leader(picture: &Picture, now: BootTime) -> Result<Target, NoRoute> {
    let Some(lease) = picture.valid_lease(now) else {
        let ended = match picture.lease {
            Some(_) => WhyNobody::LeaseEnded,
            None => WhyNobody::NoProof,
        };
        return Err(NoRoute(picture.why.unwrap_or(ended)));
    };
    Ok(Target {
        name: Arc::clone(&lease.leader.name),
        addr: lease.leader.addr,
        epoch: lease.epoch,
        proved: lease.proved,
        revocation: lease.revocation.clone(),
    })
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

    #[test]
    fn the_leader_is_the_target_only_while_its_lease_lasts() {
        let mut picture = nobody();
        picture.lease = Some(lease(addr(), 3, NOW));
        picture.why = None;

        let target = decide(Route::Primary, &picture, NOW + Duration::from_secs(9)).unwrap();
        assert_eq!((target.addr, target.epoch), (addr(), 3));
        assert_eq!(
            decide(Route::Primary, &picture, NOW + Duration::from_secs(10)).unwrap_err(),
            NoRoute(WhyNobody::LeaseEnded)
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
            decide(Route::Primary, &picture, NOW).unwrap_err(),
            NoRoute(WhyNobody::Retiring)
        );

        let revoked = lease(addr(), 1, NOW);
        revoked.revocation.revoke(RevokeReason::follows);
        picture.lease = Some(revoked);
        assert!(decide(Route::Primary, &picture, NOW).is_err());
    }

    #[test]
    fn without_proof_there_is_nobody() {
        assert!(decide(Route::Primary, &nobody(), NOW).is_err());
    }
}
