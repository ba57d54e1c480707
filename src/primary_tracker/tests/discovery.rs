//! Members that nobody has configured, as the tracker takes them in.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

use super::{UP_AFTER, body, record};
use crate::clock::Clock;
use crate::metrics::Metrics;
use crate::primary_tracker::run::Tracker;
use crate::primary_tracker::{Demand, Orders, Picture, Progress, TrackerSettings};
use crate::topology::{
    Answer, HealthSettings, Heard, NodeId, Observation, Provider, Rest, RestSettings, Sources,
    View, ViewSeen, ViewSettings,
};

const N1: &str = r#""name":"n1","host":"127.0.1.1","role":"replica""#;

/// n1 is configured.
fn tracker() -> Tracker {
    let views = ViewSettings {
        endpoints: Vec::new(),
        timeout: Duration::from_secs(2),
        interval: Duration::from_secs(2),
        discover: true,
    };
    let clock = Clock::paused();
    let orders = Orders {
        nodes: vec![record(1).settings],
        health: HealthSettings::default(),
        source: Arc::new(Sources::Patroni(views)),
        rest: Arc::new(Rest::open(RestSettings::default()).unwrap()),
        tracker: TrackerSettings {
            provider: Provider::Patroni,
            ..TrackerSettings::default()
        },
    };
    Tracker::new(
        clock,
        orders,
        Demand::new(clock),
        Arc::new(Metrics::new()),
        watch::channel(Picture::blank()).0,
        Progress::default(),
    )
}

/// A view of members, each with its own REST API.
fn look(tracker: &mut Tracker, members: &[&str]) {
    let member = |words: &&str| {
        format!(r#"{{{words},"state":"running","timeline":5,"api_url":"http://127.0.1.9:8008/p"}}"#)
    };
    let members: Vec<_> = members.iter().map(member).collect();
    let body = format!(r#"{{"members":[{}],"scope":"main"}}"#, members.join(","));
    let now = tracker.clock.now();
    let seen = ViewSeen {
        endpoint: "http://127.0.1.1:8008".into(),
        sent: now,
        view: View::read(200, body.as_bytes()).unwrap(),
    };
    tracker.look(Ok(seen), now);
}

fn says(tracker: &mut Tracker, node: NodeId, dial: &str, status: u16, role: &str) {
    let now = tracker.clock.now();
    let seen = Observation {
        node,
        sent: now,
        took: Duration::ZERO,
        heard: Ok(Heard {
            dial: dial.parse().unwrap(),
            said: Answer::read(status, None, body(role, "running", 5).as_bytes()).unwrap(),
        }),
    };
    tracker.decider.observe(seen, now);
}

fn addresses(tracker: &Tracker) -> Vec<String> {
    let records = tracker.decider.records.iter();
    records.map(|r| r.settings.address()).collect()
}

#[tokio::test(start_paused = true)]
async fn a_discovered_node_that_moves_is_another_one_unless_it_leads() {
    let mut tracker = tracker();
    look(
        &mut tracker,
        &[N1, r#""name":"n4","host":"127.0.1.4","role":"replica""#],
    );
    let moved = [N1, r#""name":"n4","host":"127.0.1.5","role":"replica""#];
    look(&mut tracker, &moved);
    assert_eq!(addresses(&tracker), ["127.0.1.1:5432", "127.0.1.5:5432"]);

    let id = tracker.decider.records[1].id;
    says(&mut tracker, NodeId(0), "127.0.1.1:5432", 503, "replica");
    for _ in 0..UP_AFTER {
        says(&mut tracker, id, "127.0.1.5:5432", 200, "primary");
    }
    assert!(tracker.decider.reigns(id));
    look(
        &mut tracker,
        &[N1, r#""name":"n4","host":"127.0.1.6","role":"leader""#],
    );

    assert!(tracker.decider.reigns(id), "a view alone closes nothing");
    assert_eq!(addresses(&tracker), ["127.0.1.1:5432", "127.0.1.5:5432"]);
}

#[tokio::test(start_paused = true)]
async fn a_member_with_the_name_of_a_node_at_another_address_is_not_taken_in() {
    let mut tracker = tracker();
    let renamed = r#""name":"x","host":"127.0.1.1","role":"replica""#;
    look(
        &mut tracker,
        &[
            renamed,
            r#""name":"n1","host":"127.0.1.4","role":"replica""#,
        ],
    );
    assert_eq!(addresses(&tracker), ["127.0.1.1:5432"]);
}
