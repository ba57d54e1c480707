//! New binaries in a row under load: nobody is refused, nobody is dropped, and no byte is lost or doubled.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use futures_util::{SinkExt, StreamExt};
use sha2::{Digest, Sha256};
use tokio::task::JoinSet;
use tokio_postgres::{Client, NoTls};

use super::server::Stage;
use crate::fakes::answer::Answer;
use crate::fakes::body::Body;
use crate::fakes::client::{Client as Peer, Refused};
use crate::fakes::cluster::{POSTGRES_PORT, REST_PORT, Tempo, subnet};
use crate::fakes::patroni::Patroni;
use crate::fakes::postgres::Postgres;

/// How much happens meanwhile.
#[derive(Debug)]
struct Load {
    upgrades: usize,
    connects_per_second: u64,
    idle: usize,
    busy: usize,
}

/// What shared cores and a debug build can carry; `HELIOS_FULL_LOAD=1` makes it what README promises.
fn load() -> Load {
    match std::env::var_os("HELIOS_FULL_LOAD") {
        None => Load {
            upgrades: 20,
            connects_per_second: 100,
            idle: 60,
            busy: 8,
        },
        Some(_) => Load {
            upgrades: 20,
            connects_per_second: 500,
            idle: 500,
            busy: 50,
        },
    }
}

/// A single process again within this.
const SINGLE: Duration = Duration::from_secs(10);
/// Rows of one COPY: so many that it lasts from one upgrade into the next.
const ROWS: usize = 600;
const PAUSE: Duration = Duration::from_millis(5);

#[derive(Default)]
struct Told {
    stop: AtomicBool,
    connected: AtomicUsize,
    copied: AtomicUsize,
    bytes: AtomicUsize,
}

impl Told {
    fn goes_on(&self) -> bool {
        !self.stop.load(Ordering::Relaxed)
    }
}

async fn connect(target: &str) -> Result<Client, tokio_postgres::Error> {
    let (client, connection) = tokio_postgres::connect(target, NoTls).await?;
    tokio::spawn(connection);
    Ok(client)
}

/// A row's text, two kilobytes that no other row has.
fn word(seed: usize, row: usize) -> String {
    let part = format!("{seed:08x}.{row:08x} ");
    part.repeat(2048 / part.len())
}

fn sum(seed: usize) -> String {
    let mut sum = Sha256::new();
    (0..ROWS).for_each(|row| sum.update(word(seed, row)));
    let sum = sum.finalize();
    sum.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Rows go in slowly, and the server says what it has got.
async fn copy_in(client: &Client, seed: usize) -> Result<usize, tokio_postgres::Error> {
    client
        .batch_execute("CREATE TEMP TABLE IF NOT EXISTS t (i int8, word text); TRUNCATE t")
        .await?;
    let sink = client.copy_in::<_, Bytes>("COPY t FROM STDIN").await?;
    let mut sink = std::pin::pin!(sink);
    let mut length = 0;
    for row in 0..ROWS {
        let line = format!("{row}\t{}\n", word(seed, row));
        length += line.len();
        sink.send(line.into()).await?;
        tokio::time::sleep(PAUSE).await;
    }
    assert_eq!(sink.finish().await?, ROWS as u64);
    let sql = "SELECT encode(sha256(string_agg(word, '' ORDER BY i)::bytea), 'hex') FROM t";
    let got: String = client.query_one(sql, &[]).await?.get(0);
    assert_eq!(got, sum(seed), "what came in");
    Ok(length)
}

/// Rows come out faster than they are read.
async fn copy_out(client: &Client, seed: usize) -> Result<usize, tokio_postgres::Error> {
    let part = format!("lpad(to_hex({seed}), 8, '0') || '.' || lpad(to_hex(i), 8, '0') || ' '");
    let rows = ROWS - 1;
    let times = 2048 / 18;
    let sql = format!(
        "COPY (SELECT repeat({part}, {times}) FROM generate_series(0, {rows}) i) TO STDOUT"
    );
    let stream = client.copy_out(&sql).await?;
    let mut stream = std::pin::pin!(stream);
    let mut text = BytesMut::new();
    while let Some(chunk) = stream.next().await {
        text.extend_from_slice(&chunk?);
        tokio::time::sleep(PAUSE).await;
    }
    let wanted = (0..ROWS).map(|row| word(seed, row) + "\n");
    assert!(text == wanted.collect::<String>(), "what came out");
    Ok(text.len())
}

/// One session, for the whole time.
async fn busy(target: String, told: Arc<Told>, number: usize) -> Result<(), tokio_postgres::Error> {
    let client = connect(&target).await?;
    let mut seed = number << 16;
    while told.goes_on() {
        seed += 1;
        let length = match number % 2 {
            0 => copy_in(&client, seed).await?,
            _ => copy_out(&client, seed).await?,
        };
        told.bytes.fetch_add(length, Ordering::Relaxed);
        told.copied.fetch_add(1, Ordering::Relaxed);
    }
    Ok(())
}

/// A scripted replica, so that it is not PostgreSQL's forks that newcomers measure, and the port that leads to it.
struct Readers {
    replica: Postgres,
    rest: Patroni,
    port: SocketAddr,
}

impl Readers {
    fn new() -> Self {
        let address = subnet();
        let at = |port| SocketAddr::new(address(1).into(), port);
        let rest = Patroni::start(at(REST_PORT)).unwrap();
        rest.says(Answer::new(503, Body::replica("n2", 1)));
        Self {
            replica: Postgres::start(at(POSTGRES_PORT), "n2").unwrap(),
            rest,
            port: SocketAddr::new(address(2).into(), POSTGRES_PORT),
        }
    }

    fn toml(&self) -> String {
        let (port, ip) = (self.port, self.rest.addr().ip());
        format!(
            "[[listeners]]\naddress = \"{port}\"\nroute = \"replica\"\nfallback = \"none\"\n\n\
             [[nodes]]\nname = \"n2\"\nhost = \"{ip}\"\nport = {POSTGRES_PORT}\nrest_port = {REST_PORT}\n\n"
        )
    }
}

/// Connects, logs in, asks once and leaves.
async fn newcomer(port: SocketAddr) -> Result<(), Refused> {
    let mut client = Peer::login(port).await?;
    let node = client.node().await?;
    assert_eq!(node, "n2");
    client.terminate().await;
    Ok(())
}

/// Somebody new at each tick, whatever became of those before.
async fn newcomers(port: SocketAddr, told: Arc<Told>, per_second: u64) -> Vec<String> {
    let mut tick = tokio::time::interval(Duration::from_micros(1_000_000 / per_second));
    let mut under_way = JoinSet::new();
    let mut failed = Vec::new();
    while told.goes_on() {
        tick.tick().await;
        under_way.spawn(newcomer(port));
        while let Some(ended) = under_way.try_join_next() {
            told.connected.fetch_add(1, Ordering::Relaxed);
            failed.extend(ended.unwrap().err().map(|error| format!("{error:?}")));
        }
    }
    while let Some(ended) = under_way.join_next().await {
        told.connected.fetch_add(1, Ordering::Relaxed);
        failed.extend(ended.unwrap().err().map(|error| format!("{error:?}")));
    }
    failed
}

async fn who(client: &Client) -> i32 {
    let answer = client.query_one("SELECT pg_backend_pid()", &[]).await;
    answer.unwrap().get(0)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn twenty_upgrades_in_a_row_refuse_nobody_drop_nobody_and_lose_no_byte() {
    let load = load();
    let settings = ["max_connections=1000", "shared_buffers=32MB", "fsync=off"];
    let readers = Readers::new();
    let tempo = Tempo {
        top: readers.toml(),
        lease_timeout_secs: 10,
        ..Tempo::default()
    };
    let Some(mut stage) = Stage::set("upgrades", &tempo, &settings).await else {
        return;
    };
    stage.leads();
    let target = stage.target(stage.proxy.addr);
    let told = Arc::new(Told::default());
    let mut idle = Vec::new();
    for _ in 0..load.idle {
        let client = connect(&target).await.unwrap();
        let server = who(&client).await;
        idle.push((client, server));
    }
    let mut workers = JoinSet::new();
    for number in 0..load.busy {
        workers.spawn(busy(target.clone(), Arc::clone(&told), number));
    }
    let crowd = newcomers(readers.port, Arc::clone(&told), load.connects_per_second);
    let crowd = tokio::spawn(crowd);

    let mut took = Vec::new();
    for _ in 0..load.upgrades {
        tokio::time::sleep(Duration::from_millis(500)).await;
        let began = Instant::now();
        stage.proxy.upgrade(SINGLE).await;
        took.push(began.elapsed());
    }

    told.stop.store(true, Ordering::Relaxed);
    let failed = crowd.await.unwrap();
    while let Some(ended) = workers.join_next().await {
        ended.unwrap().unwrap();
    }
    for (client, server) in &idle {
        assert_eq!(who(client).await, *server);
    }
    took.sort();
    println!(
        "{load:?}: {} connected, {} failed; {} COPYs of {} MiB in all; single again after {:?} (median), {:?} (most)",
        told.connected.load(Ordering::Relaxed),
        failed.len(),
        told.copied.load(Ordering::Relaxed),
        told.bytes.load(Ordering::Relaxed) >> 20,
        took[took.len() / 2],
        took[took.len() - 1],
    );
    assert!(
        failed.is_empty(),
        "{}: {:?}",
        failed.len(),
        &failed[..failed.len().min(5)]
    );
    assert!(told.connected.load(Ordering::Relaxed) > 100);
    assert!(readers.replica.accepted() >= told.connected.load(Ordering::Relaxed));
    assert!(told.copied.load(Ordering::Relaxed) >= load.busy);
}
