//! How the Nix files are written: formatted as nixpkgs formats its own, and without anything that nobody uses.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use crate::lab::{self, install, process};

/// The official style in Rust, and the linter, by their crates.
const TOOLS: [&str; 2] = ["nixfmt_rs@0.5.3", "deadnix@1.3.1"];

/// A tool of these, built once and kept.
fn tool(test: &str, name: &str) -> Option<PathBuf> {
    let folder = install::ensure_folder("nix-tools", |folder| {
        eprintln!("building {} into {}", TOOLS.join(", "), folder.display());
        process::run(
            Command::new(env!("CARGO"))
                .args(["install", "--quiet", "--locked", "--debug", "--root"])
                .arg(folder)
                .args(TOOLS)
                .env_remove("CARGO_TARGET_DIR"),
        )
        .map(drop)
    });
    lab::found(test, folder).map(|folder| folder.join("bin").join(name))
}

/// Every Nix file of the repository.
fn nix_files() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut folders = vec![root.join("nixos"), root.join("tests")];
    let mut files = vec![root.join("flake.nix")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|ending| ending == "nix") {
                files.push(path);
            }
        }
    }
    files
}

#[test]
fn every_nix_file_is_in_the_official_format() {
    let Some(nixfmt) = tool("nixfmt", "nixfmt") else {
        return;
    };
    process::run(Command::new(nixfmt).arg("--check").args(nix_files())).unwrap();
}

#[test]
fn no_nix_file_has_code_that_nobody_uses() {
    let Some(deadnix) = tool("deadnix", "deadnix") else {
        return;
    };
    process::run(Command::new(deadnix).arg("--fail").args(nix_files())).unwrap();
}

#[test]
fn the_first_line_of_every_nix_file_says_what_it_is() {
    for file in nix_files() {
        let text = fs::read_to_string(&file).unwrap();
        assert!(text.starts_with("# "), "{}", file.display());
    }
}
