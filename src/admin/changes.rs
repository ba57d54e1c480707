//! What a POST asks to be changed: from path, query and body to an order, and from its outcome to a reply.

use std::sync::Arc;

use hyper::StatusCode;
use serde::Deserialize;
use serde_json::{Value, json};

use super::nodes::{self, percent_decoded};
use super::routes::{Ask, Reply};
use super::topology;
use crate::primary_tracker::{Fault, Order, Refused};

/// An order, and what is shown once it was followed.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Change {
    pub(super) order: Order,
    pub(super) shows: Shows,
}

/// What a change has left.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Shows {
    Node(Arc<str>),
    Topology,
    Chaos,
}

/// A change that cannot even be ordered comes with its reply.
pub(super) type Planned = Result<Change, Reply>;

pub(super) fn enable(ask: &Ask<'_>, _: &[u8]) -> Planned {
    let node = node(ask, &percent_decoded(ask.rest))?;
    Ok(Change {
        shows: Shows::Node(Arc::clone(&node)),
        order: Order::Enable { node },
    })
}

pub(super) fn disable(ask: &Ask<'_>, _: &[u8]) -> Planned {
    let node = node(ask, &percent_decoded(ask.rest))?;
    let close = match ask.query {
        "" | "close=false" => false,
        "close=true" | "close" => true,
        other => return Err(bad(&format!("?{other}: known is ?close=true"))),
    };
    Ok(Change {
        shows: Shows::Node(Arc::clone(&node)),
        order: Order::Disable { node, close },
    })
}

pub(super) fn unpin(_: &Ask<'_>, _: &[u8]) -> Planned {
    Ok(Change {
        order: Order::Unpin,
        shows: Shows::Topology,
    })
}

/// `{"address": "host:port"}` sets and confirms, `{"address": null}` clears.
pub(super) fn primary(ask: &Ask<'_>, body: &[u8]) -> Planned {
    const WORDS: &str =
        "the body is {\"address\": \"host:port\"}, or {\"address\": null} for nobody";
    let body: Value = serde_json::from_slice(body).map_err(|_not_json| bad(WORDS))?;
    let node = match body.get("address") {
        Some(Value::String(address)) => Some(node(ask, address)?),
        Some(Value::Null) => None,
        _ => return Err(bad(WORDS)),
    };
    Ok(Change {
        order: Order::SetPrimary { node },
        shows: Shows::Topology,
    })
}

#[derive(Deserialize)]
struct Wanted {
    action: Action,
    target_node: Option<String>,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Action {
    ForceUnhealthy,
    Restore,
    Reset,
}

pub(super) fn play(ask: &Ask<'_>, body: &[u8]) -> Planned {
    const WORDS: &str = "the body is {\"action\": \"force_unhealthy\" | \"restore\" | \"reset\", \
                         \"target_node\": \"host:port\" or name}";
    if !ask.settings.enable_chaos {
        return Err(no_chaos());
    }
    let wanted: Wanted = serde_json::from_slice(body).map_err(|_other| bad(WORDS))?;
    let target = || match &wanted.target_node {
        Some(target) => node(ask, target),
        None => Err(bad(WORDS)),
    };
    let fault = match wanted.action {
        Action::ForceUnhealthy => Fault::ForceUnhealthy { node: target()? },
        Action::Restore => Fault::Restore { node: target()? },
        Action::Reset => Fault::Reset,
    };
    Ok(Change {
        order: Order::Chaos(fault),
        shows: Shows::Chaos,
    })
}

/// `GET /api/chaos`: which faults are played.
pub(super) fn chaos(ask: &Ask<'_>) -> Reply {
    if !ask.settings.enable_chaos {
        return no_chaos();
    }
    let forced = ask.picture.nodes.iter().filter(|node| node.forced);
    let forced: Vec<_> = forced
        .map(|node| json!({ "address": *node.address, "name": *node.name }))
        .collect();
    Reply::json(StatusCode::OK, &json!({ "forced_unhealthy": forced }))
}

/// What a change has left, or why it was refused.
pub(super) fn outcome(done: Result<(), Refused>, shows: &Shows, ask: &Ask<'_>) -> Reply {
    match done {
        Ok(()) => match shows {
            Shows::Node(name) => nodes::named(name, ask),
            Shows::Topology => topology::answer(ask),
            Shows::Chaos => chaos(ask),
        },
        Err(refused) => {
            let status = match refused {
                Refused::UnknownNode(_) => StatusCode::NOT_FOUND,
                Refused::NotByThisProvider | Refused::NoAddress(_) | Refused::NobodyToConfirm => {
                    StatusCode::CONFLICT
                }
                Refused::Ending => StatusCode::SERVICE_UNAVAILABLE,
            };
            Reply::error(status, &refused.to_string())
        }
    }
}

fn node(ask: &Ask<'_>, wanted: &str) -> Result<Arc<str>, Reply> {
    nodes::find(wanted, ask.picture).map(|node| Arc::clone(&node.name))
}

fn bad(words: &str) -> Reply {
    Reply::error(StatusCode::BAD_REQUEST, words)
}

fn no_chaos() -> Reply {
    let words = "faults are played only with enable_chaos = true";
    Reply::error(StatusCode::FORBIDDEN, words)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::admin::testing::Scene;

    fn status(planned: Planned) -> StatusCode {
        planned.unwrap_err().status
    }

    #[test]
    fn disabling_may_close_what_is_open_and_knows_no_other_wish() {
        let scene = Scene::leading();
        let with = |query| {
            let ask = Ask {
                rest: "pg1",
                query,
                ..scene.ask()
            };
            disable(&ask, b"")
        };
        let order = |close| Order::Disable {
            node: "pg1".into(),
            close,
        };

        assert_eq!(with("").unwrap().order, order(false));
        assert_eq!(with("close=true").unwrap().order, order(true));
        assert_eq!(status(with("close=yes")), StatusCode::BAD_REQUEST);
    }

    #[test]
    fn a_leader_by_hand_is_named_or_null_and_nothing_else() {
        let scene = Scene::leading();
        let with = |body: &str| primary(&scene.ask(), body.as_bytes());
        let order = |node: Option<&str>| Order::SetPrimary {
            node: node.map(Arc::from),
        };

        assert_eq!(
            with(r#"{"address":"10.0.0.12:5432"}"#).unwrap().order,
            order(Some("pg2"))
        );
        assert_eq!(with(r#"{"address":null}"#).unwrap().order, order(None));
        assert_eq!(
            status(with(r#"{"address":"10.9.9.9:5432"}"#)),
            StatusCode::NOT_FOUND
        );
        for body in ["", "{}", "null", r#"{"address":5}"#, "pg2"] {
            assert_eq!(status(with(body)), StatusCode::BAD_REQUEST, "{body}");
        }
    }

    #[test]
    fn faults_are_played_only_where_the_configuration_allows_it() {
        let mut scene = Scene::leading();
        let body = br#"{"action":"force_unhealthy","target_node":"10.0.0.11:5432"}"#;

        assert_eq!(status(play(&scene.ask(), body)), StatusCode::FORBIDDEN);
        assert_eq!(chaos(&scene.ask()).status, StatusCode::FORBIDDEN);

        scene.settings.enable_chaos = true;
        let node = || "pg1".into();
        assert_eq!(
            play(&scene.ask(), body).unwrap().order,
            Order::Chaos(Fault::ForceUnhealthy { node: node() })
        );
        let restore = br#"{"action":"restore","target_node":"pg1"}"#;
        assert_eq!(
            play(&scene.ask(), restore).unwrap().order,
            Order::Chaos(Fault::Restore { node: node() })
        );
        let reset = play(&scene.ask(), br#"{"action":"reset"}"#).unwrap();
        assert_eq!(reset.order, Order::Chaos(Fault::Reset));
        for body in [
            &b"{}"[..],
            br#"{"action":"restore"}"#,
            br#"{"action":"melt","target_node":"pg1"}"#,
        ] {
            assert_eq!(status(play(&scene.ask(), body)), StatusCode::BAD_REQUEST);
        }
        let unknown = br#"{"action":"restore","target_node":"pg9"}"#;
        assert_eq!(status(play(&scene.ask(), unknown)), StatusCode::NOT_FOUND);
    }

    #[test]
    fn faults_that_are_played_are_listed() {
        let mut scene = Scene::leading();
        scene.settings.enable_chaos = true;
        let mut nodes = scene.picture.nodes.to_vec();
        nodes[1].forced = true;
        scene.picture.nodes = nodes.into();

        let body: Value = serde_json::from_str(&chaos(&scene.ask()).body).unwrap();

        let forced = json!([{ "address": "10.0.0.12:5432", "name": "pg2" }]);
        assert_eq!(body, json!({ "forced_unhealthy": forced }));
    }

    #[test]
    fn a_done_change_shows_what_it_left_and_a_refused_one_why() {
        let scene = Scene::leading();
        let shows = Shows::Node("pg1".into());
        let told = |done| outcome(done, &shows, &scene.ask());

        let done = told(Ok(()));
        assert_eq!(done.status, StatusCode::OK);
        assert!(done.body.contains("\"name\":\"pg1\""), "{}", done.body);
        for (refused, status) in [
            (Refused::UnknownNode("pg1".into()), StatusCode::NOT_FOUND),
            (Refused::NotByThisProvider, StatusCode::CONFLICT),
            (Refused::Ending, StatusCode::SERVICE_UNAVAILABLE),
        ] {
            let reply = told(Err(refused));
            assert_eq!(reply.status, status);
            assert!(reply.body.starts_with("{\"error\":"), "{}", reply.body);
        }
    }
}
