//! A cluster of three for the tests of this room: pg1 leads, pg2 follows, pg3 is silent.

use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use hyper::header::HeaderMap;
use serde_json::json;
use tokio::sync::{mpsc, watch};
use uuid::Uuid;

use super::routes::Ask;
use super::{AdminSettings, Facts, Port, Shown};
use crate::clock::{BootTime, Clock};
use crate::metrics::{Metrics, SessionLabel};
use crate::primary_tracker::{
    Demand, Leader, Lease, NodePicture, Operator, Picture, Readers, Reading, Revocation, Rule,
    Told, Verdict, WhyNobody,
};
use crate::routing::{Intent, Route};
use crate::topology::Provider;

pub(super) struct Scene {
    pub(super) picture: Picture,
    pub(super) metrics: Arc<Metrics>,
    pub(super) headers: HeaderMap,
    pub(super) settings: AdminSettings,
    pub(super) config: Shown,
    pub(super) now: BootTime,
}

impl Scene {
    /// Epoch 7, timeline 5, 8.25 s of lease left, twelve sessions.
    pub(super) fn leading() -> Self {
        let now = BootTime::from_millis(1_000_000);
        let nodes: Arc<[NodePicture]> = [pg1(now), pg2(now), pg3()].into();
        let metrics = Arc::new(Metrics::new());
        let label = SessionLabel {
            node: "pg1".into(),
            route: "primary",
        };
        metrics.sessions.get_or_create(&label).set(12);
        let leader = Leader {
            name: "pg1".into(),
            node_id: nodes[0].node_id,
            addr: ([10, 0, 0, 11], 5432).into(),
            timeline: Some(5),
        };
        let lease = Lease {
            leader,
            epoch: 7,
            until: Some(now + Duration::from_millis(8_250)),
            proved: now,
            usual: Duration::from_millis(2),
            open: true,
            revocation: Revocation::default(),
        };
        Self {
            picture: Picture {
                provider: Provider::Check,
                lease: Some(lease),
                why: None,
                epoch: 7,
                pending: None,
                scope: Some("main".into()),
                nodes,
                last_failover: None,
                changes: Arc::from([]),
                dial_failed: None,
                first_round_done: true,
                conflicts: 0,
                failsafe: false,
                paused: false,
                lease_timeout: Duration::from_secs(10),
            },
            metrics,
            headers: HeaderMap::new(),
            settings: AdminSettings {
                address: ([127, 0, 0, 1], 9090).into(),
                token_file: None,
                allow_insecure: false,
                enable_chaos: false,
            },
            config: Shown {
                file: json!({ "write_timeout_secs": 45 }),
                ports: vec![
                    port("127.0.0.1:5432", Route::Primary),
                    port("127.0.0.1:5433", Route::Replica),
                ],
            },
            now,
        }
    }

    pub(super) fn without_leader(why: WhyNobody) -> Self {
        let mut scene = Self::leading();
        scene.picture.lease = None;
        scene.picture.why = Some(why);
        scene
    }

    /// A house whose tracker is the test.
    pub(super) fn facts(self) -> (Facts, Strings) {
        let (picture, seen) = watch::channel(self.picture);
        let (operator, orders) = Operator::new();
        let (settings, settings_now) = watch::channel(self.settings);
        let (config, config_now) = watch::channel(Arc::new(self.config));
        let facts = Facts {
            picture: seen,
            metrics: self.metrics,
            demand: Demand::new(Clock::Boot),
            operator,
            settings: settings_now,
            config: config_now,
            clock: Clock::Boot,
            started: Clock::Boot.now(),
        };
        let strings = Strings {
            picture,
            orders,
            settings,
            _config: config,
        };
        (facts, strings)
    }

    pub(super) fn ask(&self) -> Ask<'_> {
        Ask {
            picture: &self.picture,
            metrics: &self.metrics,
            held: 2,
            started: BootTime::from_millis(940_000),
            now: self.now,
            headers: &self.headers,
            settings: &self.settings,
            config: &self.config,
            rest: "",
            query: "",
        }
    }
}

fn port(address: &str, route: Route) -> Port {
    let intent = Intent {
        route,
        ..Intent::default()
    };
    Port {
        address: address.to_owned(),
        intent,
    }
}

fn proved(words: &str, asked: BootTime, rule: Rule) -> Verdict {
    Verdict {
        asked: Some(asked),
        evidence: Some((words.into(), asked)),
        rule,
    }
}

/// What moves the facts of a scene.
pub(super) struct Strings {
    pub(super) picture: watch::Sender<Picture>,
    pub(super) orders: mpsc::Receiver<Told>,
    pub(super) settings: watch::Sender<AdminSettings>,
    _config: watch::Sender<Arc<Shown>>,
}

fn pg1(now: BootTime) -> NodePicture {
    NodePicture {
        name: "pg1".into(),
        node_id: Uuid::from_u128(1),
        address: "10.0.0.11:5432".into(),
        enabled: true,
        readers: Readers::default(),
        forced: false,
        checks: Arc::from([]),
        up: true,
        leader: true,
        role: Some("primary".into()),
        state: Some("running".into()),
        timeline: Some(5),
        lag_bytes: None,
        failures: 0,
        last_check: Some(UNIX_EPOCH + Duration::from_secs(1_700_000_000)),
        last_answer: Some(now),
        latency: Some(Duration::from_micros(2_500)),
        last_error: None,
        words: "200 running primary 5".into(),
        verdict: proved("200 running primary 5", now, Rule::Leads),
        reading: Reading::default(),
    }
}

fn pg2(now: BootTime) -> NodePicture {
    NodePicture {
        name: "pg2".into(),
        node_id: Uuid::from_u128(2),
        address: "10.0.0.12:5432".into(),
        leader: false,
        role: Some("replica".into()),
        lag_bytes: Some(4_096),
        words: "503 running replica 5".into(),
        verdict: proved("503 running replica 5", now, Rule::Follows),
        ..pg1(now)
    }
}

fn pg3() -> NodePicture {
    NodePicture {
        name: "pg3".into(),
        node_id: Uuid::from_u128(3),
        address: "[fd00::13]:5432".into(),
        up: false,
        leader: false,
        role: None,
        state: None,
        timeline: None,
        failures: 5,
        last_answer: None,
        latency: None,
        last_error: Some("pg3: connection refused".into()),
        words: "pg3: connection refused".into(),
        verdict: Verdict {
            asked: Some(BootTime::from_millis(999_700)),
            evidence: None,
            rule: Rule::NoEvidence,
        },
        ..pg1(BootTime::ZERO)
    }
}
