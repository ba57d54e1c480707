//! `GET /events`: a stream of what happens, as server-sent events.
//!
//! `leader` is a change of leader, with an id and the split of its gap as far as it is known; `gap` the same once the
//! first session has come; `state` the whole picture, once a second and whenever it changes.

use std::convert::Infallible;
use std::fmt::Write;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use hyper::body::{Body, Frame};
use hyper::header::HeaderMap;
use serde::Serialize;
use tokio::sync::{OwnedSemaphorePermit, mpsc};
use tokio::time::{Instant, sleep, sleep_until, timeout};

use super::metrics::{self, Numbers};
use super::nodes::{self, Node};
use super::routes::Ask;
use super::topology::{self, Topology};
use super::{Facts, why};
use crate::clock::BootTime;
use crate::primary_tracker::{Picture, WhyNobody};

pub(super) const CONTENT_TYPE: &str = "text/event-stream";

/// The picture is told so often at least.
const EVERY: Duration = Duration::from_secs(1);
/// Changes that come in one go are told in one go.
const TOGETHER: Duration = Duration::from_millis(20);

/// How long a stream may last, and how long its reader may not read.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lasts {
    /// A reader whose token was withdrawn must come again some time.
    pub(super) whole: Duration,
    pub(super) unread: Duration,
}

/// The body of the reply.
pub(super) struct Events(mpsc::Receiver<Bytes>);

/// What writes it. The place is given back with it.
pub(super) struct Feed {
    facts: Facts,
    out: mpsc::Sender<Bytes>,
    lasts: Lasts,
    /// The newest change that was told, and whether its gap was complete.
    told: Option<(u64, bool)>,
    _place: OwnedSemaphorePermit,
}

/// How a stream has ended.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Ended {
    /// What was written is to be sent still.
    Over,
    /// The reader is gone, or does not read.
    Unread,
}

/// A stream for who asks with `headers`: those changes that it does not know, then what happens.
pub(super) fn open(
    facts: Facts,
    headers: &HeaderMap,
    lasts: Lasts,
    place: OwnedSemaphorePermit,
) -> (Events, Feed) {
    let (out, body) = mpsc::channel(1);
    let known = headers.get("last-event-id").and_then(|id| id.to_str().ok());
    let told = known
        .and_then(|id| id.strip_prefix(&prefix(facts.started)))
        .and_then(|epoch| epoch.parse().ok())
        // Its gap may have been open when it was told. Twice does no harm.
        .map(|epoch| (epoch, false));
    let feed = Feed {
        facts,
        out,
        lasts,
        told,
        _place: place,
    };
    (Events(body), feed)
}

impl Feed {
    pub(super) async fn run(mut self) -> Ended {
        let over = Instant::now() + self.lasts.whole;
        let mut picture = self.facts.picture.clone();
        let mut text = String::from("retry: 1000\n\n");
        loop {
            let now = picture.borrow_and_update().clone();
            let shown = Key::of(&now);
            self.write(&now, &mut text);
            let sent = self.out.send(std::mem::take(&mut text).into());
            match timeout(self.lasts.unread, sent).await {
                Ok(Ok(())) => {}
                Ok(Err(_)) | Err(_) => return Ended::Unread,
            }
            let next = Instant::now() + EVERY;
            loop {
                tokio::select! {
                    () = sleep_until(next.min(over)) => break,
                    changed = picture.changed() => {
                        if changed.is_err() {
                            return Ended::Over;
                        }
                        if Key::of(&picture.borrow_and_update()) != shown {
                            sleep(TOGETHER).await;
                            break;
                        }
                    }
                }
            }
            if Instant::now() >= over {
                return Ended::Over;
            }
        }
    }

    fn write(&mut self, picture: &Picture, text: &mut String) {
        for change in picture.changes.iter().rev() {
            let (epoch, complete) = (change.epoch, change.first_session.is_some());
            let event = match self.told {
                Some((told, _)) if epoch < told => continue,
                Some((told, was_complete)) if epoch == told => {
                    if was_complete || !complete {
                        continue;
                    }
                    "gap"
                }
                _ => "leader",
            };
            self.told = Some((epoch, complete));
            let id = format!("{}{epoch}", prefix(self.facts.started));
            let _ = writeln!(
                text,
                "id: {id}\nevent: {event}\ndata: {}\n",
                json(&why::change(change))
            );
        }
        let facts = &self.facts;
        let (settings, config) = (
            facts.settings.borrow().clone(),
            facts.config.borrow().clone(),
        );
        let headers = HeaderMap::new();
        let ask = Ask {
            picture,
            metrics: &facts.metrics,
            settings: &settings,
            config: &config,
            held: facts.demand.held_now(),
            started: facts.started,
            now: facts.clock.now(),
            headers: &headers,
            rest: "",
            query: "",
        };
        let _ = writeln!(text, "event: state\ndata: {}\n", json(&state(&ask)));
    }
}

impl Body for Events {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.0
            .poll_recv(cx)
            .map(|text| text.map(|text| Ok(Frame::data(text))))
    }
}

/// What is worth telling before its second is over.
#[derive(PartialEq, Eq)]
struct Key {
    why: Option<WhyNobody>,
    epoch: u64,
    open: Option<bool>,
    change: Option<(u64, bool)>,
}

impl Key {
    fn of(picture: &Picture) -> Self {
        let change = picture.changes.first();
        Self {
            why: picture.why,
            epoch: picture.epoch,
            open: picture.lease.as_ref().map(|lease| lease.open),
            change: change.map(|c| (c.epoch, c.first_session.is_some())),
        }
    }
}

/// One life of this process: after a restart, epochs begin anew.
fn prefix(started: BootTime) -> String {
    format!("{:x}-", started.as_millis())
}

/// All that the page shows.
#[derive(Debug, Serialize)]
struct State<'a> {
    version: &'static str,
    cluster: Option<&'a str>,
    topology: Topology,
    lease_ms: u64,
    nodes: Vec<Seen>,
    numbers: Numbers,
}

#[derive(Debug, Serialize)]
struct Seen {
    #[serde(flatten)]
    node: Node,
    /// The last checks, oldest first: how long ago in ms, how long it took in ms, what it was worth.
    checks: Vec<(u128, u128, String)>,
}

fn state<'a>(ask: &Ask<'a>) -> State<'a> {
    let nodes = ask.picture.nodes.iter().map(|node| Seen {
        node: nodes::report(node, ask.metrics),
        checks: node
            .checks
            .iter()
            .map(|check| {
                let age = ask.now.saturating_sub(check.sent).as_millis();
                (age, check.took.as_millis(), format!("{:?}", check.result))
            })
            .collect(),
    });
    State {
        version: env!("CARGO_PKG_VERSION"),
        cluster: ask.picture.scope.as_deref(),
        topology: topology::report(ask.picture, ask.now),
        lease_ms: u64::try_from(ask.picture.lease_timeout.as_millis()).unwrap_or(u64::MAX),
        nodes: nodes.collect(),
        numbers: metrics::numbers(ask),
    }
}

fn json(told: &impl Serialize) -> String {
    serde_json::to_string(told).unwrap_or_else(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tokio::sync::Semaphore;

    use super::*;
    use crate::admin::testing::{Scene, Strings};

    async fn feed(lasts: Lasts) -> (Events, Feed, Arc<Semaphore>, Strings) {
        let places = Arc::new(Semaphore::new(1));
        let place = Arc::clone(&places).acquire_owned().await.unwrap();
        let (facts, strings) = Scene::leading().facts();
        let (events, feed) = open(facts, &HeaderMap::new(), lasts, place);
        (events, feed, places, strings)
    }

    const LASTS: Lasts = Lasts {
        whole: Duration::from_secs(600),
        unread: Duration::from_secs(15),
    };

    #[tokio::test(start_paused = true)]
    async fn who_does_not_read_is_cut_off_and_its_place_is_free() {
        let (_events, feed, places, _strings) = feed(LASTS).await;
        let since = Instant::now();

        assert_eq!(feed.run().await, Ended::Unread);

        assert_eq!(since.elapsed(), LASTS.unread + EVERY);
        assert_eq!(places.available_permits(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn who_is_gone_ends_the_stream() {
        let (events, feed, _, _strings) = feed(LASTS).await;
        drop(events);

        assert_eq!(feed.run().await, Ended::Unread);
    }
}
