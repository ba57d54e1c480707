//! What Patroni is told: timings, the parameters of PostgreSQL, and who may log in.

use std::net::{IpAddr, SocketAddr};

use serde_json::{Value, json};

use super::{
    https,
    install::Programs,
    net::{Host, Node},
};

/// The cluster's name.
pub const SCOPE: &str = "demo";

/// Patroni's clockwork, in seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timings {
    pub ttl: u32,
    pub loop_wait: u32,
    pub retry_timeout: u32,
}

impl Timings {
    pub const DEFAULT: Self = Self {
        ttl: 30,
        loop_wait: 10,
        retry_timeout: 10,
    };
    /// The least that Patroni accepts; it raises smaller ones without a word.
    pub const FAST: Self = Self {
        ttl: 20,
        loop_wait: 1,
        retry_timeout: 3,
    };
}

/// What a lab may be asked for besides where it lives.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Settings {
    pub(crate) timings: Timings,
    pub(crate) synchronous: bool,
    pub(crate) failsafe: bool,
    pub(crate) max_connections: u16,
    /// With a self-signed certificate, for SCRAM with channel binding.
    pub(crate) tls: bool,
    /// The REST APIs speak https.
    pub(crate) https: bool,
}

/// The files and addresses of one node.
pub(crate) struct Site<'a> {
    pub(crate) node: Node,
    pub(crate) home: &'a std::path::Path,
    pub(crate) programs: &'a Programs,
    pub(crate) ip: &'a dyn Fn(Host) -> IpAddr,
}

/// Patroni reads YAML, and JSON is YAML.
pub(crate) fn patroni(site: &Site<'_>, settings: &Settings) -> Value {
    let at = |port| SocketAddr::new((site.ip)(Host::Node(site.node)), port).to_string();
    let dcs = SocketAddr::new((site.ip)(Host::Dcs), 2379).to_string();
    let mut all = json!({
        "scope": SCOPE,
        "name": site.node.to_string(),
        "restapi": { "listen": at(8008), "connect_address": at(8008) },
        "etcd3": { "hosts": [dcs] },
        "bootstrap": {
            "dcs": dynamic(settings),
            "initdb": ["data-checksums", { "encoding": "UTF8" }, { "locale": "C.UTF-8" }, "no-sync"],
        },
        "postgresql": {
            "listen": at(5432),
            "connect_address": at(5432),
            "data_dir": site.home.join("data"),
            "bin_dir": site.programs.postgresql,
            "pgpass": site.home.join("pgpass"),
            "use_unix_socket": true,
            "authentication": {
                "superuser": { "username": "postgres", "password": "lab-super" },
                "replication": { "username": "replicator", "password": "lab-repl" },
                "rewind": { "username": "rewinder", "password": "lab-rewind" },
            },
            "parameters": local_parameters(site, settings),
            "basebackup": [{ "checkpoint": "fast" }, "no-sync"],
            "pg_hba": hba(),
        },
    });
    if settings.https {
        https::add_to(&mut all, site.home);
    }
    all
}

fn dynamic(settings: &Settings) -> Value {
    json!({
        "ttl": settings.timings.ttl,
        "loop_wait": settings.timings.loop_wait,
        "retry_timeout": settings.timings.retry_timeout,
        "maximum_lag_on_failover": 1_048_576,
        "synchronous_mode": settings.synchronous,
        "failsafe_mode": settings.failsafe,
        "postgresql": {
            "use_pg_rewind": true,
            "use_slots": true,
            "parameters": {
                "max_connections": settings.max_connections,
                "shared_buffers": "32MB",
                "wal_keep_size": "128MB",
                "min_wal_size": "32MB",
                "max_wal_size": "256MB",
                "hot_standby": "on",
                "wal_log_hints": "on",
                "wal_retrieve_retry_interval": "500ms",
                "max_wal_senders": 10,
                "max_replication_slots": 10,
                "jit": "off",
                // Others leave a file in /dev/shm behind when the node is killed.
                "dynamic_shared_memory_type": "mmap",
                "log_checkpoints": "off",
                "log_line_prefix": "%m [%p] %r ",
            },
        },
    })
}

fn local_parameters(site: &Site<'_>, settings: &Settings) -> Value {
    let mut parameters = json!({ "unix_socket_directories": site.home });
    if settings.tls {
        parameters["ssl"] = "on".into();
        parameters["ssl_cert_file"] = json!(site.home.join("server.crt"));
        parameters["ssl_key_file"] = json!(site.home.join("server.key"));
    }
    parameters
}

/// `app` is trusted, `app_scram` has the password `app`.
fn hba() -> [&'static str; 4] {
    [
        "local all all trust",
        "host replication replicator all scram-sha-256",
        "host all app_scram all scram-sha-256",
        "host all,replication all all trust",
    ]
}
