//! What a unit and a generated file say, whatever the order and the form in which they say it.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
};

/// Sections, their directives, the values of each. Values that are lists of words are sets of words.
pub type Unit = BTreeMap<String, BTreeMap<String, BTreeSet<String>>>;

/// Directives whose value is a list, in one line or in several.
const LISTS: [&str; 7] = [
    "After",
    "RestrictAddressFamilies",
    "SupplementaryGroups",
    "SystemCallFilter",
    "WantedBy",
    "Wants",
    "LoadCredential",
];

pub fn unit(text: &str) -> Unit {
    let mut unit = Unit::new();
    let mut section = String::new();
    for line in text.lines().map(str::trim) {
        if line.is_empty() || line.starts_with(['#', ';']) {
            continue;
        }
        if let Some(name) = line.strip_prefix('[').and_then(|l| l.strip_suffix(']')) {
            name.clone_into(&mut section);
            continue;
        }
        let (key, value) = line.split_once('=').unwrap();
        let values = unit
            .entry(section.clone())
            .or_default()
            .entry(key.to_owned())
            .or_default();
        if LISTS.contains(&key) {
            values.extend(value.split_whitespace().map(str::to_owned));
        } else {
            values.insert(truth(value).to_owned());
        }
    }
    unit
}

/// systemd has several words for the same.
fn truth(value: &str) -> &str {
    match value {
        "yes" | "on" | "1" => "true",
        "no" | "off" | "0" => "false",
        other => other,
    }
}

/// The unit without the line that a switch looks at: its value is a path that changes with what it stands for.
pub fn without_triggers(mut unit: Unit) -> Unit {
    let triggers = unit
        .get_mut("Unit")
        .and_then(|section| section.remove("X-Restart-Triggers"));
    assert!(triggers.is_some(), "no X-Restart-Triggers");
    unit
}

/// What is expected, from a file beside this one.
pub fn golden(name: &str) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/nix/golden");
    fs::read_to_string(folder.join(name)).unwrap()
}

pub fn toml(text: &str) -> toml::Table {
    text.parse().unwrap()
}
