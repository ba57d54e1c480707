//! Each fault as facts, and what the doctor says of it.

use std::time::Duration;

use super::facts::{
    ClusterFacts, Facts, Failure, FailureKind, HostFacts, ListenerFacts, MaxConnections, NodeFacts,
    PostgresFacts, RestFacts, ViewFacts,
};
use super::report::{Finding, Report, Verdict};
use crate::Config;
use crate::net::Address;
use crate::topology::{Answer, Dynamic};

fn body(role: &str, scope: &str) -> String {
    format!(
        r#"{{"role":"{role}","state":"running","timeline":5,"database_system_identifier":"7",
            "patroni":{{"scope":"{scope}"}}}}"#
    )
}

fn answer(status: u16, role: &str, scope: &str) -> Option<Answer> {
    Answer::read(status, None, body(role, scope).as_bytes())
}

fn node(name: &str, status: u16, role: &str) -> NodeFacts {
    let ms = Duration::from_millis;
    NodeFacts {
        name: name.to_owned(),
        rest_at: format!("{name}:8008"),
        postgres_at: format!("{name}:5432"),
        lookups: vec![(name.to_owned(), Ok(Vec::new()))],
        rest: Ok(RestFacts {
            took: ms(3),
            status,
            answer: answer(status, role, "main"),
            member: Some(name.to_owned()),
            version: Some("4.1.5".to_owned()),
            ahead_ms: Some(0),
        }),
        postgres: Ok(PostgresFacts { took: ms(1) }),
        dynamic: None,
    }
}

/// A host and a cluster on which everything is well.
fn well() -> Facts {
    Facts {
        nodes: vec![
            node("n1", 200, "primary"),
            node("n2", 503, "replica"),
            node("n3", 503, "replica"),
        ],
        views: Vec::new(),
        cluster: Some(ClusterFacts {
            dynamic: Dynamic::default(),
            max_connections: MaxConnections::Said(300),
        }),
        here: HostFacts {
            listeners: vec![ListenerFacts {
                address: Address::Tcp(([127, 0, 0, 1], 5432).into()),
                missing: false,
            }],
            descriptors: None,
            token: None,
        },
    }
}

fn config(more: &str) -> Config {
    let nodes = ["n1", "n2", "n3"].map(|n| format!("[[nodes]]\nname = '{n}'\nhost = '{n}'\n"));
    Config::from_toml(&format!("{more}\n{}", nodes.concat())).unwrap()
}

fn findings(facts: &Facts, more: &str) -> Vec<Finding> {
    super::examine(facts, &config(more))
}

/// The one finding that is not ok.
fn only(facts: &Facts, more: &str) -> (Verdict, String) {
    let mut bad = findings(facts, more);
    bad.retain(|finding| finding.verdict != Verdict::Ok);
    let [finding] = &bad[..] else {
        panic!("{bad:#?}")
    };
    let advice = finding.advice.as_deref().unwrap();
    let words = format!("{}: {} → {advice}", finding.subject, finding.words);
    (finding.verdict, words)
}

#[track_caller]
fn assert_only(facts: &Facts, more: &str, verdict: Verdict, parts: &[&str]) {
    let (found, words) = only(facts, more);
    assert_eq!(found, verdict, "{words}");
    for part in parts {
        assert!(words.contains(part), "{part:?} is not in {words}");
    }
}

fn rest(node: &mut NodeFacts) -> &mut RestFacts {
    node.rest.as_mut().unwrap()
}

fn failure(kind: FailureKind) -> Failure {
    Failure {
        kind,
        words: "the words of the error".into(),
    }
}

#[test]
fn a_healthy_cluster_has_nothing_wrong_and_nothing_doubtful() {
    let report = Report::of(findings(&well(), ""));

    let page = report.page();
    assert!(page.ends_with("\n\nnothing is wrong\n"), "{page}");
    for line in [
        "ok       n1 REST n1:8008: 200 running primary 5 in 3 ms, Patroni 4.1.5\n",
        "ok       n2 PostgreSQL n2:5432: answers in 1 ms\n",
        "ok       scope: main, of every node that answers\n",
        "ok       leader: n1 leads\n",
        "ok       clocks: 3 nodes agree with this host\n",
        "ok       Patroni versions: 4.1.5 (n1, n2, n3)\n",
    ] {
        assert!(page.contains(line), "{line} in\n{page}");
    }
}

#[test]
fn a_rest_api_that_does_not_answer_is_told_by_how_it_does_not() {
    for (kind, advice) in [
        (FailureKind::TimedOut, "let this host through to n2:8008"),
        (FailureKind::Refused, "start Patroni there"),
        (FailureKind::Unreachable, "make a way"),
        (FailureKind::Broken, "rest.scheme"),
        (FailureKind::NotBelieved, "rest.ca_file"),
        (FailureKind::NotAccepted, "rest.cert_file"),
        (FailureKind::NotTls, "rest.scheme"),
        (FailureKind::TurnedAway, "rest.username"),
    ] {
        let mut facts = well();
        facts.nodes[1].rest = Err(failure(kind));
        let parts = ["n2 REST n2:8008: the words of the error", advice];
        assert_only(&facts, "", Verdict::Wrong, &parts);
    }
    let mut facts = well();
    rest(&mut facts.nodes[1]).answer = None;
    assert_only(&facts, "", Verdict::Wrong, &["not as Patroni does"]);
    let mut facts = well();
    rest(&mut facts.nodes[1]).took = Duration::from_secs(3);
    assert_only(&facts, "", Verdict::Warning, &["in 3000 ms", "slow"]);
}

#[test]
fn a_postgresql_that_does_not_answer_is_told_by_how_it_does_not() {
    for (kind, advice) in [
        (FailureKind::TimedOut, "let this host through to n3:5432"),
        (FailureKind::Refused, "listen_addresses"),
        (FailureKind::Unreachable, "make a way"),
        (FailureKind::Broken, "is it PostgreSQL"),
    ] {
        let mut facts = well();
        facts.nodes[2].postgres = Err(failure(kind));
        let parts = ["n3 PostgreSQL n3:5432", advice];
        assert_only(&facts, "", Verdict::Wrong, &parts);
    }
    let mut facts = well();
    facts.nodes[2].postgres = Ok(PostgresFacts {
        took: Duration::from_millis(1_600),
    });
    assert_only(&facts, "", Verdict::Warning, &["near connect_timeout_ms"]);
}

#[test]
fn a_provider_without_patroni_is_judged_by_its_own_checks_alone() {
    let mut facts = well();
    facts.cluster = None;
    for node in &mut facts.nodes {
        rest(node).version = None;
    }
    let postgres = "[topology]\nprovider = 'postgres'\nuser = 'probe'";
    let all = findings(&facts, postgres);
    assert!(all.iter().all(|f| f.verdict == Verdict::Ok), "{all:#?}");
    assert!(
        all[0].subject.starts_with("n1 check at n1:8008"),
        "{all:#?}"
    );

    facts.nodes[1].rest = Err(failure(FailureKind::NotLoggedIn));
    assert_only(
        &facts,
        postgres,
        Verdict::Wrong,
        &["topology.user", "pg_hba.conf"],
    );
}

#[test]
fn endpoints_that_show_no_view_matter_most_when_none_does() {
    let view = |endpoint: &str, leaders| ViewFacts {
        endpoint: endpoint.to_owned(),
        leaders,
    };
    let dead = || Err(failure(FailureKind::Refused));
    let mut facts = well();
    facts.views = vec![
        view("n1:8008", Ok(vec!["n1".into()])),
        view("gone:8008", dead()),
    ];
    let parts = ["view of gone:8008", "put it last"];
    assert_only(&facts, "", Verdict::Warning, &parts);

    facts.views = vec![view("gone:8008", dead())];
    assert_only(&facts, "", Verdict::Wrong, &["topology.patroni_endpoints"]);
    facts.views = vec![view("n1:8008", Ok(vec!["n1".into(), "n2".into()]))];
    assert_only(&facts, "", Verdict::Wrong, &["several leaders: n1, n2"]);
    facts.views = vec![view("n1:8008", Ok(Vec::new()))];
    assert_only(&facts, "", Verdict::Warning, &["names no leader"]);
}

#[test]
fn a_name_without_an_address_goes_before_what_follows_from_it() {
    let mut facts = well();
    facts.nodes[0].lookups[0].1 = Err("Name or service not known".into());
    facts.nodes[0].rest = Err(failure(FailureKind::TimedOut));
    facts.nodes[0].postgres = Err(failure(FailureKind::NoAddress));

    let page = Report::of(findings(&facts, "")).page();

    let last = "do first: n1 name n1: correct the name in the file or in DNS";
    assert!(page.lines().last().unwrap().starts_with(last), "{page}");
}

#[test]
fn nodes_of_two_clusters_and_of_another_than_the_configured_one_are_told() {
    let mut facts = well();
    rest(&mut facts.nodes[2]).answer = answer(503, "replica", "other");
    let parts = ["scope: several: main (n1, n2), other (n3)"];
    assert_only(&facts, "", Verdict::Wrong, &parts);

    let more = "topology.scope = 'mine'";
    let parts = ["scope: main, and topology.scope = \"mine\""];
    assert_only(&well(), more, Verdict::Wrong, &parts);
    let more = "topology.system_identifier = '8'";
    let parts = ["system identifier: 7, and topology.system_identifier = \"8\""];
    assert_only(&well(), more, Verdict::Wrong, &parts);
}

#[test]
fn two_nodes_that_are_one_machine_and_swapped_addresses_are_told() {
    let mut facts = well();
    rest(&mut facts.nodes[2]).member = Some("n2".into());
    let bad = findings(&facts, "");
    let one = bad.iter().find(|f| f.verdict == Verdict::Wrong).unwrap();
    assert_eq!(one.subject, "n2, n3");

    let mut facts = well();
    rest(&mut facts.nodes[1]).member = Some("n3".into());
    rest(&mut facts.nodes[2]).member = Some("n2".into());
    let bad = findings(&facts, "");
    let mixed = bad.iter().filter(|f| f.verdict == Verdict::Warning).count();
    assert_eq!(mixed, 2);
}

#[test]
fn nobody_several_and_a_standby_cluster_are_no_leader() {
    let mut facts = well();
    rest(&mut facts.nodes[0]).answer = answer(503, "replica", "main");
    assert_only(&facts, "", Verdict::Wrong, &["leader: nobody leads"]);

    rest(&mut facts.nodes[0]).answer = answer(503, "standby_leader", "main");
    assert_only(&facts, "", Verdict::Wrong, &["standby cluster"]);

    let mut facts = well();
    rest(&mut facts.nodes[1]).answer = answer(200, "primary", "main");
    assert_only(&facts, "", Verdict::Wrong, &["n1 and n2 claim to lead"]);
}

fn dynamic(ttl: u64, loop_wait: u64) -> Facts {
    let mut facts = well();
    facts.cluster = facts.cluster.map(|cluster| ClusterFacts {
        dynamic: Dynamic {
            ttl: Duration::from_secs(ttl),
            loop_wait: Duration::from_secs(loop_wait),
            ..Dynamic::default()
        },
        ..cluster
    });
    facts
}

#[test]
fn a_ttl_that_outlasts_the_hold_is_wrong_and_a_failover_that_may_is_doubtful() {
    let parts = ["hold: ttl 60 s", "write_timeout_secs = 75"];
    assert_only(&dynamic(60, 10), "", Verdict::Wrong, &parts);
    let parts = [
        "replaced within 55 s, clients wait 45 s",
        "write_timeout_secs = 55",
    ];
    assert_only(&dynamic(40, 10), "", Verdict::Warning, &parts);
}

#[test]
fn a_lease_that_outlasts_the_lock_is_wrong() {
    let lease = "topology.lease_timeout_secs = 20";
    let parts = [
        "lease: topology.lease_timeout_secs = 20, ttl 20 s",
        "below 19",
    ];
    assert_only(&dynamic(20, 1), lease, Verdict::Wrong, &parts);
    assert_only(&dynamic(25, 10), lease, Verdict::Warning, &["below 15"]);
    let own = "topology.patroni_ttl_secs = 25";
    assert_only(
        &dynamic(30, 10),
        own,
        Verdict::Warning,
        &["cluster says 30"],
    );
}

#[test]
fn too_little_room_at_postgresql_is_told() {
    let of = |max| {
        let mut facts = well();
        let cluster = facts.cluster.as_mut().unwrap();
        cluster.max_connections = max;
        facts
    };
    let few = of(MaxConnections::Said(20));
    let parts = ["max_connections 20, 17 for clients", "above 83"];
    assert_only(&few, "", Verdict::Wrong, &parts);
    let some = of(MaxConnections::Said(60));
    assert_only(&some, "", Verdict::Warning, &["max_connections 60"]);
    let more = "dial_concurrency = 97";
    let parts = ["max_connections 100 (Patroni's default), 97 for clients"];
    assert_only(&of(MaxConnections::Default), more, Verdict::Wrong, &parts);
    let unknown = findings(&of(MaxConnections::Unknown), "");
    assert!(unknown.iter().any(|f| f.words.starts_with("unknown: ")));
    assert!(unknown.iter().all(|f| f.verdict == Verdict::Ok));
}

#[test]
fn a_cluster_that_does_not_tell_its_settings_and_one_in_maintenance_are_doubtful() {
    let mut facts = well();
    facts.cluster = None;
    assert_only(&facts, "", Verdict::Warning, &["no node tells"]);

    let mut facts = well();
    facts.cluster.as_mut().unwrap().dynamic.paused = true;
    assert_only(&facts, "", Verdict::Warning, &["patronictl resume"]);
}

#[test]
fn one_clock_that_differs_is_the_nodes_and_when_all_do_it_is_ours() {
    let mut facts = well();
    rest(&mut facts.nodes[1]).ahead_ms = Some(-7_000);
    let parts = ["n2 clock: 7 s behind this host's", "clock of n2"];
    assert_only(&facts, "", Verdict::Warning, &parts);

    rest(&mut facts.nodes[1]).ahead_ms = Some(3_600_000);
    assert_only(&facts, "", Verdict::Wrong, &["3600 s ahead of this host's"]);

    for node in &mut facts.nodes {
        rest(node).ahead_ms = Some(90_000);
    }
    let bad = findings(&facts, "");
    let bad = bad.iter().filter(|f| f.verdict == Verdict::Wrong);
    let advice: Vec<_> = bad.map(|f| f.advice.as_deref().unwrap()).collect();
    assert_eq!(advice.len(), 3);
    assert!(advice.iter().all(|a| a.contains("this host's clock")));
}

#[test]
fn old_and_mixed_versions_are_doubtful() {
    let mut facts = well();
    rest(&mut facts.nodes[1]).version = Some("4.0.7".into());
    let parts = ["4.0.7 (n2), 4.1.5 (n1, n3)", "finish the upgrade"];
    assert_only(&facts, "", Verdict::Warning, &parts);

    for node in &mut facts.nodes {
        rest(node).version = Some("2.1.4".into());
    }
    assert_only(&facts, "", Verdict::Warning, &["2.1.4 was never tried"]);
    for node in &mut facts.nodes {
        rest(node).version = Some("4.2.0rc1".into());
    }
    assert!(
        findings(&facts, "")
            .iter()
            .all(|f| f.verdict == Verdict::Ok)
    );
}

#[test]
fn what_is_missing_on_this_host_is_doubtful() {
    let mut facts = well();
    facts.here.listeners[0] = ListenerFacts {
        address: Address::Tcp(([192, 0, 2, 1], 5432).into()),
        missing: true,
    };
    assert_only(
        &facts,
        "",
        Verdict::Warning,
        &["no interface carries 192.0.2.1"],
    );

    facts.here.listeners[0].address = Address::Unix("/run/x/.s.PGSQL.5432".into());
    assert_only(&facts, "", Verdict::Warning, &["RuntimeDirectory"]);

    let mut facts = well();
    facts.here.descriptors = Some("the limit is low".into());
    assert_only(&facts, "", Verdict::Warning, &["LimitNOFILE"]);

    let mut facts = well();
    facts.here.token = Some("admin_token_file \"t\" is empty".into());
    assert_only(&facts, "", Verdict::Warning, &["\"t\" is empty"]);
    let off = "admin_address = '0.0.0.0:9090'\nadmin_token_file = 't'";
    assert_only(&facts, off, Verdict::Wrong, &["nothing starts without it"]);

    let more = "[health]\nmax_staleness_ms = 500";
    assert_only(
        &well(),
        more,
        Verdict::Warning,
        &["file: health.max_staleness_ms"],
    );
}
