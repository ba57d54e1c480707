//! Who may be read from: a pure function of what is known, of a listener's settings and of `now`.

use std::net::SocketAddr;

use super::Intent;
use super::settings::{OnPromotion, Route};
use crate::clock::BootTime;
use crate::primary_tracker::{Lease, NodePicture, Picture, Revocation};
use crate::topology::Feed;

/// A node that may be read from.
#[derive(Clone, Copy, Debug)]
pub(super) struct Member<'a> {
    pub(super) node: &'a NodePicture,
    pub(super) addr: SocketAddr,
    /// Set where it is in the pool as the leader.
    pub(super) lease: Option<&'a Lease>,
    /// Its data moves on: whoever only runs is second choice.
    pub(super) is_live: bool,
}

/// Why a node is not in the pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Out {
    Disabled,
    Weightless,
    Down,
    NoReplica,
    Tagged,
    Archive,
    Dry,
    Behind,
    /// Its read sessions are just being ended, or it is being removed.
    Closed,
}

impl Out {
    pub(super) fn in_words(self) -> &'static str {
        match self {
            Self::Disabled => "disabled",
            Self::Weightless => "weight 0",
            Self::Down => "down",
            Self::NoReplica => "no running replica",
            Self::Tagged => "tagged noloadbalance",
            Self::Archive => "in archive recovery",
            Self::Dry => "not streaming",
            Self::Behind => "lag above max_lag_bytes or unknown",
            Self::Closed => "just being changed",
        }
    }
}

pub(super) fn pool<'a>(
    intent: &Intent,
    picture: &'a Picture,
    now: BootTime,
) -> impl Iterator<Item = Member<'a>> {
    let nodes = picture.nodes.iter();
    nodes.filter_map(move |node| member(intent, picture, node, now).ok())
}

/// Fails closed: a node is in when all is known that must be known of it.
pub(super) fn member<'a>(
    intent: &Intent,
    picture: &'a Picture,
    node: &'a NodePicture,
    now: BootTime,
) -> Result<Member<'a>, Out> {
    let (reading, wanted) = (&node.reading, &intent.reads);
    if !node.enabled {
        return Err(Out::Disabled);
    }
    if reading.weight == 0 {
        return Err(Out::Weightless);
    }
    if intent.route == Route::Any
        && let Some(lease) = picture.valid_lease(now)
        && node.leader
    {
        return Ok(Member {
            node,
            addr: lease.leader.addr,
            lease: Some(lease),
            is_live: true,
        });
    }
    let addr = reading.addr.filter(|_| node.up).ok_or(Out::Down)?;
    let feed = reading.feed.ok_or(Out::NoReplica)?;
    if reading.noloadbalance {
        return Err(Out::Tagged);
    }
    if feed == Feed::Archive && !wanted.archive_recovery {
        return Err(Out::Archive);
    }
    if feed != Feed::Streaming && wanted.require_streaming {
        return Err(Out::Dry);
    }
    let is_behind = |most| node.lag_bytes.is_none_or(|lag| lag > most);
    if wanted.max_lag_bytes.is_some_and(is_behind) {
        return Err(Out::Behind);
    }
    if revocation(intent, node).is_revoked() {
        return Err(Out::Closed);
    }
    Ok(Member {
        node,
        addr,
        lease: None,
        is_live: feed == Feed::Streaming,
    })
}

/// What ends a read session there.
pub(super) fn revocation(intent: &Intent, node: &NodePicture) -> Revocation {
    let readers = &node.readers;
    match intent.reads.on_promotion {
        OnPromotion::Keep => readers.whoever_leads.clone(),
        OnPromotion::Close => readers.unless_it_leads.clone(),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::routing::testing::{lease, nobody, reads};

    const NOW: BootTime = BootTime::ZERO;

    fn replica() -> NodePicture {
        let mut node = nobody().nodes[0].clone();
        node.reading.addr = Some("10.0.0.11:5432".parse().unwrap());
        node.reading.feed = Some(Feed::Streaming);
        node
    }

    fn plain() -> Intent {
        reads(|_| ())
    }

    /// `Ok` with whether its data moves on.
    fn verdict(intent: Intent, change: impl FnOnce(&mut NodePicture)) -> Result<bool, Out> {
        let mut node = replica();
        change(&mut node);
        member(&intent, &nobody(), &node, NOW).map(|member| member.is_live)
    }

    #[test]
    fn a_running_replica_that_is_up_is_in() {
        assert_eq!(verdict(plain(), |_| ()), Ok(true));
        assert_eq!(
            verdict(plain(), |n| n.reading.feed = None),
            Err(Out::NoReplica)
        );
        assert_eq!(verdict(plain(), |n| n.up = false), Err(Out::Down));
        assert_eq!(verdict(plain(), |n| n.reading.addr = None), Err(Out::Down));
    }

    #[test]
    fn whoever_does_not_stream_is_second_choice_or_out() {
        let dry = |n: &mut NodePicture| n.reading.feed = Some(Feed::Dry);
        let archive = |n: &mut NodePicture| n.reading.feed = Some(Feed::Archive);
        let strict = reads(|r| r.require_streaming = true);
        let both = reads(|r| (r.require_streaming, r.archive_recovery) = (true, true));

        assert_eq!(verdict(plain(), dry), Ok(false));
        assert_eq!(verdict(strict, dry), Err(Out::Dry));
        assert_eq!(verdict(plain(), archive), Err(Out::Archive));
        assert_eq!(
            verdict(reads(|r| r.archive_recovery = true), archive),
            Ok(false)
        );
        assert_eq!(verdict(both, archive), Err(Out::Dry));
        assert_eq!(verdict(strict, |_| ()), Ok(true));
    }

    #[test]
    fn an_operators_word_keeps_reads_away() {
        assert_eq!(
            verdict(plain(), |n| n.reading.noloadbalance = true),
            Err(Out::Tagged)
        );
        assert_eq!(
            verdict(plain(), |n| n.reading.weight = 0),
            Err(Out::Weightless)
        );
        assert_eq!(verdict(plain(), |n| n.enabled = false), Err(Out::Disabled));
    }

    #[test]
    fn with_a_limit_only_a_known_lag_within_it_is_in() {
        let limit = reads(|r| r.max_lag_bytes = Some(1000));
        for (lag, verdict_with, verdict_without) in [
            (Some(0), Ok(true), Ok(true)),
            (Some(1000), Ok(true), Ok(true)),
            (Some(1001), Err(Out::Behind), Ok(true)),
            (None, Err(Out::Behind), Ok(true)),
        ] {
            assert_eq!(
                verdict(limit, |n| n.lag_bytes = lag),
                verdict_with,
                "{lag:?}"
            );
            assert_eq!(
                verdict(plain(), |n| n.lag_bytes = lag),
                verdict_without,
                "{lag:?}"
            );
        }
    }

    #[test]
    fn the_leader_is_in_any_pool_while_its_lease_lasts_and_in_no_replica_pool() {
        let mut picture = nobody();
        let mut node = replica();
        node.leader = true;
        node.reading.feed = None;
        node.reading.noloadbalance = true;
        picture.nodes = [node].into();
        picture.lease = Some(lease("10.0.0.11:5432".parse().unwrap(), 1, NOW));
        let any = Intent {
            route: Route::Any,
            ..plain()
        };
        let count = |intent: &Intent, now| pool(intent, &picture, now).count();

        assert_eq!(count(&any, NOW), 1);
        assert_eq!(count(&any, NOW + Duration::from_secs(10)), 0);
        assert_eq!(count(&plain(), NOW), 0);
    }

    #[test]
    fn a_node_whose_read_sessions_are_being_ended_gets_none() {
        let closing = |n: &mut NodePicture| {
            n.readers
                .unless_it_leads
                .revoke(crate::metrics::RevokeReason::moved)
        };
        let close = reads(|r| r.on_promotion = OnPromotion::Close);

        assert_eq!(verdict(close, closing), Err(Out::Closed));
        assert_eq!(verdict(plain(), closing), Ok(true));
    }
}
