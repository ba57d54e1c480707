//! One process after the other, with systemd keeping the sockets in between: nobody is refused.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use tokio::net::{TcpListener, TcpStream, UdpSocket, UnixListener, UnixStream};
use tokio::task::JoinHandle;

use super::daemon::{Daemon, PATIENCE, free, toml};
use super::shelf::Shelf;
use crate::fakes::client::Client;
use crate::fakes::cluster::Cluster;
use crate::fakes::{eventually, wire, within};

/// Comes, asks, and leaves, all the time.
struct Crowd {
    served: Arc<AtomicUsize>,
    stop: Arc<AtomicBool>,
    visitors: Vec<JoinHandle<Vec<String>>>,
}

impl Crowd {
    fn at(address: SocketAddr, visitors: usize) -> Self {
        let (served, stop) = (Arc::<AtomicUsize>::default(), Arc::<AtomicBool>::default());
        let visit = |_| {
            let (served, stop) = (Arc::clone(&served), Arc::clone(&stop));
            tokio::spawn(async move {
                let mut failures = Vec::new();
                while !stop.load(Ordering::Relaxed) {
                    match tokio::time::timeout(PATIENCE, visit(address)).await {
                        Ok(Ok(())) => drop(served.fetch_add(1, Ordering::Relaxed)),
                        Ok(Err(words)) => failures.push(words),
                        Err(_late) => failures.push("hangs".to_owned()),
                    }
                    tokio::time::sleep(Duration::from_millis(2)).await;
                }
                failures
            })
        };
        Self {
            visitors: (0..visitors).map(visit).collect(),
            served,
            stop,
        }
    }

    fn served(&self) -> usize {
        self.served.load(Ordering::Relaxed)
    }

    /// How many were served, and what went wrong.
    async fn leave(self) -> (usize, Vec<String>) {
        self.stop.store(true, Ordering::Relaxed);
        let mut failures = Vec::new();
        for visitor in self.visitors {
            failures.extend(visitor.await.unwrap());
        }
        (self.served.load(Ordering::Relaxed), failures)
    }
}

async fn visit(address: SocketAddr) -> Result<(), String> {
    let mut client = Client::login(address).await.map_err(|e| format!("{e:?}"))?;
    client.node().await.map_err(|e| format!("{e:?}"))?;
    client.terminate().await;
    Ok(())
}

/// A cluster whose first node leads, and a configuration that listens at an address that is known before.
fn scene(top: &str) -> (Cluster, SocketAddr, String) {
    let mut cluster = Cluster::start(2);
    cluster.lead(0, 1);
    let listen = free();
    let toml = cluster.toml().replace("127.0.0.1:0", &listen.to_string());
    (cluster, listen, format!("{top}\n{toml}"))
}

async fn ready(toml: &str, shelf: Shelf) -> Daemon {
    let daemon = Daemon::start_from(toml, shelf);
    daemon.told("READY").await;
    daemon
}

/// A session that the server is at work for.
async fn at_work(cluster: &Cluster, listen: SocketAddr, query: &str) -> Client {
    let server = &cluster.nodes[0].postgres;
    let before = server.queries();
    let mut client = Client::login(listen).await.unwrap();
    client.send(&wire::query(query)).await.unwrap();
    assert!(eventually(PATIENCE, || server.queries() > before).await);
    client
}

fn named(address: SocketAddr) -> String {
    address.to_string().replace(':', "%3A")
}

#[tokio::test]
async fn each_listening_socket_is_stored_before_ready_and_forgotten_when_it_goes() {
    let (first, second, admin) = (free(), free(), free());
    let old = toml("", first, free()).replace("''", &format!("'{admin}'"));
    let new = format!("{old}\n[[listeners]]\naddress = '{second}'\n");
    let daemon = ready(&old, Shelf::default()).await;
    let sorted = |addresses: &[SocketAddr]| {
        let mut names: Vec<_> = addresses.iter().copied().map(named).collect();
        names.sort_unstable();
        names
    };
    assert_eq!(daemon.stored(), sorted(&[first, admin]));

    for (toml, stored) in [
        (&new, sorted(&[first, second, admin])),
        (&old, sorted(&[first, admin])),
    ] {
        daemon.hang_up(Some(toml));
        daemon.told("RELOADING").await;
        daemon.told("READY").await;
        assert_eq!(daemon.stored(), stored);
    }
    let refused = async {
        while TcpStream::connect(second).await.is_ok() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    within(PATIENCE, "the removed listener's end", refused).await;
}

#[tokio::test]
async fn without_a_store_nothing_is_stored_and_one_that_is_too_small_is_said() {
    let daemon = Daemon::start(&toml("", free(), free()));
    daemon.told("READY").await;
    assert!(daemon.stored().is_empty());

    let toml = format!(
        "{}\n[[listeners]]\naddress = '{}'\n",
        toml("", free(), free()),
        free()
    );
    let small = Daemon::start_with(&toml, |command| {
        command.env("FDSTORE", "1");
    });
    small.told("READY").await;
    assert_eq!(small.stored().len(), 1);
    small.logs("FileDescriptorStoreMax=1 is too small").await;
}

#[tokio::test]
async fn twenty_restarts_under_constant_connecting_refuse_nobody_and_cut_nobody() {
    let (_cluster, listen, toml) = scene("");
    let mut daemon = ready(&toml, Shelf::default()).await;
    let crowd = Crowd::at(listen, 8);

    for _ in 0..20 {
        let before = crowd.served();
        let goes_on = eventually(PATIENCE, || crowd.served() > before + 20).await;
        assert!(goes_on, "{}", daemon.log());
        daemon.signal(Signal::SIGTERM);
        daemon = ready(&toml, daemon.left().await).await;
    }

    let (served, failures) = crowd.leave().await;
    assert!(failures.is_empty(), "{served} served, but {failures:?}");
    assert!(served > 400, "{served}");
}

#[tokio::test]
async fn while_a_session_from_before_is_busy_newcomers_are_served() {
    let (cluster, listen, toml) = scene("drain_timeout_secs = 20");
    let daemon = ready(&toml, Shelf::default()).await;
    let mut busy = at_work(&cluster, listen, "slow 2500").await;
    let crowd = Crowd::at(listen, 4);

    daemon.signal(Signal::SIGTERM);
    daemon.told("STOPPING").await;
    let before = crowd.served();
    assert_eq!(busy.result().await.unwrap(), "n1");
    let meanwhile = crowd.served() - before;
    assert!(meanwhile > 10, "{meanwhile} served while it was busy");
    busy.terminate().await;

    let began = Instant::now();
    let shelf = daemon.left().await;
    assert!(
        began.elapsed() < Duration::from_secs(5),
        "{:?}",
        began.elapsed()
    );
    let _daemon = ready(&toml, shelf).await;
    let before = crowd.served();
    assert!(eventually(PATIENCE, || crowd.served() > before + 20).await);
    let (served, failures) = crowd.leave().await;
    assert!(failures.is_empty(), "{served} served, but {failures:?}");
}

#[tokio::test]
async fn a_newcomer_that_stays_busy_shuts_nobody_out_for_long() {
    let (cluster, listen, toml) = scene("drain_timeout_secs = 8");
    let daemon = ready(&toml, Shelf::default()).await;
    let mut first = at_work(&cluster, listen, "slow 1500").await;
    daemon.signal(Signal::SIGTERM);
    daemon.told("STOPPING").await;
    let _newcomer = at_work(&cluster, listen, "slow 60000").await;
    first.result().await.unwrap();
    first.terminate().await;

    // A lull may have begun by now, in which nobody is accepted; it ends, because the newcomer is busy.
    tokio::time::sleep(Duration::from_millis(200)).await;
    let began = Instant::now();
    visit(listen).await.unwrap();

    let waited = began.elapsed();
    assert!(waited < Duration::from_secs(4), "{waited:?}");
    let shelf = daemon.left().await;
    assert_eq!(shelf.names(), [named(listen)]);
}

#[tokio::test]
async fn who_comes_after_a_crash_waits_for_the_next_process() {
    let (_cluster, listen, toml) = scene("");
    let daemon = ready(&toml, Shelf::default()).await;
    daemon.signal(Signal::SIGKILL);
    let shelf = daemon.left().await;

    let waiting = tokio::spawn(visit(listen));
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert!(!waiting.is_finished());
    let _daemon = ready(&toml, shelf).await;

    within(PATIENCE, "the visit", waiting)
        .await
        .unwrap()
        .unwrap();
}

#[tokio::test]
async fn a_unix_socket_and_its_file_survive_a_restart_and_a_crash_and_go_with_their_listener() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(".s.PGSQL.5432");
    let old = toml("", free(), free());
    let new = format!(
        "{old}\n[[listeners]]\naddress = '{}'\nmode = '0700'\n",
        path.display()
    );
    let mut daemon = ready(&new, Shelf::default()).await;
    let file = || std::os::unix::fs::MetadataExt::ino(&std::fs::metadata(&path).unwrap());
    let made = file();

    for signal in [Signal::SIGTERM, Signal::SIGKILL, Signal::SIGTERM] {
        daemon.signal(signal);
        let shelf = daemon.left().await;
        let waiting = UnixStream::connect(&path).await.unwrap();
        daemon = ready(&new, shelf).await;
        assert_eq!(file(), made, "the same file, so the same socket");
        drop(waiting);
    }

    daemon.hang_up(Some(&old));
    daemon.told("RELOADING").await;
    daemon.told("READY").await;
    assert!(!path.exists());
    assert_eq!(daemon.stored().len(), 1);

    // Put away at a stop, as systemd does with a RuntimeDirectory: it is bound anew.
    daemon.hang_up(Some(&new));
    daemon.told("RELOADING").await;
    daemon.told("READY").await;
    daemon.signal(Signal::SIGTERM);
    let shelf = daemon.left().await;
    std::fs::remove_file(&path).unwrap();
    let daemon = ready(&new, shelf).await;
    UnixStream::connect(&path).await.unwrap();
    assert_eq!(daemon.stored().len(), 2, "the lost one is forgotten");
    daemon.logs("is gone or leads to another socket").await;
}

#[tokio::test]
async fn what_no_listener_wants_is_closed_and_forgotten_with_a_line_that_says_why() {
    let folder = tempfile::tempdir().unwrap();
    let listen = free();
    let everywhere = SocketAddr::from(([0, 0, 0, 0], listen.port()));
    let mut shelf = Shelf::default();
    // The same port on all addresses: it must go before the listener can be bound.
    let old = TcpListener::bind(everywhere).await.unwrap();
    shelf.put("old", old.into_std().unwrap());
    let datagrams = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    shelf.put("datagrams", datagrams.into_std().unwrap());
    shelf.put("file", tempfile::tempfile().unwrap());
    let path = folder.path().join("unwanted");
    let unix = UnixListener::bind(&path).unwrap();
    shelf.put("unix", unix.into_std().unwrap());

    let daemon = Daemon::start_from(&toml("", listen, free()), shelf);
    // The manager closes what it is told to forget.
    daemon.told("READY").await;

    assert_eq!(daemon.stored(), [named(listen)]);
    let log = daemon.log();
    for words in [
        &format!("address={everywhere}"),
        "a socket is handed over that no listener wants: closed",
        "\"datagrams\", which is closed: it is a datagram socket",
        "\"file\", which is closed: it is no socket",
        &format!("address={}", path.display()),
    ] {
        assert!(log.contains(words), "{words}: {log}");
    }
    assert!(
        path.exists(),
        "a file that a socket unit has made is not ours"
    );
}

#[tokio::test]
async fn a_socket_unit_s_socket_is_served_and_never_stored() {
    let (cluster, listen, toml) = scene("");
    let socket = TcpListener::bind(listen).await.unwrap().into_std().unwrap();
    let mut shelf = Shelf::default();
    shelf.put("helios-proxy.socket", socket);
    let daemon = ready(&toml, shelf).await;
    visit(listen).await.unwrap();
    assert_eq!(daemon.stored(), ["helios-proxy.socket"]);

    // It is kept all the same: newcomers are served to the end.
    let mut busy = at_work(&cluster, listen, "slow 500").await;
    daemon.signal(Signal::SIGTERM);
    daemon.told("STOPPING").await;
    visit(listen).await.unwrap();
    busy.result().await.unwrap();
    busy.terminate().await;
    let shelf = daemon.left().await;

    let elsewhere = toml.replace(&listen.to_string(), &free().to_string());
    let daemon = ready(&toml, shelf).await;
    daemon.hang_up(Some(&elsewhere));
    daemon.told("RELOADING").await;
    daemon
        .logs("helios-proxy.socket keeps this socket open")
        .await;
}

#[tokio::test]
async fn descriptors_for_another_process_are_not_touched() {
    let listen = free();
    let held = TcpListener::bind(listen).await.unwrap();
    let mut daemon = Daemon::start_with(&toml("", listen, free()), |command| {
        command.env("LISTEN_PID", "1").env("LISTEN_FDS", "1");
    });

    assert_eq!(daemon.ended().await.code(), Some(1));
    assert!(daemon.log().contains("in use"), "{}", daemon.log());
    drop(held);
}
