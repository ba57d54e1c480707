//! A scripted Patroni REST API: an answer per path, and a record of who asked when.

use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::answer::{self, Answer, Manner};
use super::door::{self, Door, Mode};
use super::locked;

/// One request as it arrived.
#[derive(Clone, Debug)]
pub struct Question {
    pub at: Instant,
    pub method: String,
    pub path: String,
    pub from: SocketAddr,
}

#[derive(Debug, Default)]
struct Record {
    questions: Vec<Question>,
    /// Connections open at this moment, and the most there ever were.
    open: usize,
    most_open: usize,
    /// The asker went away before it had read the answer: a traceback in Patroni's log.
    cut_short: usize,
}

/// A node's REST API. Every change holds from the next question on.
#[derive(Debug)]
pub struct Patroni {
    pub door: Door,
    answers: Arc<Mutex<HashMap<String, Answer>>>,
    record: Arc<Mutex<Record>>,
}

impl Patroni {
    /// Everything but `/config` (Patroni's defaults) is 404 until [`Patroni::says`] is called.
    pub fn start(addr: SocketAddr) -> io::Result<Self> {
        let defaults = Answer::bytes(200, r#"{"ttl": 30, "loop_wait": 10, "retry_timeout": 10}"#);
        let answers = Arc::new(Mutex::new(HashMap::from([(
            "/config".to_owned(),
            defaults,
        )])));
        let record = Arc::new(Mutex::new(Record::default()));
        let door = Door::open(addr, {
            let answers = Arc::clone(&answers);
            let record = Arc::clone(&record);
            move |stream, from| {
                let answers = Arc::clone(&answers);
                let counted = Counted::new(&record);
                async move {
                    let _ = serve(stream, from, &answers, &counted.0).await;
                }
            }
        })?;
        Ok(Self {
            door,
            answers,
            record,
        })
    }

    pub fn addr(&self) -> SocketAddr {
        self.door.addr
    }

    /// What `GET /primary` says from now on.
    pub fn says(&self, answer: Answer) {
        self.answers("/primary", answer);
    }

    pub fn answers(&self, path: &str, answer: Answer) {
        locked(&self.answers).insert(path.to_owned(), answer);
    }

    pub async fn mode(&self, mode: Mode) {
        self.door.set(mode).await;
    }

    pub fn questions(&self) -> Vec<Question> {
        locked(&self.record).questions.clone()
    }

    /// How often `path` was asked since `since`.
    pub fn asked(&self, path: &str, since: Instant) -> usize {
        let record = locked(&self.record);
        let hits = record.questions.iter().rev().take_while(|q| q.at >= since);
        hits.filter(|q| q.path == path).count()
    }

    pub fn most_open(&self) -> usize {
        locked(&self.record).most_open
    }

    pub fn cut_short(&self) -> usize {
        locked(&self.record).cut_short
    }

    /// Returns when `/primary` has been asked so many more times.
    pub async fn after_questions(&self, more: usize) {
        let since = Instant::now();
        let enough = || self.asked("/primary", since) >= more;
        let came = super::eventually(Duration::from_secs(10), enough).await;
        assert!(came, "{} was not asked {more} times", self.addr());
    }
}

/// A connection in [`Record::open`], as long as it lives.
struct Counted(Arc<Mutex<Record>>);

impl Counted {
    fn new(record: &Arc<Mutex<Record>>) -> Self {
        let mut inner = locked(record);
        inner.open += 1;
        inner.most_open = inner.most_open.max(inner.open);
        drop(inner);
        Self(Arc::clone(record))
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        locked(&self.0).open -= 1;
    }
}

async fn serve(
    mut stream: TcpStream,
    from: SocketAddr,
    answers: &Mutex<HashMap<String, Answer>>,
    record: &Mutex<Record>,
) -> io::Result<()> {
    let head = read_head(&mut stream).await?;
    let at = Instant::now();
    let mut words = head.split_ascii_whitespace();
    let method = words.next().unwrap_or_default().to_owned();
    let path = words.next().unwrap_or_default().to_owned();
    locked(record).questions.push(Question {
        at,
        method,
        path: path.clone(),
        from,
    });
    // After the record: whoever sees a question there may rely on its answer being of now.
    let answer = locked(answers).get(&path).cloned();
    let answer = answer.unwrap_or_else(|| Answer::bytes(404, "not found"));
    if matches!(answer.manner, Manner::Hang) {
        let _ = stream.read_to_end(&mut Vec::new()).await;
        return Ok(());
    }
    let patient = tokio::select! {
        () = tokio::time::sleep(answer.delay) => true,
        _ = stream.read_u8() => false,
    };
    if matches!(answer.manner, Manner::Reset) {
        door::reset(stream);
        return Ok(());
    }
    let sent = answer::send(&mut stream, answer).await;
    // As Python's server: shut the write side, then close. What the asker does then shows how it reads.
    let ended = match stream.shutdown().await {
        Ok(()) => stream.read_to_end(&mut Vec::new()).await.map(|_| ()),
        Err(e) => Err(e),
    };
    if !patient || sent.is_err() || ended.is_err() {
        locked(record).cut_short += 1;
    }
    Ok(())
}

async fn read_head(stream: &mut TcpStream) -> io::Result<String> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await?);
        if head.len() > 16_384 {
            return Err(io::Error::other("a head without an end"));
        }
    }
    Ok(String::from_utf8_lossy(&head).into_owned())
}
