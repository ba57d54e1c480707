//! The Python here: the drivers of guests, and the scripts of tests/vm, which NixOS itself lints and type-checks before it
//! runs them.

use std::{
    fmt::Write,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use serde_json::Value;

use super::hosts::flake;
use crate::{
    lab::{self, install, process},
    machine::system,
};

/// What a script finds beside its machines.
const GIVEN: &str = "start_all,subtest,retry,machines,log";

fn program(test: &str, name: &'static str) -> Option<PathBuf> {
    lab::found(test, install::ensure_program(name))
}

/// Every Python file of the tests.
fn python_files() -> Vec<PathBuf> {
    let mut folders = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("tests")];
    let mut files = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|ending| ending == "py") {
                files.push(path);
            }
        }
    }
    files
}

#[test]
fn every_python_file_is_quiet_under_pyflakes() {
    let Some(pyflakes) = program("pyflakes", "pyflakes3") else {
        return;
    };
    // Parts of a script are looked at as parts of it, below.
    let is_part = |file: &PathBuf| {
        let folder = file.parent().unwrap();
        folder.ends_with("tests/vm") || folder.ends_with("tests/vm/lib")
    };
    let files = python_files().into_iter().filter(|file| !is_part(file));
    process::run(Command::new(pyflakes).args(files)).unwrap();
}

#[test]
fn every_scenario_passes_the_checks_that_nixos_makes_of_its_script() {
    let test = "scripts";
    let Some(flake) = flake(test) else { return };
    let (Some(pyflakes), Some(mypy)) = (program(test, "pyflakes3"), program(test, "mypy")) else {
        return;
    };
    let read = |file: &str| fs::read_to_string(flake.folder().join(file)).unwrap();
    let types = read("tests/nix/script_types.py");
    // In guests the driver says these words.
    let verbs = read("tests/vm/lib/nixos.py");
    let checks = flake
        .eval(&format!("checks.{}", system()), "builtins.attrNames")
        .unwrap();
    let names = checks.as_array().unwrap().iter().filter_map(Value::as_str);
    for name in names.filter(|name| name.starts_with("vm-")) {
        let manifest = flake
            .build(&format!("checks.{}.{name}.manifest", system()))
            .unwrap();
        let manifest: Value = serde_json::from_str(&fs::read_to_string(manifest).unwrap()).unwrap();
        let script = format!("{verbs}\n{}", manifest["testScript"].as_str().unwrap());
        let nodes = manifest["nodes"].as_object().unwrap();
        let mut machines: Vec<_> = nodes.keys().map(String::as_str).collect();
        if machines.len() == 1 {
            machines.push("machine");
        }

        let alone = flake.folder().join(format!("{name}.py"));
        fs::write(&alone, &script).unwrap();
        let seen = format!("{GIVEN},{}", machines.join(","));
        process::run(
            Command::new(&pyflakes)
                .arg(&alone)
                .env("PYFLAKES_BUILTINS", seen),
        )
        .unwrap();

        let mut typed = types.clone();
        for machine in machines {
            writeln!(typed, "{machine}: Machine").unwrap();
        }
        typed.push_str(&script);
        fs::write(&alone, typed).unwrap();
        process::run(
            Command::new(&mypy)
                .args(["--no-implicit-optional", "--cache-dir=/dev/null"])
                .arg(&alone),
        )
        .unwrap();
    }
}
