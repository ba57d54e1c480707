//! Only the leader's REST API is silent, and PostgreSQL is healthy: nobody waits, as long as another node sees the
//! lock. And a lock that runs out is not held up by anybody.

use std::{
    cell::RefCell,
    io,
    net::{IpAddr, SocketAddr, TcpListener, TcpStream},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use super::{
    doctor::assert_says,
    guests::Guests,
    stage::{SOON, Stage},
};
use crate::lab::{self, Lab, NODES, Net, Node, http, observer::Observer};

/// Short, so that a silence outlasts it several times.
const LEASE: Duration = Duration::from_secs(4);
const SHORT_LEASE: &str = "[topology]\nlease_timeout_secs = 4\n";
const SILENCE: Duration = Duration::from_secs(14);

#[test]
fn a_silent_rest_api_beside_a_healthy_leader_makes_nobody_wait() {
    let more = format!("[rest]\nport = {FORWARDED}\n{SHORT_LEASE}");
    let mut gates = Vec::new();
    let up = || {
        let lab = Lab::builder().fast().up()?;
        gates = NODES.map(|node| Gate::open(&lab, node)).into();
        Ok(lab)
    };
    let Some(stage) = Stage::set("witness", up, &more) else {
        return;
    };
    let leader = stage.settle();
    let gate = &gates[leader.index()];

    stage.assert_no_gap("hung", || gate.hang(true), || gate.hang(false));
    idle_connections_that_block_the_api_stop_nobody(&stage, leader);
    a_stopped_patroni_loses_its_lock_whatever_a_witness_saw(&stage, leader);
    a_dead_machine_is_followed_as_soon_as_its_lock_has_run_out(&stage);
}

#[test]
fn a_firewalled_rest_api_beside_a_healthy_leader_makes_nobody_wait() {
    if !lab::require_root("firewalled REST API") {
        return;
    }
    let up = || Lab::builder().net(Net::Netns).fast().up();
    let Some(stage) = Stage::set("firewall", up, SHORT_LEASE) else {
        return;
    };
    let leader = stage.settle();
    stage.assert_no_gap(
        "firewalled",
        || stage.lab.hide_rest(leader, true).unwrap(),
        || stage.lab.hide_rest(leader, false).unwrap(),
    );
    the_doctor_tells_a_filtered_port(&stage);
}

fn the_doctor_tells_a_filtered_port(stage: &Stage) {
    stage.settle();
    let replica = stage.lab.replicas()[0];
    stage.lab.hide_rest(replica, true).unwrap();
    let what = format!("{replica} REST {}: ", stage.lab.rest_at(replica));
    let first = format!("do first: {what}let this host through");
    assert_says(&stage.proxy.file, &format!("wrong    {what}"), &first, 1);

    stage.lab.hide_rest(replica, false).unwrap();
    let well = format!("ok       {what}");
    assert_says(&stage.proxy.file, &well, "nothing is wrong", 0);
}

/// Patroni serves with five threads and no time limit for reading.
fn idle_connections_that_block_the_api_stop_nobody(stage: &Stage, leader: Node) {
    let at = stage.lab.rest_at(leader);
    let idle = RefCell::new(Vec::new());
    let block = || {
        let connect = |_| TcpStream::connect(at).unwrap();
        idle.borrow_mut().extend((0..8).map(connect));
        let asked = stage.lab.rest(leader, "GET", "/primary", None);
        assert!(asked.is_err(), "the API is not blocked: {asked:?}");
    };
    stage.assert_no_gap("blocked", block, || idle.borrow_mut().clear());
}

/// Its PostgreSQL goes on, and so does the witness's word, until the lock has run out.
fn a_stopped_patroni_loses_its_lock_whatever_a_witness_saw(stage: &Stage, leader: Node) {
    let what = "Patroni stopped";
    let (epoch, revoked) = (stage.epoch(), stage.revoked());
    let vouched = stage.witnesses();
    let guests = Guests::arrive(stage.proxy.listens, 10, 0, Duration::ZERO);
    let observer = Observer::of(&stage.lab);

    let stopped = Instant::now();
    stage.lab.pause_only_patroni(leader);
    // Patroni renews its lock each second, so there are some 19 s left of it.
    while stopped.elapsed() < Duration::from_secs(14) {
        assert_eq!(stage.write_one(), stage.written_at(leader), "{what}");
        thread::sleep(Duration::from_millis(200));
    }
    assert!(stage.witnesses() > vouched, "{what}: nobody was a witness");
    assert_eq!((stage.epoch(), stage.revoked()), (epoch, revoked), "{what}");

    let new = stage.wait("new holder of the lock", || {
        stage.lab.leader().filter(|new| *new != leader)
    });
    stage.proxy.wait_for_leader(&stage.lab, new).unwrap();
    let followed = Instant::now();
    let writable = stage.wait("word of the new leader", || {
        observer.first_writable(stopped, Some(leader))
    });
    let took = followed.saturating_duration_since(writable.heard);
    eprintln!("{what}: followed {took:?} after it was writable");
    assert!(took < Duration::from_secs(5), "{took:?}");
    for end in guests.all_gone(SOON) {
        assert!(end.words.starts_with("FATAL 57P01"), "{what}: {end:?}");
    }
    assert_eq!(stage.sessions_at(leader), 0.0, "{what}");
    assert_eq!(stage.write_one(), stage.written_at(new), "{what}");

    stage.lab.resume(leader);
    assert_eq!(stage.settle(), new, "{what}");
    assert_eq!(stage.epoch(), epoch + 1, "{what}");
}

/// Until then the witnesses see its lock: whoever comes is dialled there in vain, and held.
fn a_dead_machine_is_followed_as_soon_as_its_lock_has_run_out(stage: &Stage) {
    let what = "kill -9 with the whole ttl";
    let vouched = stage.witnesses();
    let conflicts = stage.proxy.metric("topology_conflicting_primaries_total");

    let change = stage.in_synchronous_mode(|| stage.change(what, |lab, old| lab.kill(old)));

    assert_ne!(change.new, change.old);
    assert!(stage.witnesses() > vouched, "{what}: nobody was a witness");
    let now = stage.proxy.metric("topology_conflicting_primaries_total");
    assert_eq!(now, conflicts, "{what}: a dead leader is no second one");
}

impl Stage {
    fn witnesses(&self) -> f64 {
        self.proxy.metric("witness_total").unwrap()
    }

    /// Whether the newest question to a node was answered. Two that hang may have to end first.
    fn answers(&self, node: Node) -> Option<()> {
        let path = format!("/nodes/{}", self.lab.postgres_at(node));
        let said = http::get(self.proxy.admin, &path, Duration::from_secs(2)).ok()?;
        said.json()["last_error"].is_null().then_some(())
    }

    /// Silences the leader's REST API for several leases: new sessions go on, the open ones stay, nothing changes.
    fn assert_no_gap(&self, what: &str, silence: impl FnOnce(), end: impl FnOnce()) {
        let leader = self.settle();
        let (epoch, revoked, vouched) = (self.epoch(), self.revoked(), self.witnesses());
        let said = || self.proxy_log().matches("REST API is silent").count();
        let said_before = said();
        let guests = Guests::arrive(self.proxy.listens, 10, 2, SILENCE);
        let writers = self.writers();

        let began = Instant::now();
        silence();
        while began.elapsed() < SILENCE {
            let lease = &self.proxy.topology().unwrap()["authoritative"];
            assert_eq!(lease["valid"], true, "{what}: {:?}", began.elapsed());
            thread::sleep(Duration::from_millis(250));
        }
        let attempts = writers.stop();
        let vouched = self.witnesses() - vouched;
        end();
        self.wait("own word of the leader", || self.answers(leader));

        let late = |a: &&lab::client::Attempt| a.started > began + LEASE / 2;
        let took = attempts
            .iter()
            .filter(late)
            .filter_map(|a| Some(a.ended? - a.started));
        let longest = took.max().unwrap();
        eprintln!("{what}: {vouched} words of witnesses, the longest stay took {longest:?}");
        guests.assert_undisturbed(what);
        self.assert_undisturbed(what, &attempts);
        assert!(longest < Duration::from_secs(5), "{what}: {longest:?}");
        // Two witnesses, each asked once a second.
        let most = SILENCE.as_secs_f64() * 2.0 * 1.3;
        assert!((2.0..=most).contains(&vouched), "{what}: {vouched} words");
        assert_eq!(said() - said_before, 1, "{what}: once an episode");
        assert_eq!(self.settle(), leader, "{what}");
        assert_eq!((self.epoch(), self.revoked()), (epoch, revoked), "{what}");
    }
}

const FORWARDED: u16 = 18_008;

/// What stands before a node's REST API, as a proxy or a NAT may: it can hang, and then takes connections and says
/// nothing.
struct Gate {
    hangs: Arc<AtomicBool>,
}

impl Gate {
    fn open(lab: &Lab, node: Node) -> Self {
        let listener = listen(lab.ip(node)).unwrap();
        let hangs = Arc::<AtomicBool>::default();
        let (hung, rest) = (Arc::clone(&hangs), lab.rest_at(node));
        thread::spawn(move || {
            for client in listener.incoming() {
                let hung = Arc::clone(&hung);
                // One that went away in the queue.
                let Ok(client) = client else { continue };
                thread::spawn(move || forward(&client, rest, &hung));
            }
        });
        Self { hangs }
    }

    fn hang(&self, on: bool) {
        self.hangs.store(on, Ordering::Relaxed);
    }
}

fn listen(ip: IpAddr) -> io::Result<TcpListener> {
    TcpListener::bind(SocketAddr::new(ip, FORWARDED))
}

/// Both ways, until either end closes; while the gate hangs, until the client is tired of it.
fn forward(client: &TcpStream, rest: SocketAddr, hangs: &AtomicBool) {
    if hangs.load(Ordering::Relaxed) {
        let _ = io::copy(&mut &*client, &mut io::sink());
        return;
    }
    let Ok(server) = TcpStream::connect(rest) else {
        return;
    };
    thread::scope(|scope| {
        scope.spawn(|| {
            let _ = io::copy(&mut &*client, &mut &server);
        });
        let _ = io::copy(&mut &server, &mut &*client);
        let _ = client.shutdown(std::net::Shutdown::Both);
    });
}
