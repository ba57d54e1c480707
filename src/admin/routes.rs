//! The table of endpoints, and what they are given and give back.

use hyper::header::{ACCEPT, HeaderMap};
use hyper::{Method, StatusCode, Uri};
use serde::Serialize;
use serde_json::json;

use super::{access, health, metrics, nodes, topology, version, why};
use crate::clock::BootTime;
use crate::metrics::Metrics;
use crate::primary_tracker::Picture;

/// What an endpoint may look at. `now` is read once, so that one reply does not contradict itself.
pub(super) struct Ask<'a> {
    pub(super) picture: &'a Picture,
    pub(super) metrics: &'a Metrics,
    /// Clients that wait for a leader.
    pub(super) held: usize,
    pub(super) started: BootTime,
    pub(super) now: BootTime,
    pub(super) headers: &'a HeaderMap,
    /// What follows the endpoint's own path: `10.0.0.11:5432` of `/nodes/10.0.0.11:5432`.
    pub(super) rest: &'a str,
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
}

impl Reply {
    pub(super) fn json(status: StatusCode, body: &impl Serialize) -> Self {
        match serde_json::to_string(body) {
            Ok(mut body) => {
                body.push('\n'); // for terminals
                Self {
                    status,
                    content_type: "application/json",
                    body,
                }
            }
            Err(e) => Self::error(StatusCode::INTERNAL_SERVER_ERROR, &e.to_string()),
        }
    }

    pub(super) fn error(status: StatusCode, words: &str) -> Self {
        let body = json!({ "error": words });
        Self {
            status,
            content_type: "application/json",
            body: format!("{body}\n"),
        }
    }
}

type Endpoint = fn(&Ask<'_>) -> Reply;

/// A path that ends in `/` takes a rest.
const TABLE: &[(&str, Endpoint)] = &[
    ("/topology", topology::answer),
    ("/topology/why", why::answer),
    ("/nodes", nodes::all),
    ("/nodes/", nodes::one),
    ("/health", health::summary),
    ("/healthz", health::summary),
    ("/health/live", health::live),
    ("/livez", health::live),
    ("/health/ready", health::ready),
    ("/readyz", health::ready),
    ("/metrics", metrics::as_json),
    ("/metrics/prometheus", metrics::as_prometheus),
    ("/version", version::answer),
];

/// The endpoint of a path, and the rest that it takes: one segment, never an empty one.
fn find(path: &str) -> Option<(Endpoint, &str)> {
    TABLE.iter().find_map(|(own, endpoint)| {
        let rest = path.strip_prefix(own)?;
        let fits = if own.ends_with('/') {
            !rest.is_empty() && !rest.contains('/')
        } else {
            rest.is_empty()
        };
        fits.then_some((*endpoint, rest))
    })
}

/// Answers a request whose body does not matter.
pub(super) fn answer(method: &Method, uri: &Uri, ask: &Ask<'_>) -> Reply {
    if let Err(forbidden) = access::check(uri, ask.headers) {
        return Reply::error(StatusCode::FORBIDDEN, forbidden.in_words());
    }
    let path = uri.path();
    let found = find(path);
    if ![Method::GET, Method::HEAD].contains(method) {
        let status = match found {
            Some(_) => StatusCode::METHOD_NOT_ALLOWED,
            None => StatusCode::NOT_FOUND,
        };
        let words = format!("{method} {path}: changes are not available yet");
        return Reply::error(status, &words);
    }
    match found {
        Some((endpoint, rest)) => endpoint(&Ask { rest, ..*ask }),
        None => Reply::error(StatusCode::NOT_FOUND, &format!("there is no {path}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::admin::testing::Scene;

    fn ask(method: &Method, path: &str) -> Reply {
        let scene = Scene::leading();
        answer(method, &path.parse().unwrap(), &scene.ask())
    }

    fn get(path: &str) -> StatusCode {
        ask(&Method::GET, path).status
    }

    #[test]
    fn every_endpoint_of_the_contract_answers_in_json_but_one() {
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
            "/version",
        ] {
            let reply = ask(&Method::GET, path);
            assert_eq!(reply.status, StatusCode::OK, "{path}");
            assert_eq!(reply.content_type, "application/json", "{path}");
            serde_json::from_str::<serde_json::Value>(&reply.body).unwrap();
        }
        assert_eq!(get("/metrics/prometheus"), StatusCode::OK);
    }

    #[test]
    fn what_is_not_there_is_said_in_json() {
        for path in [
            "/",
            "/nodes/",
            "/nodes/a/b",
            "/topology/",
            "/topologyx",
            "/health/x",
        ] {
            let reply = ask(&Method::GET, path);
            assert_eq!(reply.status, StatusCode::NOT_FOUND, "{path}");
            assert_eq!(
                reply.body,
                format!("{{\"error\":\"there is no {path}\"}}\n")
            );
        }
        assert_eq!(get("/topology?pretty"), StatusCode::OK);
    }

    #[test]
    fn changes_are_not_yet_and_say_so() {
        for (path, status) in [
            ("/nodes/10.0.0.11:5432/disable", StatusCode::NOT_FOUND),
            ("/topology/unpin", StatusCode::NOT_FOUND),
            ("/topology", StatusCode::METHOD_NOT_ALLOWED),
        ] {
            let reply = ask(&Method::POST, path);
            assert_eq!(reply.status, status, "{path}");
            assert!(reply.body.contains("not available yet"), "{}", reply.body);
        }
        assert_eq!(
            ask(&Method::DELETE, "/nodes").status,
            StatusCode::METHOD_NOT_ALLOWED
        );
    }

    #[test]
    fn a_foreign_host_gets_403_before_anything_is_looked_up() {
        let scene = Scene::leading();
        let mut headers = HeaderMap::new();
        headers.insert("host", "evil.example".parse().unwrap());
        let ask = Ask {
            headers: &headers,
            ..scene.ask()
        };

        let uri = Uri::from_static("/topology");
        assert_eq!(
            answer(&Method::GET, &uri, &ask).status,
            StatusCode::FORBIDDEN
        );
        assert_eq!(
            answer(&Method::POST, &uri, &ask).status,
            StatusCode::FORBIDDEN
        );
    }
}
