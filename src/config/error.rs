//! Why a configuration is refused: one line that names file, key, the value found and what is allowed.

use super::keys;

/// Why a configuration is refused.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file could not be read.
    #[error("{file}: cannot be read")]
    Read {
        /// The path as given.
        file: String,
        /// What the kernel said.
        source: std::io::Error,
    },
    /// The text is not TOML.
    #[error("{file}:{line}:{column}: not TOML: {reason}")]
    Syntax {
        /// The path as given.
        file: String,
        /// Counted from 1.
        line: usize,
        /// Counted from 1, in characters.
        column: usize,
        /// What the parser said.
        reason: String,
    },
    /// A key that does not exist.
    #[error("{file}: {key}: unknown key; {advice}")]
    UnknownKey {
        /// The path as given.
        file: String,
        /// With its table: `listeners[1].rout`.
        key: String,
        /// The near one, and those that are allowed.
        advice: String,
    },
    /// A value that its key cannot have, or not beside the others.
    #[error("{file}: {key} = {found}: {words}")]
    Value {
        /// The path as given.
        file: String,
        /// With its table: `listeners[1].route`.
        key: String,
        /// As TOML would write it.
        found: String,
        /// What is allowed, or what it contradicts.
        words: String,
    },
    /// A key that must be there.
    #[error("{file}: {key}: not given; {words}")]
    Missing {
        /// The path as given.
        file: String,
        /// With its table: `nodes[0].host`.
        key: String,
        /// What is allowed.
        words: String,
    },
    /// `${VAR}` of a variable that is not set, without a default.
    #[error(
        "{file}: {key} = {found}: the environment variable {variable} is not set; allowed is to set it, or ${{{variable}:-default}}"
    )]
    Unset {
        /// The path as given.
        file: String,
        /// With its table: `nodes[0].host`.
        key: String,
        /// As TOML would write it.
        found: String,
        /// The name between the braces.
        variable: String,
    },
}

/// A refusal that does not know its file yet.
#[derive(Debug)]
pub(super) enum Problem {
    Unknown {
        key: String,
        allowed: Vec<String>,
    },
    Value {
        key: String,
        found: String,
        words: String,
    },
    Missing {
        key: String,
        words: String,
    },
    Unset {
        key: String,
        found: String,
        variable: String,
    },
}

impl Problem {
    pub(super) fn value(
        key: impl Into<String>,
        found: impl std::fmt::Debug,
        words: impl Into<String>,
    ) -> Self {
        Self::Value {
            key: key.into(),
            found: format!("{found:?}"),
            words: words.into(),
        }
    }

    pub(super) fn missing(key: impl Into<String>, words: impl Into<String>) -> Self {
        Self::Missing {
            key: key.into(),
            words: words.into(),
        }
    }

    pub(super) fn in_file(self, file: &str) -> ConfigError {
        let file = file.to_owned();
        match self {
            Self::Unknown { key, allowed } => ConfigError::UnknownKey {
                advice: keys::advice(&key, &allowed),
                file,
                key,
            },
            Self::Value { key, found, words } => ConfigError::Value {
                file,
                key,
                found,
                words,
            },
            Self::Missing { key, words } => ConfigError::Missing { file, key, words },
            Self::Unset {
                key,
                found,
                variable,
            } => ConfigError::Unset {
                file,
                key,
                found,
                variable,
            },
        }
    }
}
