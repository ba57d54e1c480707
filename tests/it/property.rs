//! The promise as a property: whatever clients and leaders do, nobody stays on a demoted node.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use super::scene::Scene;
use crate::fakes::client::Client;
use crate::fakes::cluster::{Cluster, Tempo};
use crate::fakes::{PATIENCE, eventually, ms};

const CLIENTS: usize = 200;
const FLIPS: usize = 500;
/// From the question that a node answers with no to the end of its last session: far below any interval that could
/// be meant by this, far above what a crowded machine adds.
const AT_MOST: Duration = Duration::from_secs(2);
/// The same for half of the flips: what it usually takes.
const USUALLY: Duration = ms(500);
/// A scripted server may accept a connection a little after the proxy has made it and given it up.
const IN_THE_QUEUE: Duration = ms(250);

/// When each node led, and until when sessions on it may have started or stayed.
#[derive(Default)]
struct Reign {
    spans: Vec<(Instant, Option<Instant>)>,
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_session_is_on_a_demoted_node_one_poll_later() {
    let seed = std::env::var("HELIOS_SEED")
        .ok()
        .and_then(|seed| seed.parse().ok());
    let seed = seed.unwrap_or_else(|| fastrand::u64(..));
    println!("HELIOS_SEED={seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    let mut cluster = Cluster::start(3);
    cluster.lead(0, 1);
    let tempo = Tempo {
        active_interval_ms: 10,
        fast_interval_ms: 5,
        ..Tempo::default()
    };
    let mut scene = Scene::leading(cluster, &tempo).await;
    let stop = Arc::new(AtomicBool::new(false));
    let answers = Arc::new(AtomicUsize::new(0));
    let clients: Vec<_> = (0..CLIENTS)
        .map(|i| {
            let random = fastrand::Rng::with_seed(seed ^ i as u64);
            tokio::spawn(client(
                scene.addr,
                random,
                Arc::clone(&stop),
                Arc::clone(&answers),
            ))
        })
        .collect();

    let mut reigns: Vec<Reign> = (0..3).map(|_| Reign::default()).collect();
    reigns[0]
        .spans
        .push((Instant::now() - Duration::from_secs(60), None));
    let mut took = Vec::new();
    for flip in 0..FLIPS {
        let old = scene.cluster.leader();
        let changed = Instant::now();
        let new = change(&mut scene.cluster, &mut random);
        if let Some(old) = old.filter(|old| Some(*old) != new) {
            let asked = scene.cluster.nodes[old].rest.questions().len();
            let node = &scene.cluster.nodes[old];
            assert!(eventually(PATIENCE, || node.rest.questions().len() > asked).await);
            let polled = Instant::now();
            let gone = eventually(AT_MOST, || node.postgres.open() == 0).await;
            let left = node.postgres.open();
            assert!(
                gone,
                "flip {flip}: {left} connections on {} {AT_MOST:?} after it was asked",
                node.name
            );
            took.push(polled.elapsed());
            if let Some(span) = reigns[old].spans.last_mut() {
                span.1 = Some(Instant::now() + IN_THE_QUEUE);
            }
        }
        if let Some(new) = new
            && old != Some(new)
        {
            reigns[new].spans.push((changed, None));
        }
        tokio::time::sleep(ms(random.u64(0..30))).await;
    }

    stop.store(true, Ordering::Relaxed);
    reigns[0].spans.push((Instant::now(), None));
    scene.cluster.lead(0, 100_000);
    for client in clients {
        client.await.unwrap();
    }
    let mut visits = 0;
    for (node, reign) in scene.cluster.nodes.iter().zip(&reigns) {
        for visit in node.postgres.visits() {
            visits += 1;
            let lawful = |(from, to): &(Instant, Option<Instant>)| {
                *from <= visit.at && to.is_none_or(|to| visit.at <= to)
            };
            assert!(
                reign.spans.iter().any(lawful),
                "{} was dialled {:?} after it was known not to lead",
                node.name,
                visit.at
                    - reign
                        .spans
                        .iter()
                        .filter_map(|span| span.1)
                        .filter(|end| *end < visit.at)
                        .max()
                        .expect("an end"),
            );
        }
    }
    let answers = answers.load(Ordering::Relaxed);
    took.sort();
    let (median, worst) = (took[took.len() / 2], took[took.len() - 1]);
    println!(
        "{FLIPS} flips, {visits} sessions, {answers} answers; none left after {median:?} (median), {worst:?} (worst)"
    );
    assert!(median <= USUALLY, "usually {median:?}");
    assert!(
        answers > FLIPS,
        "the clients had no life: {answers} answers"
    );
}

/// Another leader, the same one on a later timeline, or nobody for a while.
fn change(cluster: &mut Cluster, random: &mut fastrand::Rng) -> Option<usize> {
    let timeline = cluster.timeline() + 1;
    match random.u8(0..10) {
        0 => cluster.nobody(),
        1 => cluster.lead(cluster.leader().unwrap_or(0), timeline),
        _ => cluster.lead(random.usize(0..3), timeline),
    }
    cluster.leader()
}

/// Connects, asks a few times or hangs in a query, leaves in some manner, and again.
async fn client(
    addr: std::net::SocketAddr,
    mut random: fastrand::Rng,
    stop: Arc<AtomicBool>,
    answers: Arc<AtomicUsize>,
) {
    while !stop.load(Ordering::Relaxed) {
        let Ok(mut client) = Client::login(addr).await else {
            tokio::time::sleep(ms(random.u64(1..20))).await;
            continue;
        };
        for _ in 0..random.usize(1..200) {
            if stop.load(Ordering::Relaxed) || client.node().await.is_err() {
                break;
            }
            answers.fetch_add(1, Ordering::Relaxed);
            tokio::time::sleep(ms(random.u64(5..100))).await;
        }
        match random.u8(0..3) {
            0 => client.vanish(),
            1 => drop(client),
            _ => client.terminate().await,
        }
    }
}
