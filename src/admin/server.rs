//! The admin API's only file with sockets: HTTP/1 with limits on everything a stranger can waste.

use std::convert::Infallible;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper::header::{ALLOW, CACHE_CONTROL, CONTENT_TYPE, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tracing::{debug, warn};

use super::Facts;
use super::routes::{self, Ask, Reply};

/// One connection is one question, so that each limit is a plain number.
#[derive(Clone, Copy, Debug)]
struct Limits {
    /// The surplus waits in the kernel's queue.
    connections: usize,
    header_time: Duration,
    /// From accept to close, also for a peer that does not read.
    total_time: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 64,
            header_time: Duration::from_secs(5),
            total_time: Duration::from_secs(10),
        }
    }
}

const MAX_HEADER: usize = 16 * 1024;
const MAX_BODY: usize = 64 * 1024;

/// After a failed accept (no descriptors left) the next try waits, so that the loop does not spin.
const ACCEPT_PAUSE: Duration = Duration::from_secs(1);

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
    let mut open = JoinSet::new();
    loop {
        let accepted = tokio::select! {
            () = stop.cancelled() => return,
            Some(_) = open.join_next() => continue,
            accepted = listener.accept(), if open.len() < limits.connections => accepted,
        };
        match accepted {
            Ok((stream, _)) => {
                open.spawn(serve_one(stream, facts.clone(), limits));
            }
            Err(e) => {
                warn!(error = %e, "admin API: cannot accept");
                tokio::select! {
                    () = stop.cancelled() => return,
                    () = tokio::time::sleep(ACCEPT_PAUSE) => {}
                }
            }
        }
    }
}

async fn serve_one(stream: TcpStream, facts: Facts, limits: Limits) {
    let service = service_fn(|request| respond(&facts, request));
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.header_time)
        .max_buf_size(MAX_HEADER)
        .keep_alive(false)
        .serve_connection(TokioIo::new(stream), service);
    match tokio::time::timeout(limits.total_time, connection).await {
        Ok(Ok(())) => {}
        Ok(Err(e)) => debug!(error = %e, "admin API: connection failed"),
        Err(_) => debug!("admin API: connection took too long"),
    }
}

async fn respond(
    facts: &Facts,
    request: Request<Incoming>,
) -> Result<Response<Full<Bytes>>, Infallible> {
    let (head, body) = request.into_parts();
    // Read to its end before the answer: closing with unread bytes would reset the connection under it.
    if Limited::new(body, MAX_BODY).collect().await.is_err() {
        let words = format!("a body has at most {MAX_BODY} bytes");
        let reply = Reply::error(StatusCode::PAYLOAD_TOO_LARGE, &words);
        return Ok(into_response(reply));
    }
    let picture = facts.picture.borrow().clone();
    let ask = Ask {
        picture: &picture,
        metrics: &facts.metrics,
        held: facts.demand.held_now(),
        started: facts.started,
        now: facts.clock.now(),
        headers: &head.headers,
        rest: "",
    };
    Ok(into_response(routes::answer(&head.method, &head.uri, &ask)))
}

fn into_response(reply: Reply) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::from(reply.body));
    *response.status_mut() = reply.status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(reply.content_type));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    if reply.status == StatusCode::METHOD_NOT_ALLOWED {
        headers.insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
    }
    response
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::sync::watch;

    use super::*;
    use crate::admin::testing::Scene;
    use crate::clock::Clock;
    use crate::primary_tracker::{Demand, Picture, WhyNobody};

    struct Window {
        address: SocketAddr,
        picture: watch::Sender<Picture>,
        stop: CancellationToken,
        serving: tokio::task::JoinHandle<()>,
    }

    const QUICK: Limits = Limits {
        connections: 2,
        header_time: Duration::from_millis(300),
        total_time: Duration::from_millis(900),
    };

    async fn open(limits: Limits) -> Window {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let scene = Scene::without_leader(WhyNobody::NobodyLeads);
        let (picture, seen) = watch::channel(scene.picture);
        let facts = Facts {
            picture: seen,
            metrics: scene.metrics,
            demand: Demand::new(Clock::Boot),
            operator: crate::primary_tracker::Operator::new().0,
            clock: Clock::Boot,
            started: Clock::Boot.now(),
        };
        let stop = CancellationToken::new();
        let serving = tokio::spawn(serve_within(listener, facts, limits, stop.clone()));
        Window {
            address,
            picture,
            stop,
            serving,
        }
    }

    impl Window {
        /// Sends bytes and reads to the end.
        async fn say(&self, request: &[u8]) -> String {
            let mut stream = TcpStream::connect(self.address).await.unwrap();
            stream.write_all(request).await.unwrap();
            let mut answer = Vec::new();
            let _ = stream.read_to_end(&mut answer).await;
            String::from_utf8(answer).unwrap()
        }
    }

    #[tokio::test]
    async fn the_window_shows_what_the_tracker_says_now() {
        let window = open(Limits::default()).await;
        let ready = b"GET /health/ready HTTP/1.1\r\nHost: localhost\r\n\r\n";
        assert!(window.say(ready).await.starts_with("HTTP/1.1 503"));

        window.picture.send_modify(|picture| {
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
    async fn a_change_is_refused_and_its_body_does_not_reset_the_answer() {
        let window = open(Limits::default()).await;

        let body = "x".repeat(50_000);
        let request = format!(
            "POST /nodes HTTP/1.1\r\nHost: localhost\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        );
        let answer = window.say(request.as_bytes()).await;

        assert!(answer.starts_with("HTTP/1.1 405"), "{answer}");
        assert!(answer.contains("allow: GET, HEAD\r\n"), "{answer}");
        assert!(answer.contains("not available yet"));
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
