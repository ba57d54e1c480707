//! A real three-node Patroni cluster (PostgreSQL, Patroni, etcd) on this one machine, and the faults to try on it.
//!
//! [`install`] finds or fetches the programs, [`Lab`] starts a cluster and hurts it, [`observer`] watches what each
//! node says of itself, [`client`] is the crowd that writes. All of it blocks: a test reads top to bottom.
//!
//! The machine and the user matter little: root runs the cluster as `postgres`, anybody else as themselves; only
//! namespaces and IPv6 addresses need root.
#![allow(
    dead_code,
    reason = "the demo, the benchmarks and the tests each use their own part"
)]

mod builder;
pub mod client;
mod cluster;
mod config;
pub mod cost;
mod daemons;
mod faults;
mod home;
pub mod http;
pub mod https;
pub mod install;
mod net;
pub mod observer;
#[allow(
    clippy::duplicate_mod,
    reason = "some test programs have the scripted neighbours as well"
)]
#[path = "../fakes/papers.rs"]
pub mod papers;
#[allow(clippy::duplicate_mod, reason = "as above")]
#[path = "../fakes/ports.rs"]
pub mod ports;
pub mod process;
pub mod proxy;
pub mod sessions;

use std::{
    io,
    path::PathBuf,
    thread,
    time::{Duration, Instant},
};

#[allow(unused_imports, reason = "as above")]
pub use {
    cluster::Lab,
    config::Timings,
    home::{end_kept, end_on_signal},
    net::{NODES, Net, Node},
};

/// Why the lab could not do what it was asked for.
#[derive(Debug, thiserror::Error)]
pub enum LabError {
    #[error(transparent)]
    Missing(#[from] install::Missing),

    #[error("{what}")]
    Io { what: String, source: io::Error },

    #[error("`{command}` failed: {output}")]
    Command { command: String, output: String },

    #[error("no {what} within {limit:?}; the logs are in {logs}")]
    Late {
        what: String,
        limit: Duration,
        logs: PathBuf,
    },

    #[error("{0}")]
    Refused(String),
}

impl LabError {
    pub(crate) fn io(what: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let what = what.into();
        move |source| Self::Io {
            what: format!("{what}: {source}"),
            source,
        }
    }
}

/// For tests: the programs, or `None` (and a line that says so) where they cannot be had.
///
/// Under `CI` nothing may be skipped in silence, so there it panics.
pub fn require(test: &str) -> Option<install::Programs> {
    found(test, install::ensure())
}

/// The same for Patroni in another version.
pub fn require_patroni(test: &str, version: &str) -> Option<PathBuf> {
    require(test)?;
    found(test, install::ensure_patroni(version))
}

/// The same for anything else that had to be found or fetched.
pub fn found<T>(test: &str, program: Result<T, install::Missing>) -> Option<T> {
    match program {
        Ok(program) => Some(program),
        Err(missing) if std::env::var_os("CI").is_some() => panic!("{test}: {missing}"),
        Err(missing) => {
            eprintln!("skipped {test}: {missing}");
            None
        }
    }
}

/// For tests that put addresses or namespaces on the machine: whether they may.
pub fn require_root(test: &str) -> bool {
    let root = nix::unistd::geteuid().is_root();
    assert!(
        root || std::env::var_os("CI").is_none(),
        "{test}: needs root"
    );
    if !root {
        eprintln!("skipped {test}: needs root");
    }
    root
}

/// Asks every `pause` until there is an answer; `None` after `limit`.
pub fn poll<T>(
    limit: Duration,
    pause: Duration,
    mut probe: impl FnMut() -> Option<T>,
) -> Option<T> {
    let end = Instant::now() + limit;
    loop {
        let got = probe();
        if got.is_some() || Instant::now() >= end {
            return got;
        }
        thread::sleep(pause);
    }
}
