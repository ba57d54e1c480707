//! `cargo demo`: a real Patroni cluster on this machine, clients that write through the proxy, and two failovers.

#[path = "../tests/lab/mod.rs"]
mod lab;

use std::{
    process::ExitCode,
    sync::atomic::Ordering,
    thread,
    time::{Duration, Instant},
};

use clap::Parser;
use lab::{
    Lab, LabError, Node, Timings,
    client::{self, Attempt, Crowd, Writers},
    cost::Cost,
    observer::{Observer, Sighting},
    proxy::Proxy,
    sessions::Sessions,
};

/// Starts three PostgreSQL nodes under Patroni and helios-proxy before them, then changes the leader twice.
#[derive(Parser)]
struct Options {
    /// Patroni's smallest legal timings instead of its defaults: the second failover takes 20 s instead of 30 s.
    #[arg(long)]
    fast: bool,
    /// Leave the cluster and the proxy running at the end.
    #[arg(long)]
    keep: bool,
    /// End what an earlier `--keep` left running.
    #[arg(long)]
    down: bool,
}

/// A client that waits for longer is shown as held.
const HELD: Duration = Duration::from_millis(100);

/// A change of leader that the clients lived through.
struct Failover {
    title: String,
    began: Instant,
    old: Node,
    /// The new leader's own word that it may be written to.
    writable: Sighting,
}

fn main() -> ExitCode {
    match demo(&Options::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("demo: {error}");
            ExitCode::FAILURE
        }
    }
}

fn demo(options: &Options) -> Result<(), LabError> {
    if options.down {
        println!("ended {} cluster(s)", lab::end_kept());
        return Ok(());
    }
    lab::end_on_signal()?;
    println!(
        "starting PostgreSQL, Patroni and etcd: three nodes (the first time this installs what is missing)"
    );
    let timings = if options.fast {
        Timings::FAST
    } else {
        Timings::DEFAULT
    };
    let lab = Lab::builder().timings(timings).up()?;
    let leader = lab.wait_healthy()?;
    client::make_table(&lab, leader)?;
    println!(
        "cluster is up, in {}; starting helios-proxy",
        lab.folder().display()
    );
    let mut proxy = Proxy::start(&lab, "")?;

    show(&lab, &proxy)?;

    if options.keep {
        keep(&lab, &mut proxy)?;
    }
    Ok(())
}

fn show(lab: &Lab, proxy: &Proxy) -> Result<(), LabError> {
    let observer = Observer::of(lab);
    let writers = Writers::start(Crowd {
        at: proxy.listens,
        every: Duration::from_millis(20),
        patience: Duration::from_secs(90),
    })?;
    let sessions = Sessions::start(proxy.listens, 5)?;
    let screen = Screen {
        lab,
        proxy,
        writers: &writers,
        began: Instant::now(),
    };
    screen.heading();
    screen.run_for(Duration::from_secs(6));

    let old = lab.wait_healthy()?;
    let to = lab.replicas()[0];
    screen.say(&format!("planned switchover from {old} to {to}"));
    let first = screen.failover(&observer, old, "switchover", || {
        thread::scope(|scope| {
            let switch = scope.spawn(|| lab.switchover(to));
            screen.run_while(|| !switch.is_finished());
            switch.join().unwrap_or(Ok(()))
        })
    })?;
    screen.run_for(Duration::from_secs(6));

    let old = lab.wait_healthy()?;
    let ttl = lab.timings().ttl;
    screen.say(&format!(
        "the machine of {old} dies (SIGKILL of all its processes); its lock runs out within {ttl} s"
    ));
    let second = screen.failover(&observer, old, "kill -9 of the leader", || {
        lab.kill(old);
        Ok(())
    })?;
    screen.run_for(Duration::from_secs(6));
    lab.start(old)?;
    screen.say(&format!("{old} is started again and follows"));
    let leader = lab.wait_healthy()?;

    let misled = sessions.tally.in_recovery.load(Ordering::Relaxed);
    drop(sessions);
    let attempts = writers.stop();
    let lost = client::lost(lab, leader, &attempts)?;
    summary(lab, &[first, second], &attempts, misled, lost);
    Ok(())
}

/// The lines a spectator sees, one a second.
struct Screen<'a> {
    lab: &'a Lab,
    proxy: &'a Proxy,
    writers: &'a Writers,
    began: Instant,
}

impl Screen<'_> {
    fn heading(&self) {
        println!(
            "\n{:>6}  {:<8}{:>8}{:>11}{:>7}{:>8}",
            "", "leader", "lease", "writes/s", "held", "failed"
        );
    }

    fn say(&self, what: &str) {
        println!("{:>5.0}s  -- {what}", self.began.elapsed().as_secs_f64());
    }

    fn run_for(&self, time: Duration) {
        let end = Instant::now() + time;
        self.run_while(|| Instant::now() < end);
    }

    fn run_while(&self, go_on: impl Fn() -> bool) {
        while go_on() {
            let next = Instant::now() + Duration::from_secs(1);
            while go_on() && Instant::now() < next {
                thread::sleep(Duration::from_millis(50));
            }
            self.line();
        }
    }

    fn line(&self) {
        let topology = self.proxy.topology().unwrap_or_default();
        let lease = &topology["authoritative"];
        let valid = lease["valid"] == true;
        let leader = lease["address"]
            .as_str()
            .filter(|_| valid)
            .and_then(|address| {
                self.lab
                    .node_at(address.parse::<std::net::SocketAddr>().ok()?.ip())
            });
        let left = lease["leaseRemainingMs"].as_f64().filter(|_| valid);
        let attempts = self.writers.attempts();
        let now = Instant::now();
        let held = attempts
            .iter()
            .filter(|attempt| attempt.ended.is_none() && attempt.took(now) > HELD)
            .count();
        let fresh = |attempt: &&Attempt| {
            attempt
                .ended
                .is_some_and(|ended| now - ended < Duration::from_secs(1))
        };
        let written = attempts
            .iter()
            .filter(fresh)
            .filter(|attempt| attempt.is_written())
            .count();
        println!(
            "{:>5.0}s  {:<8}{:>8}{written:>11}{held:>7}{:>8}",
            self.began.elapsed().as_secs_f64(),
            leader.map_or_else(|| "nobody".to_owned(), |node| node.to_string()),
            left.map_or_else(|| "-".to_owned(), |ms| format!("{:.1} s", ms / 1000.0)),
            attempts
                .iter()
                .filter(|attempt| attempt.is_failed())
                .count(),
        );
    }

    fn failover(
        &self,
        observer: &Observer,
        old: Node,
        title: &str,
        change: impl FnOnce() -> Result<(), LabError>,
    ) -> Result<Failover, LabError> {
        let began = Instant::now();
        change()?;
        let end = began + Duration::from_secs(120);
        let writable = || observer.first_writable(began, Some(old));
        self.run_while(|| writable().is_none() && Instant::now() < end);
        let writable = writable()
            .ok_or_else(|| LabError::Refused(format!("no new leader after the {title}")))?;
        Ok(Failover {
            title: title.to_owned(),
            began,
            old,
            writable,
        })
    }
}

fn summary(lab: &Lab, failovers: &[Failover], attempts: &[Attempt], misled: u64, lost: usize) {
    println!("\nsummary");
    for failover in failovers {
        let new = failover.writable.node;
        println!("  {}: {} -> {new}", failover.title, failover.old);
        let Some(cost) = Cost::of(
            attempts,
            failover.began,
            lab.ip(new),
            failover.writable.heard,
        ) else {
            println!("    nothing was written afterwards");
            continue;
        };
        line(
            "  downtime seen by clients (last write to first write)",
            &format!("{:.2} s", cost.downtime.as_secs_f64()),
        );
        line(
            "  of it the proxy's part (leader writable to first write)",
            &format!("{:.3} s", cost.added.as_secs_f64()),
        );
    }
    let count =
        |wanted: fn(&Attempt) -> bool| attempts.iter().filter(|attempt| wanted(attempt)).count();
    line(
        "failed new connections",
        &format!("{} of {}", count(Attempt::is_refused), attempts.len()),
    );
    line(
        "INSERTs cut by the end of their server",
        &count(Attempt::is_cut).to_string(),
    );
    line(
        "sessions found on a non-leader (must be 0)",
        &misled.to_string(),
    );
    line("acknowledged writes lost", &lost.to_string());
    if lost > 0 {
        println!(
            "      (replication is asynchronous here, as by default: a dead machine keeps what it had not sent)"
        );
    }
}

fn line(what: &str, value: &str) {
    println!("  {what:<60}{value}");
}

fn keep(lab: &Lab, proxy: &mut Proxy) -> Result<(), LabError> {
    proxy.keep();
    lab.keep()?;
    let at = proxy.listens;
    println!("\nthe cluster and the proxy stay up:");
    println!(
        "  psql 'host={} port={} user=app dbname=app'",
        at.ip(),
        at.port()
    );
    println!("  helios-proxy status --config {}", proxy.file.display());
    println!("  cargo demo --down     ends them");
    Ok(())
}
