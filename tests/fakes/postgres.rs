//! A scripted PostgreSQL server: says which node it is, counts who is there, and can be unwell in many ways.

use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::Notify;

use super::door::{self, Door, Mode};
use super::guest::{Guest, Record, Visit};
use super::sql::Sql;
use super::{locked, wire};

/// How a startup message is answered.
#[derive(Clone, Debug)]
pub enum Greeting {
    Welcome,
    /// FATAL with this code, then a close.
    Fatal(&'static str, &'static str),
    Close,
    Reset,
    /// Accepts and says nothing for ever, to no first byte whatever.
    Silent,
}

/// What the server does from the next connection on.
#[derive(Clone, Debug)]
pub struct Script {
    pub ssl: u8,
    pub gss: u8,
    pub greeting: Greeting,
    /// Between the startup message and its answer.
    pub delay: Duration,
    /// `None` = a server before 14, which does not say.
    pub hot_standby: Option<bool>,
    /// Length of the cancel key; `None` sends no BackendKeyData.
    pub key_length: Option<usize>,
    /// Sends NegotiateProtocolVersion before anything else.
    pub negotiates: bool,
    /// Sends everything up to the first ReadyForQuery one byte at a time.
    pub drips: bool,
    /// Sessions beyond this get 53300.
    pub max_connections: usize,
}

impl Default for Script {
    fn default() -> Self {
        Self {
            ssl: b'N',
            gss: b'N',
            greeting: Greeting::Welcome,
            delay: Duration::ZERO,
            hot_standby: Some(false),
            key_length: Some(4),
            negotiates: false,
            drips: false,
            max_connections: usize::MAX,
        }
    }
}

/// One node's PostgreSQL. A simple query is answered with one row that holds the node's name; the words of
/// [`answer`] do other things.
#[derive(Debug)]
pub struct Postgres {
    pub door: Door,
    script: Arc<Mutex<Script>>,
    /// Statements that have an answer of their own, from the next question on.
    answers: Arc<Mutex<HashMap<String, Sql>>>,
    record: Arc<Mutex<Record>>,
}

impl Postgres {
    pub fn start(addr: SocketAddr, name: &str) -> io::Result<Self> {
        let script = Arc::new(Mutex::new(Script::default()));
        let answers = Arc::new(Mutex::new(HashMap::new()));
        let record = Arc::new(Mutex::new(Record::default()));
        let name: Arc<str> = name.into();
        let door = Door::open(addr, {
            let script = Arc::clone(&script);
            let record = Arc::clone(&record);
            let answers = Arc::clone(&answers);
            move |stream, from| {
                let guest = Guest::enter(&record, from);
                let script = locked(&script).clone();
                let name = Arc::clone(&name);
                let answers = Arc::clone(&answers);
                async move {
                    let _ = serve(stream, guest, &script, &answers, &name).await;
                }
            }
        })?;
        Ok(Self {
            door,
            script,
            answers,
            record,
        })
    }

    pub fn addr(&self) -> SocketAddr {
        self.door.addr
    }

    /// Changes what the next connections meet.
    pub fn script(&self, change: impl FnOnce(&mut Script)) {
        change(&mut locked(&self.script));
    }

    /// What a statement is answered from now on.
    pub fn says(&self, statement: &str, answer: Sql) {
        locked(&self.answers).insert(statement.to_owned(), answer);
    }

    pub async fn mode(&self, mode: Mode) {
        self.door.set(mode).await;
    }

    pub fn visits(&self) -> Vec<Visit> {
        locked(&self.record).visits.clone()
    }

    /// Connections ever accepted.
    pub fn accepted(&self) -> usize {
        locked(&self.record).visits.len()
    }

    /// Connections open now, ready or not.
    pub fn open(&self) -> usize {
        let record = locked(&self.record);
        record
            .visits
            .iter()
            .filter(|visit| visit.ended.is_none())
            .count()
    }

    /// Sessions open now that have seen their first ReadyForQuery.
    pub fn sessions(&self) -> usize {
        let record = locked(&self.record);
        let open = record.visits.iter().filter(|visit| visit.ended.is_none());
        open.filter(|visit| visit.ready.is_some()).count()
    }

    pub fn most_unready(&self) -> usize {
        locked(&self.record).most_unready
    }

    pub fn queries(&self) -> usize {
        locked(&self.record).queries
    }

    pub fn cancels(&self) -> Vec<Vec<u8>> {
        locked(&self.record).cancels.clone()
    }

    /// Ends all sessions, as SIGKILL of the postmaster does.
    pub async fn hang_up(&self) {
        self.door.hang_up().await;
    }
}

async fn serve(
    mut stream: TcpStream,
    mut guest: Guest,
    script: &Script,
    answers: &Mutex<HashMap<String, Sql>>,
    name: &str,
) -> io::Result<()> {
    if matches!(script.greeting, Greeting::Silent) {
        stream.read_to_end(&mut Vec::new()).await?;
        return Ok(());
    }
    let startup = loop {
        let mut first = [0; 4];
        stream.read_exact(&mut first).await?;
        guest.heard(&first);
        if first[0] == 0x16 {
            stream.write_all(&first.map(|byte| !byte)).await?;
            return echo(stream, &guest).await;
        }
        let length = u32::from_be_bytes(first) as usize;
        if !(8..=10_000).contains(&length) {
            return Ok(());
        }
        let mut packet = vec![0; length - 4];
        stream.read_exact(&mut packet).await?;
        guest.heard(&packet);
        if wire::framed(&packet) == wire::SSL_REQUEST {
            stream.write_all(&[script.ssl]).await?;
            if script.ssl == b'S' {
                return echo(stream, &guest).await;
            }
        } else if wire::framed(&packet) == wire::GSS_REQUEST {
            stream.write_all(&[script.gss]).await?;
        } else if packet[..4] == wire::cancel(0, b"")[4..8] {
            guest.cancels(&packet);
            return Ok(());
        } else {
            break packet;
        }
    };
    guest.says(&startup);
    if !waits(&mut stream, script.delay).await {
        return Ok(());
    }
    match script.greeting {
        Greeting::Fatal(code, text) => {
            return stream.write_all(&wire::error("FATAL", code, text)).await;
        }
        Greeting::Reset => {
            door::reset(stream);
            return Ok(());
        }
        Greeting::Close | Greeting::Silent => return Ok(()),
        Greeting::Welcome => {}
    }
    if guest.others() >= script.max_connections {
        let full = wire::error("FATAL", "53300", "sorry, too many clients already");
        return stream.write_all(&full).await;
    }
    let key: Vec<u8> = (0..script.key_length.unwrap_or(0))
        .map(|_| fastrand::u8(..))
        .collect();
    let mut welcome = Vec::new();
    if script.negotiates {
        welcome.extend_from_slice(&wire::negotiate_protocol_version());
    }
    welcome.extend_from_slice(&wire::authentication_ok());
    welcome.extend_from_slice(&wire::parameter_status("server_version", "17.0"));
    if let Some(hot_standby) = script.hot_standby {
        let word = if hot_standby { "on" } else { "off" };
        welcome.extend_from_slice(&wire::parameter_status("in_hot_standby", word));
    }
    if script.key_length.is_some() {
        welcome.extend_from_slice(&wire::backend_key_data(guest.process, &key));
    }
    welcome.extend_from_slice(&wire::ready_for_query(b'I'));
    let bell = guest.is_ready(key);
    if script.drips {
        for byte in welcome {
            stream.write_all(&[byte]).await?;
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    } else {
        stream.write_all(&welcome).await?;
    }
    converse(stream, &guest, &bell, answers, name).await
}

/// False when the other side ended meanwhile. Whatever else it says stays unread.
async fn waits(stream: &mut TcpStream, delay: Duration) -> bool {
    let end = Instant::now() + delay;
    while Instant::now() < end {
        let look = tokio::time::timeout(Duration::ZERO, stream.peek(&mut [0])).await;
        if let Ok(Ok(0) | Err(_)) = look {
            return false;
        }
        tokio::time::sleep(delay.min(Duration::from_millis(5))).await;
    }
    true
}

/// Inside TLS nobody understands anything: each chunk comes back, with its bits turned over.
async fn echo(mut stream: TcpStream, guest: &Guest) -> io::Result<()> {
    let mut chunk = [0; 4096];
    loop {
        let count = stream.read(&mut chunk).await?;
        if count == 0 {
            return Ok(());
        }
        guest.heard(&chunk[..count]);
        let turned: Vec<u8> = chunk[..count].iter().map(|byte| !byte).collect();
        stream.write_all(&turned).await?;
    }
}

async fn converse(
    mut stream: TcpStream,
    guest: &Guest,
    bell: &Notify,
    answers: &Mutex<HashMap<String, Sql>>,
    name: &str,
) -> io::Result<()> {
    let mut status = b'I';
    loop {
        let tag = stream.read_u8().await?;
        let length = stream.read_u32().await? as usize;
        let mut body = vec![0; length.saturating_sub(4)];
        stream.read_exact(&mut body).await?;
        guest.heard(&[tag]);
        guest.heard(&wire::framed(&body));
        match tag {
            b'X' => return Ok(()),
            b'Q' => {
                guest.asks();
                let sql = String::from_utf8_lossy(&body);
                let sql = sql.trim_end_matches('\0');
                let words: Vec<&str> = sql.split_ascii_whitespace().collect();
                let own = locked(answers).get(sql).cloned();
                let goes_on = match own {
                    Some(own) => own.send(&mut stream, bell).await?,
                    None => answer(&mut stream, bell, name, &words, &mut status).await?,
                };
                if goes_on.is_break() {
                    return Ok(());
                }
                stream.write_all(&wire::ready_for_query(status)).await?;
            }
            _ => {
                stream
                    .write_all(&wire::error("ERROR", "0A000", "only simple queries"))
                    .await?;
                stream.write_all(&wire::ready_for_query(status)).await?;
            }
        }
    }
}

/// `slow MS`, `hang` (until cancelled), `rows COUNT BYTES`, `begin`, `half` (stops inside a message), `die`; else
/// the node's name.
async fn answer(
    stream: &mut TcpStream,
    bell: &Notify,
    name: &str,
    words: &[&str],
    status: &mut u8,
) -> io::Result<std::ops::ControlFlow<()>> {
    let number = |at: usize| {
        words
            .get(at)
            .and_then(|word| word.parse::<usize>().ok())
            .unwrap_or(0)
    };
    match words.first().copied().unwrap_or_default() {
        "slow" => {
            tokio::time::sleep(Duration::from_millis(number(1) as u64)).await;
            stream.write_all(&wire::one_row(name.as_bytes())).await?;
        }
        "hang" => {
            tokio::select! {
                () = bell.notified() => {}
                // The client has nothing to say now: whatever comes is the end.
                _ = stream.read_u8() => return Ok(std::ops::ControlFlow::Break(())),
            }
            let cancelled =
                wire::error("ERROR", "57014", "canceling statement due to user request");
            stream.write_all(&cancelled).await?;
        }
        "rows" => {
            let row = wire::data_row(&vec![b'r'; number(2)]);
            stream.write_all(&wire::row_description()).await?;
            for _ in 0..number(1) {
                stream.write_all(&row).await?;
            }
            stream
                .write_all(&wire::message(b'C', &wire::zero_ended("SELECT")))
                .await?;
        }
        "half" => {
            let row = wire::one_row(&[b'h'; 1000]);
            stream.write_all(&row[..500]).await?;
            let _ = stream.read_u8().await;
            return Ok(std::ops::ControlFlow::Break(()));
        }
        "die" => {
            let farewell = "terminating connection due to administrator command";
            stream
                .write_all(&wire::error("FATAL", "57P01", farewell))
                .await?;
            return Ok(std::ops::ControlFlow::Break(()));
        }
        "begin" => {
            *status = b'T';
            stream
                .write_all(&wire::message(b'C', &wire::zero_ended("BEGIN")))
                .await?;
        }
        _ => stream.write_all(&wire::one_row(name.as_bytes())).await?,
    }
    Ok(std::ops::ControlFlow::Continue(()))
}
