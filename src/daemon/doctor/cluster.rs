//! The nodes together: one cluster, one leader, and numbers that fit ours.

use std::collections::BTreeMap;
use std::time::Duration;

use super::facts::{ClusterFacts, MaxConnections, NodeFacts, RestFacts, ViewFacts};
use super::report::Finding;
use crate::Config;
use crate::topology::{Evidence, Provider, Role, Standing, Worth, judge as worth_of};

/// From the moment the lock is free to a writable leader: measured, and then some.
const PROMOTION: Duration = Duration::from_secs(5);
/// `superuser_reserved_connections`, unless somebody changed it.
const RESERVED: u64 = 3;
/// Patroni passes this to PostgreSQL when the dynamic configuration says nothing.
///
/// Source: Patroni, `Postgresql.CMDLINE_OPTIONS`.
const PATRONIS_MAX_CONNECTIONS: u64 = 100;
/// A crowd that wakes up dials so many times at once; the sessions that are served meanwhile need room as well.
const ROOM: u64 = 4;
/// The oldest that this proxy was tried with.
const TRIED_SINCE: (u64, u64, u64) = (3, 0, 2);

/// The nodes whose Patroni answers, with what it says.
fn answering(nodes: &[NodeFacts]) -> impl Iterator<Item = (&str, &RestFacts)> {
    let answers = |node: &&NodeFacts| node.rest.as_ref().is_ok_and(|rest| rest.answer.is_some());
    nodes
        .iter()
        .filter(answers)
        .filter_map(|node| Some((node.name.as_str(), node.rest.as_ref().ok()?)))
}

/// Names by what was said, in the order of the words.
fn by<'a>(
    nodes: &'a [NodeFacts],
    said: impl Fn(&'a RestFacts) -> Option<&'a str>,
) -> BTreeMap<&'a str, Vec<&'a str>> {
    let mut groups: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (name, rest) in answering(nodes) {
        if let Some(word) = said(rest) {
            groups.entry(word).or_default().push(name);
        }
    }
    groups
}

/// `main (n1, n2), other (n3)`.
fn in_words(groups: &BTreeMap<&str, Vec<&str>>) -> String {
    let words = groups
        .iter()
        .map(|(word, names)| format!("{word} ({})", names.join(", ")));
    words.collect::<Vec<_>>().join(", ")
}

/// Is it one cluster, and the configured one? Is each node another machine?
pub(super) fn identity(nodes: &[NodeFacts], config: &Config) -> Vec<Finding> {
    let scopes = by(nodes, |rest| rest.answer.as_ref()?.scope.as_deref());
    let identifiers = by(nodes, |rest| {
        rest.answer.as_ref()?.system_identifier.as_deref()
    });
    let mut findings = vec![
        one_cluster("scope", &scopes, config.tracker.scope.as_deref()),
        one_cluster(
            "system identifier",
            &identifiers,
            config.tracker.system_identifier.as_deref(),
        ),
    ];
    let members = by(nodes, |rest| rest.member.as_deref());
    for (member, names) in members.iter().filter(|(_, names)| names.len() > 1) {
        findings.push(Finding::wrong(
            names.join(", "),
            format!("are all answered by the one Patroni member {member}"),
            "give each node its own host (or rest_host): one node is one machine",
        ));
    }
    for (member, names) in &members {
        let is_another = nodes.iter().any(|node| node.name == **member);
        if is_another && !names.contains(member) {
            findings.push(Finding::warning(
                names.join(", "),
                format!("Patroni there is called {member}, as another node of the file"),
                "are two addresses mixed up?",
            ));
        }
    }
    findings
}

fn one_cluster(what: &str, said: &BTreeMap<&str, Vec<&str>>, configured: Option<&str>) -> Finding {
    let key = format!("topology.{}", what.replace(' ', "_"));
    match (said.len(), said.keys().next(), configured) {
        (0, ..) => Finding::ok(what, "unknown: no node told it"),
        (1, Some(found), Some(wanted)) if *found != wanted => Finding::wrong(
            what,
            format!("{found}, and {key} = {wanted:?}"),
            format!("correct {key}, or the addresses of the nodes: these answers are ignored"),
        ),
        (1, Some(found), _) => Finding::ok(what, format!("{found}, of every node that answers")),
        _ => Finding::wrong(
            what,
            format!("several: {}", in_words(said)),
            "correct the address of the node that belongs elsewhere: the answers of another cluster are ignored",
        ),
    }
}

/// One node leads.
pub(super) fn leader(nodes: &[NodeFacts], provider: Provider) -> Finding {
    let leads = |rest: &RestFacts| {
        let worth = rest
            .answer
            .as_ref()
            .map(|said| worth_of(said, Standing::Other));
        worth == Some(Worth::Proves(Evidence::Leads))
    };
    let leads = answering(nodes).filter(|(_, rest)| leads(rest));
    let leads: Vec<_> = leads.map(|(name, _)| name).collect();
    let is_standby = answering(nodes).any(|(_, rest)| {
        let role = rest.answer.as_ref().and_then(|said| said.role.as_ref());
        role == Some(&Role::StandbyLeader)
    });
    match &leads[..] {
        [one] => Finding::ok("leader", format!("{one} leads")),
        [] if is_standby => Finding::wrong(
            "leader",
            "this is a standby cluster: its leader is read-only",
            "point this proxy at the primary cluster, or promote this one (standby_cluster of its configuration)",
        ),
        [] => Finding::wrong(
            "leader",
            "nobody leads among the nodes that answer",
            match provider.is_patroni() {
                true => {
                    "`patronictl list` on a node shows what the cluster thinks; with a leader there, add that node to the file"
                }
                false => "see what each node says above; a leader elsewhere must be in the file",
            },
        ),
        several => Finding::wrong(
            "leader",
            format!("{} claim to lead", several.join(" and ")),
            "find out which of them has the data, and fence the others; nobody is routed to while this lasts",
        ),
    }
}

/// What the provider `patroni` asks for, one endpoint after the other.
pub(super) fn views(views: &[ViewFacts]) -> Vec<Finding> {
    let nobody_answers = views.iter().all(|view| view.leaders.is_err());
    let judge = |view: &ViewFacts| {
        let subject = format!("view of {}", view.endpoint);
        match view.leaders.as_deref() {
            Ok([one]) => Finding::ok(subject, format!("names {one} as the leader")),
            Ok([]) => Finding::warning(
                subject,
                "names no leader that runs",
                "`patronictl list` there shows the same: is a failover under way?",
            ),
            Ok(several) => Finding::wrong(
                subject,
                format!("names several leaders: {}", several.join(", ")),
                "find out which of them has the data, and fence the others",
            ),
            Err(failure) if nobody_answers => Finding::wrong(
                subject,
                &failure.words,
                "correct topology.patroni_endpoints, or let this host through",
            ),
            Err(failure) => Finding::warning(
                subject,
                &failure.words,
                "the next endpoint is asked instead: mend it, or put it last in topology.patroni_endpoints",
            ),
        }
    };
    views.iter().map(judge).collect()
}

/// ttl and loop_wait against the hold and the lease; PostgreSQL's room against what we may dial.
pub(super) fn numbers(cluster: Option<&ClusterFacts>, config: &Config) -> Vec<Finding> {
    let Some(cluster) = cluster else {
        let advice = "is GET /config allowed? Patroni's defaults (ttl 30, loop_wait 10) are assumed, or topology.patroni_ttl_secs";
        return vec![Finding::warning(
            "cluster settings",
            "no node tells its configuration",
            advice,
        )];
    };
    let mut findings = vec![hold(cluster, config), lease(cluster, config)];
    if cluster.dynamic.paused {
        findings.push(Finding::warning(
            "maintenance",
            "Patroni is paused: a dead leader is not replaced",
            "`patronictl resume` when the work is done",
        ));
    }
    findings.push(room(cluster.max_connections, config));
    findings
}

fn secs(d: Duration) -> f64 {
    d.as_secs_f64()
}

fn hold(cluster: &ClusterFacts, config: &Config) -> Finding {
    let (ttl, loop_wait) = (cluster.dynamic.ttl, cluster.dynamic.loop_wait);
    let hold = config.routing.write_timeout;
    let failover = ttl + loop_wait + PROMOTION;
    let words = format!(
        "ttl {} s, loop_wait {} s: a dead leader is replaced within {} s, clients wait {} s (write_timeout_secs)",
        secs(ttl),
        secs(loop_wait),
        secs(failover),
        secs(hold)
    );
    let advice = format!("write_timeout_secs = {}", secs(failover).ceil());
    if hold < ttl {
        Finding::wrong("hold", words, advice)
    } else if hold < failover {
        Finding::warning("hold", words, advice)
    } else {
        Finding::ok("hold", words)
    }
}

fn lease(cluster: &ClusterFacts, config: &Config) -> Finding {
    let (said, loop_wait) = (cluster.dynamic.ttl, cluster.dynamic.loop_wait);
    let lease = config.tracker.lease_timeout;
    let ttl = config.tracker.patroni_ttl.unwrap_or(said);
    if ttl != said {
        return Finding::warning(
            "lease",
            format!(
                "topology.patroni_ttl_secs = {}, and the cluster says {}",
                secs(ttl),
                secs(said)
            ),
            "leave the key out: the cluster is asked",
        );
    }
    let words = format!(
        "topology.lease_timeout_secs = {}, ttl {} s, loop_wait {} s",
        secs(lease),
        secs(ttl),
        secs(loop_wait)
    );
    let advice = format!(
        "a lease should end before the lock can: topology.lease_timeout_secs below {}",
        secs(ttl.saturating_sub(loop_wait))
    );
    if lease >= ttl {
        Finding::wrong("lease", words, advice)
    } else if lease >= ttl.saturating_sub(loop_wait) {
        Finding::warning("lease", words, advice)
    } else {
        Finding::ok("lease", words)
    }
}

fn room(max: MaxConnections, config: &Config) -> Finding {
    let (max, by_default) = match max {
        MaxConnections::Said(max) => (max, ""),
        MaxConnections::Default => (PATRONIS_MAX_CONNECTIONS, " (Patroni's default)"),
        MaxConnections::Unknown => {
            let words = "unknown: the cluster's max_connections is no number";
            return Finding::ok("room at PostgreSQL", words);
        }
    };
    let dials = config.routing.dial_concurrency as u64;
    let clients = config.session.max_connections as u64;
    let free = max.saturating_sub(RESERVED);
    let words = format!(
        "max_connections {max}{by_default}, {free} for clients; here dial_concurrency = {dials}, max_connections = {clients}"
    );
    let advice = format!(
        "raise PostgreSQL's max_connections (`patronictl edit-config`) above {}, or lower dial_concurrency: clients that wake up together take all of it",
        dials * ROOM + RESERVED
    );
    if free <= dials {
        Finding::wrong("room at PostgreSQL", words, advice)
    } else if free < dials * ROOM {
        Finding::warning("room at PostgreSQL", words, advice)
    } else if clients > free {
        let surplus = format!("{words}: the surplus gets PostgreSQL's own 53300");
        Finding::ok("room at PostgreSQL", surplus)
    } else {
        Finding::ok("room at PostgreSQL", words)
    }
}

/// One version everywhere, and none from before this proxy's time.
pub(super) fn versions(nodes: &[NodeFacts]) -> Finding {
    let versions = by(nodes, |rest| rest.version.as_deref());
    let old: Vec<_> = versions
        .keys()
        .filter(|version| parse(version).is_some_and(|v| v < TRIED_SINCE))
        .copied()
        .collect();
    if !old.is_empty() {
        return Finding::warning(
            "Patroni versions",
            in_words(&versions),
            format!(
                "{} was never tried with this proxy: 3.0.2 and later were",
                old.join(", ")
            ),
        );
    }
    match versions.len() {
        0 => Finding::ok("Patroni versions", "unknown: no node told its own"),
        1 => Finding::ok("Patroni versions", in_words(&versions)),
        _ => Finding::warning(
            "Patroni versions",
            in_words(&versions),
            "finish the upgrade: mixed versions are for its time only",
        ),
    }
}

/// `4.1.5`; what follows a third number is left out.
fn parse(version: &str) -> Option<(u64, u64, u64)> {
    let mut parts = version.split('.').map(|part| {
        let digits = part
            .find(|c: char| !c.is_ascii_digit())
            .unwrap_or(part.len());
        part[..digits].parse().ok()
    });
    let mut next = || parts.next().unwrap_or(Some(0));
    Some((next()?, next()?, next()?))
}
