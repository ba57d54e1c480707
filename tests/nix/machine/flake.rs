//! This repository as a flake, with the stand-in for nixpkgs as its input.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use serde_json::Value;
use tempfile::TempDir;

use super::Nix;
use crate::lab::{LabError, process};

/// What is no part of the sources.
const LEFT_OUT: [&str; 4] = [".git", ".direnv", "result", "target"];

/// A copy of the sources: Nix puts the whole folder of a flake into its store.
#[derive(Debug)]
pub struct Flake {
    nix: Nix,
    folder: TempDir,
}

impl Flake {
    /// The sources as they are now, committed or not.
    pub fn of_this_repository(nix: Nix) -> Result<Self, LabError> {
        let folder = TempDir::new().map_err(LabError::io("a folder for the sources"))?;
        let sources = Path::new(env!("CARGO_MANIFEST_DIR"));
        let entries = fs::read_dir(sources).map_err(LabError::io("the sources"))?;
        let wanted = entries
            .flatten()
            .filter(|entry| !LEFT_OUT.iter().any(|name| entry.file_name() == *name));
        process::run(
            Command::new("cp")
                .arg("-r")
                .args(wanted.map(|entry| entry.path()))
                .arg(folder.path()),
        )?;
        Ok(Self { nix, folder })
    }

    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    pub fn nix(&self) -> &Nix {
        &self.nix
    }

    /// The flake itself, or an output of it.
    pub fn url(&self, attribute: Option<&str>) -> String {
        let folder = self.folder().display();
        match attribute {
            Some(attribute) => format!("path:{folder}#{attribute}"),
            None => format!("path:{folder}"),
        }
    }

    /// `nix WORDS…` with the stand-in. Packages hold the program that cargo has built for the tests.
    pub fn command(&self, words: &[&str]) -> Command {
        let stub = format!("path:{}/tests/nix/stub", self.folder().display());
        let mut nix = self.nix.command(words);
        nix.args(["--no-write-lock-file", "--override-input", "nixpkgs", &stub])
            .env("HELIOS_BINARY", env!("CARGO_BIN_EXE_helios-proxy"))
            .current_dir(self.folder());
        nix
    }

    /// What `apply`, a function of Nix, makes of an output.
    pub fn eval(&self, attribute: &str, apply: &str) -> Result<Value, LabError> {
        let url = self.url(Some(attribute));
        let said = process::run(&mut self.command(&["eval", "--json", "--apply", apply, &url]))?;
        value(&said)
    }

    /// Builds an output, such as `checks.x86_64-linux.vm-module.manifest`, and tells its path in the store.
    pub fn build(&self, attribute: &str) -> Result<PathBuf, LabError> {
        let url = self.url(Some(attribute));
        let words = ["build", "--impure", "--no-link", "--print-out-paths", &url];
        process::run(&mut self.command(&words)).map(|said| PathBuf::from(said.trim()))
    }

    /// The same for an attribute of one of the files here.
    pub fn build_of(&self, file: &str, attribute: &str) -> Result<PathBuf, LabError> {
        let mut words = vec!["build", "--impure", "--no-link", "--print-out-paths"];
        words.extend(["--file", file, attribute]);
        let mut nix = self.nix.command(&words);
        nix.env("HELIOS_BINARY", env!("CARGO_BIN_EXE_helios-proxy"))
            .current_dir(self.folder());
        process::run(&mut nix).map(|said| PathBuf::from(said.trim()))
    }

    /// The value of an attribute of one of the files here.
    pub fn value_of(&self, file: &str, attribute: &str) -> Result<Value, LabError> {
        let words = ["eval", "--impure", "--json", "--file", file, attribute];
        let said = process::run(self.nix.command(&words).current_dir(self.folder()))?;
        value(&said)
    }
}

fn value(said: &str) -> Result<Value, LabError> {
    serde_json::from_str(said).map_err(|error| LabError::Refused(format!("{error}: {said}")))
}
