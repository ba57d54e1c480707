//! A worker on a thread of its own, scripted servers, and a client that reads messages.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;

use crate::clock::Clock;
use crate::net::{Address, BindOptions, bind};
use crate::routing::testing::Script;
use crate::routing::{Intent, RoutingSettings};
use crate::session::{Command, ListenerSettings, SessionSettings, Shared, run};

pub(super) const STARTUP: &[u8] = b"\0\0\0\x13\0\x03\0\0user\0anna\0\0";
pub(super) const SSL: &[u8] = b"\0\0\0\x08\x04\xd2\x16\x2f";
pub(super) const GSS: &[u8] = b"\0\0\0\x08\x04\xd2\x16\x30";
pub(super) const QUERY: &[u8] = b"Q\0\0\0\x0dselect 1\0";

/// A worker that serves one listener.
pub(super) struct Stand {
    pub(super) script: Script,
    pub(super) address: SocketAddr,
    pub(super) shared: Arc<Shared>,
    pub(super) commands: mpsc::Sender<Command>,
    pub(super) settings: watch::Sender<SessionSettings>,
    stop: CancellationToken,
    thread: Option<JoinHandle<()>>,
}

impl Stand {
    pub(super) async fn start() -> Self {
        Self::with(RoutingSettings::default(), SessionSettings::default()).await
    }

    pub(super) async fn holding(write_timeout: Duration) -> Self {
        let routing = RoutingSettings {
            write_timeout,
            ..RoutingSettings::default()
        };
        Self::with(routing, SessionSettings::default()).await
    }

    pub(super) async fn with(routing: RoutingSettings, session: SessionSettings) -> Self {
        Self::with_descriptors(routing, session, 4096).await
    }

    pub(super) async fn with_descriptors(
        routing: RoutingSettings,
        session: SessionSettings,
        descriptors: u64,
    ) -> Self {
        let script = Script::new(Clock::Boot, routing);
        let (settings, watched) = watch::channel(session);
        let shared = Shared::new(
            Arc::clone(&script.router),
            Arc::clone(&script.metrics),
            watched,
            descriptors,
        );
        let bound = bind(
            &Address::Tcp(SocketAddr::from(([127, 0, 0, 1], 0))),
            &BindOptions::default(),
        )
        .unwrap();
        let Address::Tcp(address) = bound.address else {
            unreachable!("a TCP address was bound")
        };
        let (commands, received) = mpsc::channel(8);
        let stop = CancellationToken::new();
        let thread = {
            let (shared, stop) = (Arc::clone(&shared), stop.clone());
            std::thread::spawn(move || {
                tokio::runtime::Builder::new_current_thread()
                    .enable_all()
                    .build()
                    .unwrap()
                    .block_on(run(shared, received, stop));
            })
        };
        commands
            .send(Command::Listen {
                settings: listener_settings(address),
                sockets: bound.sockets,
            })
            .await
            .unwrap();
        Self {
            script,
            address,
            shared,
            commands,
            settings,
            stop,
            thread: Some(thread),
        }
    }

    pub(super) async fn client(&self) -> Client {
        Client {
            stream: TcpStream::connect(self.address).await.unwrap(),
        }
    }

    /// A client with a session at the present leader.
    pub(super) async fn session(&self) -> Client {
        let mut client = self.client().await;
        client.send(STARTUP).await;
        client.until_ready().await;
        client
    }

    /// Has the worker ended by itself?
    pub(super) async fn ended(&self, within: Duration) -> bool {
        eventually(within, || self.thread.as_ref().unwrap().is_finished()).await
    }

    pub(super) fn held(&self) -> usize {
        self.script.demand.held_now()
    }

    pub(super) fn open(&self) -> usize {
        self.script.demand.open_now()
    }
}

pub(super) fn listener_settings(address: SocketAddr) -> ListenerSettings {
    ListenerSettings {
        address: Address::Tcp(address),
        intent: Intent::default(),
        max_connections: None,
        mode: None,
        group: None,
    }
}

impl Drop for Stand {
    fn drop(&mut self) {
        self.stop.cancel();
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
            && !std::thread::panicking()
        {
            panic!("the worker panicked");
        }
    }
}

pub(super) async fn eventually(within: Duration, is_true: impl Fn() -> bool) -> bool {
    let end = tokio::time::Instant::now() + within;
    while tokio::time::Instant::now() < end {
        if is_true() {
            return true;
        }
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    is_true()
}

/// What a scripted server does with a connection.
#[derive(Clone, Copy, Debug)]
pub(super) enum Manner {
    /// Trust: takes everybody, answers each query with its name.
    Serves,
    /// The same, and offers TLS, of which it then understands nothing: it echoes.
    OffersTls,
    /// Says that it is in recovery.
    Standby,
    /// Refuses the startup message with this code.
    Refuses(&'static str),
    /// Says that it is ready, and in the same breath that it stops.
    Stops,
    /// Closes as soon as something was said.
    Closes,
    /// Takes the connection and says nothing.
    Mute,
}

/// A scripted PostgreSQL.
pub(super) struct Server {
    pub(super) addr: SocketAddr,
    /// Connections that were ever accepted.
    pub(super) dials: Arc<AtomicUsize>,
    /// Connections that are open.
    pub(super) open: Arc<AtomicUsize>,
    /// What it received in cancel requests.
    pub(super) cancels: Arc<std::sync::Mutex<Vec<Vec<u8>>>>,
    manner: watch::Sender<Manner>,
    task: tokio::task::JoinHandle<()>,
}

impl Server {
    pub(super) async fn start(name: &'static str, manner: Manner) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let addr = listener.local_addr().unwrap();
        let (manner, watched) = watch::channel(manner);
        let (dials, open, cancels): (Arc<AtomicUsize>, Arc<AtomicUsize>, _) = Default::default();
        let server = (Arc::clone(&dials), Arc::clone(&open), Arc::clone(&cancels));
        let task = tokio::spawn(async move {
            let (dials, open, cancels) = server;
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let number = dials.fetch_add(1, Ordering::SeqCst) as u8;
                open.fetch_add(1, Ordering::SeqCst);
                let (open, cancels) = (Arc::clone(&open), Arc::clone(&cancels));
                let manner = *watched.borrow();
                tokio::spawn(async move {
                    let _ = converse(stream, name, number, manner, cancels).await;
                    open.fetch_sub(1, Ordering::SeqCst);
                });
            }
        });
        Self {
            addr,
            dials,
            open,
            cancels,
            manner,
            task,
        }
    }

    pub(super) fn dials(&self) -> usize {
        self.dials.load(Ordering::SeqCst)
    }

    pub(super) fn open(&self) -> usize {
        self.open.load(Ordering::SeqCst)
    }

    /// Nothing listens there any more.
    pub(super) async fn task_ends(&self) {
        self.task.abort();
        let address = self.addr;
        while TcpStream::connect(address).await.is_ok() {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }

    pub(super) fn becomes(&self, manner: Manner) {
        self.manner.send_replace(manner);
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// A server whose kernel takes no connection yet: its queue is full.
pub(super) struct Full {
    pub(super) addr: SocketAddr,
    listener: TcpListener,
    queued: Vec<TcpStream>,
}

impl Full {
    pub(super) async fn start() -> Self {
        let socket = tokio::net::TcpSocket::new_v4().unwrap();
        socket.bind(SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
        let listener = socket.listen(1).unwrap();
        let addr = listener.local_addr().unwrap();
        let mut queued = Vec::new();
        let wait = Duration::from_millis(100);
        while let Ok(Ok(stream)) = tokio::time::timeout(wait, TcpStream::connect(addr)).await {
            queued.push(stream);
        }
        Self {
            addr,
            listener,
            queued,
        }
    }

    /// Takes whoever is not one of its own.
    pub(super) async fn takes(&self) -> TcpStream {
        let own: Vec<_> = self
            .queued
            .iter()
            .map(|stream| stream.local_addr().unwrap())
            .collect();
        loop {
            let (stream, peer) = within(self.listener.accept()).await.unwrap();
            if !own.contains(&peer) {
                return stream;
            }
        }
    }
}

async fn converse(
    mut stream: TcpStream,
    name: &str,
    number: u8,
    manner: Manner,
    cancels: Arc<std::sync::Mutex<Vec<Vec<u8>>>>,
) -> std::io::Result<()> {
    loop {
        let length = stream.read_u32().await? as usize;
        let mut packet = vec![0; length.clamp(4, 10_000) - 4];
        if matches!(manner, Manner::Closes) {
            return Ok(());
        }
        stream.read_exact(&mut packet).await?;
        match &packet[..4] {
            b"\x04\xd2\x16\x2f" if matches!(manner, Manner::OffersTls) => {
                stream.write_all(b"S").await?;
                let (mut reader, mut writer) = stream.split();
                return tokio::io::copy(&mut reader, &mut writer).await.map(|_| ());
            }
            b"\x04\xd2\x16\x2f" | b"\x04\xd2\x16\x30" => stream.write_all(b"N").await?,
            b"\x04\xd2\x16\x2e" => {
                cancels.lock().unwrap().push(packet[4..].to_vec());
                return Ok(());
            }
            _ => break,
        }
    }
    match manner {
        Manner::Refuses(code) => {
            let body = format!("SFATAL\0VFATAL\0C{code}\0Mfrom {name}\0\0");
            return stream.write_all(&message(b'E', body.as_bytes())).await;
        }
        Manner::Mute => {
            let _ = stream.read_u8().await;
            return Ok(());
        }
        _ => {}
    }
    let standby: &[u8] = match manner {
        Manner::Standby => b"in_hot_standby\0on\0",
        _ => b"in_hot_standby\0off\0",
    };
    let mut greeting = message(b'R', &[0; 4]);
    greeting.extend(message(b'S', standby));
    greeting.extend(message(b'K', &[0, 0, 0, number, 1, 2, 3, 4]));
    greeting.extend(message(b'Z', b"I"));
    if matches!(manner, Manner::Stops) {
        let words = b"SFATAL\0VFATAL\0C57P01\0Mterminating connection\0\0";
        greeting.extend(message(b'E', words));
        return stream.write_all(&greeting).await;
    }
    stream.write_all(&greeting).await?;
    loop {
        let tag = stream.read_u8().await?;
        let length = stream.read_u32().await? as usize;
        let mut body = vec![0; length - 4];
        stream.read_exact(&mut body).await?;
        match tag {
            b'X' => return Ok(()),
            b'Q' if body.starts_with(b"sleep") => {}
            b'Q' => {
                let mut answer = message(b'C', name.as_bytes());
                answer.extend(message(b'Z', b"I"));
                stream.write_all(&answer).await?;
            }
            _ => {}
        }
    }
}

pub(super) fn message(tag: u8, body: &[u8]) -> Vec<u8> {
    let mut bytes = vec![tag];
    bytes.extend_from_slice(&(body.len() as u32 + 4).to_be_bytes());
    bytes.extend_from_slice(body);
    bytes
}

/// A client that reads messages.
pub(super) struct Client {
    pub(super) stream: TcpStream,
}

impl Client {
    pub(super) async fn send(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).await.unwrap();
    }

    pub(super) async fn byte(&mut self) -> Option<u8> {
        within(async { self.stream.read_u8().await.ok() }).await
    }

    /// The next message, `None` at the end of the stream.
    pub(super) async fn message(&mut self) -> Option<(u8, Vec<u8>)> {
        within(async {
            let tag = self.stream.read_u8().await.ok()?;
            let length = self.stream.read_u32().await.unwrap() as usize;
            let mut body = vec![0; length - 4];
            self.stream.read_exact(&mut body).await.unwrap();
            Some((tag, body))
        })
        .await
    }

    pub(super) async fn until_ready(&mut self) -> Vec<(u8, Vec<u8>)> {
        let mut messages = Vec::new();
        loop {
            let message = self.message().await.expect("a message before the end");
            let is_ready = message.0 == b'Z';
            messages.push(message);
            if is_ready {
                return messages;
            }
        }
    }

    /// Which server answers?
    pub(super) async fn asks(&mut self) -> String {
        self.send(QUERY).await;
        let answer = self.until_ready().await;
        String::from_utf8(answer[0].1.clone()).unwrap()
    }

    /// The SQLSTATE and the message of an error, after which the connection ends.
    pub(super) async fn refusal(&mut self) -> (String, String) {
        let (tag, body) = self.message().await.expect("words");
        assert_eq!(tag, b'E');
        let field = |name: u8| {
            body.split(|byte| *byte == 0)
                .find_map(|f| f.strip_prefix(&[name]))
                .map(|f| String::from_utf8(f.to_vec()).unwrap())
                .unwrap_or_default()
        };
        assert_eq!(field(b'S'), "FATAL");
        self.ends().await;
        (field(b'C'), field(b'M'))
    }

    pub(super) async fn ends(&mut self) {
        let mut rest = Vec::new();
        let _ = within(self.stream.read_to_end(&mut rest)).await;
        assert_eq!(rest, b"", "nothing more is said");
    }
}

pub(super) async fn within<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(5), future)
        .await
        .expect("within five seconds")
}
