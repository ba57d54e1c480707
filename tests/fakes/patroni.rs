//! A scripted Patroni REST API: an answer per path, and a record of who asked when.

use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rustls::{HandshakeKind, ServerConfig};
use tokio::io::AsyncReadExt;
use tokio_rustls::TlsAcceptor;

use super::answer::{self, Answer, Manner};
use super::door::{self, Door, Mode};
use super::locked;
use super::tls::Socket;

/// One request as it arrived.
#[derive(Clone, Debug)]
pub struct Question {
    pub at: Instant,
    pub method: String,
    pub path: String,
    pub from: SocketAddr,
    /// What stands behind `Authorization:`.
    pub authorization: Option<String>,
}

#[derive(Debug, Default)]
struct Record {
    questions: Vec<Question>,
    /// Connections open at this moment, and the most there ever were.
    open: usize,
    most_open: usize,
    /// The asker went away before it had read the answer: a traceback in Patroni's log.
    cut_short: usize,
    handshakes: Handshakes,
}

/// TLS handshakes so far.
#[derive(Clone, Copy, Debug, Default)]
pub struct Handshakes {
    pub full: usize,
    pub resumed: usize,
    pub failed: usize,
}

#[derive(Clone, Debug)]
struct Tls {
    config: Arc<ServerConfig>,
    delay: Duration,
}

/// A node's REST API. Every change holds from the next question on.
#[derive(Debug)]
pub struct Patroni {
    pub door: Door,
    answers: Arc<Mutex<HashMap<String, Answer>>>,
    record: Arc<Mutex<Record>>,
    /// `None` = http.
    tls: Arc<Mutex<Option<Tls>>>,
    /// Every other `Authorization` is answered with 401.
    login: Arc<Mutex<Option<String>>>,
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
        let tls = Arc::<Mutex<Option<Tls>>>::default();
        let login = Arc::<Mutex<Option<String>>>::default();
        let door = Door::open(addr, {
            let (answers, record) = (Arc::clone(&answers), Arc::clone(&record));
            let (tls, login) = (Arc::clone(&tls), Arc::clone(&login));
            move |stream, from| {
                let desk = Desk {
                    from,
                    answers: Arc::clone(&answers),
                    login: locked(&login).clone(),
                    counted: Counted::new(&record),
                };
                let tls = locked(&tls).clone();
                async move {
                    let _ = match tls {
                        None => desk.serve(stream).await,
                        Some(Tls { config, delay }) => {
                            tokio::time::sleep(delay).await;
                            let shaken = TlsAcceptor::from(config).accept(stream).await;
                            desk.note(
                                shaken
                                    .as_ref()
                                    .ok()
                                    .and_then(|s| s.get_ref().1.handshake_kind()),
                            );
                            match shaken {
                                Ok(stream) => desk.serve(stream).await,
                                Err(error) => Err(error),
                            }
                        }
                    };
                }
            }
        })?;
        Ok(Self {
            door,
            answers,
            record,
            tls,
            login,
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

    /// Speaks https with this from the next connection on.
    pub fn wears(&self, config: Arc<ServerConfig>) {
        self.wears_slowly(config, Duration::ZERO);
    }

    /// The same, and each handshake begins so late.
    pub fn wears_slowly(&self, config: Arc<ServerConfig>, delay: Duration) {
        *locked(&self.tls) = Some(Tls { config, delay });
    }

    /// Answers 401 from the next connection on, unless `Authorization` says just this.
    pub fn wants(&self, authorization: &str) {
        *locked(&self.login) = Some(authorization.to_owned());
    }

    pub fn handshakes(&self) -> Handshakes {
        locked(&self.record).handshakes
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
        let came = super::eventually(super::PATIENCE, enough).await;
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

/// What a connection needs to be served.
struct Desk {
    from: SocketAddr,
    answers: Arc<Mutex<HashMap<String, Answer>>>,
    login: Option<String>,
    counted: Counted,
}

impl Desk {
    fn note(&self, shaken: Option<HandshakeKind>) {
        let handshakes = &mut locked(&self.counted.0).handshakes;
        match shaken {
            Some(HandshakeKind::Resumed) => handshakes.resumed += 1,
            Some(_) => handshakes.full += 1,
            None => handshakes.failed += 1,
        }
    }

    async fn serve(&self, mut stream: impl Socket) -> io::Result<()> {
        let record = &*self.counted.0;
        let head = read_head(&mut stream).await?;
        let question = self.question(&head);
        let path = question.path.clone();
        let welcome = self.login.is_none() || self.login == question.authorization;
        locked(record).questions.push(question);
        // After the record: whoever sees a question there may rely on its answer being of now.
        let answer = locked(&self.answers).get(&path).cloned();
        let answer = match answer {
            _ if !welcome => Answer::bytes(401, "no auth header received"),
            Some(answer) => answer,
            None => Answer::bytes(404, "not found"),
        };
        if matches!(answer.manner, Manner::Hang) {
            let _ = stream.read_to_end(&mut Vec::new()).await;
            return Ok(());
        }
        let patient = tokio::select! {
            () = tokio::time::sleep(answer.delay) => true,
            _ = stream.read_u8() => false,
        };
        if matches!(answer.manner, Manner::Reset) {
            door::reset(stream.into_tcp());
            return Ok(());
        }
        let sent = answer::send(&mut stream, answer).await;
        // As Python's server: end our side, wait for the other. What the asker does then shows how it reads.
        let ended = match stream.end().await {
            Ok(()) => stream.read_to_end(&mut Vec::new()).await.map(|_| ()),
            Err(e) => Err(e),
        };
        if !patient || sent.is_err() || ended.is_err() {
            locked(record).cut_short += 1;
        }
        Ok(())
    }

    fn question(&self, head: &str) -> Question {
        let mut words = head.split_ascii_whitespace().map(str::to_owned);
        let mut fields = head.lines().filter_map(|line| line.split_once(": "));
        Question {
            at: Instant::now(),
            method: words.next().unwrap_or_default(),
            path: words.next().unwrap_or_default(),
            from: self.from,
            authorization: fields
                .find(|(name, _)| name.eq_ignore_ascii_case("authorization"))
                .map(|(_, value)| value.to_owned()),
        }
    }
}

async fn read_head(stream: &mut impl Socket) -> io::Result<String> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await?);
        if head.len() > 16_384 {
            return Err(io::Error::other("a head without an end"));
        }
    }
    Ok(String::from_utf8_lossy(&head).into_owned())
}
