//! `GET /topology/why`: why a connection goes where it goes, or waits; and the last changes of leader.

use std::time::Duration;

use hyper::StatusCode;
use serde::{Deserialize, Serialize};

use super::routes::{Ask, Reply};
use super::{Port, rfc3339};
use crate::clock::BootTime;
use crate::primary_tracker::{LeaderChange, NodePicture, Picture};
use crate::routing::{Target, outlook};

/// What an operator asks when a connection has waited.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Why {
    pub(super) routes: Vec<RouteNow>,
    pub(super) nodes: Vec<NodeWhy>,
    /// The newest failed dial of the leader that no good one has followed.
    pub(super) dial_failed_ms_ago: Option<u64>,
    /// Newest first.
    pub(super) changes: Vec<Change>,
}

/// What a client of one listener would get now.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct RouteNow {
    pub(super) listener: String,
    pub(super) route: String,
    /// One of these; empty while it would wait.
    pub(super) nodes: Vec<String>,
    pub(super) words: String,
}

/// Every key is always there, null when unknown.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct NodeWhy {
    pub(super) name: String,
    pub(super) address: String,
    /// How the latest question ended.
    pub(super) latest: String,
    pub(super) latest_ms_ago: Option<u64>,
    /// What the node last proved. Silence leaves it.
    pub(super) evidence: Option<String>,
    pub(super) evidence_ms_ago: Option<u64>,
    pub(super) rule: String,
    /// All of it in one sentence.
    pub(super) words: String,
}

/// One change of leader. Times count from the last proof of the old leader.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Change {
    pub(super) at: String,
    pub(super) node: String,
    pub(super) address: String,
    pub(super) epoch: u64,
    pub(super) timeline: Option<u32>,
    /// Null for the first leader.
    pub(super) was: Option<String>,
    pub(super) promotion_seen_ms: Option<u64>,
    pub(super) first_proof_ms: u64,
    /// Null when no session came within two seconds of the proof.
    pub(super) first_session_ms: Option<u64>,
}

pub(super) fn answer(ask: &Ask<'_>) -> Reply {
    Reply::json(
        StatusCode::OK,
        &report(ask.picture, &ask.config.ports, ask.now),
    )
}

pub(super) fn report(picture: &Picture, ports: &[Port], now: BootTime) -> Why {
    let failed = picture.dial_failed.map(|at| now.saturating_sub(at));
    Why {
        routes: ports.iter().map(|port| route(port, picture, now)).collect(),
        nodes: picture.nodes.iter().map(|node| why(node, now)).collect(),
        dial_failed_ms_ago: failed.map(millis),
        changes: picture.changes.iter().map(change).collect(),
    }
}

fn route(port: &Port, picture: &Picture, now: BootTime) -> RouteNow {
    let outlook = outlook(&port.intent, picture, now);
    let left_out = outlook.left_out.iter();
    let left_out: Vec<_> = left_out
        .map(|(node, why)| format!("{node}: {why}"))
        .collect();
    let mut words = match (&outlook.targets[..], outlook.waits) {
        ([], why) => format!(
            "waits, at most write_timeout_secs: {}",
            why.unwrap_or("nobody is there")
        ),
        ([target], _) if target.is_fallback => {
            format!(
                "no replica is left, so {}",
                at_the_leader(picture, target, now)
            )
        }
        ([target], _) if target.leads => at_the_leader(picture, target, now),
        (several, _) => {
            let several = several.iter().map(|t| format!("{} ({})", t.name, t.addr));
            format!("goes to {}", several.collect::<Vec<_>>().join(" or "))
        }
    };
    if !left_out.is_empty() {
        words = format!("{words}; not to {}", left_out.join(", "));
    }
    RouteNow {
        listener: port.address.clone(),
        route: port.intent.route.word().to_owned(),
        nodes: outlook.targets.iter().map(|t| t.name.to_string()).collect(),
        words,
    }
}

fn at_the_leader(picture: &Picture, target: &Target, now: BootTime) -> String {
    let proved = ago(now.saturating_sub(target.proved));
    let left = picture
        .lease
        .as_ref()
        .and_then(|lease| lease.remaining(now));
    let left = left.map_or_else(String::new, |left| {
        format!(", the lease lasts {} s more", secs(left))
    });
    let failed = picture.dial_failed.map_or_else(String::new, |at| {
        let waits = match target.proved > at {
            true => "",
            false => ", the next one waits for a newer proof",
        };
        format!(
            "; the last dial failed {}{waits}",
            ago(now.saturating_sub(at))
        )
    });
    format!(
        "goes to the leader {} ({}), epoch {}, proved {proved}{left}{failed}",
        target.name, target.addr, target.epoch
    )
}

fn why(node: &NodePicture, now: BootTime) -> NodeWhy {
    let since = |at: BootTime| now.saturating_sub(at);
    let verdict = &node.verdict;
    let asked = verdict.asked.map(since);
    let evidence = verdict.evidence.as_ref();
    let evidence = evidence.map(|(words, at)| (words.to_string(), since(*at)));
    let rule = verdict.rule.in_words();
    NodeWhy {
        name: node.name.to_string(),
        address: node.address.to_string(),
        words: in_words(node, asked, evidence.as_ref(), &rule),
        latest: node.words.to_string(),
        latest_ms_ago: asked.map(millis),
        evidence_ms_ago: evidence.as_ref().map(|(_, age)| millis(*age)),
        evidence: evidence.map(|(words, _)| words),
        rule,
    }
}

/// `200 running primary 5, 0.4 s ago: leads`. What proved nothing is told before the older word that counts.
fn in_words(
    node: &NodePicture,
    asked: Option<Duration>,
    evidence: Option<&(String, Duration)>,
    rule: &str,
) -> String {
    let latest = match asked {
        Some(age) => format!("{}, {}", node.words, ago(age)),
        None => node.words.to_string(),
    };
    let mut words = match evidence {
        Some((_, age)) if Some(*age) == asked => format!("{latest}: {rule}"),
        Some((word, age)) => {
            let worth = match node.last_error {
                Some(_) => "silent, no evidence",
                None => "proves nothing",
            };
            format!(
                "{latest}: {worth}; before that {word}, {}: {rule}",
                ago(*age)
            )
        }
        None => format!("{latest}: {rule}"),
    };
    if !node.up {
        words.push_str("; down");
    }
    if !node.enabled {
        words.push_str("; disabled, gets no session");
    }
    words
}

pub(super) fn change(change: &LeaderChange) -> Change {
    Change {
        at: rfc3339::in_words(change.at),
        node: change.node.to_string(),
        address: change.address.to_string(),
        epoch: change.epoch,
        timeline: change.timeline,
        was: change.was.as_deref().map(str::to_owned),
        promotion_seen_ms: change.promotion_seen.map(millis),
        first_proof_ms: millis(change.first_proof),
        first_session_ms: change.first_session.map(millis),
    }
}

fn millis(d: Duration) -> u64 {
    u64::try_from(d.as_millis()).unwrap_or(u64::MAX)
}

/// `0.4 s ago`.
fn ago(d: Duration) -> String {
    format!("{} s ago", secs(d))
}

/// Tenths: a lease counts in them.
fn secs(d: Duration) -> String {
    format!("{:.1}", d.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use std::time::UNIX_EPOCH;

    use super::*;
    use crate::admin::testing::Scene;
    use crate::primary_tracker::{Rule, WhyNobody};
    use crate::topology::Feed;

    /// Four tenths of a second after everybody was asked.
    fn a_moment_later() -> Scene {
        let mut scene = Scene::leading();
        scene.now = scene.now + Duration::from_millis(400);
        scene
    }

    fn told(scene: &Scene) -> Why {
        serde_json::from_str(&answer(&scene.ask()).body).unwrap()
    }

    fn change_node(scene: &mut Scene, at: usize, change: impl Fn(&mut NodePicture)) {
        let mut nodes = scene.picture.nodes.to_vec();
        change(&mut nodes[at]);
        scene.picture.nodes = nodes.into();
    }

    #[test]
    fn each_node_is_told_with_its_evidence_its_age_and_the_rule() {
        let why = told(&a_moment_later());

        let words: Vec<_> = why.nodes.iter().map(|node| node.words.as_str()).collect();
        assert_eq!(
            words,
            [
                "200 running primary 5, 0.4 s ago: leads",
                "503 running replica 5, 0.4 s ago: follows",
                "pg3: connection refused, 0.7 s ago: silent, no evidence; down",
            ]
        );
        assert_eq!(why.nodes[0].evidence_ms_ago, Some(400));
        assert_eq!(why.nodes[2].evidence, None);
        assert_eq!(why.nodes[2].latest_ms_ago, Some(700));
    }

    #[test]
    fn silence_is_told_before_the_older_word_that_counts() {
        let mut scene = a_moment_later();
        let asked = scene.now;
        change_node(&mut scene, 0, |node| {
            node.verdict.asked = Some(asked);
            node.words = "did not answer within 8s".into();
            node.last_error = Some("did not answer within 8s".into());
        });

        assert_eq!(
            told(&scene).nodes[0].words,
            "did not answer within 8s, 0.0 s ago: silent, no evidence; \
             before that 200 running primary 5, 0.4 s ago: leads"
        );
    }

    #[test]
    fn an_answer_that_proves_nothing_says_so() {
        let mut scene = a_moment_later();
        let asked = scene.now;
        change_node(&mut scene, 1, |node| {
            node.verdict.asked = Some(asked);
            node.words = "200 unknown primary 5".into();
            node.enabled = false;
        });

        assert_eq!(
            told(&scene).nodes[1].words,
            "200 unknown primary 5, 0.0 s ago: proves nothing; before that 503 running replica 5, \
             0.4 s ago: follows; disabled, gets no session"
        );
    }

    #[test]
    fn a_writer_goes_to_the_leader_or_waits_for_a_reason() {
        let writer = |scene: &Scene| told(scene).routes[0].clone();
        let mut scene = a_moment_later();
        let goes = "goes to the leader pg1 (10.0.0.11:5432), epoch 7, proved 0.4 s ago, \
                    the lease lasts 7.8 s more";
        let now = writer(&scene);
        assert_eq!(now.words, goes);
        assert_eq!((&*now.listener, &*now.route), ("127.0.0.1:5432", "primary"));
        assert_eq!(now.nodes, ["pg1"]);

        scene.picture.dial_failed = Some(scene.now.back(Duration::from_millis(100)));
        let failed = "; the last dial failed 0.1 s ago, the next one waits for a newer proof";
        assert_eq!(writer(&scene).words, format!("{goes}{failed}"));

        let waits = writer(&Scene::without_leader(WhyNobody::Promoting));
        assert_eq!(waits.nodes, [""; 0]);
        assert_eq!(
            waits.words,
            "waits, at most write_timeout_secs: a node is being promoted"
        );
    }

    #[test]
    fn a_reader_is_told_who_serves_it_and_who_does_not_and_why() {
        let reader = |scene: &Scene| told(scene).routes[1].clone();
        let mut scene = a_moment_later();
        change_node(&mut scene, 1, |node| {
            node.reading.addr = Some(([10, 0, 0, 12], 5432).into());
            node.reading.feed = Some(Feed::Streaming);
        });

        let now = reader(&scene);
        assert_eq!((&*now.listener, &*now.route), ("127.0.0.1:5433", "replica"));
        assert_eq!(
            now.words,
            "goes to pg2 (10.0.0.12:5432); not to pg1: down, pg3: down"
        );

        change_node(&mut scene, 1, |node| node.reading.noloadbalance = true);
        let now = reader(&scene);
        let words = "no replica is left, so goes to the leader pg1 (10.0.0.11:5432), epoch 7, ";
        assert!(now.words.starts_with(words), "{}", now.words);
        assert!(
            now.words.contains("pg2: tagged noloadbalance"),
            "{}",
            now.words
        );
        assert_eq!(now.nodes, ["pg1"]);
    }

    #[test]
    fn a_change_is_told_with_the_split_of_its_gap() {
        let mut scene = Scene::leading();
        scene.picture.changes = [LeaderChange {
            at: UNIX_EPOCH + Duration::from_secs(1_700_000_000),
            node: "pg1".into(),
            address: "10.0.0.11:5432".parse().unwrap(),
            epoch: 7,
            timeline: Some(5),
            was: Some("pg2".into()),
            promotion_seen: Some(Duration::from_millis(2_006)),
            first_proof: Duration::from_millis(2_100),
            first_session: None,
        }]
        .into();

        assert_eq!(
            told(&scene).changes,
            [Change {
                at: "2023-11-14T22:13:20.000Z".into(),
                node: "pg1".into(),
                address: "10.0.0.11:5432".into(),
                epoch: 7,
                timeline: Some(5),
                was: Some("pg2".into()),
                promotion_seen_ms: Some(2_006),
                first_proof_ms: 2_100,
                first_session_ms: None,
            }]
        );
    }

    #[test]
    fn every_rule_has_words_of_its_own() {
        let of = |node: u32| Rule::NotUp {
            answers: node,
            needed: 2,
        };
        let rules = [
            Rule::NotAsked,
            Rule::NoEvidence,
            Rule::WrongCluster,
            Rule::Leads,
            Rule::Witnessed,
            of(0),
            of(1),
            Rule::Stale { known: None },
            Rule::Stale { known: Some(7) },
            Rule::LowerTimeline {
                leader: "pg2".into(),
            },
            Rule::Conflict,
            Rule::AnotherPromotes,
            Rule::LockTooOld,
            Rule::ClaimEnded,
            Rule::Promoting,
            Rule::PromotionEnded,
            Rule::Retiring,
            Rule::Unlocked,
            Rule::StandbyLeader,
            Rule::Follows,
        ];
        let words: std::collections::HashSet<_> = rules.iter().map(Rule::in_words).collect();
        assert_eq!(words.len(), rules.len());
    }
}
