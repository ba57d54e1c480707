//! `GET /sessions`: how many are open, where, and by which kind of listener.

use std::collections::BTreeMap;

use hyper::StatusCode;
use serde::Serialize;

use super::routes::{Ask, Reply};
use crate::routing::Route;

#[derive(Debug, PartialEq, Eq, Serialize)]
struct Sessions {
    /// Open ones.
    active: i64,
    /// Clients that wait for a leader.
    held: usize,
    nodes: Vec<AtNode>,
}

#[derive(Debug, PartialEq, Eq, Serialize)]
struct AtNode {
    address: String,
    name: String,
    active: i64,
    /// By the listener's word.
    routes: BTreeMap<&'static str, i64>,
}

pub(super) fn answer(ask: &Ask<'_>) -> Reply {
    let nodes = ask.picture.nodes.iter().map(|node| {
        let by_route = Route::ALL.map(|route| {
            let open = ask.metrics.sessions_by(route.word(), &node.name);
            (route.word(), open)
        });
        AtNode {
            address: node.address.to_string(),
            name: node.name.to_string(),
            active: by_route.iter().map(|(_, open)| open).sum(),
            routes: by_route.into(),
        }
    });
    let nodes: Vec<_> = nodes.collect();
    let all = Sessions {
        active: nodes.iter().map(|node| node.active).sum(),
        held: ask.held,
        nodes,
    };
    Reply::json(StatusCode::OK, &all)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::admin::testing::Scene;
    use crate::metrics::SessionLabel;

    #[test]
    fn sessions_are_counted_by_node_and_by_route() {
        let scene = Scene::leading();
        let label = SessionLabel {
            node: "pg2".into(),
            route: "replica",
        };
        scene.metrics.sessions.get_or_create(&label).set(3);

        let told: Value = serde_json::from_str(&answer(&scene.ask()).body).unwrap();

        assert_eq!((&told["active"], &told["held"]), (&json!(15), &json!(2)));
        assert_eq!(
            told["nodes"][1],
            json!({
                "address": "10.0.0.12:5432",
                "name": "pg2",
                "active": 3,
                "routes": { "primary": 0, "replica": 3, "any": 0 },
            })
        );
    }
}
