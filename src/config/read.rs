//! From text to [`File`]: syntax, variables, then every key and value, with the first thing wrong as the answer.

use std::collections::BTreeSet;
use std::ops::Range;

use serde_path_to_error::{Path, Segment};
use toml::{Table, Value};

use super::Setting;
use super::error::{ConfigError, Problem};
use super::expand::{Expanded, expand};
use super::file::File;

/// A value shown in an error is cut to this: the line must stay one.
const SHOWN: usize = 60;

/// The text as a table.
pub(super) fn parse(text: &str, file: &str) -> Result<Table, ConfigError> {
    toml::from_str(text).map_err(|error| {
        let at = error.span().unwrap_or(Range { start: 0, end: 0 }).start;
        let before = text.get(..at).unwrap_or(text);
        let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
        ConfigError::Syntax {
            file: file.to_owned(),
            line: before.matches('\n').count() + 1,
            column: before[line_start..].chars().count() + 1,
            reason: error.message().replace('\n', ", "),
        }
    })
}

/// The checked file, and the keys that a check left out because their variable is not set.
pub(super) fn read(
    mut table: Table,
    setting: Setting,
    lookup: &dyn Fn(&str) -> Option<String>,
) -> Result<(File, BTreeSet<String>), Problem> {
    let Expanded { mut whole, left } = expand(&mut table, setting, lookup)?;
    loop {
        let error = match serde_path_to_error::deserialize(Value::Table(table.clone())) {
            Ok(file) => return Ok((file, left)),
            Err(error) => error,
        };
        // `${PORT}` alone may stand for a number or a bool: where a text will not do, it is read as one.
        let retried = whole.remove(&error.path().to_string())
            && find(&mut table, error.path()).is_some_and(retype);
        if !retried {
            return Err(problem(&mut table, error.path(), error.inner().message()));
        }
    }
}

/// The keys that may stand below `header`: what serde lists when it meets an impossible one.
pub(super) fn keys_of(header: &str) -> Vec<String> {
    let probe = format!("{header}\n\"?\" = 0");
    let read = toml::from_str::<File>(&probe);
    read.err()
        .map(|error| listed(error.message()))
        .unwrap_or_default()
}

/// Everything between backquotes but the first, which is the unknown key itself.
fn listed(message: &str) -> Vec<String> {
    let quoted = message.split('`').skip(1).step_by(2);
    quoted.skip(1).map(str::to_owned).collect()
}

/// Turns serde's words into ours.
fn problem(table: &mut Table, path: &Path, message: &str) -> Problem {
    let key = path.to_string();
    if message.starts_with("unknown field") {
        return Problem::Unknown {
            key,
            allowed: listed(message),
        };
    }
    let found = find(table, path).map_or_else(String::new, |value| shown(value));
    let words = match message.split_once(", expected ") {
        Some((_invalid, "a sequence")) => format!("allowed is a list of tables [[{key}]]"),
        Some((_invalid, expected)) => format!("allowed is {expected}"),
        None => message.trim_end().to_owned(),
    };
    Problem::Value { key, found, words }
}

/// The value at `path`.
fn find<'t>(table: &'t mut Table, path: &Path) -> Option<&'t mut Value> {
    let mut segments = path.iter();
    let Some(Segment::Map { key }) = segments.next() else {
        return None;
    };
    let mut value = table.get_mut(key)?;
    for segment in segments {
        value = match segment {
            Segment::Map { key } => value.get_mut(key)?,
            Segment::Seq { index } => value.get_mut(*index)?,
            Segment::Enum { .. } | Segment::Unknown => return None,
        };
    }
    Some(value)
}

/// Reads a text as the number or bool that it spells.
fn retype(value: &mut Value) -> bool {
    let Some(text) = value.as_str() else {
        return false;
    };
    let typed = text
        .parse()
        .map(Value::Integer)
        .or_else(|_| text.parse().map(Value::Boolean))
        .or_else(|_| text.parse().map(Value::Float));
    typed.is_ok_and(|typed| {
        *value = typed;
        true
    })
}

/// A value as TOML writes it, on one line and not too long.
fn shown(value: &Value) -> String {
    let whole = match value {
        Value::String(text) => format!("{text:?}"),
        Value::Table(_) => "a table".to_owned(),
        other => other.to_string().replace('\n', " "),
    };
    if whole.chars().count() <= SHOWN {
        return whole;
    }
    whole.chars().take(SHOWN).chain("…".chars()).collect()
}
