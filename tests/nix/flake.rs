//! The flake as a whole: its lock, its outputs, its own check, and what its package is made of.

use std::{collections::BTreeSet, fs, path::Path, process::Command};

use serde_json::json;

use super::hosts::flake;
use crate::{lab::process, machine};

const SYSTEMS: [&str; 2] = ["aarch64-linux", "x86_64-linux"];

/// The names in a folder that end so, without the ending.
fn stems(folder: &Path, ending: &str) -> BTreeSet<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
    names
        .filter_map(|name| name.strip_suffix(ending).map(str::to_owned))
        .collect()
}

#[test]
fn its_lock_file_is_complete_and_stays_as_it_is() {
    let Some(flake) = flake("lock") else { return };
    let lock = flake.folder().join("flake.lock");
    let before = fs::read_to_string(&lock).unwrap();

    process::run(&mut flake.nix().command(&["flake", "lock", &flake.url(None)])).unwrap();

    assert_eq!(fs::read_to_string(&lock).unwrap(), before);
    let said = process::run(&mut flake.command(&["flake", "metadata", &flake.url(None)])).unwrap();
    assert!(said.contains("nixpkgs"), "{said}");
}

#[test]
fn its_own_check_passes_on_both_systems() {
    let Some(flake) = flake("check") else { return };
    let url = flake.url(None);
    process::run(&mut flake.command(&["flake", "check", "--no-build", "--all-systems", &url]))
        .unwrap();
}

#[test]
fn its_outputs_are_those_that_are_promised() {
    let Some(flake) = flake("outputs") else {
        return;
    };
    let names = |output: &str| flake.eval(output, "builtins.attrNames").unwrap();
    for output in ["packages", "apps", "devShells", "checks", "formatter"] {
        assert_eq!(names(output), json!(SYSTEMS), "{output}");
    }
    assert_eq!(
        names("nixosModules"),
        json!(["default", "helios-proxy", "patroni-leader-proxy"])
    );
    assert_eq!(names("overlays"), json!(["default"]));

    let scenarios = stems(&flake.folder().join("tests/vm"), ".nix");
    let mut checks: BTreeSet<_> = ["clippy", "fmt", "module", "nixfmt", "package"]
        .map(str::to_owned)
        .into();
    checks.extend(scenarios.iter().map(|name| format!("vm-{name}")));
    for system in SYSTEMS {
        assert_eq!(
            names(&format!("packages.{system}")),
            json!(["default", "helios-proxy"])
        );
        assert_eq!(names(&format!("apps.{system}")), json!(["default", "demo"]));
        assert_eq!(names(&format!("devShells.{system}")), json!(["default"]));
        assert_eq!(names(&format!("checks.{system}")), json!(checks));
    }
}

#[test]
fn its_overlay_gives_the_package_to_other_package_sets() {
    let Some(flake) = flake("overlay") else {
        return;
    };
    let system = machine::system();
    let apply =
        "overlay: (overlay { callPackage = _: _: \"built by the other set\"; } { }).helios-proxy";
    assert_eq!(
        flake.eval("overlays.default", apply).unwrap(),
        json!("built by the other set")
    );
    let program = flake
        .build(&format!("packages.{system}.helios-proxy"))
        .unwrap()
        .join("bin/helios-proxy");
    let said = process::run(Command::new(program).arg("version")).unwrap();
    assert!(said.contains(env!("CARGO_PKG_VERSION")), "{said}");
}

#[test]
fn the_source_of_the_package_is_what_cargo_reads_and_no_more() {
    let Some(flake) = flake("source") else { return };
    let system = machine::system();
    let source = flake
        .eval(&format!("packages.{system}.default"), "p: p.src.outPath")
        .unwrap();
    let source = Path::new(source.as_str().unwrap());
    assert!(!source.join("tests/nix").exists() && !source.join("tests/vm").exists());
    assert!(!source.join("flake.nix").exists() && !source.join(".ci").exists());

    // Every target of the manifest has its file, and the lock file fits.
    let said = process::run(
        Command::new(env!("CARGO"))
            .args(["metadata", "--offline", "--locked", "--no-deps"])
            .args(["--format-version", "1"])
            .current_dir(source),
    )
    .unwrap();
    let metadata: serde_json::Value = serde_json::from_str(&said).unwrap();
    let targets = metadata["packages"][0]["targets"].as_array().unwrap();
    assert!(targets.len() > 5);
    for target in targets {
        let file = Path::new(target["src_path"].as_str().unwrap());
        assert!(file.exists(), "{}", file.display());
    }
}
