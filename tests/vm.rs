//! Each scenario of `tests/vm` in guests with a real systemd, real Patroni and PostgreSQL: the same nodes and the same
//! script that NixOS runs in virtual machines. Where guests cannot be had, each is skipped by its name; under `CI` it fails.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test program")]

#[path = "nix/guests.rs"]
mod guests;
#[path = "lab/mod.rs"]
mod lab;
#[path = "nix/machine/mod.rs"]
mod machine;

use std::{fs, path::Path, process::ExitCode, sync::Arc};

use libtest_mimic::{Arguments, Trial};

use guests::Guests;

fn main() -> ExitCode {
    let mut arguments = Arguments::from_args();
    // Most of their time is waiting, and each has machines of its own; but all share this one's cores.
    arguments.test_threads.get_or_insert(2);
    let guests = Arc::new(Guests::default());
    let mut trials: Vec<Trial> = scenarios()
        .into_iter()
        .map(|name| {
            let guests = Arc::clone(&guests);
            Trial::test(name.clone(), move || guests.play(&name))
        })
        .collect();
    trials.push(Trial::test("the_rules_of_the_driver", || {
        guests::try_the_driver()
    }));
    libtest_mimic::run(&arguments, trials).exit_code()
}

/// The files of the folder, as the flake's checks list them too.
fn scenarios() -> Vec<String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/vm");
    let mut names: Vec<String> = fs::read_dir(folder)
        .unwrap()
        .filter_map(|entry| {
            let path = entry.unwrap().path();
            let is_scenario = path.extension().is_some_and(|ending| ending == "nix");
            is_scenario.then(|| path.file_stem().unwrap().to_str().unwrap().to_owned())
        })
        .collect();
    names.sort();
    assert!(!names.is_empty());
    names
}
