//! `${VAR}` and `${VAR:-default}` in values, after parsing: a variable can never add a key or a line.

use std::collections::BTreeSet;

use toml::{Table, Value};

use super::Setting;
use super::error::Problem;

/// Which values came from variables.
#[derive(Debug, Default)]
pub(super) struct Expanded {
    /// Keys whose whole value was one `${…}`: there the text may stand for a number or a bool.
    pub(super) whole: BTreeSet<String>,
    /// Keys left out because their variable is not set. Only with [`Setting::Check`].
    pub(super) left: BTreeSet<String>,
}

/// Expands every text of `table` in place.
pub(super) fn expand(
    table: &mut Table,
    setting: Setting,
    lookup: &dyn Fn(&str) -> Option<String>,
) -> Result<Expanded, Problem> {
    let mut walk = Walk {
        setting,
        lookup,
        done: Expanded::default(),
    };
    walk.table(table, "")?;
    Ok(walk.done)
}

struct Walk<'a> {
    setting: Setting,
    lookup: &'a dyn Fn(&str) -> Option<String>,
    done: Expanded,
}

impl Walk<'_> {
    fn table(&mut self, table: &mut Table, at: &str) -> Result<(), Problem> {
        let mut unset = Vec::new();
        for (name, value) in table.iter_mut() {
            let key = if at.is_empty() {
                name.clone()
            } else {
                format!("{at}.{name}")
            };
            if !self.value(value, &key)? {
                unset.push(name.clone());
            }
        }
        for name in unset {
            table.remove(&name);
        }
        Ok(())
    }

    /// False if the value is to be left out.
    fn value(&mut self, value: &mut Value, key: &str) -> Result<bool, Problem> {
        match value {
            Value::String(text) => return self.text(text, key),
            Value::Table(table) => self.table(table, key)?,
            Value::Array(list) => {
                let mut index = 0;
                let mut failed = None;
                list.retain_mut(|item| {
                    let kept = self.value(item, &format!("{key}[{index}]"));
                    index += 1;
                    kept.unwrap_or_else(|problem| {
                        failed.get_or_insert(problem);
                        true
                    })
                });
                failed.map_or(Ok(()), Err)?;
            }
            _ => {}
        }
        Ok(true)
    }

    fn text(&mut self, text: &mut String, key: &str) -> Result<bool, Problem> {
        let mut out = String::new();
        let mut rest = text.as_str();
        while let Some((before, after)) = rest.split_once("${") {
            let Some((inner, after)) = after.split_once('}') else {
                return Err(malformed(key, text));
            };
            let (variable, default) = match inner.split_once(":-") {
                Some((variable, default)) => (variable, Some(default)),
                None => (inner, None),
            };
            if !is_name(variable) {
                return Err(malformed(key, text));
            }
            let found = (self.lookup)(variable);
            let filled = match default {
                Some(default) => found
                    .filter(|v| !v.is_empty())
                    .unwrap_or(default.to_owned()),
                None => match found {
                    Some(found) => found,
                    None if self.setting == Setting::Check => {
                        self.done.left.insert(key.to_owned());
                        return Ok(false);
                    }
                    None => {
                        return Err(Problem::Unset {
                            key: key.to_owned(),
                            found: format!("{text:?}"),
                            variable: variable.to_owned(),
                        });
                    }
                },
            };
            if before.is_empty() && after.is_empty() && out.is_empty() {
                self.done.whole.insert(key.to_owned());
            }
            out.push_str(before);
            out.push_str(&filled);
            rest = after;
        }
        out.push_str(rest);
        *text = out;
        Ok(true)
    }
}

fn is_name(variable: &str) -> bool {
    let word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    variable.chars().all(word) && variable.starts_with(|c: char| !c.is_ascii_digit())
}

fn malformed(key: &str, text: &str) -> Problem {
    Problem::value(key, text, "allowed is ${VAR} or ${VAR:-default}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn env(name: &str) -> Option<String> {
        match name {
            "HOST" => Some("db".to_owned()),
            "EMPTY" => Some(String::new()),
            "TRAP" => Some("\"\nadmin_address = \"${HOST}".to_owned()),
            _ => None,
        }
    }

    fn expanded(text: &str, setting: Setting) -> Result<(Table, Expanded), Problem> {
        let mut table: Table = toml::from_str(text).unwrap();
        let done = expand(&mut table, setting, &env)?;
        Ok((table, done))
    }

    #[test]
    fn values_take_variables_and_defaults_wherever_they_stand() {
        let (table, done) = expanded(
            "a = '${HOST}'\nb = 'x-${HOST}-${NO:-d}${EMPTY}'\nc = ['${EMPTY:-e}', '$HOST', '$']\n[[t]]\nd = '${HOST}'",
            Setting::Start,
        )
        .unwrap();

        let want: Table =
            toml::from_str("a = 'db'\nb = 'x-db-d'\nc = ['e', '$HOST', '$']\n[[t]]\nd = 'db'")
                .unwrap();
        assert_eq!(table, want);
        assert_eq!(
            done.whole.into_iter().collect::<Vec<_>>(),
            ["a", "c[0]", "t[0].d"]
        );
    }

    #[test]
    fn what_a_variable_holds_is_text_and_is_not_expanded_again() {
        let (table, _) = expanded("a = '${TRAP}'", Setting::Start).unwrap();

        assert_eq!(table.len(), 1);
        assert_eq!(table["a"].as_str(), Some("\"\nadmin_address = \"${HOST}"));
    }

    #[test]
    fn an_unset_variable_fails_a_start_and_is_left_out_of_a_check() {
        let text = "[[t]]\na = 'h-${NO}'\nb = 1";

        let Err(Problem::Unset { key, variable, .. }) = expanded(text, Setting::Start) else {
            panic!("started");
        };
        assert_eq!((key.as_str(), variable.as_str()), ("t[0].a", "NO"));

        let (table, done) = expanded(text, Setting::Check).unwrap();
        assert_eq!(table, toml::from_str("[[t]]\nb = 1").unwrap());
        assert!(done.left.contains("t[0].a"));
    }

    #[test]
    fn what_looks_like_a_variable_and_is_none_is_refused() {
        for text in [
            "a = '${HOST'",
            "a = '${}'",
            "a = '${1X}'",
            "a = '${A B}'",
            "a = '${:-x}'",
        ] {
            assert!(
                matches!(expanded(text, Setting::Start), Err(Problem::Value { .. })),
                "{text}"
            );
        }
    }
}
