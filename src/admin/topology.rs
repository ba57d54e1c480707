//! `GET /topology`: who leads, for how long that may be relied on, and why nobody does.

use hyper::StatusCode;
use serde::{Deserialize, Serialize};

use super::rfc3339;
use super::routes::{Ask, Reply};
use crate::clock::BootTime;
use crate::primary_tracker::{Lease, Pending, Picture, WhyNobody};

/// The names are those of the Kubernetes operator's CRD status.
///
/// Source: the project's "Topology Providers", "The `/topology` response"; `reason` is an addition.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Topology {
    pub(super) current_primary: Option<String>,
    pub(super) healthy_nodes: usize,
    pub(super) unhealthy_nodes: usize,
    pub(super) total_nodes: usize,
    pub(super) last_failover_at: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) authoritative: Option<Authoritative>,
    /// Absent where nobody claims authority.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) conflicting_primaries_total: Option<u64>,
    pub(super) reason: Option<String>,
}

/// Absent while nobody leads, and where nobody claims authority.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Authoritative {
    pub(super) address: String,
    pub(super) epoch: u64,
    pub(super) timeline: Option<u32>,
    /// False only for a leader that was named, by hand or by the cluster's view, and is still to be confirmed. While
    /// only a view names it, it is not valid either, and its epoch has not begun.
    pub(super) confirmed: bool,
    pub(super) valid: bool,
    /// Absent while the lease is not valid, and when it has no end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) lease_remaining_ms: Option<u64>,
}

pub(super) fn answer(ask: &Ask<'_>) -> Reply {
    Reply::json(StatusCode::OK, &report(ask.picture, ask.now))
}

pub(super) fn report(picture: &Picture, now: BootTime) -> Topology {
    let authoritative_provider = picture.provider.is_authoritative();
    let healthy = picture.nodes.iter().filter(|node| node.up).count();
    Topology {
        current_primary: picture
            .valid_lease(now)
            .map(|lease| address_of_leader(picture, lease)),
        healthy_nodes: healthy,
        unhealthy_nodes: picture.nodes.len() - healthy,
        total_nodes: picture.nodes.len(),
        last_failover_at: picture.last_failover.map(rfc3339::in_words),
        authoritative: picture
            .lease
            .as_ref()
            .filter(|_| picture.pending.is_none())
            .map(|lease| authoritative(picture, lease, now))
            .or_else(|| picture.pending.as_ref().map(|one| pending(picture, one)))
            .filter(|_| authoritative_provider),
        conflicting_primaries_total: authoritative_provider.then_some(picture.conflicts),
        reason: why_nobody(picture, now).map(|why| why.in_words().to_owned()),
    }
}

/// Why nobody is routable at `now`. A lease may have run out since the picture was drawn.
pub(super) fn why_nobody(picture: &Picture, now: BootTime) -> Option<WhyNobody> {
    match (picture.why, picture.valid_lease(now)) {
        (Some(why), _) => Some(why),
        (None, Some(_)) => None,
        (None, None) if picture.lease.is_some() => Some(WhyNobody::LeaseEnded),
        (None, None) => Some(WhyNobody::NoProof),
    }
}

fn authoritative(picture: &Picture, lease: &Lease, now: BootTime) -> Authoritative {
    let valid = lease.is_valid(now);
    let left = lease.remaining(now).filter(|_| valid);
    Authoritative {
        address: address_of_leader(picture, lease),
        epoch: lease.epoch,
        timeline: lease.leader.timeline,
        confirmed: picture.why != Some(WhyNobody::Unconfirmed),
        valid,
        lease_remaining_ms: left.map(|left| u64::try_from(left.as_millis()).unwrap_or(u64::MAX)),
    }
}

fn pending(picture: &Picture, pending: &Pending) -> Authoritative {
    Authoritative {
        address: pending.address.to_string(),
        epoch: picture.epoch,
        timeline: pending.timeline,
        confirmed: false,
        valid: false,
        lease_remaining_ms: None,
    }
}

/// As configured, so that it can be found in `/nodes`; the proved IP address if the node is no longer there.
fn address_of_leader(picture: &Picture, lease: &Lease) -> String {
    let mut nodes = picture.nodes.iter();
    match nodes.find(|node| node.node_id == lease.leader.node_id) {
        Some(node) => node.address.to_string(),
        None => lease.leader.addr.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, UNIX_EPOCH};

    use serde_json::json;

    use super::*;
    use crate::admin::testing::Scene;
    use crate::topology::Provider;

    fn document(scene: &Scene) -> serde_json::Value {
        serde_json::from_str(&answer(&scene.ask()).body).unwrap()
    }

    #[test]
    fn a_leader_with_a_lease_is_told_with_what_is_left_of_it() {
        let mut scene = Scene::leading();
        scene.picture.last_failover = Some(UNIX_EPOCH + Duration::from_secs(1_700_000_000));
        scene.picture.conflicts = 3;

        assert_eq!(
            document(&scene),
            json!({
                "currentPrimary": "10.0.0.11:5432",
                "healthyNodes": 2,
                "unhealthyNodes": 1,
                "totalNodes": 3,
                "lastFailoverAt": "2023-11-14T22:13:20.000Z",
                "authoritative": {
                    "address": "10.0.0.11:5432",
                    "epoch": 7,
                    "timeline": 5,
                    "confirmed": true,
                    "valid": true,
                    "leaseRemainingMs": 8250,
                },
                "conflictingPrimariesTotal": 3,
                "reason": null,
            })
        );
    }

    #[test]
    fn a_lease_that_ran_out_since_the_last_look_is_over_for_the_reader() {
        let mut scene = Scene::leading();
        scene.now = scene.now + Duration::from_millis(8_250);

        let told = document(&scene);

        assert_eq!(told["currentPrimary"], json!(null));
        assert_eq!(told["authoritative"]["valid"], json!(false));
        assert_eq!(told["authoritative"].get("leaseRemainingMs"), None);
        assert_eq!(told["reason"], WhyNobody::LeaseEnded.in_words());
    }

    #[test]
    fn a_leader_by_hearsay_is_told_as_not_confirmed_and_never_valid() {
        let mut scene = Scene::without_leader(WhyNobody::Pending);
        scene.picture.epoch = 7;
        scene.picture.pending = Some(Pending {
            node_id: uuid::Uuid::nil(),
            address: "10.0.0.12:5432".into(),
            timeline: Some(6),
        });

        let told = document(&scene);

        assert_eq!(told["currentPrimary"], json!(null));
        assert_eq!(
            told["authoritative"],
            json!({
                "address": "10.0.0.12:5432",
                "epoch": 7,
                "timeline": 6,
                "confirmed": false,
                "valid": false,
            })
        );
        assert_eq!(told["reason"], WhyNobody::Pending.in_words());
    }

    #[test]
    fn a_retiring_leader_is_still_the_authoritative_one_but_not_routable() {
        let mut scene = Scene::leading();
        scene.picture.why = Some(WhyNobody::Retiring);
        scene.picture.lease.as_mut().unwrap().open = false;

        let told = document(&scene);

        assert_eq!(told["currentPrimary"], json!(null));
        assert_eq!(told["authoritative"]["address"], "10.0.0.11:5432");
        assert_eq!(told["authoritative"]["valid"], json!(false));
        assert_eq!(told["reason"], "the leader is stopping or restarting");
    }

    #[test]
    fn nobody_leads_and_every_other_key_stays() {
        let scene = Scene::without_leader(WhyNobody::Conflict);

        assert_eq!(
            document(&scene),
            json!({
                "currentPrimary": null,
                "healthyNodes": 2,
                "unhealthyNodes": 1,
                "totalNodes": 3,
                "lastFailoverAt": null,
                "conflictingPrimariesTotal": 0,
                "reason": "more than one node claims to lead",
            })
        );
    }

    #[test]
    fn declared_roles_claim_no_authority() {
        let mut scene = Scene::leading();
        scene.picture.provider = Provider::Static;

        let told = document(&scene);

        assert_eq!(told["currentPrimary"], "10.0.0.11:5432");
        assert_eq!(told.get("authoritative"), None);
        assert_eq!(told.get("conflictingPrimariesTotal"), None);
    }

    #[test]
    fn a_lease_without_an_end_has_no_time_left_and_is_valid() {
        let mut scene = Scene::leading();
        scene.picture.lease.as_mut().unwrap().until = None;

        let told = document(&scene);

        assert_eq!(told["authoritative"]["valid"], json!(true));
        assert_eq!(told["authoritative"].get("leaseRemainingMs"), None);
    }
}
