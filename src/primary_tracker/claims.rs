//! Two leaders are none: which of several claims is authorised.

use super::record::Claim;
use crate::topology::{NodeId, Provider};

/// What several claims come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Weighed {
    Nobody,
    One(NodeId),
    /// A tie, unreadable timelines, or different clusters while none is pinned.
    Conflict,
}

/// A strictly higher timeline wins within one cluster. A claim that names none loses against one that does, where the
/// timeline is part of every answer; where it had to be asked for and could not be read, it may be the higher one.
pub(super) fn weigh(provider: Provider, claims: &[(NodeId, &Claim)]) -> Weighed {
    if claims.is_empty() {
        return Weighed::Nobody;
    }
    if are_several_clusters(claims.iter().map(|(_, claim)| *claim)) {
        return Weighed::Conflict;
    }
    let unreadable = claims.iter().any(|(_, claim)| claim.timeline.is_none());
    if provider == Provider::Postgres && claims.len() > 1 && unreadable {
        return Weighed::Conflict;
    }
    let highest = claims.iter().map(|(_, claim)| claim.timeline).max();
    let mut best = claims
        .iter()
        .filter(|(_, claim)| Some(claim.timeline) == highest);
    match (best.next(), best.next()) {
        (Some((id, _)), None) => Weighed::One(*id),
        _ => Weighed::Conflict,
    }
}

/// Compared pair by pair: one that names nothing agrees with two that differ.
pub(super) fn are_several_clusters<'a>(claims: impl Iterator<Item = &'a Claim> + Clone) -> bool {
    let mut rest = claims;
    while let Some(claim) = rest.next() {
        if rest.clone().any(|other| !same_cluster(claim, other)) {
            return true;
        }
    }
    false
}

/// A name that one of them leaves out distinguishes nothing.
fn same_cluster(a: &Claim, b: &Claim) -> bool {
    let agree = |a: Option<&str>, b: Option<&str>| a.is_none() || b.is_none() || a == b;
    agree(a.scope.as_deref(), b.scope.as_deref())
        && agree(a.identifier.as_deref(), b.identifier.as_deref())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::BootTime;

    fn claim(timeline: Option<u32>, identifier: &str, scope: &str) -> Claim {
        Claim {
            dial: "10.0.0.1:5432".parse().unwrap(),
            timeline,
            identifier: (!identifier.is_empty()).then(|| identifier.into()),
            scope: (!scope.is_empty()).then(|| scope.into()),
            sent: BootTime::ZERO,
            until: BootTime::ZERO,
            lock_too_old: false,
            lock_ends: None,
            vouched: None,
        }
    }

    fn weighed(claims: &[Claim]) -> Weighed {
        let claims: Vec<_> = (0..).map(NodeId).zip(claims).collect();
        weigh(Provider::Check, &claims)
    }

    #[test]
    fn a_strictly_higher_timeline_wins() {
        let (low, high) = (claim(Some(5), "7", "main"), claim(Some(6), "7", "main"));
        assert_eq!(weighed(&[]), Weighed::Nobody);
        assert_eq!(weighed(std::slice::from_ref(&low)), Weighed::One(NodeId(0)));
        assert_eq!(weighed(&[low, high]), Weighed::One(NodeId(1)));
    }

    #[test]
    fn a_tie_is_a_conflict() {
        let five = claim(Some(5), "7", "main");
        assert_eq!(weighed(&[five.clone(), five.clone()]), Weighed::Conflict);
        let none = claim(None, "7", "main");
        assert_eq!(weighed(&[none.clone(), none]), Weighed::Conflict);
    }

    #[test]
    fn a_claim_without_a_timeline_loses_against_one_with() {
        let (none, five) = (claim(None, "7", "main"), claim(Some(5), "7", "main"));
        assert_eq!(weighed(&[none, five]), Weighed::One(NodeId(1)));
    }

    #[test]
    fn a_timeline_that_could_not_be_read_beside_another_claim_is_a_conflict_for_provider_postgres()
    {
        let (none, five) = (claim(None, "7", ""), claim(Some(5), "7", ""));
        let weighed = |claims: &[Claim]| {
            let claims: Vec<_> = (0..).map(NodeId).zip(claims).collect();
            weigh(Provider::Postgres, &claims)
        };
        assert_eq!(weighed(&[none.clone(), five]), Weighed::Conflict);
        assert_eq!(
            weighed(std::slice::from_ref(&none)),
            Weighed::One(NodeId(0))
        );
    }

    #[test]
    fn two_clusters_are_a_conflict_whatever_their_timelines() {
        let (a, b) = (claim(Some(5), "7", "main"), claim(Some(9), "8", "main"));
        assert_eq!(weighed(&[a, b]), Weighed::Conflict);
        let (none, a, b) = (
            claim(Some(9), "", ""),
            claim(Some(5), "7", ""),
            claim(Some(5), "8", ""),
        );
        assert_eq!(weighed(&[none, a, b]), Weighed::Conflict);
        let (a, b) = (claim(Some(5), "", "main"), claim(Some(9), "", "other"));
        assert_eq!(weighed(&[a, b]), Weighed::Conflict);
    }
}
