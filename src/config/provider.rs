//! Where the topology comes from: the keys that one provider has a use for and another has not.

use std::collections::BTreeSet;
use std::fmt::Debug;
use std::sync::Arc;

use super::build::required;
use super::error::Problem;
use super::file::{CheckQuery, File, Topology};
use super::rest::{Given, named, together};
use super::value::{Choice, Flag, Millis, Secs, Text, Word};
use super::views;
use crate::backend::{IS_BUILT, LoginSettings, TlsMode};
use crate::net::{OwnCertificate, TlsFiles};
use crate::topology::{
    NodeRole, NodeSettings, ProbeSettings, Provider, SourceSettings, StaticSettings,
};

/// Where the probes log in, unless told.
const DATABASE: &str = "postgres";

/// How the nodes are asked. A key that the provider has no use for would have no effect, and is refused.
pub(super) fn source(
    file: &File,
    nodes: &[NodeSettings],
    left: &BTreeSet<String>,
) -> Result<SourceSettings, Problem> {
    let topology = &file.topology;
    let provider = topology.provider.0;
    refuse_useless(topology, provider)?;
    refuse_unbuilt(topology, provider)?;
    Ok(match provider {
        Provider::Check => SourceSettings::Check,
        Provider::Patroni => SourceSettings::Patroni(views::build(file, nodes, left)?),
        Provider::Postgres => {
            let words = "topology.provider = \"postgres\" logs in; allowed is a text";
            let user = required(&topology.user, "topology.user", words, left)?;
            SourceSettings::Postgres(ProbeSettings {
                login: login(topology, user.unwrap_or_default(), left)?,
                poll_interval: topology.poll_interval_secs.0,
            })
        }
        Provider::Static => {
            roles(file, left)?;
            SourceSettings::Static(StaticSettings {
                check_interval: file.health.check_interval_ms.0,
                query: query(topology, left)?,
            })
        }
        Provider::Manual => SourceSettings::Manual(file.health.check_interval_ms.0),
    })
}

fn login(
    topology: &Topology,
    user: &str,
    left: &BTreeSet<String>,
) -> Result<LoginSettings, Problem> {
    let cert: Given<'_> = ("topology.cert_file", &topology.cert_file);
    let key: Given<'_> = ("topology.key_file", &topology.key_file);
    let ca: Given<'_> = ("topology.ca_file", &topology.ca_file);
    together(cert, key, left)?;
    let tls = topology.tls_mode.0;
    if !left.contains("topology.tls_mode") {
        let verifies = matches!(tls, TlsMode::VerifyCa | TlsMode::VerifyFull);
        let ca_words = "only topology.tls_mode = \"verify-ca\" | \"verify-full\" verifies anything; allowed is one of \
                        them, or to leave the key out";
        let own_words = "topology.tls_mode = \"disable\" speaks no TLS; allowed is another mode, or to leave the key out";
        for (used, (key, set), words) in [
            (verifies, ca, ca_words),
            (tls != TlsMode::Disable, cert, own_words),
        ] {
            if let (false, Some(Text(found))) = (used, set) {
                return Err(Problem::value(key, found, words));
            }
        }
    }
    let own = named(cert).zip(named(key));
    let database = topology.database.as_ref();
    Ok(LoginSettings {
        user: user.into(),
        password: named(("topology.password_file", &topology.password_file)),
        database: database.map_or(DATABASE, |name| name.0.as_str()).into(),
        tls,
        files: TlsFiles {
            ca: named(ca),
            own: own.map(|(cert, key)| OwnCertificate { cert, key }),
        },
    })
}

/// Only somebody who logs in can ask a query.
fn query(
    topology: &Topology,
    left: &BTreeSet<String>,
) -> Result<Option<(LoginSettings, Arc<str>)>, Problem> {
    let query = topology.check_query.text();
    if let Some(user) = &topology.user {
        return Ok(Some((login(topology, &user.0, left)?, query.into())));
    }
    let set = logins(topology)
        .into_iter()
        .find_map(|(key, text)| Some((key, text?)));
    let own = (topology.check_query != CheckQuery::default()).then_some(("check_query", query));
    match set.or(own) {
        Some((key, found)) if !left.contains("topology.user") => Err(Problem::value(
            format!("topology.{key}"),
            found,
            "topology.user is not given, so nobody logs in; allowed is to give it, or to leave this key out",
        )),
        _ => Ok(None),
    }
}

/// Nobody else says what a node is; and two that are enabled would both be written to.
fn roles(file: &File, left: &BTreeSet<String>) -> Result<(), Problem> {
    let mut primary = None;
    for (i, node) in file.nodes.iter().enumerate() {
        let (key, enabled) = (format!("nodes[{i}].role"), format!("nodes[{i}].enabled"));
        match node.role.0 {
            NodeRole::Auto if !left.contains(&key) => {
                let words = "topology.provider = \"static\" asks no node what it is; allowed is \
                             \"primary\" | \"standby\" | \"replica\"";
                return Err(Problem::value(key, "auto", words));
            }
            NodeRole::Primary if node.enabled.0 && !left.contains(&enabled) => match primary {
                None => primary = Some(i),
                Some(other) => {
                    let words = format!(
                        "nodes[{other}] is enabled and has this role; with topology.provider = \"static\" allowed \
                         is one that is enabled"
                    );
                    return Err(Problem::value(key, "primary", words));
                }
            },
            _ => {}
        }
    }
    Ok(())
}

/// The keys of a login besides the user, as they are set.
fn logins(topology: &Topology) -> [(&'static str, Option<&str>); 6] {
    let tls = topology.tls_mode;
    let mode = TlsMode::WORDS.iter().find(|(_, mode)| *mode == tls.0);
    let mode = mode
        .filter(|_| tls != Word::default())
        .map(|(word, _)| *word);
    [
        ("password_file", as_str(&topology.password_file)),
        ("database", as_str(&topology.database)),
        ("tls_mode", mode),
        ("ca_file", as_str(&topology.ca_file)),
        ("cert_file", as_str(&topology.cert_file)),
        ("key_file", as_str(&topology.key_file)),
    ]
}

fn as_str(text: &Option<Text>) -> Option<&str> {
    text.as_ref().map(|text| text.0.as_str())
}

fn refuse_useless(topology: &Topology, provider: Provider) -> Result<(), Problem> {
    use Provider::{Check, Patroni, Postgres, Static};
    let no_use = |key: &str, found: &dyn Debug, users: &[Provider]| {
        if users.contains(&provider) {
            return Ok(());
        }
        let words: Vec<String> = users
            .iter()
            .map(|user| format!("{:?}", word(*user)))
            .collect();
        Err(Problem::value(
            format!("topology.{key}"),
            found,
            format!(
                "topology.provider = {:?} has no use for it; allowed with {}",
                word(provider),
                words.join(" | ")
            ),
        ))
    };
    for (key, text) in [("user", as_str(&topology.user))]
        .into_iter()
        .chain(logins(topology))
    {
        if let Some(found) = text {
            no_use(key, &found, &[Postgres, Static])?;
        }
    }
    if topology.check_query != CheckQuery::default() {
        no_use("check_query", &topology.check_query.text(), &[Static])?;
    }
    if topology.poll_interval_secs != Secs::default() {
        no_use(
            "poll_interval_secs",
            &topology.poll_interval_secs.0.as_secs_f64(),
            &[Patroni, Postgres],
        )?;
    }
    if let Some(ttl) = topology.patroni_ttl_secs {
        no_use("patroni_ttl_secs", &ttl.0.as_secs_f64(), &[Check, Patroni])?;
    }
    let endpoints = &topology.patroni_endpoints.0;
    if !endpoints.is_empty() {
        let shown: Vec<_> = endpoints.iter().map(|url| views::shown(url)).collect();
        no_use("patroni_endpoints", &shown, &[Patroni])?;
    }
    if topology.patroni_request_timeout_ms != Millis::default() {
        let millis = topology.patroni_request_timeout_ms.0.as_millis();
        no_use("patroni_request_timeout_ms", &millis, &[Patroni])?;
    }
    if topology.discover != Flag::default() {
        no_use("discover", &topology.discover.0, &[Patroni])?;
    }
    Ok(())
}

/// What only a build that can log in at PostgreSQL does.
fn refuse_unbuilt(topology: &Topology, provider: Provider) -> Result<(), Problem> {
    if IS_BUILT {
        return Ok(());
    }
    let words = "this build has no postgres-topology and logs in nowhere; allowed is";
    match (provider, &topology.user) {
        (Provider::Postgres, _) => Err(Problem::value(
            "topology.provider",
            word(provider),
            format!("{words} another provider"),
        )),
        (_, Some(Text(user))) => Err(Problem::value(
            "topology.user",
            user,
            format!("{words} to leave the key out"),
        )),
        _ => Ok(()),
    }
}

/// The provider as it is written.
fn word(provider: Provider) -> &'static str {
    let of = Provider::WORDS.iter().find(|(_, of)| *of == provider);
    of.map_or("", |(word, _)| word)
}
