//! A configuration without a file: the same keys, the same checks and the same words, said in Rust.

use toml::{Table, Value};

use super::{Config, ConfigError};

impl Config {
    /// Begins a configuration in code. What a file would be refused for is refused by
    /// [`ConfigBuilder::build`], with the same words.
    ///
    /// ```
    /// # fn main() -> Result<(), heliosdb_proxy::ConfigError> {
    /// use heliosdb_proxy::Config;
    ///
    /// let config = Config::builder()
    ///     .node("pg1", "10.0.0.11")
    ///     .node("pg2", "10.0.0.12")
    ///     .set("nodes[1].port", 5433)
    ///     .listen("127.0.0.1:0")
    ///     .set("write_timeout_secs", 60)
    ///     .set("topology.scope", "main")
    ///     .without_admin()
    ///     .build()?;
    /// # assert!(config.warnings().is_empty());
    /// # Ok(())
    /// # }
    /// ```
    pub fn builder() -> ConfigBuilder {
        ConfigBuilder::default()
    }
}

/// The keys set so far: see [`Config::builder`].
#[derive(Clone, Debug, Default)]
#[must_use = "nothing is checked before `build`"]
pub struct ConfigBuilder {
    table: Table,
}

/// What a key may be set to.
#[derive(Clone, Debug)]
pub struct ConfigValue(Value);

impl ConfigBuilder {
    /// One PostgreSQL member: a name, and a host name or an IP address.
    pub fn node(self, name: impl Into<String>, host: impl Into<String>) -> Self {
        let keys = [("name", name.into()), ("host", host.into())];
        self.push("nodes", keys)
    }

    /// Where clients connect that go to the leader: `IP:PORT`, `[IPv6]:PORT`, or the path of a unix socket.
    pub fn listen(self, address: impl Into<String>) -> Self {
        self.push("listeners", [("address", address.into())])
    }

    /// No admin API.
    pub fn without_admin(self) -> Self {
        self.set("admin_address", "")
    }

    /// Any key of the README, in the words in which errors name it: `write_timeout_secs`, `health.fast_interval_ms`,
    /// `nodes[0].rest_port`, `listeners[1].mode`. The last word on a key counts.
    pub fn set(mut self, key: &str, value: impl Into<ConfigValue>) -> Self {
        let ConfigValue(value) = value.into();
        match place(&mut self.table, key) {
            Some((table, last)) => table.insert(last.to_owned(), value),
            // Not to be found in what there is: the check will name it.
            None => self.table.insert(key.to_owned(), value),
        };
        self
    }

    /// Checks what was set, as a start does a file; errors name it `builder`.
    ///
    /// # Errors
    /// See [`ConfigError`].
    pub fn build(self) -> Result<Config, ConfigError> {
        Config::read(self.table, "builder", super::Setting::Start)
    }

    fn push<const N: usize>(mut self, list: &str, keys: [(&str, String); N]) -> Self {
        let keys = keys.map(|(key, text)| (key.to_owned(), Value::String(text)));
        let one = Value::Table(Table::from_iter(keys));
        let all = self.table.entry(list);
        match all.or_insert_with(|| Value::Array(Vec::new())) {
            Value::Array(all) => all.push(one),
            other => *other = Value::Array(vec![one]),
        }
        self
    }
}

/// The table that a key stands in, made where it is not there yet, and the key's own name.
fn place<'t, 'k>(table: &'t mut Table, key: &'k str) -> Option<(&'t mut Table, &'k str)> {
    let Some((head, rest)) = key.split_once('.') else {
        return Some((table, key));
    };
    let below = match head.strip_suffix(']').and_then(|head| head.split_once('[')) {
        Some((list, index)) => {
            let list = table.get_mut(list)?.as_array_mut()?;
            list.get_mut(index.parse::<usize>().ok()?)?
        }
        None => table
            .entry(head)
            .or_insert_with(|| Value::Table(Table::new())),
    };
    place(below.as_table_mut()?, rest)
}

macro_rules! values {
    ($($from:ty),+) => {$(
        impl From<$from> for ConfigValue {
            fn from(value: $from) -> Self {
                Self(Value::from(value))
            }
        }
    )+};
}

values!(&str, String, bool, i64, i32, u32, f64);

/// A list of texts.
impl<const N: usize> From<[&str; N]> for ConfigValue {
    fn from(texts: [&str; N]) -> Self {
        Self(Value::Array(texts.into_iter().map(Value::from).collect()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn built(builder: ConfigBuilder) -> Result<Config, String> {
        let full = |error: ConfigError| match std::error::Error::source(&error) {
            Some(source) => format!("{error}: {source}"),
            None => error.to_string(),
        };
        builder.build().map_err(full)
    }

    fn pair() -> ConfigBuilder {
        Config::builder()
            .node("pg1", "10.0.0.11")
            .node("pg2", "10.0.0.12")
    }

    #[test]
    fn what_is_built_is_what_a_file_would_say() {
        let config = built(
            pair()
                .set("nodes[1].port", 5433)
                .set("health.fast_interval_ms", 50)
                .set("write_timeout_secs", 1.5)
                .listen("127.0.0.1:0")
                .listen("/run/x/.s.PGSQL.5432")
                .set("listeners[1].mode", "0770")
                .without_admin(),
        )
        .unwrap();
        let file = Config::from_toml(
            "
            write_timeout_secs = 1.5
            admin_address = ''
            health = { fast_interval_ms = 50 }
            listeners = [{ address = '127.0.0.1:0' }, { address = '/run/x/.s.PGSQL.5432', mode = '0770' }]
            nodes = [{ name = 'pg1', host = '10.0.0.11' }, { name = 'pg2', host = '10.0.0.12', port = 5433 }]
            ",
        )
        .unwrap();

        assert_eq!(format!("{config:?}"), format!("{file:?}"));
    }

    #[test]
    fn what_a_file_is_refused_for_is_refused_with_the_same_words() {
        for (builder, words) in [
            (Config::builder(), "builder: nodes: not given; "),
            (
                pair().set("max_conections", 5),
                "builder: max_conections: unknown key; did you mean max_connections? ",
            ),
            (
                pair().set("health.fast_interval_ms", "soon"),
                "builder: health.fast_interval_ms = \"soon\": allowed is ",
            ),
            (
                pair().set("nodes[2].port", 5433),
                "builder: nodes[2].port: unknown key; ",
            ),
            (
                pair()
                    .set("write_timeout_secs.x", 5)
                    .set("write_timeout_secs", 5),
                "",
            ),
            (
                pair()
                    .set("write_timeout_secs", 5)
                    .set("write_timeout_secs.x", 5),
                "builder: write_timeout_secs.x: unknown key; ",
            ),
        ] {
            match built(builder) {
                Ok(_) => assert_eq!(words, ""),
                Err(said) => assert!(!words.is_empty() && said.starts_with(words), "{said}"),
            }
        }
    }
}
