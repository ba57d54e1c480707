//! A Nix for tests: its program out of Debian's package, its store in a folder beside the other fetched things, so that
//! the machine's own Nix, if it has one, is left alone.

#![allow(dead_code, reason = "each test program uses its own part")]

mod flake;

use std::{
    env::consts::ARCH,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

pub use flake::Flake;

use crate::lab::{
    LabError,
    install::{self, Missing},
    process,
};

/// The suite of Debian whose Nix it is: newer than this machine's, and the same everywhere.
const SUITE: &str = "trixie";

const SETTINGS: &str = "experimental-features = nix-command flakes
sandbox = false
substitute = false
build-users-group =
flake-registry =
warn-dirty = false
";

/// A Nix that is ready.
#[derive(Clone, Debug)]
pub struct Nix {
    /// A folder with Debian's files below `usr`.
    debian: PathBuf,
    /// Store, database, settings.
    home: PathBuf,
}

impl Nix {
    /// Finds it, or fetches it: about ten seconds, once.
    pub fn ensure() -> Result<Self, Missing> {
        let debian = install::ensure_folder("nix-bin", fetch)?;
        let home = install::ensure_folder("nix-home", |folder| {
            fs::create_dir_all(folder.join("etc")).map_err(LabError::io("Nix's folder"))?;
            fs::write(folder.join("etc/nix.conf"), SETTINGS)
                .map_err(LabError::io("Nix's settings"))?;
            // Nix lays out its state at its first command, and fails if two of them do so at once.
            let first = Self {
                debian: debian.clone(),
                home: folder.to_owned(),
            };
            process::run(&mut first.command(&["store", "info"])).map(drop)
        })?;
        Ok(Self { debian, home })
    }

    /// The store; a guest needs it at this very path.
    pub fn store(&self) -> PathBuf {
        self.home.join("store")
    }

    /// `nix WORDS…`, with a home of its own.
    pub fn command(&self, words: &[&str]) -> Command {
        let libraries = self.debian.join(format!("usr/lib/{ARCH}-linux-gnu"));
        let loader = match ARCH {
            "x86_64" => libraries.join("ld-linux-x86-64.so.2"),
            _ => libraries.join("ld-linux-aarch64.so.1"),
        };
        // By its own loader and C library: this machine's may be older.
        let mut nix = Command::new(loader);
        nix.arg("--library-path")
            .arg(libraries)
            .arg(self.debian.join("usr/bin/nix"))
            .args(words)
            // Started in that way it cannot start itself as its own helper for builds elsewhere.
            .args(["--option", "build-hook", ""])
            .env("NIX_STORE_DIR", self.store())
            .env("NIX_STATE_DIR", self.home.join("var"))
            .env("NIX_LOG_DIR", self.home.join("log"))
            .env("NIX_CONF_DIR", self.home.join("etc"))
            .env("XDG_CACHE_HOME", self.home.join("cache"))
            .env_remove("NIX_CONFIG")
            .env_remove("NIX_PATH")
            .env_remove("NIX_REMOTE");
        nix
    }
}

/// The system that this machine is, in Nix's words.
pub fn system() -> String {
    format!("{ARCH}-linux")
}

/// Unpacks the package and what it needs, without installing anything but the tool that does it.
fn fetch(folder: &Path) -> Result<(), LabError> {
    let mmdebstrap = install::ensure_program("mmdebstrap")?;
    eprintln!("unpacking Debian's Nix into {}", folder.display());
    let source = format!("deb {} {SUITE} main", mirror());
    process::run(
        Command::new(mmdebstrap)
            .args(["--quiet", "--variant=extract", "--include=nix-bin"])
            .args(["--aptopt=Acquire::Retries \"5\"", SUITE])
            .arg(folder)
            .arg(source),
    )
    .map(drop)
}

/// The mirror of Debian that this machine uses already, if it does.
fn mirror() -> String {
    let known = process::sh(
        "apt-get",
        &["indextargets", "--format", "$(REPO_URI)", "Origin: Debian"],
    );
    known
        .unwrap_or_default()
        .lines()
        .find(|uri| uri.trim_end_matches('/').ends_with("/debian"))
        .unwrap_or("http://deb.debian.org/debian")
        .to_owned()
}
