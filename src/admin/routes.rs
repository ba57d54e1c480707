//! The table of endpoints, and what they are given and give back.

use hyper::header::{ACCEPT, HeaderMap};
use hyper::{Method, StatusCode, Uri};
use serde::Serialize;
use serde_json::json;

use super::access::Purpose;
use super::changes::{self, Planned};
use super::{AdminSettings, Shown, health, metrics, nodes, page, sessions, topology, version, why};
use crate::clock::BootTime;
use crate::metrics::Metrics;
use crate::primary_tracker::Picture;

/// What an endpoint may look at. `now` is read once, so that one reply does not contradict itself.
#[derive(Clone, Copy)]
pub(super) struct Ask<'a> {
    pub(super) picture: &'a Picture,
    pub(super) metrics: &'a Metrics,
    pub(super) settings: &'a AdminSettings,
    /// The configuration in effect.
    pub(super) config: &'a Shown,
    /// Clients that wait for a leader.
    pub(super) held: usize,
    pub(super) started: BootTime,
    pub(super) now: BootTime,
    pub(super) headers: &'a HeaderMap,
    /// What follows the endpoint's own path: `10.0.0.11:5432` of `/nodes/10.0.0.11:5432`.
    pub(super) rest: &'a str,
    /// What follows the `?`.
    pub(super) query: &'a str,
}

impl Ask<'_> {
    pub(super) fn accepts(&self, media_type: &str) -> bool {
        let mut accepted = self.headers.get_all(ACCEPT).iter();
        accepted.any(|v| v.to_str().is_ok_and(|v| v.contains(media_type)))
    }
}

#[derive(Debug, PartialEq, Eq)]
pub(super) struct Reply {
    pub(super) status: StatusCode,
    pub(super) content_type: &'static str,
    pub(super) body: String,
    /// What may be asked instead, with 405.
    pub(super) allow: Option<&'static str>,
}

impl Reply {
    pub(super) fn new(content_type: &'static str, body: String) -> Self {
        Self {
            status: StatusCode::OK,
            content_type,
            body,
            allow: None,
        }
    }

    pub(super) fn json(status: StatusCode, body: &impl Serialize) -> Self {
        match serde_json::to_string(body) {
            Ok(mut body) => {
                body.push('\n'); // for terminals
                Self {
                    status,
                    ..Self::new("application/json", body)
                }
            }
            Err(e) => Self::error(StatusCode::INTERNAL_SERVER_ERROR, &e.to_string()),
        }
    }

    pub(super) fn error(status: StatusCode, words: &str) -> Self {
        let body = json!({ "error": words });
        Self {
            status,
            ..Self::new("application/json", format!("{body}\n"))
        }
    }
}

type Look = fn(&Ask<'_>) -> Reply;
type Plan = fn(&Ask<'_>, &[u8]) -> Planned;

/// What may be looked at, and whether that is only a sign of health. A `*` stands for one segment, which is the rest.
#[rustfmt::skip]
const LOOKS: &[(&str, Purpose, Look)] = &[
    ("/", Purpose::Look, page::answer),
    ("/topology", Purpose::Look, topology::answer),
    ("/topology/why", Purpose::Look, why::answer),
    ("/nodes", Purpose::Look, nodes::all),
    ("/nodes/*", Purpose::Look, nodes::one),
    ("/sessions", Purpose::Look, sessions::answer),
    ("/config", Purpose::Look, config),
    ("/api/chaos", Purpose::Look, changes::chaos),
    ("/metrics", Purpose::Look, metrics::as_json),
    ("/metrics/prometheus", Purpose::Look, metrics::as_prometheus),
    ("/version", Purpose::Look, version::answer),
    ("/health", Purpose::Health, health::summary),
    ("/healthz", Purpose::Health, health::summary),
    ("/health/live", Purpose::Health, health::live),
    ("/livez", Purpose::Health, health::live),
    ("/health/ready", Purpose::Health, health::ready),
    ("/readyz", Purpose::Health, health::ready),
];

/// What may be changed.
const CHANGES: &[(&str, Plan)] = &[
    ("/nodes/*/enable", changes::enable),
    ("/nodes/*/disable", changes::disable),
    ("/topology/unpin", changes::unpin),
    ("/topology/primary", changes::primary),
    ("/api/chaos", changes::play),
];

/// The one that does not end.
pub(super) const EVENTS: &str = "/events";

/// What a request is about.
pub(super) enum Route<'u> {
    Look(Look, &'u str),
    Change(Plan, &'u str),
    Events,
    Nothing(Reply),
}

/// What is asked for, and what that is for. What is not there is turned away like a look at what is.
pub(super) fn route<'u>(method: &Method, uri: &'u Uri) -> (Purpose, Route<'u>) {
    let path = uri.path();
    let look = LOOKS
        .iter()
        .find_map(|(own, purpose, look)| Some((*purpose, *look, rest(own, path)?)));
    let change = CHANGES
        .iter()
        .find_map(|(own, plan)| Some((*plan, rest(own, path)?)));
    if [Method::GET, Method::HEAD].contains(method) {
        if let Some((purpose, look, rest)) = look {
            return (purpose, Route::Look(look, rest));
        }
        if path == EVENTS && method == Method::GET {
            return (Purpose::Look, Route::Events);
        }
    } else if let (Some((plan, rest)), &Method::POST) = (change, method) {
        return (Purpose::Change, Route::Change(plan, rest));
    }
    let allow = match (look.is_some(), change.is_some()) {
        (true, true) => Some("GET, HEAD, POST"),
        (true, false) => Some("GET, HEAD"),
        (false, true) => Some("POST"),
        (false, false) => Some("GET").filter(|_| path == EVENTS),
    };
    let purpose = match *method {
        Method::GET | Method::HEAD => Purpose::Look,
        _ => Purpose::Change,
    };
    (purpose, Route::Nothing(nothing(method, path, allow)))
}

fn nothing(method: &Method, path: &str, allow: Option<&'static str>) -> Reply {
    let Some(methods) = allow else {
        return Reply::error(StatusCode::NOT_FOUND, &format!("there is no {path}"));
    };
    let words = format!("{method} {path}: allowed is {methods}");
    Reply {
        allow,
        ..Reply::error(StatusCode::METHOD_NOT_ALLOWED, &words)
    }
}

/// The one segment of `path` that the `*` of `own` stands for, never an empty one; empty where there is no `*`.
fn rest<'p>(own: &str, path: &'p str) -> Option<&'p str> {
    let Some((before, after)) = own.split_once('*') else {
        return (own == path).then_some("");
    };
    let rest = path.strip_prefix(before)?.strip_suffix(after)?;
    (!rest.is_empty() && !rest.contains('/')).then_some(rest)
}

fn config(ask: &Ask<'_>) -> Reply {
    Reply::json(StatusCode::OK, &ask.config.file)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::admin::testing::Scene;
    use crate::primary_tracker::Order;

    fn get(path: &str) -> Reply {
        let (scene, uri) = (Scene::leading(), path.parse().unwrap());
        match route(&Method::GET, &uri).1 {
            Route::Look(look, rest) => look(&Ask {
                rest,
                ..scene.ask()
            }),
            Route::Nothing(reply) => reply,
            Route::Change(..) | Route::Events => panic!("{path} is no look"),
        }
    }

    fn purpose(method: &Method, path: &str) -> Purpose {
        route(method, &path.parse().unwrap()).0
    }

    /// What a request that finds nothing gets.
    fn refusal(method: &Method, path: &str) -> Reply {
        match route(method, &path.parse().unwrap()).1 {
            Route::Nothing(reply) => reply,
            _ => panic!("{method} {path} is there"),
        }
    }

    #[test]
    fn every_endpoint_of_the_contract_answers_in_json_but_three() {
        for path in [
            "/topology",
            "/topology/why",
            "/nodes",
            "/nodes/10.0.0.11:5432",
            "/health",
            "/health/live",
            "/health/ready",
            "/healthz",
            "/livez",
            "/readyz",
            "/metrics",
            "/sessions",
            "/config",
            "/version",
        ] {
            let reply = get(path);
            assert_eq!(reply.status, StatusCode::OK, "{path}");
            assert_eq!(reply.content_type, "application/json", "{path}");
            serde_json::from_str::<serde_json::Value>(&reply.body).unwrap();
        }
        assert_eq!(get("/metrics/prometheus").status, StatusCode::OK);
        assert_eq!(get("/").content_type, "text/html; charset=utf-8");
        assert!(matches!(
            route(&Method::GET, &Uri::from_static("/events")).1,
            Route::Events
        ));
    }

    #[test]
    fn what_is_not_there_is_said_in_json() {
        for path in [
            "/nodes/",
            "/nodes/a/b",
            "/nodes//enable",
            "/topology/",
            "/topologyx",
            "/health/x",
        ] {
            let reply = get(path);
            assert_eq!(reply.status, StatusCode::NOT_FOUND, "{path}");
            assert_eq!(
                reply.body,
                format!("{{\"error\":\"there is no {path}\"}}\n")
            );
        }
        assert_eq!(get("/topology?pretty").status, StatusCode::OK);
    }

    #[test]
    fn a_method_that_does_not_fit_is_told_those_that_do() {
        for (method, path, allow) in [
            (Method::POST, "/topology", "GET, HEAD"),
            (Method::DELETE, "/nodes", "GET, HEAD"),
            (Method::GET, "/nodes/pg1/enable", "POST"),
            (Method::GET, "/topology/unpin", "POST"),
            (Method::PUT, "/api/chaos", "GET, HEAD, POST"),
            (Method::HEAD, "/events", "GET"),
        ] {
            let reply = refusal(&method, path);
            assert_eq!(reply.status, StatusCode::METHOD_NOT_ALLOWED, "{path}");
            assert_eq!(reply.allow, Some(allow), "{path}");
        }
        assert_eq!(refusal(&Method::POST, "/x").status, StatusCode::NOT_FOUND);
    }

    #[test]
    fn every_post_is_a_change_and_every_change_a_post() {
        let scene = Scene::leading();
        for path in [
            "/nodes/10.0.0.11:5432/enable",
            "/nodes/%5Bfd00::13%5D:5432/disable?close=true",
            "/topology/unpin",
            "/topology/primary",
            "/api/chaos",
            "/nothing",
        ] {
            assert_eq!(purpose(&Method::POST, path), Purpose::Change, "{path}");
        }
        let uri = Uri::from_static("/nodes/%5Bfd00::13%5D:5432/enable");
        let Route::Change(plan, rest) = route(&Method::POST, &uri).1 else {
            panic!("no change");
        };
        let planned = plan(
            &Ask {
                rest,
                ..scene.ask()
            },
            b"",
        )
        .unwrap();
        assert_eq!(planned.order, Order::Enable { node: "pg3".into() });
        assert_eq!(purpose(&Method::PUT, "/nodes"), Purpose::Change);
    }

    #[test]
    fn only_health_is_open_to_everybody() {
        for (path, own, _) in LOOKS {
            let health = path.starts_with("/health") || path.ends_with('z');
            assert_eq!(*own == Purpose::Health, health, "{path}");
        }
        assert_eq!(purpose(&Method::GET, "/nothing"), Purpose::Look);
        assert_eq!(purpose(&Method::GET, EVENTS), Purpose::Look);
    }
}
