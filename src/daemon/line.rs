//! A configuration without a file: `--node pg1=10.0.0.11 --node pg2=10.0.0.12` as the same TOML a file would hold.

use toml::{Table, Value};

/// `--node` that cannot be read. What its parts may be is the configuration's business.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "--node {found}: allowed is NAME=HOST or NAME=HOST:PORT, such as pg1=10.0.0.11 or pg2=[2001:db8::2]:5433"
)]
pub(super) struct LineError {
    found: String,
}

/// The table that the command line stands for.
pub(super) fn table(
    nodes: &[String],
    listen: Option<String>,
    read_listen: Option<String>,
    admin: Option<String>,
) -> Result<Table, LineError> {
    let nodes = nodes.iter().map(|text| node(text));
    let mut table = Table::new();
    table.insert(
        "nodes".to_owned(),
        Value::Array(nodes.collect::<Result<_, _>>()?),
    );
    if let Some(admin) = admin {
        table.insert("admin_address".to_owned(), Value::String(admin));
    }
    if listen.is_some() || read_listen.is_some() {
        let primary = listen.unwrap_or_else(|| "127.0.0.1:5432".to_owned());
        let mut listeners = vec![listener(primary, "primary")];
        listeners.extend(read_listen.map(|address| listener(address, "replica")));
        table.insert("listeners".to_owned(), Value::Array(listeners));
    }
    Ok(table)
}

fn listener(address: String, route: &str) -> Value {
    Value::Table(Table::from_iter([
        ("address".to_owned(), Value::String(address)),
        ("route".to_owned(), Value::String(route.to_owned())),
    ]))
}

fn node(text: &str) -> Result<Value, LineError> {
    let error = || LineError {
        found: text.to_owned(),
    };
    let (name, place) = text.split_once('=').ok_or_else(error)?;
    let (host, port) = match place.rsplit_once(':') {
        // An IPv6 address without brackets has no port.
        Some((host, port)) if !host.contains(':') || host.ends_with(']') => {
            (host, Some(port.parse::<u16>().map_err(|_| error())?))
        }
        _ => (place, None),
    };
    if name.is_empty() || host.is_empty() {
        return Err(error());
    }
    let mut node = Table::new();
    node.insert("name".to_owned(), Value::String(name.to_owned()));
    node.insert("host".to_owned(), Value::String(host.to_owned()));
    if let Some(port) = port {
        node.insert("port".to_owned(), Value::Integer(port.into()));
    }
    Ok(Value::Table(node))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Config;

    fn config(nodes: &[&str], listen: Option<&str>, read: Option<&str>) -> Result<Config, String> {
        let nodes: Vec<_> = nodes.iter().map(|&node| node.to_owned()).collect();
        let table = table(
            &nodes,
            listen.map(str::to_owned),
            read.map(str::to_owned),
            None,
        )
        .map_err(|error| error.to_string())?;
        Config::from_table(table).map_err(|error| error.to_string())
    }

    #[test]
    fn nodes_are_enough() {
        let config = config(
            &["pg1=10.0.0.11", "pg2=db:5433", "pg3=[::1]:1", "pg4=::2"],
            None,
            None,
        );

        let config = config.unwrap();
        let addresses: Vec<_> = config.nodes.iter().map(|node| node.address()).collect();
        assert_eq!(
            addresses,
            ["10.0.0.11:5432", "db:5433", "[::1]:1", "[::2]:5432"]
        );
        assert_eq!(config.listeners[0].address.to_string(), "127.0.0.1:5432");
    }

    #[test]
    fn readers_have_an_address_of_their_own() {
        let config = config(&["a=b"], None, Some("127.0.0.1:5433")).unwrap();

        let words = config.listeners.iter();
        let words: Vec<_> = words
            .map(|one| (one.address.to_string(), one.intent.route.word()))
            .collect();
        assert_eq!(
            words,
            [
                ("127.0.0.1:5432".to_owned(), "primary"),
                ("127.0.0.1:5433".to_owned(), "replica")
            ]
        );
    }

    #[test]
    fn what_cannot_be_read_is_shown_and_what_is_allowed_too() {
        for bad in ["pg1", "=h", "pg1=", "pg1=h:x", "pg1=:5432"] {
            let error = config(&[bad], None, None).unwrap_err();
            assert!(
                error.starts_with(&format!("--node {bad}: allowed is NAME=HOST")),
                "{error}"
            );
        }
    }

    #[test]
    fn the_file_s_rules_hold_for_the_command_line() {
        assert_eq!(
            config(&["a=b", "a=c"], None, None).unwrap_err(),
            "command line: nodes[1].name = \"a\": nodes[0] has this name; allowed is each name once"
        );
        assert_eq!(
            config(&["a=b"], None, Some("127.0.0.1:5432")).unwrap_err(),
            "command line: listeners[1].address = \"127.0.0.1:5432\": listeners[0] has this address; \
             allowed is each address once"
        );
        assert!(
            config(&["a=b"], Some("x"), None)
                .unwrap_err()
                .contains("listeners[0].address = \"x\"")
        );
    }
}
