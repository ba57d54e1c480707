//! `/health…` and the z-paths: is the process alive, and can a client be sent to a leader right now?

use hyper::StatusCode;
use serde::Serialize;

use super::routes::{Ask, Reply};
use super::topology::why_nobody;

#[derive(Serialize)]
struct Health {
    status: &'static str,
    ready: bool,
    /// Why nobody is routable, else null.
    reason: Option<&'static str>,
}

/// For people: always 200, with the verdict of readiness inside.
pub(super) fn summary(ask: &Ask<'_>) -> Reply {
    let health = look(ask);
    Reply::json(StatusCode::OK, &health)
}

/// Alive is who answers. It never depends on the cluster: a restart would heal nothing there.
pub(super) fn live(_: &Ask<'_>) -> Reply {
    let alive = serde_json::json!({ "status": "ok" });
    Reply::json(StatusCode::OK, &alive)
}

/// Ready means a leader with a valid lease. A healthy node alone would call a read-only cluster ready.
pub(super) fn ready(ask: &Ask<'_>) -> Reply {
    let health = look(ask);
    let status = if health.ready {
        StatusCode::OK
    } else {
        StatusCode::SERVICE_UNAVAILABLE
    };
    Reply::json(status, &health)
}

fn look(ask: &Ask<'_>) -> Health {
    let ready = ask.picture.valid_lease(ask.now).is_some();
    Health {
        status: if ready { "ok" } else { "no leader" },
        ready,
        reason: why_nobody(ask.picture, ask.now).map(|why| why.in_words()),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::admin::testing::Scene;
    use crate::primary_tracker::WhyNobody;

    #[test]
    fn ready_is_a_valid_lease_and_not_a_healthy_node() {
        let mut scene = Scene::leading();
        assert_eq!(ready(&scene.ask()).status, StatusCode::OK);

        scene.now = scene.now + Duration::from_secs(9);
        let late = ready(&scene.ask());
        assert_eq!(late.status, StatusCode::SERVICE_UNAVAILABLE);
        assert!(late.body.contains("its lease ended"), "{}", late.body);

        let headless = Scene::without_leader(WhyNobody::NobodyLeads);
        let reply = ready(&headless.ask());
        assert_eq!(reply.status, StatusCode::SERVICE_UNAVAILABLE);
        assert_eq!(
            reply.body,
            "{\"status\":\"no leader\",\"ready\":false,\"reason\":\"no node leads\"}\n"
        );
    }

    #[test]
    fn a_cluster_without_a_leader_does_not_make_the_process_dead() {
        let scene = Scene::without_leader(WhyNobody::NobodyLeads);

        assert_eq!(live(&scene.ask()).status, StatusCode::OK);
        assert_eq!(summary(&scene.ask()).status, StatusCode::OK);
    }
}
