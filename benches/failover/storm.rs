//! A thousand clients that wait for a leader at once, before a server that takes a hundred connections.

use std::{
    error::Error,
    fs,
    net::SocketAddr,
    path::Path,
    sync::atomic::{AtomicBool, AtomicUsize, Ordering},
    thread,
    time::{Duration, Instant},
};

use nix::unistd::Pid;
use tokio::{runtime::Builder, task::JoinSet, time};
use tokio_postgres::Config;

use super::{
    figures::{Table, ms, percentile, seconds},
    lab::{
        Lab, LabError, Node,
        client::{self, Outcome},
        observer::Observer,
        process,
        proxy::Proxy,
    },
};

const CLIENTS: usize = 1000;
/// `dial_concurrency`: so many of them may be at the dead node at any moment.
const DIALLED: usize = 20;

pub fn measure(table: &mut Table) -> Result<(), Box<dyn Error>> {
    let lab = Lab::builder().max_connections(100).up()?;
    client::make_table(&lab, lab.wait_healthy()?)?;
    let proxy = Proxy::start(&lab, "")?;
    for (login, config) in [
        ("trust", client::config(proxy.listens)),
        ("SCRAM", client::config_scram(proxy.listens)),
    ] {
        let old = lab.wait_healthy()?;
        proxy.wait_for_leader(&lab, old)?;
        let storm = Storm::unleash(&lab, &proxy, old, config)?;
        storm.report(login, table);
        lab.start(old)?;
    }
    Ok(())
}

/// What came of a crowd that was let go at once.
struct Storm {
    /// How each client fared, and when.
    outcomes: Vec<(Outcome, Instant)>,
    /// When the new leader said that it is writable.
    writable: Instant,
    /// How long each INSERT took that did not go through the proxy.
    direct: Vec<Duration>,
    unauthenticated: usize,
}

impl Storm {
    /// The leader dies, the crowd gathers, the lock runs out. Until then the other nodes see the dead leader's lock, so
    /// the proxy dials it in vain for some of those who wait.
    fn unleash(lab: &Lab, proxy: &Proxy, old: Node, config: Config) -> Result<Self, LabError> {
        let observer = Observer::of(lab);
        let killed = Instant::now();
        lab.kill(old);
        let crowd = thread::spawn(move || wait_together(&config));
        lab.wait("crowd of held clients", Duration::from_secs(20), || {
            proxy
                .metric("held_clients")
                .filter(|held| *held >= (CLIENTS - DIALLED) as f64)
        })?;
        lab.dcs_expire()?;
        let heir = lab.wait("new leader", Duration::from_secs(30), || {
            observer.first_writable(killed, Some(old))
        })?;
        let over = AtomicBool::default();
        let most = AtomicUsize::default();
        let folder = lab.folder().join(heir.node.to_string()).join("data");
        let (outcomes, direct, counted) = thread::scope(|scope| {
            let counted = scope.spawn(|| count_unauthenticated(&folder, &most, &over));
            let direct = scope.spawn(|| write_directly(lab.postgres_at(heir.node), &over));
            let outcomes = crowd.join();
            over.store(true, Ordering::Relaxed);
            (outcomes, direct.join(), counted.join())
        });
        let fell_over = |_| LabError::Refused("a client of the storm fell over".into());
        counted.map_err(fell_over)??;
        Ok(Self {
            outcomes: outcomes.map_err(fell_over)??,
            writable: heir.heard,
            direct: direct.map_err(fell_over)??,
            unauthenticated: most.load(Ordering::Relaxed),
        })
    }

    fn report(&self, login: &str, table: &mut Table) {
        let unserved = |outcome: &Outcome| !matches!(outcome, Outcome::Written(_));
        let failed: Vec<_> = self
            .outcomes
            .iter()
            .filter(|(outcome, _)| unserved(outcome))
            .collect();
        for (outcome, _) in failed.iter().take(3) {
            eprintln!("storm: {outcome:?}");
        }
        let last = self
            .outcomes
            .iter()
            .map(|(_, ended)| *ended)
            .max()
            .unwrap_or(self.writable);
        let last = last.saturating_duration_since(self.writable);
        let served = self.outcomes.len() - failed.len();
        table.add(
            format!("{CLIENTS} clients ({login}) waiting at once, max_connections = 100: served"),
            format!("{CLIENTS}"),
            format!(
                "{served}, the last {} after the leader was writable",
                seconds(last)
            ),
        );
        table.add(
            format!("… unauthenticated dials at the new leader ({login})"),
            "≤ 20",
            format!("at most {}", self.unauthenticated),
        );
        table.add(
            format!("… a direct INSERT meanwhile ({login})"),
            "p99 < 200 ms",
            format!(
                "p50 {}, p99 {} of {}",
                ms(percentile(&self.direct, 50)),
                ms(percentile(&self.direct, 99)),
                self.direct.len()
            ),
        );
    }
}

fn wait_together(config: &Config) -> Result<Vec<(Outcome, Instant)>, LabError> {
    let runtime = Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(LabError::io("runtime"))?;
    Ok(runtime.block_on(async {
        let mut all = JoinSet::new();
        for _ in 0..CLIENTS {
            let stay = client::write_once(config.clone(), client::new_id(), || ());
            all.spawn(async move {
                let outcome = time::timeout(Duration::from_secs(90), stay).await;
                (
                    outcome.unwrap_or_else(|_| Outcome::Failed("nothing within 90 s".into())),
                    Instant::now(),
                )
            });
        }
        all.join_all().await
    }))
}

/// How long each INSERT took on a connection that does not go through the proxy.
fn write_directly(at: SocketAddr, over: &AtomicBool) -> Result<Vec<Duration>, LabError> {
    let runtime = Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(LabError::io("runtime"))?;
    runtime.block_on(async {
        let failed = |error: tokio_postgres::Error| LabError::Refused(client::in_words(&error));
        // Some slots are kept for superusers: the storm may have all the others.
        let mut config = client::config(at);
        config.user("postgres");
        let client = client::connect(&config).await.map_err(failed)?;
        let mut took = Vec::new();
        while !over.load(Ordering::Relaxed) {
            let began = Instant::now();
            let text = format!("INSERT INTO writes VALUES ({})", client::new_id());
            client.simple_query(&text).await.map_err(failed)?;
            took.push(began.elapsed());
            time::sleep(Duration::from_millis(5)).await;
        }
        Ok(took)
    })
}

/// The processes are looked at one after the other. Who is unauthenticated in both passes was so at the moment between
/// them; one that takes less time than a pass may be missed.
fn count_unauthenticated(
    data: &Path,
    most: &AtomicUsize,
    over: &AtomicBool,
) -> Result<(), LabError> {
    let file = fs::read_to_string(data.join("postmaster.pid"));
    let file = file.map_err(LabError::io("postmaster.pid"))?;
    let postmaster = file.lines().next().unwrap_or_default();
    let is_early = |pid: &Pid| pid.to_string() != postmaster && is_unauthenticated(*pid);
    while !over.load(Ordering::Relaxed) {
        let mut early = process::in_folder(data);
        early.retain(is_early);
        early.retain(is_early);
        most.fetch_max(early.len(), Ordering::Relaxed);
        thread::sleep(Duration::from_millis(5));
    }
    Ok(())
}

/// PostgreSQL writes what a backend is doing into its title, and for whom once it knows that; one that has just been
/// forked has the postmaster's, and one that is just ending has none. Replicas and those who write directly log in, too.
fn is_unauthenticated(pid: Pid) -> bool {
    let title = fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let title = title.trim_end_matches(['\0', ' ']);
    let is_titled = title.starts_with("postgres:") || title.is_empty();
    let of_the_crowd = |user| title.contains(&format!(" {user} app "));
    title.ends_with("authentication") && ["app", "app_scram"].iter().any(of_the_crowd)
        || title.ends_with("initializing")
        || !is_titled
}
