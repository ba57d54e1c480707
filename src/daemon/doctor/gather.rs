//! Finds things out, everything at once and in bounded time. Judges nothing.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_json::Value;

use super::facts::{
    ClusterFacts, Facts, Failure, FailureKind, HostFacts, ListenerFacts, MaxConnections, NodeFacts,
    RestFacts, ViewFacts,
};
use super::postgres;
use crate::Config;
use crate::admin::Token;
use crate::causes::chain;
use crate::clock::Clock;
use crate::daemon::limits;
use crate::net::{Address, FileError, Host, TlsError, at_port, is_unassigned};
use crate::topology::{
    Answer, Dynamic, NoAnswer, NodeSettings, Observe, Place, Provider, Question, Reply, Rest,
    Source, SourceSettings, Sources, View, ask,
};

/// However patient the configuration is: a person waits.
const PATIENCE: Duration = Duration::from_secs(10);

/// How nodes are asked, and for how long.
struct Ways {
    rest: Arc<Rest>,
    sources: Sources,
    provider: Provider,
    question: Duration,
    dial: Duration,
}

/// # Errors
/// A file that `[rest]` or `[topology]` names cannot be used: nothing would start, so nothing is asked.
pub(super) async fn gather(config: &Config) -> Result<Facts, FileError> {
    let ways = Arc::new(Ways {
        rest: Arc::new(Rest::open(config.rest.clone())?),
        sources: Sources::open(config.source.clone())?,
        provider: config.source.provider(),
        // A login takes its time as a dial does.
        question: config.health.check_timeout.min(PATIENCE),
        dial: config.session.connect_timeout.min(PATIENCE),
    });
    let mut asking = tokio::task::JoinSet::new();
    for (place, node) in config.nodes.iter().cloned().enumerate() {
        let ways = Arc::clone(&ways);
        asking.spawn(async move { (place, look_at(&node, &ways).await) });
    }
    let (mut found, views) = tokio::join!(asking.join_all(), views(&config.source, &ways));
    found.sort_by_key(|(place, _)| *place);
    let nodes: Vec<_> = found.into_iter().map(|(_, node)| node).collect();
    let leads = |node: &&NodeFacts| node.rest.as_ref().is_ok_and(|rest| rest.status == 200);
    let leader = nodes.iter().find(leads).and_then(|node| node.dynamic);
    Ok(Facts {
        cluster: leader.or_else(|| nodes.iter().find_map(|node| node.dynamic)),
        nodes,
        views,
        here: here(config),
    })
}

async fn look_at(node: &NodeSettings, ways: &Ways) -> NodeFacts {
    let (host, port) = match ways.provider.is_patroni() {
        true => (
            node.rest_host.as_ref().unwrap_or(&node.host),
            node.rest_port,
        ),
        false => (&node.host, node.port),
    };
    let api = Api {
        rest: Arc::clone(&ways.rest),
        host: Arc::clone(host),
        port,
        limit: ways.question,
    };
    let (proof, dynamic, server, own, other) = tokio::join!(
        proof(&api, node, ways),
        dynamic(&api, ways),
        look_up(&node.host, ways.dial),
        look_up(&node.host, ways.dial),
        look_up(host, ways.dial),
    );
    let postgres = match server {
        Ok(addresses) => {
            let at: Vec<_> = addresses.iter().map(|a| at_port(*a, node.port)).collect();
            postgres::probe(&at, ways.dial).await
        }
        Err(words) => Err(Failure {
            kind: FailureKind::NoAddress,
            words,
        }),
    };
    let mut lookups = vec![(node.host.to_string(), own)];
    if *host != node.host {
        lookups.push((host.to_string(), other));
    }
    NodeFacts {
        name: node.name.to_string(),
        rest_at: join(host, port),
        postgres_at: node.address(),
        lookups,
        rest: proof,
        postgres,
        dynamic,
    }
}

/// What the node says of itself, by the way that the configuration names.
async fn proof(api: &Api, node: &NodeSettings, ways: &Ways) -> Result<RestFacts, Failure> {
    if ways.provider.is_patroni() {
        return primary(api).await;
    }
    let source = Source::new(&ways.sources, &ways.rest, node, Clock::Boot);
    let began = Clock::Boot.now();
    let told = source.observe(api.place()).await;
    let took = Clock::Boot.now().saturating_sub(began);
    let told = told.map_err(|error| failure(&error))?;
    let answer = told.said.map_err(|silence| Failure {
        kind: FailureKind::Broken,
        words: chain(&silence),
    })?;
    Ok(RestFacts {
        took,
        status: answer.status,
        answer: Some(answer),
        member: None,
        version: None,
        ahead_ms: None,
    })
}

async fn views(source: &SourceSettings, ways: &Ways) -> Vec<ViewFacts> {
    let SourceSettings::Patroni(settings) = source else {
        return Vec::new();
    };
    let mut asking = tokio::task::JoinSet::new();
    for (place, url) in settings.endpoints.iter().enumerate() {
        let api = Api {
            rest: Arc::clone(&ways.rest),
            host: Arc::clone(&url.host),
            port: url.port,
            limit: settings.timeout.min(PATIENCE),
        };
        asking.spawn(async move { (place, look(&api).await) });
    }
    let mut found = asking.join_all().await;
    found.sort_by_key(|(place, _)| *place);
    found.into_iter().map(|(_, view)| view).collect()
}

async fn look(api: &Api) -> ViewFacts {
    let leaders = match api.ask("/cluster").await {
        Ok(reply) => match View::read(reply.status, &reply.body) {
            Some(view) => Ok(view.leaders().map(|m| m.name.to_string()).collect()),
            None => Err(Failure {
                kind: FailureKind::Broken,
                words: format!("answers {} without a view of the cluster", reply.status),
            }),
        },
        Err(error) => Err(failure(&error)),
    };
    ViewFacts {
        endpoint: join(&api.host, api.port),
        leaders,
    }
}

fn join(host: &str, port: u16) -> String {
    match host.contains(':') {
        true => format!("[{host}]:{port}"),
        false => format!("{host}:{port}"),
    }
}

async fn look_up(host: &str, limit: Duration) -> Result<Vec<SocketAddr>, String> {
    match tokio::time::timeout(limit, tokio::net::lookup_host((host, 0))).await {
        Ok(Ok(found)) => Ok(found.collect()),
        Ok(Err(error)) => Err(error.to_string()),
        Err(_late) => Err(format!("no answer from the name servers within {limit:?}")),
    }
}

/// One node's REST API.
struct Api {
    rest: Arc<Rest>,
    host: Arc<str>,
    port: u16,
    limit: Duration,
}

impl Api {
    fn place(&self) -> Place {
        Place {
            name: Arc::clone(&self.host),
            host: Host::new(&self.host).asker(),
            port: self.port,
            prefer: None,
            only: false,
            limit: self.limit,
        }
    }

    async fn ask(&self, path: &'static str) -> Result<Reply, NoAnswer> {
        let (rest, place) = (Arc::clone(&self.rest), self.place());
        ask(Question { place, rest, path }, Clock::Boot).await
    }
}

/// The daemon's own question.
async fn primary(api: &Api) -> Result<RestFacts, Failure> {
    let (sent, began) = (SystemTime::now(), Clock::Boot.now());
    let reply = api.ask("/primary").await;
    let (received, took) = (SystemTime::now(), Clock::Boot.now().saturating_sub(began));
    let reply = reply.map_err(|error| failure(&error))?;
    let answer = Answer::read(reply.status, reply.date.as_deref(), &reply.body);
    let body: Value = serde_json::from_slice(&reply.body).unwrap_or_default();
    let patroni = |key: &str| body["patroni"][key].as_str().map(str::to_owned);
    Ok(RestFacts {
        took,
        status: reply.status,
        ahead_ms: answer
            .as_ref()
            .and_then(|said| said.date)
            .map(|date| ahead_ms(date, millis(sent), millis(received))),
        answer,
        member: patroni("name"),
        version: patroni("version"),
    })
}

fn failure(error: &NoAnswer) -> Failure {
    let kind = match error {
        NoAnswer::Connect { source } => postgres::failure(source).kind,
        NoAnswer::TimedOut { .. } | NoAnswer::NotConnected { .. } => FailureKind::TimedOut,
        NoAnswer::TurnedAway { .. } => FailureKind::TurnedAway,
        NoAnswer::NoName { .. } | NoAnswer::Tls(TlsError::NotBelieved { .. }) => {
            FailureKind::NotBelieved
        }
        NoAnswer::Tls(TlsError::NotAccepted { .. } | TlsError::Wanted { .. }) => {
            FailureKind::NotAccepted
        }
        NoAnswer::Tls(TlsError::NotTls { .. }) => FailureKind::NotTls,
        NoAnswer::Tls(TlsError::Handshake { .. })
        | NoAnswer::Broken { .. }
        | NoAnswer::TooLarge => FailureKind::Broken,
        NoAnswer::Postgres(_) | NoAnswer::Odd { .. } => FailureKind::NotLoggedIn,
    };
    Failure {
        kind,
        words: chain(error),
    }
}

async fn dynamic(api: &Api, ways: &Ways) -> Option<ClusterFacts> {
    if !ways.provider.is_patroni() {
        return None;
    }
    let reply = api.ask("/config").await.ok()?;
    if reply.status != 200 {
        return None;
    }
    cluster(&reply.body)
}

/// Source: Patroni documentation, "Dynamic configuration settings": `max_connections` is one of the parameters that
/// only the dynamic configuration sets.
fn cluster(body: &[u8]) -> Option<ClusterFacts> {
    let dynamic = Dynamic::read(body)?;
    let said: Value = serde_json::from_slice(body).ok()?;
    let max = &said["postgresql"]["parameters"]["max_connections"];
    let max_connections = match max {
        Value::Null => MaxConnections::Default,
        Value::String(text) => text
            .parse()
            .map_or(MaxConnections::Unknown, MaxConnections::Said),
        other => other
            .as_u64()
            .map_or(MaxConnections::Unknown, MaxConnections::Said),
    };
    Some(ClusterFacts {
        dynamic,
        max_connections,
    })
}

/// The node's clock stood somewhere in the second of its `Date` at some moment between `sent` and `received`: the
/// least difference that explains both.
fn ahead_ms(date: u64, sent: i64, received: i64) -> i64 {
    let second = i64::try_from(date)
        .unwrap_or(i64::MAX / 2000)
        .saturating_mul(1000);
    let end = second.saturating_add(999);
    if second > received {
        second - received
    } else if end < sent {
        end - sent
    } else {
        0
    }
}

fn millis(time: SystemTime) -> i64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}

fn here(config: &Config) -> HostFacts {
    let listeners = config.listeners.iter().map(|listener| {
        let missing = match &listener.address {
            Address::Tcp(address) => is_unassigned(*address),
            Address::Unix(path) => path.parent().is_some_and(|folder| !folder.is_dir()),
        };
        ListenerFacts {
            address: listener.address.clone(),
            missing,
        }
    });
    HostFacts {
        listeners: listeners.collect(),
        descriptors: limits::make_room(config.session.max_connections),
        token: token(config),
    }
}

fn token(config: &Config) -> Option<String> {
    let file = config.admin.as_ref()?.token_file.as_ref()?;
    let error = Token::read(file).err()?;
    Some(chain(&error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_date_has_only_seconds_so_the_least_difference_counts() {
        let date = 1_796_016_351;
        let second = 1_796_016_351_000;
        for (sent, received, ahead) in [
            (second, second + 3, 0),
            (second + 999, second + 1_500, 0),
            (second - 300, second, 0),
            (second - 5_000, second - 4_000, 4_000),
            (second + 7_999, second + 8_500, -7_000),
        ] {
            assert_eq!(ahead_ms(date, sent, received), ahead, "{sent}");
        }
    }

    #[test]
    fn max_connections_is_what_the_dynamic_configuration_says() {
        let recorded =
            include_bytes!("../../../tests/fixtures/patroni/4.1.5/healthy/n1_config.json");
        let max = |body: &[u8]| cluster(body).map(|cluster| cluster.max_connections);
        assert_eq!(max(recorded), Some(MaxConnections::Said(300)));
        let text = br#"{"postgresql":{"parameters":{"max_connections":"200"}}}"#;
        assert_eq!(max(text), Some(MaxConnections::Said(200)));
        assert_eq!(max(br#"{"ttl": 30}"#), Some(MaxConnections::Default));
        let odd = br#"{"postgresql":{"parameters":{"max_connections":[]}}}"#;
        assert_eq!(max(odd), Some(MaxConnections::Unknown));
        assert_eq!(max(b"not json"), None);
    }
}
