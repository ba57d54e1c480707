//! Two hundred proxies watch one cluster on this machine: Patroni must not notice.

use std::{
    error::Error,
    fs, io,
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use heliosdb_proxy::{Bound, Config, House};
use tokio::{runtime::Runtime, task::JoinSet, time};

use super::{
    figures::{Table, ms, percentile},
    lab::{
        Lab, LabError, NODES,
        client::{self, Outcome},
        http,
        observer::Observer,
        poll, proxy,
    },
};

const PROXIES: usize = 200;
const KILLS: usize = 5;
/// Patroni's default ttl is 30 s.
const LONGEST_TTL: Duration = Duration::from_secs(60);
/// What Patroni's log says when its HA loop took longer than loop_wait.
const LATE: &str = "Loop time exceeded";

pub fn measure(table: &mut Table) -> Result<(), Box<dyn Error>> {
    let lab = Lab::builder().max_connections(400).up()?;
    client::make_table(&lab, lab.wait_healthy()?)?;
    let calm = Calm::start(&lab);
    let alone: Vec<Duration> = (0..KILLS)
        .map(|_| kill(&lab, || Ok(())))
        .collect::<Result<_, _>>()?;

    let answers_alone = calm.stop();
    lab.wait_healthy()?;

    let runtime = Runtime::new()?;
    let fleet = runtime.block_on(Fleet::start(&lab))?;
    let late = late_loops(&lab);
    let calm = Calm::start(&lab);
    thread::sleep(Duration::from_secs(5));
    lab.switchover(lab.replicas()[0])?;
    runtime.block_on(fleet.write());
    let mut unserved = 0;
    let mut watched = Vec::new();
    for _ in 0..KILLS {
        watched.push(kill(&lab, || {
            unserved += runtime.block_on(fleet.write());
            Ok(())
        })?);
    }
    let answers = calm.stop();
    let late = late_loops(&lab) - late;
    runtime.block_on(fleet.stop());

    table.add(
        format!("{PROXIES} proxies: Patroni's /primary for one calm observer, through a switchover and {KILLS} kills"),
        "p99 < 100 ms",
        format!(
            "p50 {}, p99 {} of {}; through {KILLS} kills without them p99 {} of {}",
            ms(percentile(&answers, 50)),
            ms(percentile(&answers, 99)),
            answers.len(),
            ms(percentile(&answers_alone, 99)),
            answers_alone.len()
        ),
    );
    let (alone, watched) = (percentile(&alone, 50), percentile(&watched, 50));
    table.add(
        format!("{PROXIES} proxies: leader key free → new leader writable"),
        "≤ 0.5 s slower than without",
        format!("median {}, without them {}", ms(watched), ms(alone)),
    );
    table.add(
        format!("{PROXIES} proxies: HA loops that Patroni calls late"),
        "0",
        late.to_string(),
    );
    table.add(
        format!(
            "{PROXIES} proxies: held clients not served, of {}",
            PROXIES * KILLS
        ),
        "0",
        unserved.to_string(),
    );
    Ok(())
}

/// The leader's machine dies and its lock runs out by its own ttl; gives the time from the free key to the heir's word.
fn kill(lab: &Lab, meanwhile: impl FnOnce() -> Result<(), LabError>) -> Result<Duration, LabError> {
    let old = lab.wait_healthy()?;
    let observer = Observer::every(lab, Duration::from_millis(50));
    let began = Instant::now();
    lab.kill(old);
    let (free, met) = thread::scope(|scope| {
        let free = scope.spawn(|| {
            poll(LONGEST_TTL, Duration::from_millis(10), || {
                lab.dcs_is_free().is_ok_and(|free| free).then(Instant::now)
            })
        });
        let met = meanwhile();
        (free.join().unwrap_or(None), met)
    });
    met?;
    let free = free.ok_or_else(|| LabError::Refused("the lock of a dead leader stays".into()))?;
    let heir = lab.wait("new leader", Duration::from_secs(60), || {
        observer.first_writable(began, Some(old))
    })?;
    drop(observer);
    lab.start(old)?;
    let took = heir.heard.saturating_duration_since(free);
    eprintln!(
        "fleet: {old} -> {}, writable {} after the key was free",
        heir.node,
        ms(took)
    );
    Ok(took)
}

/// The proxies, all in this process, and where each listens.
struct Fleet {
    houses: Vec<(House, SocketAddr)>,
}

impl Fleet {
    async fn start(lab: &Lab) -> Result<Self, Box<dyn Error>> {
        let text = proxy::settings(lab, SocketAddr::new(lab.client_ip(), 0), None, "");
        let mut houses = Vec::new();
        for _ in 0..PROXIES {
            let house = House::start(Config::from_toml(&text)?).await?;
            let [Bound::Tcp(at)] = house.listeners()[..] else {
                return Err("one TCP listener was asked for".into());
            };
            houses.push((house, at));
        }
        Ok(Self { houses })
    }

    /// One client at each proxy; gives how many were not served.
    async fn write(&self) -> usize {
        let mut all = JoinSet::new();
        for (_, at) in &self.houses {
            let stay = client::write_once(client::config(*at), client::new_id(), || ());
            all.spawn(time::timeout(Duration::from_secs(60), stay));
        }
        let outcomes = all.join_all().await;
        let unserved = |outcome: &&Result<Outcome, _>| !matches!(outcome, Ok(Outcome::Written(_)));
        for outcome in outcomes.iter().filter(unserved).take(2) {
            eprintln!("fleet: {outcome:?}");
        }
        outcomes.iter().filter(unserved).count()
    }

    async fn stop(self) {
        for (house, _) in self.houses {
            house.stop().await;
        }
    }
}

/// Asks each node five times a second and keeps how long the answers took.
struct Calm {
    threads: Vec<thread::JoinHandle<Vec<Duration>>>,
    over: Arc<AtomicBool>,
}

impl Calm {
    fn start(lab: &Lab) -> Self {
        let over = Arc::<AtomicBool>::default();
        let threads = NODES
            .into_iter()
            .map(|node| {
                let (at, over) = (lab.rest_at(node), Arc::clone(&over));
                thread::spawn(move || {
                    let mut took = Vec::new();
                    while !over.load(Ordering::Relaxed) {
                        let asked = Instant::now();
                        // A dead machine's refusal is no answer; a silence of 3 s is a slow one.
                        match http::get(at, "/primary", Duration::from_secs(3)) {
                            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {}
                            _ => took.push(asked.elapsed()),
                        }
                        thread::sleep(Duration::from_millis(200));
                    }
                    took
                })
            })
            .collect();
        Self { threads, over }
    }

    fn stop(self) -> Vec<Duration> {
        self.over.store(true, Ordering::Relaxed);
        self.threads
            .into_iter()
            .flat_map(|thread| thread.join().unwrap_or_default())
            .collect()
    }
}

fn late_loops(lab: &Lab) -> usize {
    let of = |node| {
        fs::read_to_string(lab.folder().join(format!("{node}/patroni.log"))).unwrap_or_default()
    };
    NODES
        .into_iter()
        .map(|node| of(node).matches(LATE).count())
        .sum()
}
