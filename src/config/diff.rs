//! What changes between two configurations, for a reload: pure.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;

use super::Config;
use crate::admin::AdminSettings;
use crate::net::Address;
use crate::session::ListenerSettings;
use crate::topology::NodeSettings;

/// What is different in the new configuration.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Diff {
    pub(crate) listeners_added: Vec<ListenerSettings>,
    pub(crate) listeners_removed: Vec<Address>,
    /// The same address with other limits: the new settings.
    pub(crate) listeners_changed: Vec<ListenerSettings>,
    /// Also those whose address changed: they are named in `nodes_removed` as well.
    pub(crate) nodes_added: Vec<NodeSettings>,
    pub(crate) nodes_removed: Vec<Arc<str>>,
    /// The same machine, switched on or off or weighted anew.
    pub(crate) nodes_changed: Vec<NodeSettings>,
    /// Single keys that take effect at once.
    pub(crate) hot: Vec<&'static str>,
    /// Keys whose new value has no effect before a restart.
    pub(crate) needs_restart: Vec<&'static str>,
}

/// Compares; listeners are matched by address, nodes by name.
pub(crate) fn diff(old: &Config, new: &Config) -> Diff {
    let mut diff = Diff::default();
    diff.listeners(&old.listeners, &new.listeners);
    diff.nodes(&old.nodes, &new.nodes);
    diff.hot = hot(old, new);
    if address_of(old) != address_of(new) {
        diff.needs_restart.push("admin_address");
    }
    if old.source.provider() != new.source.provider() {
        diff.needs_restart.push("topology.provider");
    }
    diff
}

/// What is in effect once `new` was taken on: `new`, but for what needs a restart. Comparing the next file with
/// this names such a key again, until there was one.
pub(crate) fn in_effect(old: &Config, new: Config) -> Config {
    let mut now = new;
    now.admin = match (&old.admin, now.admin) {
        // The address it is bound to, with the rules of the new file.
        (Some(old), Some(new)) => Some(AdminSettings {
            address: old.address,
            ..new
        }),
        (Some(old), None) => Some(old.clone()),
        (None, _) => None,
    };
    if old.source.provider() != now.source.provider() {
        now.source = old.source.clone();
        now.tracker.provider = old.tracker.provider;
        // Which may have been declared for the one provider and left to the other.
        for node in &mut now.nodes {
            if let Some(was) = old.nodes.iter().find(|was| was.name == node.name) {
                node.role = was.role;
            }
        }
    }
    for key in ["admin_address"] {
        if let Some(value) = old.shown.get(key) {
            now.shown.insert(key.to_owned(), value.clone());
        }
    }
    for listener in &mut now.listeners {
        if let Some(was) = old.listeners.iter().find(|o| o.address == listener.address) {
            listener.mode = was.mode;
            listener.group.clone_from(&was.group);
        }
    }
    now
}

fn address_of(config: &Config) -> Option<SocketAddr> {
    config.admin.as_ref().map(|admin| admin.address)
}

impl Diff {
    /// What takes effect at once, for the log.
    pub(crate) fn in_words(&self) -> String {
        let listeners = |list: &[ListenerSettings], verb| {
            let words = list
                .iter()
                .map(|one| format!("listener {} {verb}", one.address));
            words.collect::<Vec<_>>()
        };
        let nodes = |list: &[NodeSettings], verb| {
            let words = list.iter().map(|one| format!("node {} {verb}", one.name));
            words.collect::<Vec<_>>()
        };
        let removed = |what, name: &dyn fmt::Display| format!("{what} {name} removed");
        let mut words = listeners(&self.listeners_added, "added");
        words.extend(listeners(&self.listeners_changed, "changed"));
        words.extend(
            self.listeners_removed
                .iter()
                .map(|at| removed("listener", at)),
        );
        words.extend(self.nodes_removed.iter().map(|name| removed("node", name)));
        words.extend(nodes(&self.nodes_added, "added"));
        words.extend(nodes(&self.nodes_changed, "changed"));
        words.extend(self.hot.iter().map(|key| (*key).to_owned()));
        if words.is_empty() {
            return "nothing changed".to_owned();
        }
        words.join(", ")
    }

    fn listeners(&mut self, old: &[ListenerSettings], new: &[ListenerSettings]) {
        // One by one: several may ask for port 0 of one address.
        let mut gone: Vec<_> = old.iter().collect();
        for listener in new {
            let known = gone.iter().position(|o| o.address == listener.address);
            let Some(was) = known.map(|i| gone.remove(i)) else {
                self.listeners_added.push(listener.clone());
                continue;
            };
            if (&was.mode, &was.group) != (&listener.mode, &listener.group) {
                self.needs_restart.push("listeners.mode, listeners.group");
            }
            if (was.intent, was.max_connections) != (listener.intent, listener.max_connections) {
                self.listeners_changed.push(listener.clone());
            }
        }
        self.listeners_removed = gone.into_iter().map(|o| o.address.clone()).collect();
        self.needs_restart.dedup();
    }

    fn nodes(&mut self, old: &[NodeSettings], new: &[NodeSettings]) {
        for node in new {
            match old.iter().find(|o| o.name == node.name) {
                Some(was) if was == node => {}
                Some(was) if was.is_same_machine(node) => self.nodes_changed.push(node.clone()),
                Some(_) => {
                    self.nodes_removed.push(node.name.clone());
                    self.nodes_added.push(node.clone());
                }
                None => self.nodes_added.push(node.clone()),
            }
        }
        let stays = |name: &Arc<str>| new.iter().any(|node| node.name == *name);
        let gone = old.iter().filter(|o| !stays(&o.name));
        self.nodes_removed.extend(gone.map(|o| o.name.clone()));
    }
}

#[rustfmt::skip]
fn hot(old: &Config, new: &Config) -> Vec<&'static str> {
    let (h, g) = (&old.health, &new.health);
    let (s, u) = (&old.session, &new.session);
    let (r, q) = (&old.routing, &new.routing);
    let (t, v) = (&old.tracker, &new.tracker);
    let (l, m) = (&old.rest, &new.rest);
    let rules = |c: &Config| c.admin.clone().map(|a| (a.token_file, a.allow_insecure, a.enable_chaos));
    let (a, b) = (rules(old), rules(new));
    let both = a.is_some() && b.is_some();
    [
        ("admin_token_file, admin_allow_insecure, enable_chaos", both && a != b),
        ("write_timeout_secs", r.write_timeout != q.write_timeout),
        ("connect_timeout_ms", s.connect_timeout != u.connect_timeout),
        ("startup_timeout_secs", s.startup_timeout != u.startup_timeout),
        ("dead_peer_secs", s.dead_peer != u.dead_peer),
        ("drain_delay_secs", old.drain_delay != new.drain_delay),
        ("drain_timeout_secs", old.drain_timeout != new.drain_timeout),
        ("max_connections", s.max_connections != u.max_connections),
        ("dial_concurrency", r.dial_concurrency != q.dial_concurrency),
        ("on_lease_expired", t.on_lease_expired != v.on_lease_expired),
        ("health.check_interval_ms", h.check_interval != g.check_interval),
        ("health.check_timeout_ms", h.check_timeout != g.check_timeout),
        ("health.failure_threshold", h.failure_threshold != g.failure_threshold),
        ("health.success_threshold", h.success_threshold != g.success_threshold),
        ("health.active_interval_ms", h.active_interval != g.active_interval),
        ("health.fast_interval_ms", h.fast_interval != g.fast_interval),
        ("health.max_staleness_ms", r.max_staleness != q.max_staleness),
        ("health.freshness_wait_ms", r.freshness_wait != q.freshness_wait),
        ("topology (how the nodes are asked)", old.source != new.source && old.source.provider() == new.source.provider()),
        ("topology.lease_timeout_secs", t.lease_timeout != v.lease_timeout),
        ("topology.patroni_ttl_secs", t.patroni_ttl != v.patroni_ttl),
        ("topology.scope", t.scope != v.scope),
        ("topology.system_identifier", t.system_identifier != v.system_identifier),
        ("rest.scheme and its files", l.tls != m.tls),
        ("rest.username, rest.password_file", l.login != m.login),
    ]
    .into_iter()
    .filter_map(|(key, changed)| changed.then_some(key))
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const BASE: &str = "
        admin_address = '127.0.0.1:9090'
        [[listeners]]
        address = '127.0.0.1:5432'
        [[listeners]]
        address = '/run/p/.s.PGSQL.5432'
        [[nodes]]
        name = 'pg1'
        host = '10.0.0.1'
        [[nodes]]
        name = 'pg2'
        host = '10.0.0.2'
    ";

    /// The difference that replacing one piece of text makes.
    fn after(from: &str, to: &str) -> Diff {
        let changed = BASE.replacen(from, to, 1);
        assert_ne!(changed, BASE);
        diff(
            &Config::from_toml(BASE).unwrap(),
            &Config::from_toml(&changed).unwrap(),
        )
    }

    fn names(nodes: &[NodeSettings]) -> Vec<&str> {
        nodes.iter().map(|node| &*node.name).collect()
    }

    #[test]
    fn the_same_settings_written_otherwise_change_nothing() {
        let diff = after("host = '10.0.0.1'", "host = '10.0.0.1'\nport = 5432");

        assert_eq!(diff, Diff::default());
        assert_eq!(diff.in_words(), "nothing changed");
    }

    #[test]
    fn listeners_are_matched_by_address() {
        let moved = after("127.0.0.1:5432", "127.0.0.1:5433");
        assert_eq!(moved.listeners_added.len(), 1);
        assert_eq!(
            moved.listeners_removed,
            [Address::Tcp(([127, 0, 0, 1], 5432).into())]
        );

        let limited = after(
            "address = '127.0.0.1:5432'",
            "address = '127.0.0.1:5432'\nmax_connections = 7",
        );
        assert_eq!(limited.listeners_changed[0].max_connections, Some(7));
        assert!(limited.listeners_added.is_empty() && limited.listeners_removed.is_empty());

        let path = "'/run/p/.s.PGSQL.5432'";
        let closed = after(path, &format!("{path}\nmode = '0700'"));
        assert_eq!(closed.needs_restart, ["listeners.mode, listeners.group"]);
    }

    #[test]
    fn what_needs_a_restart_is_named_until_there_was_one() {
        let old = Config::from_toml(BASE).unwrap();
        let path = "'/run/p/.s.PGSQL.5432'";
        let new = BASE
            .replace("127.0.0.1:9090", "")
            .replace(path, &format!("{path}\nmode = '0700'"));
        let new = Config::from_toml(&new).unwrap();

        let now = in_effect(&old, new.clone());

        assert_eq!(
            diff(&now, &new).needs_restart,
            ["listeners.mode, listeners.group", "admin_address"]
        );
        assert_eq!(diff(&now, &old), Diff::default());
    }

    #[test]
    fn another_provider_needs_a_restart_and_takes_no_role_away_before() {
        let declared = BASE.replace("host = ", "role = 'standby'\nhost = ");
        let declared = declared.replacen("standby", "primary", 1);
        let old = Config::from_toml(&format!("{declared}[topology]\nprovider = 'static'")).unwrap();
        let new = Config::from_toml(BASE).unwrap();

        let now = in_effect(&old, new.clone());

        assert_eq!((&now.source, &now.nodes), (&old.source, &old.nodes));
        assert_eq!(diff(&now, &new).needs_restart, ["topology.provider"]);
    }

    #[test]
    fn nodes_are_matched_by_name_and_a_changed_address_is_a_removal_and_an_addition() {
        let moved = after("10.0.0.1", "10.0.0.3");
        assert_eq!(names(&moved.nodes_added), ["pg1"]);
        assert_eq!(moved.nodes_removed, [Arc::from("pg1")]);

        let asked_elsewhere = after("host = '10.0.0.2'", "host = '10.0.0.2'\nrest_port = 8009");
        assert_eq!(names(&asked_elsewhere.nodes_added), ["pg2"]);

        let renamed = after("pg1", "pg3");
        assert_eq!(names(&renamed.nodes_added), ["pg3"]);
        assert_eq!(renamed.nodes_removed, [Arc::from("pg1")]);

        let off = after("host = '10.0.0.1'", "host = '10.0.0.1'\nenabled = false");
        assert_eq!(names(&off.nodes_changed), ["pg1"]);
        assert!(off.nodes_added.is_empty() && off.nodes_removed.is_empty());
    }

    #[test]
    fn single_keys_are_named_and_so_is_what_needs_a_restart() {
        let diff = after(
            "admin_address = '127.0.0.1:9090'",
            "admin_address = ''\nwrite_timeout_secs = 50\ndead_peer_secs = 0\n[health]\nfast_interval_ms = 50",
        );

        assert_eq!(
            diff.hot,
            [
                "write_timeout_secs",
                "dead_peer_secs",
                "health.fast_interval_ms"
            ]
        );
        assert_eq!(diff.needs_restart, ["admin_address"]);
        assert_eq!(
            after("pg1", "pg3").in_words(),
            "node pg1 removed, node pg3 added"
        );
    }
}
