//! The admin API's only file with sockets: HTTP/1 with limits on everything a stranger can waste.

use std::convert::Infallible;
use std::path::PathBuf;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Either, Full, Limited};
use hyper::body::Incoming;
use hyper::header::{
    ALLOW, CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderValue, REFERRER_POLICY,
    WWW_AUTHENTICATE, X_CONTENT_TYPE_OPTIONS,
};
use hyper::http::request::Parts;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tracing::{debug, warn};

use super::access::{Denied, Purpose, admit, asks_for_token};
use super::events::{self, Ended, Events, Feed, Lasts};
use super::routes::{self, Ask, Reply, Route};
use super::token::Token;
use super::{AdminSettings, Facts, changes, page};
use crate::causes::chain;

/// One connection is one question, so that each limit is a plain number.
#[derive(Clone, Copy, Debug)]
struct Limits {
    /// The surplus waits in the kernel's queue.
    connections: usize,
    header_time: Duration,
    /// From accept to close, also for a peer that does not read.
    total_time: Duration,
    /// Streams of events have places of their own: they take none of the others', and the surplus gets 503.
    streams: usize,
    stream: Lasts,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 64,
            header_time: Duration::from_secs(5),
            total_time: Duration::from_secs(10),
            streams: 32,
            stream: Lasts {
                whole: Duration::from_secs(600),
                unread: Duration::from_secs(15),
            },
        }
    }
}

const MAX_HEADER: usize = 16 * 1024;
const MAX_BODY: usize = 64 * 1024;

/// After a failed accept (no descriptors left) the next try waits, so that the loop does not spin.
const ACCEPT_PAUSE: Duration = Duration::from_secs(1);
/// For the last bytes of a stream.
const LAST_BYTES: Duration = Duration::from_secs(1);

type Answer = Response<Either<Full<Bytes>, Events>>;

/// Serves until `stop`.
pub(crate) async fn serve(listener: TcpListener, facts: Facts, stop: CancellationToken) {
    serve_within(listener, facts, Limits::default(), stop).await;
}

async fn serve_within(
    listener: TcpListener,
    facts: Facts,
    limits: Limits,
    stop: CancellationToken,
) {
    let places = Arc::new(Semaphore::new(limits.connections));
    let streams = Arc::new(Semaphore::new(limits.streams));
    let token_said = Arc::new(AtomicBool::new(false));
    let mut open = JoinSet::new();
    loop {
        let place = async {
            let place = Arc::clone(&places).acquire_owned().await;
            (place, listener.accept().await)
        };
        let (place, accepted) = tokio::select! {
            () = stop.cancelled() => return,
            Some(_) = open.join_next() => continue,
            accepted = place => accepted,
        };
        match (place, accepted) {
            (Ok(place), Ok((stream, _))) => {
                let window = Window {
                    facts: facts.clone(),
                    limits,
                    streams: Arc::clone(&streams),
                    token_said: Arc::clone(&token_said),
                };
                open.spawn(window.serve_one(stream, place));
            }
            (Ok(_), Err(e)) => {
                warn!(error = %e, "admin API: cannot accept");
                tokio::select! {
                    () = stop.cancelled() => return,
                    () = tokio::time::sleep(ACCEPT_PAUSE) => {}
                }
            }
            (Err(_closed), _) => return,
        }
    }
}

/// What one connection may see and use.
struct Window {
    facts: Facts,
    limits: Limits,
    streams: Arc<Semaphore>,
    /// That the token's file cannot be used was said; once an episode, whoever knocks.
    token_said: Arc<AtomicBool>,
}

impl Window {
    async fn serve_one(self, stream: TcpStream, place: OwnedSemaphorePermit) {
        let (hand_over, mut begun) = mpsc::channel(1);
        let service = service_fn(|request| self.respond(request, &hand_over));
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(self.limits.header_time)
            .max_buf_size(MAX_HEADER)
            .keep_alive(false)
            .serve_connection(TokioIo::new(stream), service);
        let mut connection = pin!(connection);
        let feed: Feed = tokio::select! {
            ended = tokio::time::timeout(self.limits.total_time, &mut connection) => {
                match ended {
                    Ok(Ok(())) => {}
                    Ok(Err(e)) => debug!(error = %e, "admin API: connection failed"),
                    Err(_) => debug!("admin API: connection took too long"),
                }
                return;
            }
            Some(feed) = begun.recv() => feed,
        };
        // A stream has a place of its own, and its own limits.
        drop(place);
        let ended = tokio::select! {
            _ = &mut connection => return,
            ended = feed.run() => ended,
        };
        if ended == Ended::Over {
            let _ = tokio::time::timeout(LAST_BYTES, connection).await;
        }
    }

    async fn respond(
        &self,
        request: Request<Incoming>,
        hand_over: &mpsc::Sender<Feed>,
    ) -> Result<Answer, Infallible> {
        let (head, body) = request.into_parts();
        // Read to its end before the answer: closing with unread bytes would reset the connection under it.
        let Ok(body) = Limited::new(body, MAX_BODY).collect().await else {
            let words = format!("a body has at most {MAX_BODY} bytes");
            let reply = Reply::error(StatusCode::PAYLOAD_TOO_LARGE, &words);
            return Ok(whole(reply));
        };
        let settings = self.facts.settings.borrow().clone();
        let (purpose, route) = routes::route(&head.method, &head.uri);
        if let Err(denied) = self.admit(purpose, &settings, &head).await {
            return Ok(turned_away(denied, head.uri.path()));
        }
        let reply = match route {
            Route::Events => return Ok(self.stream(&head, hand_over)),
            Route::Nothing(reply) => reply,
            Route::Look(look, rest) => {
                self.ask(&head, &settings, |ask| look(&Ask { rest, ..*ask }))
            }
            Route::Change(plan, rest) => {
                let planned = self.ask(&head, &settings, |ask| {
                    plan(&Ask { rest, ..*ask }, &body.to_bytes())
                });
                match planned {
                    Ok(change) => {
                        let done = self.facts.operator.tell(change.order).await;
                        self.ask(&head, &settings, |ask| {
                            changes::outcome(done, &change.shows, ask)
                        })
                    }
                    Err(reply) => reply,
                }
            }
        };
        Ok(whole(reply))
    }

    async fn admit(
        &self,
        purpose: Purpose,
        settings: &AdminSettings,
        head: &Parts,
    ) -> Result<(), Denied> {
        let configured = match &settings.token_file {
            Some(file) if asks_for_token(purpose, settings, &head.headers) => {
                Some(token(file.clone()).await)
            }
            _ => None,
        };
        match &configured {
            Some(Err(error)) if !self.token_said.swap(true, Ordering::Relaxed) => {
                warn!(error = %chain(error), "admin API: nobody is let in by a token");
            }
            Some(Ok(_)) => self.token_said.store(false, Ordering::Relaxed),
            _ => {}
        }
        admit(purpose, settings, &configured, &head.uri, &head.headers)
    }

    /// Hands a picture of this moment to whoever answers.
    fn ask<T>(
        &self,
        head: &Parts,
        settings: &AdminSettings,
        answer: impl FnOnce(&Ask<'_>) -> T,
    ) -> T {
        let facts = &self.facts;
        let picture = facts.picture.borrow().clone();
        let config = facts.config.borrow().clone();
        answer(&Ask {
            picture: &picture,
            metrics: &facts.metrics,
            settings,
            config: &config,
            held: facts.demand.held_now(),
            started: facts.started,
            now: facts.clock.now(),
            headers: &head.headers,
            rest: "",
            query: head.uri.query().unwrap_or_default(),
        })
    }

    fn stream(&self, head: &Parts, hand_over: &mpsc::Sender<Feed>) -> Answer {
        let Ok(place) = Arc::clone(&self.streams).try_acquire_owned() else {
            let words = format!(
                "at most {} may follow the events at once",
                self.limits.streams
            );
            return whole(Reply::error(StatusCode::SERVICE_UNAVAILABLE, &words));
        };
        let facts = self.facts.clone();
        let (events, feed) = events::open(facts, &head.headers, self.limits.stream, place);
        // One question a connection: there is room for the one stream.
        let _ = hand_over.try_send(feed);
        let mut answer = Response::new(Either::Right(events));
        guard(&mut answer, events::CONTENT_TYPE);
        answer
    }
}

/// A file may hang; the poller, which shares this thread, may not.
async fn token(file: PathBuf) -> Result<Token, super::TokenError> {
    let name = file.clone();
    let read = tokio::task::spawn_blocking(move || Token::read(&file)).await;
    read.unwrap_or_else(|ended| {
        Err(super::TokenError::Read {
            file: name,
            source: std::io::Error::other(ended),
        })
    })
}

/// The page is shown to everybody: there is nothing in it, and it is what asks for the token.
fn turned_away(denied: Denied, path: &str) -> Answer {
    let status = match denied.wants_token() {
        true => StatusCode::UNAUTHORIZED,
        false => StatusCode::FORBIDDEN,
    };
    if path == "/" && denied.wants_token() {
        return whole(Reply {
            status,
            ..page::page()
        });
    }
    whole(Reply::error(status, denied.in_words()))
}

fn whole(reply: Reply) -> Answer {
    let mut answer = Response::new(Either::Left(Full::from(reply.body)));
    *answer.status_mut() = reply.status;
    guard(&mut answer, reply.content_type);
    if let Some(methods) = reply.allow {
        let allow = HeaderValue::from_static(methods);
        answer.headers_mut().insert(ALLOW, allow);
    }
    if reply.status == StatusCode::UNAUTHORIZED {
        let scheme = HeaderValue::from_static("Bearer");
        answer.headers_mut().insert(WWW_AUTHENTICATE, scheme);
    }
    answer
}

/// What every answer tells a browser.
fn guard(answer: &mut Answer, content_type: &'static str) {
    let policy = match content_type {
        page::HTML => page::POLICY,
        _ => "default-src 'none'; frame-ancestors 'none'",
    };
    for (name, value) in [
        (CONTENT_TYPE, content_type),
        (CACHE_CONTROL, "no-store"),
        (CONTENT_SECURITY_POLICY, policy),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (REFERRER_POLICY, "no-referrer"),
    ] {
        answer
            .headers_mut()
            .insert(name, HeaderValue::from_static(value));
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;
    use crate::admin::testing::{Scene, Strings};
    use crate::clock::Clock;
    use crate::primary_tracker::{LeaderChange, Order, Refused, WhyNobody};

    struct Open {
        address: SocketAddr,
        strings: Strings,
        stop: CancellationToken,
        serving: tokio::task::JoinHandle<()>,
    }

    const QUICK: Limits = Limits {
        connections: 2,
        header_time: Duration::from_millis(300),
        total_time: Duration::from_millis(900),
        streams: 2,
        stream: Lasts {
            whole: Duration::from_secs(3),
            unread: Duration::from_millis(500),
        },
    };

    async fn open(limits: Limits) -> Open {
        open_with(limits, |_| ()).await
    }

    async fn open_with(limits: Limits, change: impl FnOnce(&mut AdminSettings)) -> Open {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let mut scene = Scene::without_leader(WhyNobody::NobodyLeads);
        change(&mut scene.settings);
        let (facts, strings) = scene.facts();
        let stop = CancellationToken::new();
        let serving = tokio::spawn(serve_within(listener, facts, limits, stop.clone()));
        Open {
            address,
            strings,
            stop,
            serving,
        }
    }

    impl Open {
        async fn say(&self, request: &[u8]) -> String {
            say(self.address, request).await
        }
    }

    /// Sends bytes and reads to the end.
    async fn say(address: SocketAddr, request: &[u8]) -> String {
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(request).await.unwrap();
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer).await;
        String::from_utf8(answer).unwrap()
    }

    #[tokio::test]
    async fn the_window_shows_what_the_tracker_says_now() {
        let window = open(Limits::default()).await;
        let ready = b"GET /health/ready HTTP/1.1\r\nHost: localhost\r\n\r\n";
        assert!(window.say(ready).await.starts_with("HTTP/1.1 503"));

        window.strings.picture.send_modify(|picture| {
            *picture = Scene::leading().picture;
            picture.lease.as_mut().unwrap().until =
                Some(Clock::Boot.now() + Duration::from_secs(10));
        });

        let answer = window.say(ready).await;
        assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
        assert!(answer.contains("content-type: application/json\r\n"));
        assert!(answer.contains("cache-control: no-store\r\n"));
        assert!(answer.contains("\"ready\":true"));
    }

    #[tokio::test]
    async fn a_check_by_http_1_0_and_by_head_works() {
        let window = open(Limits::default()).await;

        let old = window.say(b"GET /livez HTTP/1.0\r\n\r\n").await;
        assert!(
            old.contains("200 OK") && old.contains("{\"status\":\"ok\"}"),
            "{old}"
        );

        let head = window
            .say(b"HEAD /livez HTTP/1.1\r\nHost: [::1]:9090\r\n\r\n")
            .await;
        assert!(
            head.contains("200 OK") && head.ends_with("\r\n\r\n"),
            "{head}"
        );
    }

    #[tokio::test]
    async fn a_refused_change_is_told_and_its_body_does_not_reset_the_answer() {
        let window = open(Limits::default()).await;
        let body = "x".repeat(50_000);
        let post = |path: &str| {
            format!(
                "POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {}\r\n\r\n{body}",
                body.len()
            )
        };

        let answer = window.say(post("/topology/unpin").as_bytes()).await;
        assert!(answer.starts_with("HTTP/1.1 403"), "{answer}");
        assert!(answer.contains("changes need a token"), "{answer}");

        let insecure = open_with(Limits::default(), |it| it.allow_insecure = true).await;
        let answer = insecure.say(post("/nodes").as_bytes()).await;
        assert!(answer.starts_with("HTTP/1.1 405"), "{answer}");
        assert!(answer.contains("allow: GET, HEAD\r\n"), "{answer}");
    }

    #[tokio::test]
    async fn a_change_goes_to_the_tracker_and_its_outcome_to_whoever_asked() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "secret\n").unwrap();
        let name = file.path().to_owned();
        let mut window = open_with(Limits::default(), |it| it.token_file = Some(name)).await;
        let address = window.address;
        let ask = |token: &'static str| async move {
            let request = format!(
                "POST /nodes/pg2/disable?close=true HTTP/1.1\r\nHost: localhost\r\n\
                 Authorization: Bearer {token}\r\n\r\n"
            );
            say(address, request.as_bytes()).await
        };
        let refused = ask("wrong").await;
        assert!(refused.starts_with("HTTP/1.1 401"), "{refused}");
        assert!(
            refused.contains("www-authenticate: Bearer\r\n"),
            "{refused}"
        );
        assert!(window.strings.orders.try_recv().is_err());

        let asked = tokio::spawn(ask("secret"));
        let (order, done) = window.strings.orders.recv().await.unwrap();
        let node = "pg2".into();
        assert_eq!(order, Order::Disable { node, close: true });
        done.send(Ok(())).unwrap();
        let answer = asked.await.unwrap();
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        assert!(answer.contains("\"name\":\"pg2\""), "{answer}");

        let asked = tokio::spawn(ask("secret"));
        let (_, done) = window.strings.orders.recv().await.unwrap();
        done.send(Err(Refused::NotByThisProvider)).unwrap();
        assert!(asked.await.unwrap().starts_with("HTTP/1.1 409"));
    }

    #[tokio::test]
    async fn a_new_token_counts_from_the_moment_it_is_written() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let name = file.path().to_owned();
        let window = open_with(Limits::default(), |it| it.token_file = Some(name)).await;
        let get =
            b"GET /nodes HTTP/1.1\r\nHost: evil.example\r\nAuthorization: Bearer second\r\n\r\n";

        std::fs::write(file.path(), "first").unwrap();
        assert!(window.say(get).await.starts_with("HTTP/1.1 401"));
        std::fs::write(file.path(), "second").unwrap();
        assert!(window.say(get).await.starts_with("HTTP/1.1 200"));

        // A reload that takes the key away.
        window
            .strings
            .settings
            .send_modify(|it| it.token_file = None);
        assert!(window.say(get).await.starts_with("HTTP/1.1 403"));
    }

    #[tokio::test]
    async fn off_loopback_the_page_is_what_asks_for_the_token_and_health_is_open() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "secret").unwrap();
        let name = file.path().to_owned();
        // Bound to loopback here, but as if it were elsewhere.
        let window = open_with(Limits::default(), |it| {
            it.address = ([10, 0, 0, 5], 9090).into();
            it.token_file = Some(name);
        })
        .await;
        let get = |path: &str| {
            let request = format!("GET {path} HTTP/1.1\r\nHost: proxy.example\r\n\r\n");
            let address = window.address;
            async move { say(address, request.as_bytes()).await }
        };

        let page = get("/").await;
        assert!(page.starts_with("HTTP/1.1 401"), "{page}");
        assert!(page.contains("content-type: text/html") && page.contains("<main>"));
        for path in ["/topology", "/events", "/metrics/prometheus", "/nothing"] {
            let answer = get(path).await;
            assert!(answer.starts_with("HTTP/1.1 401"), "{path}: {answer}");
            assert!(answer.contains("{\"error\":"), "{path}: {answer}");
        }
        let live = b"GET /livez HTTP/1.0\r\n\r\n";
        assert!(window.say(live).await.contains("200 OK"));
    }

    #[tokio::test]
    async fn a_foreign_host_gets_403_before_anything_is_looked_up() {
        let window = open_with(Limits::default(), |it| it.allow_insecure = true).await;
        for request in [
            "GET /topology",
            "POST /topology/unpin",
            "GET /nothing",
            "GET /",
            "GET /events",
            "GET /livez",
        ] {
            let request = format!("{request} HTTP/1.1\r\nHost: evil.example\r\n\r\n");
            let answer = window.say(request.as_bytes()).await;
            assert!(answer.starts_with("HTTP/1.1 403"), "{request}: {answer}");
        }
    }

    #[tokio::test]
    async fn every_answer_tells_a_browser_what_it_may_not_do() {
        let window = open(Limits::default()).await;
        let page = window
            .say(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
            .await;
        assert!(page.contains("script-src 'sha256-"), "{page}");
        let json = window
            .say(b"GET /nodes HTTP/1.1\r\nHost: localhost\r\n\r\n")
            .await;
        assert!(
            json.contains("content-security-policy: default-src 'none'"),
            "{json}"
        );
        for answer in [page, json] {
            assert!(answer.contains("x-content-type-options: nosniff\r\n"));
        }
    }

    /// Begins to follow the events, and waits for the first state.
    async fn follow(address: SocketAddr, more: &str) -> (TcpStream, String) {
        let mut stream = TcpStream::connect(address).await.unwrap();
        let request = format!("GET /events HTTP/1.1\r\nHost: localhost\r\n{more}\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        let text = until(&mut stream, "event: state").await;
        (stream, text)
    }

    async fn until(stream: &mut TcpStream, words: &str) -> String {
        let (mut text, mut some) = (String::new(), [0; 4096]);
        let read = async {
            while !text.contains(words) {
                let length = stream.read(&mut some).await.unwrap();
                assert!(length > 0, "{text}");
                text.push_str(&String::from_utf8_lossy(&some[..length]));
            }
        };
        let read = tokio::time::timeout(Duration::from_secs(5), read).await;
        assert!(read.is_ok(), "no {words} in {text}");
        text
    }

    fn change(epoch: u64, session: Option<u64>) -> LeaderChange {
        LeaderChange {
            at: std::time::SystemTime::now(),
            node: "pg2".into(),
            address: ([10, 0, 0, 12], 5432).into(),
            epoch,
            timeline: Some(6),
            was: Some("pg1".into()),
            promotion_seen: Some(Duration::from_millis(40)),
            first_proof: Duration::from_millis(110),
            first_session: session.map(Duration::from_millis),
        }
    }

    #[tokio::test]
    async fn a_change_of_leader_is_told_at_once_and_again_with_its_whole_gap() {
        let window = open(Limits::default()).await;
        let (mut stream, head) = follow(window.address, "").await;
        assert!(
            head.contains("content-type: text/event-stream\r\n"),
            "{head}"
        );

        let publish = |session| {
            window.strings.picture.send_modify(|picture| {
                picture.changes = [change(8, session), change(7, Some(130))].into();
            });
        };
        publish(None);
        let told = until(&mut stream, "event: state").await;
        assert_eq!(told.matches("event: leader\n").count(), 2, "{told}");
        assert!(told.contains("-8\nevent: leader\ndata: {\"at\":"), "{told}");
        publish(Some(150));
        let told = until(&mut stream, "event: gap").await;
        assert!(told.contains("\"firstSessionMs\":150"), "{told}");
        assert!(!told.contains("event: leader"), "{told}");
    }

    #[tokio::test]
    async fn who_comes_back_is_told_only_what_it_missed() {
        let window = open(Limits::default()).await;
        window.strings.picture.send_modify(|picture| {
            picture.changes = [change(9, Some(1)), change(8, Some(1)), change(7, Some(1))].into();
        });
        let (_, all) = follow(window.address, "").await;
        assert_eq!(all.matches("event: leader").count(), 3, "{all}");
        let id = all.split("id: ").nth(2).unwrap().lines().next().unwrap();
        assert!(id.ends_with("-8"), "{id}");

        let (_, missed) = follow(window.address, &format!("Last-Event-ID: {id}\r\n")).await;
        assert_eq!(missed.matches("event: leader").count(), 1, "{missed}");
        let gap = "-8\nevent: gap\n";
        assert!(missed.contains(gap), "a gap that ended meanwhile: {missed}");
        let (_, other) = follow(window.address, "Last-Event-ID: abc-8\r\n").await;
        assert_eq!(other.matches("event: leader").count(), 3, "another life");
    }

    #[tokio::test]
    async fn streams_take_no_place_of_questions_and_the_surplus_is_turned_away() {
        let window = open(QUICK).await;
        let mut streams = Vec::new();
        for _ in 0..QUICK.streams {
            streams.push(follow(window.address, "").await);
        }

        let events = b"GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n";
        assert!(window.say(events).await.starts_with("HTTP/1.1 503"));
        for _ in 0..4 {
            let live = window.say(b"GET /livez HTTP/1.0\r\n\r\n").await;
            assert!(live.contains("200 OK"), "{live}");
        }

        streams.pop();
        tokio::time::sleep(Duration::from_millis(1_500)).await;
        follow(window.address, "").await;
    }

    #[tokio::test]
    async fn a_stream_lasts_longer_than_a_question_and_not_for_ever() {
        let window = open(QUICK).await;
        let since = tokio::time::Instant::now();
        let (mut stream, _) = follow(window.address, "").await;

        let mut rest = Vec::new();
        let read = stream.read_to_end(&mut rest);
        tokio::time::timeout(Duration::from_secs(8), read)
            .await
            .unwrap()
            .unwrap();

        assert!(since.elapsed() > QUICK.total_time * 2);
        assert!(rest.ends_with(b"0\r\n\r\n"), "ended in order");
    }

    #[tokio::test]
    async fn too_much_of_anything_is_refused() {
        let window = open(Limits::default()).await;

        let declared = format!(
            "POST /nodes HTTP/1.1\r\nHost: localhost\r\nContent-Length: {}\r\n\r\n{}",
            MAX_BODY + 1,
            "x".repeat(MAX_BODY + 1)
        );
        assert!(
            window
                .say(declared.as_bytes())
                .await
                .starts_with("HTTP/1.1 413")
        );

        let header = format!(
            "GET / HTTP/1.1\r\nX: {}\r\n\r\n",
            "x".repeat(MAX_HEADER + 1)
        );
        assert!(
            window
                .say(header.as_bytes())
                .await
                .starts_with("HTTP/1.1 431")
        );

        assert!(
            window
                .say(b"\x16\x03\x01 not http\r\n\r\n")
                .await
                .starts_with("HTTP/1.1 400")
        );
    }

    #[tokio::test]
    async fn who_does_not_finish_its_header_makes_room_for_others() {
        let window = open(QUICK).await;
        let mut silent = Vec::new();
        for _ in 0..2 * QUICK.connections {
            let mut stream = TcpStream::connect(window.address).await.unwrap();
            stream.write_all(b"GET / HT").await.unwrap();
            silent.push(stream);
        }

        let answer = window.say(b"GET /livez HTTP/1.0\r\n\r\n");

        let answer = tokio::time::timeout(Duration::from_secs(5), answer)
            .await
            .unwrap();
        assert!(answer.contains("200 OK"), "{answer}");
    }

    #[tokio::test]
    async fn who_drips_a_body_is_cut_off_in_total() {
        let window = open(QUICK).await;
        let mut stream = TcpStream::connect(window.address).await.unwrap();
        let head = b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\n";
        stream.write_all(head).await.unwrap();

        let closed = tokio::time::timeout(Duration::from_secs(5), async {
            while stream.write_all(b"x").await.is_ok() {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        });

        closed.await.unwrap();
    }

    #[tokio::test]
    async fn the_window_closes_when_told() {
        let window = open(Limits::default()).await;
        let _idle = TcpStream::connect(window.address).await.unwrap();

        window.stop.cancel();

        window.serving.await.unwrap();
        assert!(TcpStream::connect(window.address).await.is_err());
    }
}
