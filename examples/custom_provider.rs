//! A topology provider of one's own: a leader key behind HTTP, as Consul keeps one, followed by a `PrimaryTracker`.
//!
//! `cargo run --example custom_provider` runs the key's server, the provider and the tracker in one process, moves the key,
//! and takes the server away.

use std::{
    convert::Infallible,
    error::Error,
    io,
    net::SocketAddr,
    sync::{Arc, Mutex, PoisonError, RwLock},
    time::Duration,
};

use heliosdb_proxy::primary_tracker::{
    NODE_NAMESPACE, PrimaryChangeEvent, PrimaryTracker, TopologyEvent, TopologyNodeInfo,
    TopologyProvider,
};
use http_body_util::{BodyExt, Full};
use hyper::{Request, Response, StatusCode, body::Bytes, service::service_fn};
use hyper_util::rt::TokioIo;
use tokio::{
    net::{TcpListener, TcpStream},
    sync::broadcast,
    task::JoinHandle,
    time::{sleep, timeout},
};
use uuid::Uuid;

type Failed = Box<dyn Error + Send + Sync>;

/// How often the key is read; an answer that takes longer is none.
const POLL: Duration = Duration::from_millis(100);
const LEASE: Duration = Duration::from_secs(1);

/// Follows the key `service/main/leader`, whose value is `name host:port`.
struct ConsulTopologyProvider {
    event_tx: broadcast::Sender<TopologyEvent>,
    primary: RwLock<Option<TopologyNodeInfo>>,
}

impl TopologyProvider for ConsulTopologyProvider {
    fn subscribe(&self) -> broadcast::Receiver<TopologyEvent> {
        self.event_tx.subscribe()
    }

    fn get_primary(&self) -> Option<TopologyNodeInfo> {
        self.primary
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    fn get_node(&self, id: Uuid) -> Option<TopologyNodeInfo> {
        self.get_primary().filter(|node| node.node_id == id)
    }
}

impl ConsulTopologyProvider {
    fn new() -> Self {
        Self {
            event_tx: broadcast::channel(16).0,
            primary: RwLock::new(None),
        }
    }

    /// Reads the key for ever. Without an answer the provider knows nobody, and says so: the tracker's lease runs out.
    async fn poll(&self, consul: SocketAddr) {
        loop {
            let read = timeout(POLL, read_key(consul)).await;
            self.take_in(read.ok().and_then(Result::ok).flatten());
            sleep(POLL).await;
        }
    }

    fn take_in(&self, leader: Option<TopologyNodeInfo>) {
        let id = |node: &TopologyNodeInfo| node.node_id;
        let mut primary = self.primary.write().unwrap_or_else(PoisonError::into_inner);
        let before = std::mem::replace(&mut *primary, leader.clone());
        drop(primary);
        if let Some(new) = leader.filter(|new| before.as_ref() != Some(new)) {
            // Nobody need listen.
            let _ = self.event_tx.send(TopologyEvent::PrimaryChanged {
                old_primary: before.as_ref().map(id),
                new_primary: new.node_id,
            });
        }
    }
}

/// `GET /v1/kv/service/main/leader?raw`: 404 means that nobody holds the key.
async fn read_key(consul: SocketAddr) -> Result<Option<TopologyNodeInfo>, Failed> {
    let stream = TcpStream::connect(consul).await?;
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
    tokio::spawn(connection);
    let question = Request::get("/v1/kv/service/main/leader?raw")
        .header("host", consul.to_string())
        .body(Full::<Bytes>::default())?;
    let answer = sender.send_request(question).await?;
    if answer.status() != StatusCode::OK {
        return Ok(None);
    }
    let value = answer.into_body().collect().await?.to_bytes();
    let value = std::str::from_utf8(&value)?;
    let (name, address) = value.split_once(' ').ok_or("not `name host:port`")?;
    Ok(Some(TopologyNodeInfo {
        node_id: Uuid::new_v5(&NODE_NAMESPACE, name.as_bytes()),
        client_addr: address.to_owned(),
        is_healthy: true,
    }))
}

/// The other side: one key, which an election would write.
struct Consul {
    address: SocketAddr,
    key: Arc<Mutex<Option<String>>>,
    serving: JoinHandle<()>,
}

impl Consul {
    async fn start() -> io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let key = Arc::new(Mutex::new(None::<String>));
        let held = Arc::clone(&key);
        let serving = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let held = Arc::clone(&held);
                let answer = service_fn(move |_question| {
                    let value = held.lock().unwrap_or_else(PoisonError::into_inner).clone();
                    let mut answer =
                        Response::new(Full::<Bytes>::from(value.clone().unwrap_or_default()));
                    if value.is_none() {
                        *answer.status_mut() = StatusCode::NOT_FOUND;
                    }
                    async { Ok::<_, Infallible>(answer) }
                });
                let connection = hyper::server::conn::http1::Builder::new()
                    .serve_connection(TokioIo::new(stream), answer);
                tokio::spawn(connection);
            }
        });
        Ok(Self {
            address,
            key,
            serving,
        })
    }

    fn elects(&self, value: &str) {
        *self.key.lock().unwrap_or_else(PoisonError::into_inner) = Some(value.to_owned());
    }
}

/// The tracker's next word, printed.
async fn next(
    changes: &mut broadcast::Receiver<PrimaryChangeEvent>,
    tracker: &PrimaryTracker,
) -> Result<PrimaryChangeEvent, Failed> {
    let change = timeout(Duration::from_secs(10), changes.recv()).await??;
    let authority = tracker.authority_valid();
    println!(
        "{change:?}, epoch {}, authority: {authority}",
        tracker.get_epoch()
    );
    Ok(change)
}

/// Public for the test that runs it.
#[tokio::main]
pub async fn main() -> Result<(), Failed> {
    let consul = Consul::start().await?;
    let provider = Arc::new(ConsulTopologyProvider::new());
    let polling = Arc::clone(&provider);
    let address = consul.address;
    tokio::spawn(async move { polling.poll(address).await });

    let tracker = Arc::new(PrimaryTracker::with_provider(provider).with_lease_timeout(LEASE));
    let mut changes = tracker.subscribe();
    let running = Arc::clone(&tracker);
    tokio::spawn(async move { running.run().await });

    consul.elects("pg1 10.0.0.11:5432");
    let first = next(&mut changes, &tracker).await?;
    consul.elects("pg2 10.0.0.12:5432");
    let second = next(&mut changes, &tracker).await?;
    println!("the key's server is taken away: the lease of {LEASE:?} decides");
    consul.serving.abort();
    let third = next(&mut changes, &tracker).await?;

    match (first, second, third) {
        (
            PrimaryChangeEvent::Changed { old: None, new, .. },
            PrimaryChangeEvent::Changed { old, address, .. },
            PrimaryChangeEvent::Lost { .. },
        ) if old == Some(new) && address == "10.0.0.12:5432" => Ok(()),
        other => Err(format!("not what was elected: {other:?}").into()),
    }
}
