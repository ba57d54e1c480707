//! The read port in front of a real cluster: through a planned move and a death no reader is turned away, a cancel finds
//! its replica, and without replicas the leader serves or it is said that nobody does.

use std::{
    net::{IpAddr, SocketAddr},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use tokio::time;
use tokio_postgres::{NoTls, SimpleQueryMessage, error::SqlState};

use super::{
    guests::Guests,
    stage::{SOON, Stage, block_on},
};
use crate::lab::{self, Lab, Node, client, ports};

/// Longer than a question at rest and a replica's second answer.
const ONE_POLL: Duration = Duration::from_secs(15);
/// For readers who shall not fall back on the leader.
const HOLD: Duration = Duration::from_secs(8);

#[test]
fn readers_are_served_through_moves_and_deaths_and_without_replicas_as_configured() {
    let [desk, strict] = [(), ()].map(|()| ports::free());
    let more = format!(
        "write_timeout_secs = {}\n\
         [[listeners]]\naddress = \"{desk}\"\nroute = \"replica\"\n\
         [[listeners]]\naddress = \"{strict}\"\nroute = \"replica\"\nfallback = \"none\"\n",
        HOLD.as_secs()
    );
    let up = || Lab::builder().fast().up();
    let Some(stage) = Stage::set("reading", up, &more) else {
        return;
    };
    only_replicas_serve(&stage, desk);
    a_cancel_finds_its_replica_a_hundred_times(&stage, desk);
    a_switchover_disturbs_no_reader(&stage, desk);
    the_leaders_death_turns_no_reader_away(&stage, desk);
    without_replicas_the_leader_serves_or_nobody(&stage, desk, strict);
}

/// Of Debian 12: its answers do not say whether a replica streams.
#[test]
fn readers_of_an_old_patroni_are_served_through_a_move_and_a_death() {
    const OLD: &str = "3.0.2";
    if lab::require_patroni("reading from an old Patroni", OLD).is_none() {
        return;
    }
    let desk = ports::free();
    let more = format!("[[listeners]]\naddress = \"{desk}\"\nroute = \"replica\"\n");
    let up = || Lab::builder().fast().patroni(OLD).up();
    let Some(stage) = Stage::set("reading from an old Patroni", up, &more) else {
        return;
    };
    let about = stage.lab.rest(stage.settle(), "GET", "/patroni", None);
    assert_eq!(about.unwrap().json()["patroni"]["version"], OLD);
    only_replicas_serve(&stage, desk);
    a_switchover_disturbs_no_reader(&stage, desk);
    the_leaders_death_turns_no_reader_away(&stage, desk);
}

fn only_replicas_serve(stage: &Stage, desk: SocketAddr) {
    let leader = stage.settle();
    let replicas = stage.lab.replicas();
    stage.wait("readers on both replicas", || {
        let served: Vec<_> = (0..6).map(|_| read_once(desk).unwrap()).collect();
        let is_there = |node: &Node| served.iter().any(|by| by.ip == stage.lab.ip(*node));
        (replicas.iter().all(is_there) && !is_there(&leader)).then_some(())
    });
}

fn a_cancel_finds_its_replica_a_hundred_times(stage: &Stage, desk: SocketAddr) {
    block_on(async {
        let mut servers = Vec::new();
        for node in stage.lab.replicas() {
            let straight = client::config(stage.lab.postgres_at(node));
            servers.push(client::connect(&straight).await.unwrap());
        }
        let mut sleepers = Vec::new();
        for _ in 0..10 {
            sleepers.push(client::connect(&client::config(desk)).await.unwrap());
        }
        let mut hit = 0;
        for round in 0..100 {
            let sleeper = &sleepers[round % 10];
            let cancel = sleeper.cancel_token();
            let (slept, ()) = tokio::join!(sleeper.simple_query("SELECT pg_sleep(60)"), async {
                client::until_asleep(&servers).await.unwrap();
                cancel.cancel_query(NoTls).await.unwrap();
            });
            let error = slept.unwrap_err();
            hit += usize::from(error.code() == Some(&SqlState::QUERY_CANCELED));
        }
        assert_eq!(hit, 100);
    });
}

fn a_switchover_disturbs_no_reader(stage: &Stage, desk: SocketAddr) {
    let to = stage.lab.replicas()[0];
    let guests = Guests::arrive(desk, 8, 2, Duration::from_secs(20));
    let readers = Readers::start(desk);

    stage.lab.switchover(to).unwrap();
    stage.proxy.wait_for_leader(&stage.lab, to).unwrap();
    let known = Instant::now();
    stage.settle();
    thread::sleep(Duration::from_secs(2));

    let reads = readers.stop();
    assert_all_served("switchover", &reads);
    assert_left_alone(stage, to, known, &reads);
    guests.assert_undisturbed("switchover");
}

fn the_leaders_death_turns_no_reader_away(stage: &Stage, desk: SocketAddr) {
    let old = stage.settle();
    let readers = Readers::start(desk);
    thread::sleep(Duration::from_millis(500));

    stage.lab.kill(old);
    thread::sleep(Duration::from_millis(500));
    assert!(stage.lab.dcs_expire().unwrap());
    let new = stage.wait("new leader", || {
        stage.lab.leader().filter(|node| *node != old)
    });
    stage.proxy.wait_for_leader(&stage.lab, new).unwrap();
    let known = Instant::now();
    thread::sleep(Duration::from_secs(2));
    let starts = Instant::now();
    stage.lab.start(old).unwrap();
    stage.settle();
    let back = Instant::now();

    let mut reads = readers.stop();
    // Patroni may start PostgreSQL, find that it must be rewound, and stop it once more.
    reads.retain(|read| !read.was_inside_at_a_shutdown(starts, back));
    assert_all_served("kill -9", &reads);
    assert_left_alone(stage, new, known, &reads);
}

fn without_replicas_the_leader_serves_or_nobody(
    stage: &Stage,
    desk: SocketAddr,
    strict: SocketAddr,
) {
    let leader = stage.settle();
    let replicas = stage.lab.replicas();
    let fallbacks = || stage.proxy.metric("read_fallback_total").unwrap();
    let before = fallbacks();
    let readers = Readers::start(desk);
    let stops = Instant::now();
    for node in &replicas {
        stage.lab.stop(*node).unwrap();
    }
    let alone = Instant::now();
    thread::sleep(Duration::from_secs(1));
    assert_eq!(read_once(desk).unwrap().ip, stage.lab.ip(leader));
    let refused = read_once(strict).unwrap_err();
    assert!(refused.contains("57P03"), "{refused}");
    assert!(refused.contains("no replica of"), "{refused}");

    let back = replicas[1];
    let held = thread::spawn(move || read_once(strict));
    stage.lab.start(back).unwrap();
    let ready = stage.wait("replica", || {
        stage.lab.says_yes(back, "/replica").then(Instant::now)
    });
    stage.wait("reader on it", || {
        let by = read_once(desk).unwrap().ip;
        (by == stage.lab.ip(back)).then_some(())
    });
    let took = ready.elapsed();
    eprintln!("a replica that is back serves after {took:?}");
    assert!(took < ONE_POLL, "{took:?}");
    // Whoever was held had its chance meanwhile, as far as its time went.
    if let Ok(by) = held.join().unwrap() {
        assert_eq!(by.ip, stage.lab.ip(back));
    }

    stage.lab.start(replicas[0]).unwrap();
    stage.settle();
    let mut reads = readers.stop();
    // Who was inside of PostgreSQL when that was shut down hears so from PostgreSQL itself.
    let all = reads.len();
    reads.retain(|read| !read.was_inside_at_a_shutdown(stops, alone));
    eprintln!(
        "{} readers were inside of a PostgreSQL that stopped",
        all - reads.len()
    );
    assert_all_served("without replicas", &reads);
    let while_alone = |read: &&Read| read.began > alone && read.began < ready;
    let of_leader = reads.iter().filter(while_alone).count();
    assert!(of_leader > 0);
    assert!(fallbacks() - before >= of_leader as f64);
}

/// Who has answered a reader.
#[derive(Clone, Copy, Debug)]
struct By {
    ip: IpAddr,
    in_recovery: bool,
}

#[derive(Clone, Debug)]
struct Read {
    began: Instant,
    by: Result<By, Unserved>,
}

#[derive(Clone, Debug)]
struct Unserved {
    /// The server had said that it is ready, by this time.
    connected: Option<Instant>,
    ended: Instant,
    words: String,
}

impl Read {
    /// PostgreSQL's own words, which are not the proxy's, to a session that had begun.
    fn was_inside_at_a_shutdown(&self, stops: Instant, stopped: Instant) -> bool {
        self.by.as_ref().is_err_and(|unserved| {
            unserved.connected.is_some_and(|at| at < stopped)
                && unserved.ended > stops
                && unserved.words
                    == "FATAL 57P01: terminating connection due to administrator command"
        })
    }
}

/// Short clients: each connects, asks who serves it, and leaves; a new one every 20 ms.
struct Readers {
    reads: Arc<Mutex<Vec<Read>>>,
    over: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

impl Readers {
    fn start(at: SocketAddr) -> Self {
        let reads = Arc::<Mutex<Vec<Read>>>::default();
        let over = Arc::<AtomicBool>::default();
        let (log, until) = (Arc::clone(&reads), Arc::clone(&over));
        let thread = thread::spawn(move || {
            block_on(async move {
                let mut tick = time::interval(Duration::from_millis(20));
                let mut under_way = tokio::task::JoinSet::new();
                while !until.load(Ordering::Relaxed) {
                    tick.tick().await;
                    let log = Arc::clone(&log);
                    under_way.spawn(async move {
                        let began = Instant::now();
                        let by = read(at).await;
                        log.lock().unwrap().push(Read { began, by });
                    });
                    while under_way.try_join_next().is_some() {}
                }
                while under_way.join_next().await.is_some() {}
            });
        });
        Self {
            reads,
            over,
            thread,
        }
    }

    fn stop(self) -> Vec<Read> {
        self.over.store(true, Ordering::Relaxed);
        self.thread.join().unwrap();
        self.reads.lock().unwrap().clone()
    }
}

fn read_once(at: SocketAddr) -> Result<By, String> {
    block_on(read(at)).map_err(|unserved| unserved.words)
}

async fn read(at: SocketAddr) -> Result<By, Unserved> {
    let mut connected = None;
    let answer = time::timeout(SOON, ask(at, &mut connected)).await;
    let answer = answer.unwrap_or_else(|_late| Err(format!("nothing within {SOON:?}")));
    answer.map_err(|words| Unserved {
        connected,
        ended: Instant::now(),
        words,
    })
}

async fn ask(at: SocketAddr, connected: &mut Option<Instant>) -> Result<By, String> {
    let in_words = |error| client::in_words(&error);
    let (client, connection) = client::config(at).connect(NoTls).await.map_err(in_words)?;
    *connected = Some(Instant::now());
    let stay = tokio::spawn(connection);
    let text = "SELECT host(inet_server_addr()), pg_is_in_recovery()";
    let answer = match client.simple_query(text).await {
        // What the server says before it is asked, the connection hears.
        Err(error) if error.is_closed() => {
            return Err(match stay.await {
                Ok(Err(said)) => in_words(said),
                _ => in_words(error),
            });
        }
        answer => answer.map_err(in_words)?,
    };
    let row = answer.iter().find_map(|message| match message {
        SimpleQueryMessage::Row(row) => Some(By {
            ip: row.get(0)?.parse().ok()?,
            in_recovery: row.get(1)? == "t",
        }),
        _ => None,
    });
    row.ok_or_else(|| "no row".to_owned())
}

fn assert_all_served(what: &str, reads: &[Read]) {
    let failed: Vec<_> = reads.iter().filter(|read| read.by.is_err()).collect();
    let by_standbys = reads
        .iter()
        .filter(|read| read.by.as_ref().is_ok_and(|by| by.in_recovery));
    eprintln!(
        "{what}: {} readers, {} failed, {} served in recovery",
        reads.len(),
        failed.len(),
        by_standbys.count()
    );
    assert!(reads.len() > 50);
    assert!(failed.is_empty(), "{what}: {failed:?}");
}

/// Once it was known to lead, nobody new came to read there.
fn assert_left_alone(stage: &Stage, leader: Node, since: Instant, reads: &[Read]) {
    let ip = stage.lab.ip(leader);
    let there: Vec<_> = reads
        .iter()
        .filter(|read| read.began > since && read.by.as_ref().is_ok_and(|by| by.ip == ip))
        .collect();
    assert!(there.is_empty(), "{leader} leads: {there:?}");
}
