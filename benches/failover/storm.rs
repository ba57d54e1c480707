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

use tokio::{runtime::Builder, task::JoinSet, time};

use super::{
    figures::{Table, ms, percentile, seconds},
    lab::{
        Lab, LabError,
        client::{self, Outcome},
        observer::Observer,
        process,
        proxy::Proxy,
    },
};

const CLIENTS: usize = 1000;

pub fn measure(table: &mut Table) -> Result<(), Box<dyn Error>> {
    let lab = Lab::builder().max_connections(100).up()?;
    let old = lab.wait_healthy()?;
    client::make_table(&lab, old)?;
    let proxy = Proxy::start(&lab, "")?;
    let observer = Observer::of(&lab);

    let killed = Instant::now();
    lab.kill(old);
    let crowd = thread::spawn({
        let at = proxy.listens;
        move || wait_together(at)
    });
    lab.wait("crowd of held clients", Duration::from_secs(25), || {
        proxy
            .metric("held_clients")
            .filter(|held| *held >= CLIENTS as f64)
    })?;
    lab.dcs_expire()?;
    let heir = lab.wait("new leader", Duration::from_secs(30), || {
        observer.first_writable(killed, Some(old))
    })?;
    let over = AtomicBool::default();
    let most = AtomicUsize::default();
    let folder = lab.folder().join(heir.node.to_string()).join("data");
    let (outcomes, direct) = thread::scope(|scope| {
        scope.spawn(|| count_unauthenticated(&folder, &most, &over));
        let direct = scope.spawn(|| write_directly(lab.postgres_at(heir.node), &over));
        let outcomes = crowd
            .join()
            .map_err(|_| LabError::Refused("the crowd fell over".into()));
        over.store(true, Ordering::Relaxed);
        (outcomes, direct.join())
    });
    let outcomes = outcomes??;
    let direct = direct.map_err(|_| "the direct client fell over")??;

    let served = outcomes
        .iter()
        .filter(|(outcome, _)| matches!(outcome, Outcome::Written(_)))
        .count();
    for (outcome, _) in outcomes
        .iter()
        .filter(|(outcome, _)| !matches!(outcome, Outcome::Written(_)))
        .take(3)
    {
        eprintln!("storm: {outcome:?}");
    }
    let last = outcomes
        .iter()
        .map(|(_, ended)| *ended)
        .max()
        .unwrap_or(heir.heard);
    table.add(
        format!("{CLIENTS} clients waiting at once, max_connections = 100: served"),
        format!("{CLIENTS}"),
        format!(
            "{served}, the last {} after the leader was writable",
            seconds(last.saturating_duration_since(heir.heard))
        ),
    );
    table.add(
        "unauthenticated dials at the new leader",
        "≤ 20",
        format!("at most {}", most.load(Ordering::Relaxed)),
    );
    table.add(
        "a direct INSERT meanwhile",
        "p99 < 200 ms",
        format!(
            "p50 {}, p99 {} of {}",
            ms(percentile(&direct, 50)),
            ms(percentile(&direct, 99)),
            direct.len()
        ),
    );
    Ok(())
}

fn wait_together(at: SocketAddr) -> Result<Vec<(Outcome, Instant)>, LabError> {
    let runtime = Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(LabError::io("runtime"))?;
    Ok(runtime.block_on(async {
        let mut all = JoinSet::new();
        for _ in 0..CLIENTS {
            all.spawn(async move {
                let stay = client::write_once(at, client::new_id(), || ());
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
        let client = client::connect(&client::config(at)).await.map_err(failed)?;
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

/// PostgreSQL writes what a backend is doing into its title.
fn count_unauthenticated(data: &Path, most: &AtomicUsize, over: &AtomicBool) {
    while !over.load(Ordering::Relaxed) {
        let early = process::in_folder(data)
            .into_iter()
            .filter_map(|pid| fs::read_to_string(format!("/proc/{pid}/cmdline")).ok())
            .filter(|title| {
                let title = title.trim_end_matches(['\0', ' ']);
                title.ends_with("authentication") || title.ends_with("initializing")
            })
            .count();
        most.fetch_max(early, Ordering::Relaxed);
        thread::sleep(Duration::from_millis(5));
    }
}
