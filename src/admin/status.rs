//! `helios-proxy status`: asks the running daemon through its admin API and prints what it says.

use std::io::{self, IsTerminal, Write};
use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Empty, Limited};
use hyper::client::conn::http1;
use hyper::header::HOST;
use hyper::{Request, StatusCode};
use hyper_util::rt::TokioIo;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::net::TcpStream;

use super::table;

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

/// What the daemon said, as it said it: `--json` shows keys that this version does not know, too.
struct Documents {
    topology: Value,
    nodes: Value,
    metrics: Value,
}

/// Prints once, or once a second for ever. Watching survives a restart of the daemon.
pub(crate) async fn run(address: SocketAddr, json: bool, watch: bool) -> Result<(), StatusError> {
    let clear = watch && !json && io::stdout().is_terminal();
    loop {
        let page = match page(address, json).await {
            Ok(page) => page,
            Err(e) if watch && !json => format!("{e}\n"),
            Err(e) if watch => format!("{}\n", json!({ "error": e.to_string() })),
            Err(e) => return Err(e),
        };
        match print(&page, clear) {
            // Whoever read us has seen enough: `status --watch | head`.
            Err(e) if e.kind() == io::ErrorKind::BrokenPipe => return Ok(()),
            Err(source) => return Err(StatusError::Print { source }),
            Ok(()) if watch => tokio::time::sleep(EVERY).await,
            Ok(()) => return Ok(()),
        }
    }
}

fn print(page: &str, clear: bool) -> io::Result<()> {
    let mut out = io::stdout().lock();
    if clear {
        out.write_all(b"\x1b[H\x1b[2J")?;
    }
    out.write_all(page.as_bytes())?;
    out.flush()
}

async fn page(address: SocketAddr, json: bool) -> Result<String, StatusError> {
    let asked = tokio::time::timeout(PATIENCE, ask(address)).await;
    let said = asked.map_err(|_| StatusError::TimedOut { address })??;
    if json {
        let Documents {
            topology,
            nodes,
            metrics,
        } = said;
        let all = json!({ "topology": topology, "nodes": nodes, "metrics": metrics });
        return Ok(format!("{all}\n"));
    }
    let topology = read(address, "/topology", said.topology)?;
    let nodes: Vec<_> = read(address, "/nodes", said.nodes)?;
    let metrics = read(address, "/metrics", said.metrics)?;
    Ok(table::draw(&topology, &nodes, &metrics))
}

async fn ask(address: SocketAddr) -> Result<Documents, StatusError> {
    Ok(Documents {
        topology: get(address, "/topology").await?,
        nodes: get(address, "/nodes").await?,
        metrics: get(address, "/metrics").await?,
    })
}

async fn get(address: SocketAddr, path: &'static str) -> Result<Value, StatusError> {
    let stream = TcpStream::connect(address)
        .await
        .map_err(|source| StatusError::NotRunning { address, source })?;
    let http = move |source| StatusError::Http { address, source };
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(http)?;
    let request = Request::get(path)
        .header(HOST, address.to_string())
        .body(Empty::<Bytes>::new());
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
    if status != StatusCode::OK {
        return Err(StatusError::Refused {
            address,
            path,
            status,
        });
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
    use tokio::sync::watch;
    use tokio_util::sync::CancellationToken;

    use super::*;
    use crate::admin::testing::Scene;
    use crate::admin::{Facts, serve};
    use crate::clock::Clock;
    use crate::primary_tracker::Demand;

    async fn daemon(scene: Scene) -> (SocketAddr, tokio::task::JoinHandle<()>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (_, picture) = watch::channel(scene.picture);
        let facts = Facts {
            picture,
            metrics: scene.metrics,
            demand: Demand::new(Clock::Boot),
            clock: Clock::Boot,
            started: Clock::Boot.now(),
        };
        let serving = tokio::spawn(serve(listener, facts, CancellationToken::new()));
        (address, serving)
    }

    #[tokio::test]
    async fn a_running_daemon_is_asked_and_shown() {
        let (address, _serving) = daemon(Scene::leading()).await;

        let page = page(address, false).await.unwrap();

        assert!(
            page.starts_with("leader  pg1 (10.0.0.11:5432), epoch 7"),
            "{page}"
        );
        assert!(page.contains("pg2"), "{page}");
    }

    #[tokio::test]
    async fn json_is_the_daemons_own_documents_in_one() {
        let (address, _serving) = daemon(Scene::leading()).await;

        let page = page(address, true).await.unwrap();

        let all: Value = serde_json::from_str(&page).unwrap();
        assert_eq!(all["topology"]["totalNodes"], 3);
        assert_eq!(all["nodes"][1]["name"], "pg2");
        assert_eq!(all["metrics"]["sessions"]["pg1"], 12);
    }

    #[tokio::test]
    async fn a_daemon_that_is_not_running_is_said_in_words() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        drop(listener);

        let error = run(address, false, false).await.unwrap_err();

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

            let error = page(address, false).await.unwrap_err();

            assert!(error.to_string().contains(words), "{answer}: {error:?}");
            stranger.await.unwrap();
        }
    }
}
