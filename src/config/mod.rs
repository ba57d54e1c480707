//! The TOML as written and the [`Config`] it becomes.
//!
//! Text → [`file::File`] (each value is checked by its type) → [`Config`] (what concerns several values). Nothing
//! here touches the network, a named file or a secret: a check gives the verdict of a start.

use std::path::Path;
use std::time::Duration;

use toml::Table;

use crate::admin::AdminSettings;
use crate::primary_tracker::TrackerSettings;
use crate::routing::RoutingSettings;
use crate::session::{ListenerSettings, SessionSettings};
use crate::topology::{HealthSettings, NodeSettings, RestSettings, SourceSettings};

mod address;
mod build;
mod builder;
mod diff;
mod doubts;
mod error;
mod expand;
mod file;
mod keys;
mod provider;
mod read;
mod rest;
mod show;
mod value;
mod views;

pub use builder::{ConfigBuilder, ConfigValue};
pub(crate) use diff::{Diff, diff, in_effect};
pub use error::ConfigError;

/// A checked configuration: whatever one of these says can be done, or is refused by the kernel only.
#[derive(Clone, Debug)]
pub struct Config {
    pub(crate) listeners: Vec<ListenerSettings>,
    pub(crate) nodes: Vec<NodeSettings>,
    pub(crate) health: HealthSettings,
    /// How the nodes are asked.
    pub(crate) source: SourceSettings,
    pub(crate) rest: RestSettings,
    pub(crate) tracker: TrackerSettings,
    pub(crate) routing: RoutingSettings,
    pub(crate) session: SessionSettings,
    /// `None` = no admin API.
    pub(crate) admin: Option<AdminSettings>,
    pub(crate) drain_delay: Duration,
    pub(crate) drain_timeout: Duration,
    /// What `/config` shows: each key as written, or its default.
    pub(crate) shown: Table,
}

/// What a configuration is read for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Setting {
    /// Every variable must be set.
    Start,
    /// On the machine that builds the file, perhaps: unset variables are left to the start.
    Check,
}

impl Config {
    /// Reads and checks a file, as a start does.
    ///
    /// # Errors
    /// See [`ConfigError`].
    pub fn load(file: &Path) -> Result<Self, ConfigError> {
        let (name, text) = open(file)?;
        Self::read(read::parse(&text, &name)?, &name, Setting::Start)
    }

    /// Checks a text, as a start does; errors name it `config`.
    ///
    /// # Errors
    /// See [`ConfigError`].
    pub fn from_toml(text: &str) -> Result<Self, ConfigError> {
        Self::read(read::parse(text, "config")?, "config", Setting::Start)
    }

    /// Checks a file with the verdict of a start, but for variables that are not set here. Answers with the
    /// warnings.
    ///
    /// # Errors
    /// See [`ConfigError`].
    pub fn check(file: &Path) -> Result<Vec<String>, ConfigError> {
        Self::sketch(file).map(|config| config.warnings())
    }

    /// As much of the file as can be known without its variables.
    pub(crate) fn sketch(file: &Path) -> Result<Self, ConfigError> {
        let (name, text) = open(file)?;
        Self::read(read::parse(&text, &name)?, &name, Setting::Check)
    }

    /// Checks what the command line says instead of a file; errors name it `command line`.
    pub(crate) fn from_table(table: Table) -> Result<Self, ConfigError> {
        Self::read(table, "command line", Setting::Start)
    }

    fn read(table: Table, name: &str, setting: Setting) -> Result<Self, ConfigError> {
        let lookup = |variable: &str| std::env::var(variable).ok();
        let shown = show::with_defaults(&table);
        read::read(table, setting, &lookup)
            .and_then(|(file, left)| build::build(&file, &left))
            .map(|config| Self { shown, ..config })
            .map_err(|problem| problem.in_file(name))
    }
}

fn open(file: &Path) -> Result<(String, String), ConfigError> {
    let name = file.display().to_string();
    match std::fs::read_to_string(file) {
        Ok(text) => Ok((name, text)),
        Err(source) => Err(ConfigError::Read { file: name, source }),
    }
}
