//! The crowd: short clients that connect, insert and leave at a steady rate, each with its own fate on record.

use std::{
    collections::HashSet,
    io,
    net::{IpAddr, SocketAddr},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use tokio::{runtime, time};
use tokio_postgres::{Client, Config, NoTls, SimpleQueryMessage};

use super::{LabError, cluster::Lab, net::Node};

/// READ ONLY SQL TRANSACTION: what a replica answers to an INSERT.
const READ_ONLY: &str = "25006";

/// One client's stay, from the connect to its end.
#[derive(Clone, Debug)]
pub struct Attempt {
    /// The row it wants to write; unique in the lab.
    pub id: i64,
    pub started: Instant,
    /// When the server said ReadyForQuery.
    pub connected: Option<Instant>,
    /// `None` while it is under way.
    pub ended: Option<Instant>,
    pub outcome: Outcome,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    UnderWay,
    /// Acknowledged, by the server with this address.
    Written(IpAddr),
    /// Given a server that cannot write.
    ReadOnly,
    Failed(String),
}

impl Attempt {
    pub fn is_written(&self) -> bool {
        matches!(self.outcome, Outcome::Written(_))
    }

    pub fn is_failed(&self) -> bool {
        matches!(self.outcome, Outcome::ReadOnly | Outcome::Failed(_))
    }

    /// It never got to ReadyForQuery.
    pub fn is_refused(&self) -> bool {
        self.is_failed() && self.connected.is_none()
    }

    /// It was connected, and its server went away under its INSERT.
    pub fn is_cut(&self) -> bool {
        self.is_failed() && self.connected.is_some()
    }

    /// How long it took, or has taken by `now`.
    pub fn took(&self, now: Instant) -> Duration {
        self.ended
            .unwrap_or(now)
            .saturating_duration_since(self.started)
    }
}

/// How a crowd behaves.
#[derive(Clone, Copy, Debug)]
pub struct Crowd {
    pub at: SocketAddr,
    /// A new client so often. None waits for another, so one that hangs does not hide that the next one works.
    pub every: Duration,
    /// Longer than any hold, so that it is the proxy who gives up.
    pub patience: Duration,
}

/// A crowd at work, until it is stopped.
pub struct Writers {
    log: Arc<Mutex<Vec<Attempt>>>,
    over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Writers {
    pub fn start(crowd: Crowd) -> Result<Self, LabError> {
        let log = Arc::<Mutex<Vec<Attempt>>>::default();
        let over = Arc::<AtomicBool>::default();
        let (log_there, over_there) = (Arc::clone(&log), Arc::clone(&over));
        let thread = on_own_thread(async move {
            let mut tick = time::interval(crowd.every);
            tick.set_missed_tick_behavior(time::MissedTickBehavior::Delay);
            let mut under_way = tokio::task::JoinSet::new();
            while !over_there.load(Ordering::Relaxed) {
                tick.tick().await;
                under_way.spawn(stay(crowd, Arc::clone(&log_there)));
                while under_way.try_join_next().is_some() {}
            }
            let _ = time::timeout(crowd.patience, async {
                while under_way.join_next().await.is_some() {}
            })
            .await;
        })?;
        Ok(Self {
            log,
            over,
            thread: Some(thread),
        })
    }

    /// All attempts so far, those under way too.
    pub fn attempts(&self) -> Vec<Attempt> {
        lock(&self.log).clone()
    }

    /// Starts no more, and waits for those under way.
    pub fn stop(mut self) -> Vec<Attempt> {
        self.end();
        self.attempts()
    }

    fn end(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Drop for Writers {
    fn drop(&mut self) {
        self.end();
    }
}

/// The table the crowd writes to; made on the leader, and there before the crowd comes.
pub fn make_table(lab: &Lab, leader: Node) -> Result<(), LabError> {
    lab.sql(
        leader,
        "CREATE TABLE IF NOT EXISTS writes (id bigint PRIMARY KEY); GRANT ALL ON writes TO app, app_scram",
    )
    .map(drop)
}

/// Rows that were acknowledged and are not there.
pub fn lost(lab: &Lab, leader: Node, attempts: &[Attempt]) -> Result<usize, LabError> {
    let there: HashSet<i64> = lab
        .sql(leader, "SELECT id FROM writes")?
        .lines()
        .filter_map(|line| line.parse().ok())
        .collect();
    Ok(attempts
        .iter()
        .filter(|attempt| attempt.is_written() && !there.contains(&attempt.id))
        .count())
}

/// How `app` connects, in clear text.
pub fn config(at: SocketAddr) -> Config {
    let mut config = Config::new();
    config
        .host(at.ip().to_string())
        .port(at.port())
        .user("app")
        .dbname("app");
    config
}

/// How `app_scram` connects, with its password.
pub fn config_scram(at: SocketAddr) -> Config {
    let mut config = config(at);
    config.user("app_scram").password("app");
    config
}

/// A connected client, whose connection is driven by a task of this runtime.
pub async fn connect(config: &Config) -> Result<Client, tokio_postgres::Error> {
    let (client, connection) = config.connect(NoTls).await?;
    tokio::spawn(connection);
    Ok(client)
}

/// Waits until a session of the same user is in `pg_sleep` at one of these servers: a cancel that comes before its query
/// ends nothing.
///
/// # Panics
/// Nobody is, within a minute.
pub async fn until_asleep(servers: &[Client]) -> Result<(), tokio_postgres::Error> {
    let sleepers = "SELECT FROM pg_stat_activity WHERE wait_event = 'PgSleep'";
    let began = Instant::now();
    loop {
        assert!(began.elapsed() < Duration::from_secs(60), "nobody sleeps");
        for server in servers {
            if !server.query(sleepers, &[]).await?.is_empty() {
                return Ok(());
            }
        }
        time::sleep(Duration::from_millis(2)).await;
    }
}

/// Connects, inserts one row, leaves.
pub async fn write_once(config: Config, id: i64, connected: impl FnOnce()) -> Outcome {
    match insert(&config, id, connected).await {
        Ok(Some(server)) => Outcome::Written(server),
        Ok(None) => Outcome::Failed("the server did not name itself".into()),
        Err(error) if error.code().is_some_and(|code| code.code() == READ_ONLY) => {
            Outcome::ReadOnly
        }
        Err(error) => Outcome::Failed(in_words(&error)),
    }
}

async fn insert(
    config: &Config,
    id: i64,
    connected: impl FnOnce(),
) -> Result<Option<IpAddr>, tokio_postgres::Error> {
    let client = connect(config).await?;
    connected();
    let text = format!("INSERT INTO writes VALUES ({id}) RETURNING host(inet_server_addr())");
    let answer = client.simple_query(&text).await?;
    Ok(answer.iter().find_map(|message| match message {
        SimpleQueryMessage::Row(row) => row.get(0)?.parse().ok(),
        _ => None,
    }))
}

/// tokio-postgres says `db error` and keeps the words in the source.
pub fn in_words(error: &tokio_postgres::Error) -> String {
    match error.as_db_error() {
        Some(said) => format!(
            "{} {}: {}",
            said.severity(),
            said.code().code(),
            said.message()
        ),
        None => std::error::Error::source(error)
            .map_or_else(|| error.to_string(), |cause| format!("{error}: {cause}")),
    }
}

/// The client names its row: a lost number of a sequence may be given again by the next leader.
pub fn new_id() -> i64 {
    fastrand::i64(0..)
}

async fn stay(crowd: Crowd, log: Arc<Mutex<Vec<Attempt>>>) {
    let id = new_id();
    let at = {
        let mut log = lock(&log);
        log.push(Attempt {
            id,
            started: Instant::now(),
            connected: None,
            ended: None,
            outcome: Outcome::UnderWay,
        });
        log.len() - 1
    };
    let note = |change: &dyn Fn(&mut Attempt)| change(&mut lock(&log)[at]);
    let connected = || note(&|attempt| attempt.connected = Some(Instant::now()));
    let outcome = time::timeout(crowd.patience, write_once(config(crowd.at), id, connected))
        .await
        .unwrap_or_else(|_late| Outcome::Failed(format!("nothing within {:?}", crowd.patience)));
    note(&|attempt| {
        attempt.ended = Some(Instant::now());
        attempt.outcome = outcome.clone();
    });
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs a future to its end on a thread with a small runtime of its own.
pub(crate) fn on_own_thread(
    work: impl Future<Output = ()> + Send + 'static,
) -> Result<JoinHandle<()>, LabError> {
    let runtime = runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(LabError::io("runtime"))?;
    thread::Builder::new()
        .name("crowd".into())
        .spawn(move || runtime.block_on(work))
        .map_err(|error: io::Error| LabError::io("thread")(error))
}
