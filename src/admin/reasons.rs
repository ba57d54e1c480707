//! What `status` prints of the reasons: the last changes of leader, and why a connection goes where it goes.

use super::table::aligned;
use super::why::{Change, Why};

/// More are in `--json`.
const SHOWN: usize = 5;

const HEAD: [&str; 7] = [
    "CHANGED",
    "LEADER",
    "WAS",
    "EPOCH",
    "PROMOTION SEEN",
    "FIRST PROOF",
    "FIRST SESSION",
];

/// Nothing before the first leader.
pub(super) fn changes(why: &Why) -> String {
    if why.changes.is_empty() {
        return String::new();
    }
    let rows = why.changes.iter().take(SHOWN).map(row);
    let table = aligned([HEAD.map(str::to_owned)].into_iter().chain(rows));
    format!("\n{table}")
}

fn row(change: &Change) -> [String; HEAD.len()] {
    let part = |ms: Option<u64>| ms.map_or("-".to_owned(), |ms| format!("+{ms} ms"));
    [
        change.at.clone(),
        change.node.clone(),
        change.was.clone().unwrap_or_else(|| "-".to_owned()),
        change.epoch.to_string(),
        part(change.promotion_seen_ms),
        part(Some(change.first_proof_ms)),
        part(change.first_session_ms),
    ]
}

/// The answer to "why did my connection wait?".
pub(super) fn draw(why: &Why) -> String {
    let routes = why.routes.iter();
    let routes = routes.map(|now| [now.listener.clone(), now.route.clone(), now.words.clone()]);
    let routes = aligned(routes);
    let nodes = why.nodes.iter();
    let nodes = aligned(nodes.map(|node| [node.name.clone(), node.words.clone()]));
    format!("\nA client would get now\n{routes}\nWhat each node last proved\n{nodes}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::admin::testing::Scene;
    use crate::admin::why::report;

    #[test]
    fn a_person_sees_what_a_client_would_get_and_what_each_node_proved() {
        let scene = Scene::leading();

        assert_eq!(
            draw(&report(&scene.picture, &scene.config.ports, scene.now)),
            "
A client would get now
127.0.0.1:5432  primary  goes to the leader pg1 (10.0.0.11:5432), epoch 7, proved 0.0 s ago, the lease lasts 8.2 s more
127.0.0.1:5433  replica  no replica is left, so goes to the leader pg1 (10.0.0.11:5432), epoch 7, proved 0.0 s ago, the lease lasts 8.2 s more; not to pg1: down, pg2: down, pg3: down

What each node last proved
pg1  200 running primary 5, 0.0 s ago: leads
pg2  503 running replica 5, 0.0 s ago: follows
pg3  pg3: connection refused, 0.3 s ago: silent, no evidence; down
"
        );
    }

    #[test]
    fn the_last_changes_are_a_table_and_before_the_first_there_is_none() {
        let one = Change {
            at: "2023-11-14T22:13:20.000Z".into(),
            node: "pg1".into(),
            was: Some("pg2".into()),
            epoch: 7,
            promotion_seen_ms: Some(2_006),
            first_proof_ms: 2_100,
            ..Change::default()
        };
        let first = Change {
            was: None,
            epoch: 1,
            first_session_ms: Some(12),
            first_proof_ms: 0,
            promotion_seen_ms: None,
            ..one.clone()
        };
        let mut why = Why {
            changes: vec![one, first],
            ..Why::default()
        };

        assert_eq!(
            changes(&why),
            "
CHANGED                   LEADER  WAS  EPOCH  PROMOTION SEEN  FIRST PROOF  FIRST SESSION
2023-11-14T22:13:20.000Z  pg1     pg2  7      +2006 ms        +2100 ms     -
2023-11-14T22:13:20.000Z  pg1     -    1      -               +0 ms        +12 ms
"
        );
        why.changes.clear();
        assert_eq!(changes(&why), "");
    }
}
