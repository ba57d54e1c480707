//! What is shipped beside the program names only what the daemon serves: alerts, dashboard, README.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::process::{Command, Stdio};

use super::window;
use crate::fakes::cluster::Tempo;

const ALERTS: &str = include_str!("../../share/prometheus/alerts.yml");
const DASHBOARD: &str = include_str!("../../share/grafana/dashboard.json");
const README: &str = include_str!("../../README.md");

const PREFIX: &str = "heliosdb_proxy_";
/// Prometheus adds these itself.
const OF_THE_SCRAPE: [&str; 2] = ["instance", "job"];

/// What one metric is, as served.
#[derive(Debug, Default, PartialEq)]
struct Metric {
    kind: String,
    /// Each label with every value that was seen.
    labels: BTreeMap<String, BTreeSet<String>>,
}

/// By the name in `# TYPE`, and by each name of its series (`…_bucket` and the like).
struct Served {
    metrics: BTreeMap<String, Metric>,
    series: BTreeMap<String, BTreeSet<String>>,
}

impl Served {
    async fn now() -> Self {
        let scene = window::led(3, &Tempo::default()).await;
        let text = window::get(scene.house.admin().unwrap(), "/metrics/prometheus").await;
        Self::read(&text)
    }

    fn read(text: &str) -> Self {
        let mut served = Self {
            metrics: BTreeMap::new(),
            series: BTreeMap::new(),
        };
        for line in text.lines() {
            if let Some(rest) = line.strip_prefix("# TYPE ") {
                let (name, kind) = rest.split_once(' ').unwrap();
                let metric = served.metrics.entry(bare(name)).or_default();
                kind.clone_into(&mut metric.kind);
            } else if !line.starts_with('#') {
                served.take_series(line.rsplit_once(' ').unwrap().0);
            }
        }
        served
    }

    fn take_series(&mut self, series: &str) {
        let (name, labels) = match series.split_once('{') {
            Some((name, labels)) => (bare(name), labels.trim_end_matches('}')),
            None => (bare(series), ""),
        };
        let parts = ["_bucket", "_sum", "_count"];
        let whole = parts.iter().find_map(|part| name.strip_suffix(part));
        let known = self.series.entry(name.clone()).or_default();
        let owner = whole.unwrap_or(&name).to_owned();
        let metric = self.metrics.get_mut(&owner);
        let metric = metric.unwrap_or_else(|| panic!("{owner} has no type"));
        for label in labels.split("\",").filter(|label| !label.is_empty()) {
            let (label, value) = label.split_once("=\"").unwrap();
            known.insert(label.to_owned());
            let values = metric.labels.entry(label.to_owned()).or_default();
            values.insert(value.trim_end_matches('"').to_owned());
        }
    }

    /// Panics where `expression` names a metric or a label that is not served.
    fn assert_knows(&self, expression: &str, place: &str) {
        let mut named = BTreeSet::new();
        for (at, _) in expression.match_indices(PREFIX) {
            let rest = &expression[at + PREFIX.len()..];
            let name = word(rest);
            let labels = self.series.get(name);
            let labels = labels.unwrap_or_else(|| panic!("{place}: {name} is not served"));
            named.extend(labels.iter().map(String::as_str));
            named.extend(OF_THE_SCRAPE);
            if let Some(matchers) = rest[name.len()..].strip_prefix('{') {
                let matchers = matchers.split_once('}').unwrap().0;
                for matcher in matchers.split(',') {
                    let label = word(matcher);
                    let is_known = labels.contains(label) || OF_THE_SCRAPE.contains(&label);
                    assert!(is_known, "{place}: {name} has no label {label}");
                }
            }
        }
        for opening in ["by (", "on ("] {
            for part in expression.split(opening).skip(1) {
                let list = part.split_once(')').unwrap().0;
                for label in list.split(',').map(str::trim) {
                    assert!(named.contains(label), "{place}: no {label} in {expression}");
                }
            }
        }
    }

    fn assert_has_label(&self, label: &str, place: &str) {
        let mut all = self.series.values().flatten().map(String::as_str);
        let is_known = all.any(|known| known == label) || OF_THE_SCRAPE.contains(&label);
        assert!(is_known, "{place}: nobody has a label {label}");
    }
}

fn bare(name: &str) -> String {
    let bare = name.strip_prefix(PREFIX);
    bare.unwrap_or_else(|| panic!("{name} has another prefix"))
        .to_owned()
}

/// The letters and underlines at the start.
fn word(text: &str) -> &str {
    let end = text.find(|c: char| !c.is_ascii_lowercase() && c != '_');
    &text[..end.unwrap_or(text.len())]
}

#[tokio::test]
async fn every_alert_names_metrics_and_labels_that_are_served() {
    let served = Served::now().await;

    let alerts: Vec<_> = ALERTS.split("- alert: ").skip(1).collect();
    assert!(alerts.len() > 10);
    for alert in alerts {
        let name = alert.lines().next().unwrap();
        // Up to the next key: an expression may go over several lines.
        let expression = alert.split("expr:").nth(1).unwrap();
        let ends = ["        for:", "        labels:"];
        let ends = ends.iter().filter_map(|end| expression.find(end));
        let expression = &expression[..ends.min().unwrap()];
        assert!(
            expression.contains(PREFIX) || expression.contains("up{"),
            "{name}"
        );
        served.assert_knows(expression, name);
        for label in alert.split("$labels.").skip(1).map(word) {
            served.assert_has_label(label, name);
        }
        for needed in ["severity:", "summary:", "description:"] {
            assert!(alert.contains(needed), "{name} has no {needed}");
        }
    }
}

#[tokio::test]
async fn every_panel_names_metrics_and_labels_that_are_served() {
    let served = Served::now().await;
    let dashboard: serde_json::Value = serde_json::from_str(DASHBOARD).unwrap();

    let mut shown = BTreeSet::new();
    for panel in dashboard["panels"].as_array().unwrap() {
        let title = panel["title"].as_str().unwrap();
        let targets = panel["targets"].as_array().unwrap();
        assert!(!targets.is_empty(), "{title}");
        for target in targets {
            let expression = target["expr"].as_str().unwrap();
            assert!(expression.contains(PREFIX), "{title}: {expression}");
            served.assert_knows(expression, title);
            let legend = target["legendFormat"].as_str().unwrap();
            for label in legend.split("{{").skip(1).map(word) {
                served.assert_has_label(label, title);
            }
            shown.extend(
                expression
                    .match_indices(PREFIX)
                    .map(|(at, _)| word(&expression[at..])),
            );
        }
    }
    assert!(shown.len() > 15, "{shown:?}");
    for list in ["templating", "annotations"] {
        served.assert_knows(&dashboard[list].to_string(), list);
    }
}

/// `| \`name\` | type | \`label\`: value, value, \`label\` | meaning |` for each.
#[tokio::test]
async fn the_readme_lists_every_metric_with_its_type_and_labels() {
    let served = Served::now().await;

    let table = README.split("| metric | type | labels | meaning |").nth(1);
    let rows = table.expect("the table of metrics").lines().skip(2);
    let mut listed = BTreeMap::new();
    for row in rows.take_while(|line| line.starts_with('|')) {
        let cells: Vec<_> = row.trim_matches('|').split('|').map(str::trim).collect();
        let [name, kind, labels, meaning] = cells[..] else {
            panic!("{row}")
        };
        assert!(!meaning.is_empty(), "{row}");
        listed.insert(name.trim_matches('`'), (kind, labels));
    }

    let names: BTreeSet<_> = served.metrics.keys().map(String::as_str).collect();
    let unlisted: Vec<_> = names.iter().filter(|n| !listed.contains_key(**n)).collect();
    assert!(unlisted.is_empty(), "not in the README: {unlisted:?}");
    for (name, (kind, labels)) in listed {
        let metric = served.metrics.get(name);
        let metric = metric.unwrap_or_else(|| panic!("{name} is listed and not served"));
        assert_eq!(metric.kind, kind, "{name}");
        for (label, values) in &metric.labels {
            let told = labels.split('`').skip_while(|part| part != label).nth(1);
            if label == "le" {
                continue;
            }
            let told = told.unwrap_or_else(|| panic!("{name}: the label {label} is not listed"));
            let told = told.trim_matches([':', ',', ' ']);
            if !told.is_empty() {
                let told: BTreeSet<_> = told.split(", ").map(str::to_owned).collect();
                assert_eq!(&told, values, "{name}: the values of {label}");
            }
        }
        for label in labels.split('`').skip(1).step_by(2) {
            assert!(metric.labels.contains_key(label), "{name}: no {label}");
        }
    }
}

/// Prometheus' own parser; `false` where it is not there, which under `CI` it must be.
fn promtool(args: &[&str], said: &str) -> bool {
    let mut promtool = Command::new("promtool");
    let promtool = promtool.current_dir(env!("CARGO_MANIFEST_DIR")).args(args);
    let piped = promtool.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = match piped.stderr(Stdio::piped()).spawn() {
        Ok(child) => child,
        Err(error) => {
            eprintln!("skipped promtool {args:?}: {error}");
            assert!(std::env::var_os("CI").is_none(), "promtool: {error}");
            return false;
        }
    };
    // Dropped when written: that is the end of what it reads.
    let written = child.stdin.take().unwrap().write_all(said.as_bytes());
    let out = child.wait_with_output().unwrap();
    let words = [out.stdout, out.stderr].concat();
    assert!(
        out.status.success() && written.is_ok(),
        "promtool {args:?}: {}",
        String::from_utf8_lossy(&words)
    );
    true
}

/// What only Prometheus itself knows: its grammar, and that an ordinary failover pages nobody.
#[test]
fn prometheus_takes_the_alerts_and_pages_only_when_it_must() {
    let there = promtool(&["check", "rules", "share/prometheus/alerts.yml"], "");
    if there {
        promtool(&["test", "rules", "tests/prometheus/alerts_test.yml"], "");
    }
}

#[tokio::test]
async fn prometheus_takes_the_served_text_without_a_remark() {
    let scene = window::led(3, &Tempo::default()).await;
    let text = window::get(scene.house.admin().unwrap(), "/metrics/prometheus").await;
    promtool(&["check", "metrics"], &text);
}

#[test]
fn the_reading_of_the_served_text_sees_what_is_wrong() {
    let served = Served::read(
        "# TYPE heliosdb_proxy_a_total counter\nheliosdb_proxy_a_total{node=\"n\",r=\"x\"} 1\n",
    );
    let knows = |expression: &str| {
        let asked = std::panic::AssertUnwindSafe(|| served.assert_knows(expression, "here"));
        std::panic::catch_unwind(asked).is_ok()
    };

    assert!(knows(
        "sum by (node, job) (heliosdb_proxy_a_total{r=\"x\",instance=\"i\"})"
    ));
    assert!(!knows("heliosdb_proxy_b_total"));
    assert!(!knows("heliosdb_proxy_a_total{s=\"x\"}"));
    assert!(!knows("sum by (route) (heliosdb_proxy_a_total)"));
}
