//! The configuration for people to look at: each key as it is written, or its default.

use toml::{Table, Value};

/// Every key with its default; a listener and a node stand for all.
const DEFAULTS: &str = include_str!("defaults.toml");

/// `written` over the defaults. Variables stay as they are written, so what only the environment knows stays there;
/// passwords live in files. What a URL has before its `@` is left out.
pub(super) fn with_defaults(written: &Table) -> Table {
    let mut all: Table = toml::from_str(DEFAULTS).unwrap_or_default();
    for (key, value) in written {
        let default = all.get(key);
        let shown = match (value, default) {
            (Value::Table(own), Some(Value::Table(default))) => Value::Table(over(default, own)),
            (Value::Array(own), Some(Value::Array(default))) => {
                Value::Array(each_over(default, own))
            }
            (own, _) => own.clone(),
        };
        all.insert(key.clone(), shown);
    }
    if !written.contains_key("nodes") {
        all.remove("nodes");
    }
    for value in all.iter_mut() {
        hide(value.1);
    }
    all
}

fn over(default: &Table, own: &Table) -> Table {
    let mut all = default.clone();
    all.extend(own.clone());
    all
}

/// Lists of tables: each of our own over the one that stands for all.
fn each_over(default: &[Value], own: &[Value]) -> Vec<Value> {
    let one = |own: &Value| match (default.first(), own) {
        (Some(Value::Table(default)), Value::Table(own)) => Value::Table(over(default, own)),
        _ => own.clone(),
    };
    own.iter().map(one).collect()
}

fn hide(value: &mut Value) {
    match value {
        Value::String(text) => {
            if let Some((scheme, rest)) = text.split_once("://")
                && let Some((_user, host)) = rest.rsplit_once('@')
            {
                *text = format!("{scheme}://…@{host}");
            }
        }
        Value::Array(all) => all.iter_mut().for_each(hide),
        Value::Table(all) => all.iter_mut().for_each(|(_, value)| hide(value)),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str) -> Table {
        with_defaults(&toml::from_str(text).unwrap())
    }

    #[test]
    fn what_is_not_written_shows_with_its_default() {
        let shown = shown(
            "write_timeout_secs = 7\n[health]\nfast_interval_ms = 50\n\
             [[nodes]]\nname = 'pg1'\nhost = 'a'\n[[nodes]]\nname = 'pg2'\nhost = 'b'\nenabled = false",
        );

        assert_eq!(shown["write_timeout_secs"].as_integer(), Some(7));
        assert_eq!(shown["max_connections"].as_integer(), Some(10_000));
        assert_eq!(shown["health"]["fast_interval_ms"].as_integer(), Some(50));
        assert_eq!(
            shown["health"]["check_interval_ms"].as_integer(),
            Some(5000)
        );
        assert_eq!(shown["nodes"][0]["enabled"].as_bool(), Some(true));
        assert_eq!(shown["nodes"][1]["enabled"].as_bool(), Some(false));
        assert_eq!(
            shown["listeners"][0]["address"].as_str(),
            Some("127.0.0.1:5432")
        );
    }

    #[test]
    fn secrets_are_not_shown() {
        let shown = shown(
            "admin_token_file = '/run/token'\n[topology]\nscope = '${SCOPE}'\n\
             patroni_endpoints = ['http://me:secret@pg1:8008', 'http://pg2:8008']",
        );

        assert_eq!(shown["topology"]["scope"].as_str(), Some("${SCOPE}"));
        let endpoints = &shown["topology"]["patroni_endpoints"];
        assert_eq!(endpoints[0].as_str(), Some("http://…@pg1:8008"));
        assert_eq!(endpoints[1].as_str(), Some("http://pg2:8008"));
    }
}
