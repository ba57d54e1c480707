//! Each node alone: does its name resolve, do its REST API and its PostgreSQL answer, is its clock right?

use std::time::Duration;

use super::facts::{Failure, FailureKind, NodeFacts};
use super::report::Finding;
use crate::Config;

/// A question at rest is asked every few seconds; an answer this slow makes failovers slower.
const SLOW: Duration = Duration::from_secs(1);
/// Beyond this, logs of two hosts cannot be laid side by side.
const CLOCKS_DIFFER_MS: i64 = 2_000;
/// Beyond this, certificates and one-time codes fail.
const CLOCKS_WRONG_MS: i64 = 60_000;

/// Where no Patroni is asked.
const LOGIN: &str = "topology.user, password_file, database and tls_mode, and pg_hba.conf there: this login must work from this host";

pub(super) fn judge(nodes: &[NodeFacts], config: &Config) -> Vec<Finding> {
    let mut findings: Vec<_> = nodes.iter().flat_map(names).collect();
    findings.extend(nodes.iter().map(|node| rest(node, config)));
    findings.extend(nodes.iter().map(|node| postgres(node, config)));
    findings
}

fn names(node: &NodeFacts) -> Vec<Finding> {
    let failed = node.lookups.iter().filter_map(|(host, found)| {
        let words = found.as_ref().err()?;
        Some(Finding::wrong(
            format!("{} name {host}", node.name),
            format!("does not resolve: {words}"),
            "correct the name in the file or in DNS; an IP address needs neither",
        ))
    });
    failed.collect()
}

/// What the node says of itself: usually through its REST API.
fn rest(node: &NodeFacts, config: &Config) -> Finding {
    let provider = config.source.provider();
    let way = match provider.is_patroni() {
        true => "REST",
        false => "check at",
    };
    let subject = format!("{} {way} {}", node.name, node.rest_at);
    let said = match &node.rest {
        Ok(said) => said,
        Err(failure) => {
            let mut advice = match provider.is_patroni() {
                true => rest_advice(failure, &node.rest_at),
                false => LOGIN.to_owned(),
            };
            if failure.kind == FailureKind::TimedOut && config.rest.tls.is_some() {
                advice.push_str("; or is it http that is spoken there (rest.scheme)?");
            }
            return Finding::wrong(subject, &failure.words, advice);
        }
    };
    let Some(answer) = &said.answer else {
        return Finding::wrong(
            subject,
            format!("answers {}, but not as Patroni does", said.status),
            "is this Patroni's REST API (restapi.listen of its configuration)? rest_host and rest_port name it",
        );
    };
    let version = said.version.as_deref().unwrap_or("of unknown version");
    let mut words = format!("{} in {} ms", answer.in_words(), said.took.as_millis());
    if provider.is_patroni() {
        words = format!("{words}, Patroni {version}");
    }
    if said.took > SLOW {
        return Finding::warning(
            subject,
            words,
            "slow: Patroni's API threads are busy, or the way is long; failovers are noticed later",
        );
    }
    Finding::ok(subject, words)
}

fn rest_advice(failure: &Failure, at: &str) -> String {
    match failure.kind {
        FailureKind::TimedOut => format!(
            "let this host through to {at} (firewall, VPN, routes); if others get an answer there, Patroni hangs"
        ),
        FailureKind::Refused => format!(
            "start Patroni there, or correct rest_host and rest_port: nobody listens at {at} (restapi.listen on 127.0.0.1 only?)"
        ),
        FailureKind::Unreachable => {
            format!("make a way from this host to {at} (routes, VPN, address)")
        }
        FailureKind::Broken => {
            "does rest.scheme fit? An https API does not answer http, nor the other way round"
                .to_owned()
        }
        FailureKind::NotBelieved => {
            "rest.ca_file must hold the CA that signed it, and the certificate must name this host or rest.server_name; else renew it".to_owned()
        }
        FailureKind::NotAccepted => {
            "rest.cert_file and rest.key_file: a certificate that restapi.cafile of that Patroni believes".to_owned()
        }
        FailureKind::NotTls => "rest.scheme = \"http\", or give that Patroni a restapi.certfile".to_owned(),
        FailureKind::TurnedAway => "rest.username and rest.password_file, as what stands before that Patroni wants them".to_owned(),
        FailureKind::NoAddress => "give the host an address that resolves".to_owned(),
        FailureKind::NotLoggedIn => LOGIN.to_owned(),
    }
}

fn postgres(node: &NodeFacts, config: &Config) -> Finding {
    let subject = format!("{} PostgreSQL {}", node.name, node.postgres_at);
    match &node.postgres {
        Ok(answered) => {
            let words = format!("answers in {} ms", answered.took.as_millis());
            if answered.took > config.session.connect_timeout / 2 {
                return Finding::warning(
                    subject,
                    words,
                    "near connect_timeout_ms: a busy moment makes dials fail; raise it, or look at the way there",
                );
            }
            Finding::ok(subject, words)
        }
        Err(failure) => {
            let at = &node.postgres_at;
            let advice = match failure.kind {
                FailureKind::TimedOut => {
                    format!("let this host through to {at} (firewall, VPN, routes)")
                }
                FailureKind::Refused => format!(
                    "start PostgreSQL there, or let it listen at {at} (listen_addresses, port)"
                ),
                FailureKind::Unreachable => format!("make a way from this host to {at}"),
                FailureKind::NoAddress => "give the host an address that resolves".to_owned(),
                _ => format!("is it PostgreSQL that listens at {at}?"),
            };
            Finding::wrong(subject, &failure.words, advice)
        }
    }
}

/// Every clock against ours. When all differ alike, it is ours.
pub(super) fn clocks(nodes: &[NodeFacts]) -> Vec<Finding> {
    let told: Vec<_> = nodes
        .iter()
        .filter_map(|node| Some((node, node.rest.as_ref().ok()?.ahead_ms?)))
        .collect();
    let off: Vec<_> = told
        .iter()
        .filter(|(_, ahead)| ahead.abs() > CLOCKS_DIFFER_MS)
        .collect();
    if off.is_empty() {
        return match told.len() {
            0 => vec![Finding::ok("clocks", "unknown: no node told its time")],
            n => vec![Finding::ok(
                "clocks",
                format!("{n} nodes agree with this host"),
            )],
        };
    }
    let ours = off.len() == told.len() && off.len() > 1;
    let finding = |(node, ahead): &&(&NodeFacts, i64)| {
        let direction = if *ahead > 0 { "ahead of" } else { "behind" };
        let seconds = ahead.abs() as f64 / 1000.0;
        let subject = format!("{} clock", node.name);
        let words = format!("{seconds:.0} s {direction} this host's");
        let advice = match ours {
            true => "all nodes differ alike: mend this host's clock (chrony, systemd-timesyncd)"
                .to_owned(),
            false => format!(
                "mend the clock of {} (chrony, systemd-timesyncd)",
                node.name
            ),
        };
        match ahead.abs() > CLOCKS_WRONG_MS {
            true => Finding::wrong(subject, words, advice),
            false => Finding::warning(subject, words, advice),
        }
    };
    off.iter().map(finding).collect()
}
