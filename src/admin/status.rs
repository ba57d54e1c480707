//! `helios-proxy status`: asks the running daemon through its admin API and prints what it says.

use std::io::{self, IsTerminal, Write};
use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Empty, Limited};
use hyper::client::conn::http1;
use hyper::header::{AUTHORIZATION, HOST, HeaderValue};
use hyper::{Request, StatusCode};
use hyper_util::rt::TokioIo;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::net::TcpStream;

use super::{reasons, table};

/// Why there is nothing to print.
#[derive(Debug, thiserror::Error)]
pub(crate) enum StatusError {
    #[error(
        "nothing answers on {address}: helios-proxy is not running, or its admin_address is another one"
    )]
    NotRunning {
        address: SocketAddr,
        source: io::Error,
    },

    #[error("{address} did not answer within {PATIENCE:?}")]
    TimedOut { address: SocketAddr },

    #[error("{address} does not speak HTTP")]
    Http {
        address: SocketAddr,
        source: hyper::Error,
    },

    #[error("{address} wants a token: --token-file, or admin_token_file of --config")]
    NoToken { address: SocketAddr },

    #[error("{address} does not take this token")]
    WrongToken { address: SocketAddr },

    #[error("{address} answered {status} to {path}: is it helios-proxy?")]
    Refused {
        address: SocketAddr,
        path: &'static str,
        status: StatusCode,
    },

    #[error("{address} sent a body that is cut off or too long")]
    Body {
        address: SocketAddr,
        source: Box<dyn std::error::Error + Send + Sync>,
    },

    #[error("{address} answered {path} in other words than this version knows")]
    Unreadable {
        address: SocketAddr,
        path: &'static str,
        source: serde_json::Error,
    },

    #[error("cannot print")]
    Print { source: io::Error },
}

const PATIENCE: Duration = Duration::from_secs(5);
const EVERY: Duration = Duration::from_secs(1);
const MAX_BODY: usize = 4 * 1024 * 1024;

/// Whom to ask, and what is wanted of the answer.
#[derive(Clone, Debug)]
pub(crate) struct Wanted {
    pub(crate) address: SocketAddr,
    /// `Bearer …`, marked as sensitive, so that it is in no debug output.
    pub(crate) token: Option<HeaderValue>,
    pub(crate) json: bool,
    pub(crate) watch: bool,
    /// Also why each node counts as it does.
    pub(crate) why: bool,
}

/// What the daemon said, as it said it: `--json` shows keys that this version does not know, too.
struct Documents {
    topology: Value,
    nodes: Value,
    metrics: Value,
    why: Value,
}

/// Prints once, or once a second for ever. Watching survives a restart of the daemon.
pub(crate) async fn run(wanted: &Wanted) -> Result<(), StatusError> {
    let Wanted { json, watch, .. } = *wanted;
    let in_place = watch && !json && io::stdout().is_terminal();
    loop {
        let page = match page(wanted).await {
            Ok(page) => page,
            Err(e) if watch && !json => format!("{e}\n"),
            Err(e) if watch => format!("{}\n", json!({ "error": e.to_string() })),
            Err(e) => return Err(e),
        };
        match print(&page, in_place) {
            // Whoever read us has seen enough: `status --watch | head`.
            Err(e) if e.kind() == io::ErrorKind::BrokenPipe => return Ok(()),
            Err(source) => return Err(StatusError::Print { source }),
            Ok(()) if watch => tokio::time::sleep(EVERY).await,
            Ok(()) => return Ok(()),
        }
    }
}

fn print(page: &str, in_place: bool) -> io::Result<()> {
    let mut out = io::stdout().lock();
    if in_place {
        out.write_all(over_the_last(page).as_bytes())?;
    } else {
        out.write_all(page.as_bytes())?;
    }
    out.flush()
}

/// From the top left corner, each line to its end, then nothing below: what stays the same does not flicker.
fn over_the_last(page: &str) -> String {
    let mut over = String::from("\x1b[H");
    for line in page.lines() {
        over.push_str(line);
        over.push_str("\x1b[K\n");
    }
    over.push_str("\x1b[J");
    over
}

async fn page(wanted: &Wanted) -> Result<String, StatusError> {
    let address = wanted.address;
    let asked = tokio::time::timeout(PATIENCE, ask(wanted)).await;
    let said = asked.map_err(|_| StatusError::TimedOut { address })??;
    if wanted.json {
        let Documents {
            topology,
            nodes,
            metrics,
            why,
        } = said;
        let all = json!({ "topology": topology, "nodes": nodes, "metrics": metrics, "why": why });
        return Ok(format!("{all}\n"));
    }
    let topology = read(address, "/topology", said.topology)?;
    let nodes: Vec<_> = read(address, "/nodes", said.nodes)?;
    let metrics = read(address, "/metrics", said.metrics)?;
    let why = read(address, "/topology/why", said.why)?;
    let mut page = table::draw(&topology, &nodes, &metrics);
    page.push_str(&reasons::changes(&why));
    if wanted.why {
        page.push_str(&reasons::draw(&why));
    }
    Ok(page)
}

async fn ask(wanted: &Wanted) -> Result<Documents, StatusError> {
    Ok(Documents {
        topology: get(wanted, "/topology").await?,
        nodes: get(wanted, "/nodes").await?,
        metrics: get(wanted, "/metrics").await?,
        why: reasons_of(wanted).await?,
    })
}

/// An older daemon has none to give, and the rest is worth showing.
async fn reasons_of(wanted: &Wanted) -> Result<Value, StatusError> {
    match get(wanted, "/topology/why").await {
        Err(StatusError::Refused { status, .. }) if status == StatusCode::NOT_FOUND => {
            Ok(json!({}))
        }
        said => said,
    }
}

async fn get(wanted: &Wanted, path: &'static str) -> Result<Value, StatusError> {
    let address = wanted.address;
    let stream = TcpStream::connect(address)
        .await
        .map_err(|source| StatusError::NotRunning { address, source })?;
    let http = move |source| StatusError::Http { address, source };
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(http)?;
    let mut request = Request::get(path).header(HOST, address.to_string());
    if let Some(token) = &wanted.token {
        request = request.header(AUTHORIZATION, token);
    }
    let request = request.body(Empty::<Bytes>::new());
    // Owns the sender: with its end the connection may end, whoever the server is.
    let exchange = async move {
        let request = request.map_err(|e| StatusError::Body {
            address,
            source: e.into(),
        })?;
        let response = sender.send_request(request).await.map_err(http)?;
        let status = response.status();
        let body = Limited::new(response.into_body(), MAX_BODY).collect().await;
        let body = body.map_err(|source| StatusError::Body { address, source })?;
        Ok((status, body.to_bytes()))
    };
    // What fails in the connection is told by the exchange, too.
    let (_, answer) = tokio::join!(connection, exchange);
    let (status, body) = answer?;
    match (status, &wanted.token) {
        (StatusCode::OK, _) => {}
        (StatusCode::UNAUTHORIZED, None) => return Err(StatusError::NoToken { address }),
        (StatusCode::UNAUTHORIZED, Some(_)) => return Err(StatusError::WrongToken { address }),
        _ => {
            return Err(StatusError::Refused {
                address,
                path,
                status,
            });
        }
    }
    let unreadable = |source| StatusError::Unreadable {
        address,
        path,
        source,
    };
    serde_json::from_slice(&body).map_err(unreadable)
}

fn read<T: for<'de> Deserialize<'de>>(
    address: SocketAddr,
    path: &'static str,
    document: Value,
) -> Result<T, StatusError> {
    serde_json::from_value(document).map_err(|source| StatusError::Unreadable {
        address,
        path,
        source,
    })
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;
    use tokio_util::sync::CancellationToken;

    use super::*;
    use crate::admin::serve;
    use crate::admin::testing::Scene;

    fn wanted(address: SocketAddr) -> Wanted {
        Wanted {
            address,
            token: None,
            json: false,
            watch: false,
            why: false,
        }
    }

    async fn daemon(scene: Scene) -> (SocketAddr, tokio::task::JoinHandle<()>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (facts, _) = scene.facts();
        let serving = tokio::spawn(serve(listener, facts, CancellationToken::new()));
        (address, serving)
    }

    #[tokio::test]
    async fn a_running_daemon_is_asked_and_shown() {
        let (address, _serving) = daemon(Scene::leading()).await;

        let page = page(&wanted(address)).await.unwrap();

        assert!(
            page.starts_with("leader  pg1 (10.0.0.11:5432), epoch 7"),
            "{page}"
        );
        assert!(page.contains("pg2"), "{page}");
        assert!(!page.contains("silent, no evidence"), "{page}");
    }

    #[tokio::test]
    async fn who_asks_why_is_told_each_nodes_evidence_and_what_a_client_would_get() {
        let (address, _serving) = daemon(Scene::leading()).await;
        let asks = Wanted {
            why: true,
            ..wanted(address)
        };

        let page = page(&asks).await.unwrap();

        assert!(page.contains("pg3  pg3: connection refused, "), "{page}");
        assert!(page.contains("primary  "), "{page}");
    }

    #[test]
    fn watching_draws_over_the_last_page_without_clearing_it_first() {
        assert_eq!(over_the_last("a\nbc\n"), "\x1b[Ha\x1b[K\nbc\x1b[K\n\x1b[J");
    }

    #[tokio::test]
    async fn a_daemon_that_wants_a_token_is_shown_it_and_a_missing_or_wrong_one_is_said() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let guarded = tokio::spawn(async move {
            let mut heard = Vec::new();
            for _ in 0..2 {
                let (mut stream, _) = listener.accept().await.unwrap();
                let mut head = vec![0; 1024];
                let length = stream.read(&mut head).await.unwrap();
                heard.push(String::from_utf8_lossy(&head[..length]).into_owned());
                let no = b"HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n\r\n";
                stream.write_all(no).await.unwrap();
            }
            heard
        });

        let error = page(&wanted(address)).await.unwrap_err();
        assert!(error.to_string().contains("wants a token"), "{error}");
        let shown = Wanted {
            token: Some(HeaderValue::from_static("Bearer s3cret")),
            ..wanted(address)
        };
        let error = page(&shown).await.unwrap_err();
        assert!(error.to_string().contains("does not take"), "{error}");

        let heard = guarded.await.unwrap();
        assert!(!heard[0].contains("authorization"), "{heard:?}");
        assert!(
            heard[1].contains("authorization: Bearer s3cret\r\n"),
            "{heard:?}"
        );
    }

    #[tokio::test]
    async fn json_is_the_daemons_own_documents_in_one() {
        let (address, _serving) = daemon(Scene::leading()).await;

        let asks = Wanted {
            json: true,
            ..wanted(address)
        };
        let page = page(&asks).await.unwrap();

        let all: Value = serde_json::from_str(&page).unwrap();
        assert_eq!(all["topology"]["totalNodes"], 3);
        assert_eq!(all["nodes"][1]["name"], "pg2");
        assert_eq!(all["metrics"]["sessions"]["pg1"], 12);
        assert_eq!(all["why"]["nodes"][0]["rule"], "leads");
    }

    #[tokio::test]
    async fn an_older_daemon_is_shown_without_reasons() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let _older = tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let mut head = vec![0; 1024];
                let length = stream.read(&mut head).await.unwrap();
                let head = String::from_utf8_lossy(&head[..length]).into_owned();
                let (status, body) = match head.split(' ').nth(1).unwrap() {
                    "/topology" => (
                        200,
                        r#"{"currentPrimary":null,"healthyNodes":0,"unhealthyNodes":0,"totalNodes":0,
                            "lastFailoverAt":null,"conflictingPrimariesTotal":0,"reason":"no node leads"}"#,
                    ),
                    "/nodes" => (200, "[]"),
                    "/metrics" => (200, "{}"),
                    _ => (404, "{}"),
                };
                let length = body.len();
                let answer =
                    format!("HTTP/1.1 {status} X\r\nContent-Length: {length}\r\n\r\n{body}");
                stream.write_all(answer.as_bytes()).await.unwrap();
            }
        });

        let page = page(&wanted(address)).await.unwrap();

        assert!(page.starts_with("leader  nobody: no node leads"), "{page}");
    }

    #[tokio::test]
    async fn a_daemon_that_is_not_running_is_said_in_words() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        drop(listener);

        let error = run(&wanted(address)).await.unwrap_err();

        assert_eq!(
            error.to_string(),
            format!(
                "nothing answers on {address}: helios-proxy is not running, or its admin_address is another one"
            )
        );
    }

    #[tokio::test]
    async fn somebody_else_on_that_port_is_not_taken_for_the_daemon() {
        for (answer, words) in [
            (
                "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n",
                "answered 404",
            ),
            (
                "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi",
                "in other words",
            ),
            ("220 mail.example ESMTP\r\n", "does not speak HTTP"),
            ("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhi", "cut off"),
        ] {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let address = listener.local_addr().unwrap();
            let stranger = tokio::spawn(async move {
                let (mut stream, _) = listener.accept().await.unwrap();
                let _ = stream.read(&mut [0; 1024]).await.unwrap();
                stream.write_all(answer.as_bytes()).await.unwrap();
            });

            let error = page(&wanted(address)).await.unwrap_err();

            assert!(error.to_string().contains(words), "{answer}: {error:?}");
            stranger.await.unwrap();
        }
    }
}
