//! From the file as written to the [`Config`] it becomes: what concerns more than one value is decided here.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use super::Config;
use super::address;
use super::error::Problem;
use super::file::{File, Listener, Node};
use super::value::Text;
use super::{provider, rest};
use crate::admin::AdminSettings;
use crate::net::{Address, canonical};
use crate::primary_tracker::TrackerSettings;
use crate::routing::{Intent, ReadSettings, RoutingSettings};
use crate::session::{ListenerSettings, SessionSettings};
use crate::topology::{HealthSettings, NodeSettings};

const DEFAULT_LISTENER: &str = "127.0.0.1:5432";
const DEFAULT_ADMIN: &str = "127.0.0.1:9090";

/// Builds the configuration. `left` names the keys whose value is not known: a check says nothing about them,
/// and leaves out the listener or node that is nothing without them.
pub(super) fn build(file: &File, left: &BTreeSet<String>) -> Result<Config, Problem> {
    let listeners = listeners(file, left)?;
    let admin = admin(file, &listeners, left)?;
    let nodes = nodes(file, left)?;
    Ok(Config {
        admin,
        listeners: listeners.into_iter().flatten().collect(),
        health: health(file),
        source: provider::source(file, &nodes, left)?,
        rest: rest::build(file, left)?,
        nodes,
        tracker: tracker(file)?,
        routing: RoutingSettings {
            write_timeout: file.write_timeout_secs.0,
            dial_concurrency: file.dial_concurrency.0 as usize,
            max_staleness: file.health.max_staleness_ms.0,
            freshness_wait: file.health.freshness_wait_ms.0,
        },
        session: SessionSettings {
            connect_timeout: file.connect_timeout_ms.0,
            startup_timeout: file.startup_timeout_secs.0,
            dead_peer: Some(file.dead_peer_secs.0).filter(|wait| *wait > Duration::ZERO),
            max_connections: file.max_connections.0 as usize,
        },
        drain_delay: file.drain_delay_secs.0,
        drain_timeout: file.drain_timeout_secs.0,
        shown: toml::Table::new(),
    })
}

fn health(file: &File) -> HealthSettings {
    let health = &file.health;
    HealthSettings {
        check_interval: health.check_interval_ms.0,
        check_timeout: health.check_timeout_ms.0,
        failure_threshold: health.failure_threshold.0,
        success_threshold: health.success_threshold.0,
        active_interval: health.active_interval_ms.0,
        fast_interval: health.fast_interval_ms.0,
    }
}

fn tracker(file: &File) -> Result<TrackerSettings, Problem> {
    let topology = &file.topology;
    let text = |text: &Option<Text>| text.as_ref().map(|t| Arc::from(t.0.as_str()));
    if let Some(Text(id)) = &topology.system_identifier
        && id.parse::<u64>().is_err()
    {
        return Err(Problem::value(
            "topology.system_identifier",
            id,
            "allowed are the digits that pg_controldata shows as \"Database system identifier\"",
        ));
    }
    Ok(TrackerSettings {
        provider: topology.provider.0,
        lease_timeout: topology.lease_timeout_secs.0,
        on_lease_expired: file.on_lease_expired.0,
        scope: text(&topology.scope),
        system_identifier: text(&topology.system_identifier),
        patroni_ttl: topology.patroni_ttl_secs.map(|ttl| ttl.0),
        write_timeout: file.write_timeout_secs.0,
    })
}

/// One for each written, `None` where the address is not known.
fn listeners(
    file: &File,
    left: &BTreeSet<String>,
) -> Result<Vec<Option<ListenerSettings>>, Problem> {
    let Some(written) = &file.listeners else {
        return Ok(vec![
            address::listen(DEFAULT_LISTENER).map(default_listener),
        ]);
    };
    if written.is_empty() {
        return Err(Problem::value(
            "listeners",
            [(); 0],
            format!("allowed is at least one, or to leave the key out for {DEFAULT_LISTENER}"),
        ));
    }
    let mut taken: Vec<Option<Address>> = Vec::new();
    let mut all = Vec::new();
    for (i, one) in written.iter().enumerate() {
        let key = format!("listeners[{i}]");
        let settings = listener(one, &key, left)?;
        let canonical = settings
            .as_ref()
            .and_then(|s| address::canonical_listen(&s.address));
        if canonical.is_some()
            && let Some(other) = taken.iter().position(|other| *other == canonical)
        {
            return Err(Problem::value(
                format!("{key}.address"),
                one.address.as_ref().map_or("", |text| &text.0),
                format!("listeners[{other}] has this address; allowed is each address once"),
            ));
        }
        taken.push(canonical);
        all.push(settings);
    }
    Ok(all)
}

fn default_listener(address: Address) -> ListenerSettings {
    ListenerSettings {
        address,
        intent: Intent::default(),
        max_connections: None,
        mode: None,
        group: None,
    }
}

fn listener(
    one: &Listener,
    key: &str,
    left: &BTreeSet<String>,
) -> Result<Option<ListenerSettings>, Problem> {
    let mode = one.mode.as_ref().map(|m| mode(m, key)).transpose()?;
    let text = required(
        &one.address,
        &format!("{key}.address"),
        address::LISTEN,
        left,
    )?;
    let Some(text) = text else {
        return Ok(None);
    };
    let address = address::listen(text)
        .ok_or_else(|| Problem::value(format!("{key}.address"), text, address::LISTEN))?;
    if let Address::Tcp(_) = address {
        let only_unix = [("mode", &one.mode), ("group", &one.group)];
        if let Some((name, Some(found))) = only_unix.iter().find(|(_, set)| set.is_some()) {
            return Err(Problem::value(
                format!("{key}.{name}"),
                &found.0,
                format!("{text} is not a unix socket; allowed is to leave the key out"),
            ));
        }
    }
    Ok(Some(ListenerSettings {
        intent: Intent {
            route: one.route.0,
            reads: reads(one),
        },
        max_connections: one.max_connections.map(|count| count.0 as usize),
        mode,
        group: one.group.as_ref().map(|group| group.0.clone()),
        ..default_listener(address)
    }))
}

fn reads(one: &Listener) -> ReadSettings {
    ReadSettings {
        policy: one.policy.0,
        fallback: one.fallback.0,
        on_promotion: one.on_promotion.0,
        require_streaming: one.require_streaming.0,
        archive_recovery: one.archive_recovery.0,
        max_lag_bytes: one.max_lag_bytes.map(|most| most.0),
    }
}

fn mode(text: &Text, key: &str) -> Result<u32, Problem> {
    u32::from_str_radix(&text.0, 8)
        .ok()
        .filter(|mode| *mode <= 0o777 && !text.0.starts_with('+'))
        .ok_or_else(|| {
            let words = "allowed are permission bits in octal, from \"0000\" to \"0777\"";
            Problem::value(format!("{key}.mode"), &text.0, words)
        })
}

fn admin(
    file: &File,
    listeners: &[Option<ListenerSettings>],
    left: &BTreeSet<String>,
) -> Result<Option<AdminSettings>, Problem> {
    let text = match &file.admin_address {
        Some(address) => address.0.as_str(),
        None => DEFAULT_ADMIN,
    };
    if text.is_empty() || left.contains("admin_address") {
        return Ok(None);
    }
    let problem = |words: &str| Err(Problem::value("admin_address", text, words));
    let Some(at) = address::tcp(text) else {
        return problem(address::TCP);
    };
    let settings = AdminSettings {
        address: at,
        token_file: file.admin_token_file.as_ref().map(|f| f.0.clone().into()),
        allow_insecure: file.admin_allow_insecure.0,
        enable_chaos: file.enable_chaos.0,
    };
    let is_left = ["admin_token_file", "admin_allow_insecure"]
        .iter()
        .any(|key| left.contains(*key));
    if settings.must_have_token() && settings.token_file.is_none() && !is_left {
        return problem(
            "off loopback; allowed is a loopback address, or to set admin_token_file as well (or \
             admin_allow_insecure = true)",
        );
    }
    let canonical = address::canonical_listen(&Address::Tcp(at));
    let taken = listeners.iter().position(|one| {
        canonical.is_some()
            && one
                .as_ref()
                .and_then(|one| address::canonical_listen(&one.address))
                == canonical
    });
    match taken {
        Some(i) => problem(&format!(
            "listeners[{i}] has this address; allowed is each address once"
        )),
        None => Ok(Some(settings)),
    }
}

fn nodes(file: &File, left: &BTreeSet<String>) -> Result<Vec<NodeSettings>, Problem> {
    if file.nodes.is_empty() {
        let words = "allowed is at least one [[nodes]] with name and host";
        return Err(Problem::missing("nodes", words));
    }
    let mut names: Vec<Option<&str>> = Vec::new();
    let mut addresses = Vec::new();
    let mut all = Vec::new();
    for (i, one) in file.nodes.iter().enumerate() {
        let key = format!("nodes[{i}]");
        let name = required(&one.name, &format!("{key}.name"), "allowed is a text", left)?;
        if let Some(name) = name
            && let Some(other) = names.iter().position(|other| *other == Some(name))
        {
            return Err(Problem::value(
                format!("{key}.name"),
                name,
                format!("nodes[{other}] has this name; allowed is each name once"),
            ));
        }
        let rest_host = match &one.rest_host {
            Some(_) => host(&one.rest_host, &format!("{key}.rest_host"), left)?,
            None => None,
        };
        let host = host(&one.host, &format!("{key}.host"), left)?;
        let canonical = host
            .filter(|_| !left.contains(&format!("{key}.port")))
            .map(|host| (canonical(host), one.port.0));
        if canonical.is_some()
            && let Some(other) = addresses.iter().position(|other| *other == canonical)
        {
            return Err(Problem::value(
                format!("{key}.host"),
                host.unwrap_or_default(),
                format!(
                    "nodes[{other}] has this host with the same port {}; allowed is each address once",
                    one.port.0
                ),
            ));
        }
        names.push(name);
        addresses.push(canonical);
        if let (Some(name), Some(host)) = (name, host) {
            all.push(node(file, one, name, host, rest_host));
        }
    }
    Ok(all)
}

fn node(file: &File, one: &Node, name: &str, host: &str, rest_host: Option<&str>) -> NodeSettings {
    NodeSettings {
        name: name.into(),
        host: host.into(),
        port: one.port.0,
        rest_host: rest_host.map(Arc::from),
        rest_port: one.rest_port.map_or(file.rest.port.0, |port| port.0),
        role: one.role.0,
        enabled: one.enabled.0,
        weight: u32::try_from(one.weight.0).unwrap_or(u32::MAX),
    }
}

fn host<'a>(
    text: &'a Option<Text>,
    key: &str,
    left: &BTreeSet<String>,
) -> Result<Option<&'a str>, Problem> {
    let Some(text) = required(text, key, address::HOST, left)? else {
        return Ok(None);
    };
    match address::host(text) {
        Some(host) => Ok(Some(host)),
        None => Err(Problem::value(key, text, address::HOST)),
    }
}

/// A text that must be given; `None` where it was, but its value is not known.
pub(super) fn required<'a>(
    text: &'a Option<Text>,
    key: &str,
    words: &str,
    left: &BTreeSet<String>,
) -> Result<Option<&'a str>, Problem> {
    match text {
        Some(text) => Ok(Some(&text.0)),
        None if left.contains(key) => Ok(None),
        None => Err(Problem::missing(key, words)),
    }
}
