//! The TOML as it is written: every key, its unit, its default, and whether its feature is built.

use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use toml::Value;

use super::address;
use super::value::{
    Amount, Choice, Count, Flag, Later, Millis, Port, Secs, StillDefault, Text, Texts, Word,
};
use crate::backend::TlsMode;
use crate::primary_tracker::OnLeaseExpired;
use crate::routing::{Fallback, OnPromotion, Policy, Route};
use crate::topology::{NodeRole, Provider};

/// The whole file.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default, expecting = "a table")]
pub(super) struct File {
    pub(super) write_timeout_secs: Secs<45>,
    pub(super) connect_timeout_ms: Millis<3000>,
    pub(super) startup_timeout_secs: Secs<15>,
    pub(super) dead_peer_secs: Secs<30, true>,
    pub(super) drain_delay_secs: Secs<0, true>,
    pub(super) drain_timeout_secs: Secs<60, true>,
    pub(super) max_connections: Count<10_000>,
    pub(super) dial_concurrency: Count<20>,
    pub(super) on_lease_expired: Word<OnLeaseExpired>,
    /// `None` = the default.
    pub(super) admin_address: Option<AdminAddress>,
    pub(super) admin_token_file: Option<Text>,
    pub(super) admin_allow_insecure: Flag<false>,
    pub(super) enable_chaos: Flag<false>,
    /// `None` = one default listener.
    pub(super) listeners: Option<Vec<Listener>>,
    pub(super) health: Health,
    pub(super) topology: Topology,
    pub(super) rest: Rest,
    pub(super) backend: Backend,
    pub(super) nodes: Vec<Node>,
}

/// One `[[listeners]]`.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default, expecting = "a table [[listeners]]")]
pub(super) struct Listener {
    pub(super) address: Option<Text>,
    pub(super) route: Word<Route>,
    pub(super) policy: Word<Policy>,
    pub(super) fallback: Word<Fallback>,
    pub(super) on_promotion: Word<OnPromotion>,
    pub(super) require_streaming: Flag<false>,
    pub(super) archive_recovery: Flag<false>,
    pub(super) max_lag_bytes: Option<Amount<0>>,
    pub(super) max_connections: Option<Count<0>>,
    pub(super) mode: Option<Text>,
    pub(super) group: Option<Text>,
    pub(super) tls: Word<ListenerTls>,
    pub(super) tls_cert_file: Option<Later<Text>>,
    pub(super) tls_key_file: Option<Later<Text>>,
    pub(super) tls_client_ca_file: Option<Later<Text>>,
    pub(super) accept_proxy: StillDefault<Flag<false>>,
    pub(super) trusted_proxies: StillDefault<Texts>,
}

/// `[health]`.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default, expecting = "a table [health]")]
pub(super) struct Health {
    pub(super) check_interval_ms: Millis<5000>,
    pub(super) check_timeout_ms: Millis<8000>,
    pub(super) failure_threshold: Count<5>,
    pub(super) success_threshold: Count<2>,
    pub(super) active_interval_ms: Millis<1000>,
    pub(super) fast_interval_ms: Millis<100>,
    pub(super) max_staleness_ms: Millis<1500>,
    pub(super) freshness_wait_ms: Millis<500>,
}

/// `[topology]`.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default, expecting = "a table [topology]")]
pub(super) struct Topology {
    pub(super) provider: Word<Provider>,
    pub(super) lease_timeout_secs: Secs<10>,
    pub(super) poll_interval_secs: Secs<2>,
    pub(super) patroni_endpoints: Texts,
    pub(super) patroni_request_timeout_ms: Millis<2000>,
    pub(super) discover: Flag<false>,
    pub(super) patroni_ttl_secs: Option<Secs<30>>,
    pub(super) scope: Option<Text>,
    pub(super) system_identifier: Option<Text>,
    pub(super) user: Option<Text>,
    pub(super) password_file: Option<Text>,
    pub(super) database: Option<Text>,
    pub(super) tls_mode: Word<TlsMode>,
    pub(super) ca_file: Option<Text>,
    pub(super) cert_file: Option<Text>,
    pub(super) key_file: Option<Text>,
    pub(super) check_query: CheckQuery,
}

/// `[rest]`: how to reach the REST API.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default, expecting = "a table [rest]")]
pub(super) struct Rest {
    pub(super) scheme: Word<Scheme>,
    pub(super) ca_file: Option<Text>,
    pub(super) cert_file: Option<Text>,
    pub(super) key_file: Option<Text>,
    pub(super) server_name: Option<Text>,
    pub(super) username: Option<Text>,
    pub(super) password_file: Option<Text>,
    pub(super) port: Port<8008>,
}

/// `[backend]`: how to reach PostgreSQL for clear-text clients.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default, expecting = "a table [backend]")]
pub(super) struct Backend {
    pub(super) tls: Word<BackendTls>,
    pub(super) ca_file: Option<Later<Text>>,
    pub(super) cert_file: Option<Later<Text>>,
    pub(super) key_file: Option<Later<Text>>,
    pub(super) send_proxy: StillDefault<Flag<false>>,
}

/// One `[[nodes]]`.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default, expecting = "a table [[nodes]]")]
pub(super) struct Node {
    pub(super) name: Option<Text>,
    pub(super) host: Option<Text>,
    pub(super) port: Port<5432>,
    pub(super) rest_host: Option<Text>,
    /// `None` = the port of `[rest]`.
    pub(super) rest_port: Option<Port<8008>>,
    pub(super) role: Word<NodeRole>,
    pub(super) enabled: Flag<true>,
    pub(super) weight: Amount<100>,
}

/// An address, or an empty text for none.
#[derive(Debug)]
pub(super) struct AdminAddress(pub(super) String);

impl<'de> Deserialize<'de> for AdminAddress {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        match Value::deserialize(d)? {
            Value::String(text) => Ok(Self(text)),
            _ => Err(D::Error::custom(address::TCP)),
        }
    }
}

/// What a node is asked whose role is declared and not discovered.
#[derive(Debug, PartialEq, Eq, Deserialize)]
pub(super) struct CheckQuery(Text);

impl CheckQuery {
    pub(super) fn text(&self) -> &str {
        &self.0.0
    }
}

impl Default for CheckQuery {
    fn default() -> Self {
        Self(Text("SELECT 1".to_owned()))
    }
}

impl Choice for TlsMode {
    const WORDS: &'static [(&'static str, Self)] = &[
        ("disable", Self::Disable),
        ("prefer", Self::Prefer),
        ("require", Self::Require),
        ("verify-ca", Self::VerifyCa),
        ("verify-full", Self::VerifyFull),
    ];
    const LATER: &'static [&'static str] = &[];
}

/// How the REST API is spoken to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Scheme {
    #[default]
    Http,
    Https,
}

impl Choice for Scheme {
    const WORDS: &'static [(&'static str, Self)] = &[("http", Self::Http), ("https", Self::Https)];
    const LATER: &'static [&'static str] = &[];
}

impl Choice for Route {
    const WORDS: &'static [(&'static str, Self)] = &[
        ("primary", Self::Primary),
        ("replica", Self::Replica),
        ("any", Self::Any),
    ];
    const LATER: &'static [&'static str] = &[];
}

impl Choice for Policy {
    const WORDS: &'static [(&'static str, Self)] = &[
        ("round_robin", Self::RoundRobin),
        ("least_connections", Self::LeastConnections),
    ];
    const LATER: &'static [&'static str] = &[];
}

impl Choice for Fallback {
    const WORDS: &'static [(&'static str, Self)] =
        &[("leader", Self::Leader), ("none", Self::None)];
    const LATER: &'static [&'static str] = &[];
}

impl Choice for OnPromotion {
    const WORDS: &'static [(&'static str, Self)] = &[("keep", Self::Keep), ("close", Self::Close)];
    const LATER: &'static [&'static str] = &[];
}

impl Choice for OnLeaseExpired {
    const WORDS: &'static [(&'static str, Self)] = &[("keep", Self::Keep), ("close", Self::Close)];
    const LATER: &'static [&'static str] = &[];
}

impl Choice for Provider {
    const WORDS: &'static [(&'static str, Self)] = &[
        ("check", Self::Check),
        ("patroni", Self::Patroni),
        ("postgres", Self::Postgres),
        ("static", Self::Static),
        ("manual", Self::Manual),
    ];
    const LATER: &'static [&'static str] = &[];
}

impl Choice for NodeRole {
    const WORDS: &'static [(&'static str, Self)] = &[
        ("auto", Self::Auto),
        ("primary", Self::Primary),
        ("standby", Self::Standby),
        ("replica", Self::Replica),
    ];
    const LATER: &'static [&'static str] = &[];
}

/// Keys of which only the default is built: the type is the word.
macro_rules! only_the_default {
    ($($(#[$doc:meta])* $key:ident: $default:literal, later $($later:literal)|*;)+) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub(super) struct $key;

        impl Choice for $key {
            const WORDS: &'static [(&'static str, Self)] = &[($default, Self)];
            const LATER: &'static [&'static str] = &[$($later),*];
        }
    )+};
}

only_the_default! {
    /// Who speaks TLS with the client.
    ListenerTls: "passthrough", later "terminate";
    /// How PostgreSQL is spoken to for clear-text clients.
    BackendTls: "disable", later "prefer" | "require" | "verify-ca" | "verify-full";
}
