//! What `status` prints for people: the leader in a sentence, the nodes in a table.

use std::fmt::Write;

use super::metrics::Numbers;
use super::nodes::Node;
use super::topology::Topology;

const HEAD: [&str; 9] = [
    "NODE", "ROLE", "STATE", "TIMELINE", "UP", "LAG", "SESSIONS", "ADDRESS", "NOTE",
];

pub(super) fn draw(topology: &Topology, nodes: &[Node], numbers: &Numbers) -> String {
    let mut page = format!("leader  {}\n", leader(topology, nodes));
    let waiting = match numbers.held_clients {
        0 => "nobody".to_owned(),
        1 => "1 client".to_owned(),
        held => format!("{held} clients"),
    };
    let _ = write!(page, "held    {waiting}\n\n");
    let rows = nodes.iter().map(row);
    page.push_str(&aligned([HEAD.map(str::to_owned)].into_iter().chain(rows)));
    page
}

/// Each column as wide as its widest cell.
pub(super) fn aligned<const COLUMNS: usize>(
    rows: impl Iterator<Item = [String; COLUMNS]>,
) -> String {
    let rows: Vec<_> = rows.collect();
    let widths: [usize; COLUMNS] = std::array::from_fn(|column| {
        let cells = rows.iter().map(|row| row[column].chars().count());
        cells.max().unwrap_or(0)
    });
    let mut text = String::new();
    for row in rows {
        let mut line = String::new();
        for (cell, width) in row.iter().zip(widths) {
            let _ = write!(line, "{cell:width$}  ");
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

fn leader(topology: &Topology, nodes: &[Node]) -> String {
    let reason = topology.reason.as_deref();
    let name_of = |address: &str| {
        let node = nodes.iter().find(|node| node.address == address);
        node.map_or("", |node| node.name.as_str())
    };
    let Some(lead) = &topology.authoritative else {
        return match &topology.current_primary {
            Some(declared) => format!("{} ({declared}), by configuration", name_of(declared)),
            None => format!("nobody: {}", reason.unwrap_or("no reason given")),
        };
    };
    let name = name_of(&lead.address);
    let mut told = format!("{name} ({}), epoch {}", lead.address, lead.epoch);
    if let Some(timeline) = lead.timeline {
        let _ = write!(told, ", timeline {timeline}");
    }
    if let Some(ms) = lead.lease_remaining_ms {
        let _ = write!(told, ", lease {}.{} s left", ms / 1000, ms % 1000 / 100);
    }
    if let Some(reason) = reason {
        let _ = write!(told, "; no new sessions: {reason}");
    }
    told
}

fn row(node: &Node) -> [String; HEAD.len()] {
    let word = |word: &Option<String>| word.clone().unwrap_or_else(|| "-".into());
    let mark = if node.leader { "*" } else { "" };
    let note = match (&node.last_error, node.enabled) {
        (Some(error), true) => error.clone(),
        (Some(error), false) => format!("disabled; {error}"),
        (None, true) => String::new(),
        (None, false) => "disabled".into(),
    };
    [
        format!("{}{mark}", node.name),
        word(&node.role),
        word(&node.state),
        node.timeline.map_or("-".into(), |t| t.to_string()),
        if node.healthy { "yes" } else { "no" }.into(),
        node.replication_lag_bytes.map_or("-".into(), in_bytes),
        node.sessions.to_string(),
        node.address.clone(),
        note,
    ]
}

fn in_bytes(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
    let mut scaled = bytes as f64;
    let mut unit = 0;
    while scaled >= 1024.0 && unit + 1 < UNITS.len() {
        scaled /= 1024.0;
        unit += 1;
    }
    match unit {
        0 => format!("{bytes} B"),
        _ => format!("{scaled:.1} {}", UNITS[unit]),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::admin::routes::Reply;
    use crate::admin::testing::Scene;
    use crate::admin::{metrics, nodes, topology};
    use crate::primary_tracker::WhyNobody;

    fn drawn(scene: &Scene) -> String {
        fn read<T: serde::de::DeserializeOwned>(reply: Reply) -> T {
            serde_json::from_str(&reply.body).unwrap()
        }
        let ask = scene.ask();
        draw(
            &read(topology::answer(&ask)),
            &read::<Vec<_>>(nodes::all(&ask)),
            &read(metrics::as_json(&ask)),
        )
    }

    #[test]
    fn a_person_sees_leader_lease_and_nodes_at_a_glance() {
        assert_eq!(
            drawn(&Scene::leading()),
            "\
leader  pg1 (10.0.0.11:5432), epoch 7, timeline 5, lease 8.2 s left
held    2 clients

NODE  ROLE     STATE    TIMELINE  UP   LAG      SESSIONS  ADDRESS          NOTE
pg1*  primary  running  5         yes  -        12        10.0.0.11:5432
pg2   replica  running  5         yes  4.0 KiB  0         10.0.0.12:5432
pg3   -        -        -         no   -        0         [fd00::13]:5432  pg3: connection refused
"
        );
    }

    #[test]
    fn nobody_has_a_reason() {
        let page = drawn(&Scene::without_leader(WhyNobody::Promoting));
        assert!(
            page.starts_with("leader  nobody: a node is being promoted\n"),
            "{page}"
        );
    }

    #[test]
    fn a_leader_without_a_valid_lease_is_named_with_the_reason() {
        let mut scene = Scene::leading();
        scene.now = scene.now + Duration::from_secs(9);

        let first = "leader  pg1 (10.0.0.11:5432), epoch 7, timeline 5; no new sessions: \
                     the leader fell silent and its lease ended\n";
        let page = drawn(&scene);
        assert!(page.starts_with(first), "{page}");
    }

    #[test]
    fn a_disabled_node_is_marked() {
        let mut scene = Scene::leading();
        let mut nodes = scene.picture.nodes.to_vec();
        nodes[1].enabled = false;
        nodes[2].enabled = false;
        scene.picture.nodes = nodes.into();

        let page = drawn(&scene);

        assert!(page.contains("10.0.0.12:5432   disabled\n"), "{page}");
        assert!(
            page.contains("disabled; pg3: connection refused\n"),
            "{page}"
        );
    }

    #[test]
    fn bytes_are_scaled_for_people() {
        assert_eq!(in_bytes(0), "0 B");
        assert_eq!(in_bytes(1023), "1023 B");
        assert_eq!(in_bytes(1024), "1.0 KiB");
        assert_eq!(in_bytes(3 << 30), "3.0 GiB");
        assert_eq!(in_bytes(u64::MAX), "16777216.0 TiB");
    }
}
