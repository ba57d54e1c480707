//! `helios-proxy doctor` in front of scripted nodes, with each fault planted.

use std::time::Instant;

use serde_json::{Value, json};
use tokio::process::Command;

use super::daemon::PATIENCE;
use crate::fakes::answer::Answer;
use crate::fakes::body::Body;
use crate::fakes::cluster::{Cluster, Tempo};
use crate::fakes::door::Mode;
use crate::fakes::papers::{Authority, replace};
use crate::fakes::tls;

/// What the doctor has said, and how it ended.
struct Said {
    page: String,
    code: Option<i32>,
}

impl Said {
    /// The lines that are not ok, without the last.
    fn bad(&self) -> Vec<&str> {
        let lines = self.page.lines().take_while(|line| !line.is_empty());
        lines.filter(|line| !line.starts_with("ok ")).collect()
    }

    fn last(&self) -> &str {
        self.page.lines().last().unwrap_or_default()
    }

    /// One finding, which is also the first thing to do.
    #[track_caller]
    fn assert_only(&self, verdict: &str, words: &str) {
        let bad = self.bad();
        assert_eq!(bad.len(), 1, "{}", self.page);
        assert!(
            bad[0].starts_with(verdict) && bad[0].contains(words),
            "{}",
            self.page
        );
        let advice = bad[0].split_once(" → ").unwrap().1;
        assert!(self.last().ends_with(advice), "{}", self.page);
        let code = i32::from(verdict == "wrong");
        assert_eq!(self.code, Some(code), "{}", self.page);
    }
}

async fn run(toml: &str, more: &[&str]) -> Said {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("helios-proxy.toml");
    std::fs::write(&file, toml).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_helios-proxy"));
    command.arg("doctor").arg("--config").arg(&file).args(more);
    let out = tokio::time::timeout(PATIENCE, command.output()).await;
    let out = out.expect("a doctor has an end").unwrap();
    assert_eq!(String::from_utf8_lossy(&out.stderr), "");
    Said {
        page: String::from_utf8(out.stdout).unwrap(),
        code: out.status.code(),
    }
}

async fn doctor(toml: &str) -> Said {
    run(toml, &[]).await
}

/// Three nodes, the first leads, and their cluster says what makes every check content.
fn well() -> (Cluster, String) {
    let mut cluster = Cluster::start(3);
    cluster.lead(0, 5);
    for node in &cluster.nodes {
        settings(&node.rest, &json!({"ttl": 30, "loop_wait": 10, "max": 300}));
    }
    let toml = toml(&cluster, "");
    (cluster, toml)
}

fn settings(rest: &crate::fakes::patroni::Patroni, said: &Value) {
    let body = json!({
        "ttl": said["ttl"],
        "loop_wait": said["loop_wait"],
        "postgresql": { "parameters": { "max_connections": said["max"] } },
    });
    rest.answers("/config", Answer::bytes(200, body.to_string()));
}

fn toml(cluster: &Cluster, top: &str) -> String {
    let tempo = Tempo {
        write_timeout_secs: 45,
        lease_timeout_secs: 10,
        active_interval_ms: 200,
        check_timeout_ms: 4000,
        top: format!("max_connections = 100\n{top}"),
        ..Tempo::default()
    };
    cluster.toml_with(&tempo)
}

#[tokio::test]
async fn a_healthy_cluster_is_called_healthy() {
    let (cluster, toml) = well();

    let said = doctor(&toml).await;

    assert_eq!((said.bad(), said.code), (vec![], Some(0)), "{}", said.page);
    assert_eq!(said.last(), "nothing is wrong");
    assert!(
        said.page.contains("200 running primary 5 in "),
        "{}",
        said.page
    );
    for node in &cluster.nodes {
        assert_eq!(node.rest.cut_short(), 0, "its answers are read to the end");
    }
}

#[tokio::test]
async fn json_has_every_check_and_what_to_do_first() {
    let (cluster, toml) = well();
    cluster.nodes[2].postgres.mode(Mode::Refuse).await;

    let said = run(&toml, &["--json"]).await;

    let all: Value = serde_json::from_str(&said.page).unwrap();
    assert_eq!((&all["wrong"], said.code), (&json!(1), Some(1)));
    let checks = all["checks"].as_array().unwrap();
    let wrong = checks.iter().find(|c| c["verdict"] == "wrong").unwrap();
    assert!(
        wrong["subject"]
            .as_str()
            .unwrap()
            .starts_with("n3 PostgreSQL ")
    );
    let first = all["first"].as_str().unwrap();
    assert!(
        first.ends_with(wrong["advice"].as_str().unwrap()),
        "{first}"
    );
}

#[tokio::test]
async fn filtered_ports_are_told_within_the_time_of_one_question() {
    let (cluster, toml) = well();
    cluster.nodes[1].rest.mode(Mode::Swallow).await;
    let began = Instant::now();

    let said = doctor(&toml).await;

    said.assert_only("wrong", "n2 REST ");
    assert!(
        said.last().starts_with("do first: n2 REST "),
        "{}",
        said.page
    );
    assert!(said.last().contains("firewall"), "{}", said.page);
    assert!(began.elapsed().as_secs() < 8, "{:?}", began.elapsed());
}

#[tokio::test]
async fn a_rest_api_that_accepts_and_hangs_and_a_postgresql_that_is_not_there_are_told() {
    let (cluster, toml) = well();
    cluster.nodes[1].rest.says(Answer::hang());
    let said = doctor(&toml).await;
    said.assert_only("wrong", "n2 REST ");
    assert!(
        said.page.contains("did not answer within 4s"),
        "{}",
        said.page
    );

    let (cluster, toml) = well();
    cluster.nodes[1].postgres.mode(Mode::Refuse).await;
    let said = doctor(&toml).await;
    said.assert_only("wrong", "n2 PostgreSQL ");
    assert!(said.last().contains("listen_addresses"), "{}", said.page);
}

/// `[rest]` with https, its CA in a folder, and each node with a certificate for its own address.
struct Https {
    cluster: Cluster,
    toml: String,
    ca: Authority,
    _folder: tempfile::TempDir,
}

fn https() -> Https {
    let (cluster, toml) = well();
    let (ca, folder) = (Authority::new("Lab CA"), tempfile::tempdir().unwrap());
    let file = folder.path().join("ca.pem");
    replace(&file, &ca.pem());
    for node in &cluster.nodes {
        let paper = ca.issue(&node.name, &[&node.ip.to_string()]);
        node.rest.wears(tls::server(&paper, None));
    }
    let rest = format!("[rest]\nscheme = 'https'\nca_file = '{}'\n", file.display());
    Https {
        cluster,
        toml: toml + &rest,
        ca,
        _folder: folder,
    }
}

#[tokio::test]
async fn a_certificate_of_another_name_or_another_ca_is_told() {
    let desk = https();
    let said = doctor(&desk.toml).await;
    assert_eq!((said.bad(), said.code), (vec![], Some(0)), "{}", said.page);

    let other = desk.ca.issue("elsewhere", &["elsewhere.example"]);
    desk.cluster.nodes[1].rest.wears(tls::server(&other, None));
    let said = doctor(&desk.toml).await;
    said.assert_only("wrong", "n2 REST ");
    assert!(said.page.contains("elsewhere.example"), "{}", said.page);
    assert!(said.last().contains("rest.server_name"), "{}", said.page);

    let ip = desk.cluster.nodes[1].ip.to_string();
    let stranger = Authority::new("Another CA").issue("n2", &[&ip]);
    desk.cluster.nodes[1]
        .rest
        .wears(tls::server(&stranger, None));
    doctor(&desk.toml)
        .await
        .assert_only("wrong", "not believed");
    let expired = desk.ca.expired("n2", &[&ip]);
    desk.cluster.nodes[1]
        .rest
        .wears(tls::server(&expired, None));
    doctor(&desk.toml).await.assert_only("wrong", "n2 REST ");
}

#[tokio::test]
async fn https_where_http_is_spoken_a_wanted_certificate_and_a_missing_file_are_told() {
    let desk = https();
    let ip = desk.cluster.nodes[2].ip.to_string();
    let good = desk.ca.issue("n3", &[&ip]);
    let strict = tls::server(&good, Some(&desk.ca));
    desk.cluster.nodes[2].rest.wears(strict);
    let said = doctor(&desk.toml).await;
    said.assert_only("wrong", "n3 REST ");
    assert!(said.last().contains("rest.cert_file"), "{}", said.page);

    // It waits for the end of a request that it cannot read.
    let (_plain, toml) = well();
    let rest = desk.toml.split("[rest]").nth(1).unwrap();
    let said = doctor(&format!("{toml}[rest]{rest}")).await;
    assert!(
        said.page.contains("did not answer within 4s"),
        "{}",
        said.page
    );
    assert!(said.last().contains("is it http"), "{}", said.page);

    let missing = desk.toml.replace("ca.pem", "gone.pem");
    let said = doctor(&missing).await;
    said.assert_only("wrong", "rest.ca_file");
}

#[tokio::test]
async fn with_the_provider_patroni_each_endpoint_is_asked_for_its_view() {
    let (cluster, toml) = well();
    let members = json!({ "members": [
        { "name": "n1", "role": "leader", "state": "running", "timeline": 5 },
        { "name": "n2", "role": "replica", "state": "streaming", "timeline": 5 },
    ], "scope": "demo" });
    for node in &cluster.nodes {
        let view = Answer::bytes(200, members.to_string());
        node.rest.answers("/cluster", view);
    }
    let toml = toml.replace("[topology]\n", "[topology]\nprovider = 'patroni'\n");

    let said = doctor(&toml).await;
    assert_eq!((said.bad(), said.code), (vec![], Some(0)), "{}", said.page);
    assert!(
        said.page.contains("names n1 as the leader"),
        "{}",
        said.page
    );

    cluster.nodes[1]
        .rest
        .answers("/cluster", Answer::bytes(503, "{}"));
    doctor(&toml).await.assert_only("warning", "view of ");
}

#[tokio::test]
async fn a_ttl_longer_than_the_hold_is_told_with_the_number_that_would_do() {
    let (cluster, toml) = well();
    for node in &cluster.nodes {
        settings(&node.rest, &json!({"ttl": 90, "loop_wait": 10, "max": 300}));
    }

    let said = doctor(&toml).await;

    said.assert_only("wrong", "hold: ttl 90 s");
    assert!(
        said.last().ends_with("write_timeout_secs = 105"),
        "{}",
        said.page
    );
}

#[tokio::test]
async fn too_small_max_connections_are_told() {
    let (cluster, toml) = well();
    for node in &cluster.nodes {
        settings(&node.rest, &json!({"ttl": 30, "loop_wait": 10, "max": 20}));
    }

    let said = doctor(&toml).await;

    said.assert_only("wrong", "room at PostgreSQL: max_connections 20");
}

#[tokio::test]
async fn a_clock_that_is_off_is_told_with_its_node() {
    let (cluster, toml) = well();
    let late = Answer::new(503, Body::replica("n3", 5)).clock_off_by(-90);
    cluster.nodes[2].rest.says(late);

    let said = doctor(&toml).await;

    said.assert_only("wrong", "n3 clock: ");
    assert!(said.page.contains(" behind this host's"), "{}", said.page);
}

#[tokio::test]
async fn another_clusters_node_is_told() {
    let (cluster, toml) = well();
    let other = Body::replica("n3", 5).scope("other");
    cluster.nodes[2].rest.says(Answer::new(503, other));

    let said = doctor(&toml).await;

    said.assert_only("wrong", "scope: several: demo (n1, n2), other (n3)");
}

#[tokio::test]
async fn an_address_that_no_interface_carries_is_a_warning() {
    let (_cluster, toml) = well();
    let toml = toml.replace("127.0.0.1:0", "192.0.2.1:5432");

    let said = doctor(&toml).await;

    said.assert_only("warning", "no interface carries 192.0.2.1");
    assert!(
        said.last()
            .starts_with("nothing is wrong; have a look at listener ")
    );
}

#[tokio::test]
async fn nobody_who_leads_is_told_and_a_file_that_cannot_be_used_is_code_2() {
    let (mut cluster, toml) = well();
    cluster.nobody();
    doctor(&toml)
        .await
        .assert_only("wrong", "leader: nobody leads");

    let folder = tempfile::tempdir().unwrap();
    let missing = folder.path().join("no.toml");
    let mut command = Command::new(env!("CARGO_BIN_EXE_helios-proxy"));
    let out = command.arg("doctor").arg("--config").arg(missing).output();
    assert_eq!(out.await.unwrap().status.code(), Some(2));
}
