//! One change of leader, seen by clients that connect fifty times a second, and what a kind of change costs.

use std::{
    thread,
    time::{Duration, Instant},
};

use super::{
    figures::{Table, ms, percentile, seconds},
    lab::{
        Lab, LabError, Node,
        client::{Attempt, Crowd, Outcome, Writers},
        cost::Cost,
        observer::{Observer, Sighting},
        poll,
        proxy::Proxy,
        sessions::Sessions,
    },
};

const SESSIONS: usize = 20;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    Switchover,
    Stop,
    Kill,
    KillTtl,
    PostgresCrash,
    Partition,
}

/// What came of one round.
pub struct Round {
    cost: Cost,
    attempts: usize,
    /// Never got to ReadyForQuery.
    refused: usize,
    /// Lost their server under the INSERT: what was under way when it ended.
    cut: usize,
    read_only: usize,
    /// Sessions of clients on the demoted node 1.5 s after it said so; `None` where it is dead or unreachable.
    stranded: Option<usize>,
}

pub fn round(lab: &Lab, proxy: &Proxy, fault: Fault, number: usize) -> Result<Round, LabError> {
    let old = lab.wait_healthy()?;
    proxy.wait_for_leader(lab, old)?;
    let observer = Observer::of(lab);
    let writers = Writers::start(Crowd {
        at: proxy.listens,
        every: Duration::from_millis(20),
        patience: Duration::from_secs(90),
    })?;
    let sessions = Sessions::start(proxy.listens, SESSIONS)?;
    // Any phase of the proxy's and of Patroni's clocks.
    thread::sleep(Duration::from_millis(2000 + fastrand::u64(0..1000)));

    let began = Instant::now();
    inject(lab, fault, old)?;
    let writable = wait_writable(lab, &observer, fault, old, began)?;
    let new = lab.ip(writable.node);
    lab.wait(
        "row written through the proxy",
        Duration::from_secs(60),
        || {
            let by_new = |attempt: &Attempt| {
                attempt.outcome == Outcome::Written(new) && attempt.ended > Some(began)
            };
            writers.attempts().iter().any(by_new).then_some(())
        },
    )?;
    let stranded = stranded(lab, &observer, fault, old, began)?;
    thread::sleep(Duration::from_secs(1));
    drop(sessions);
    let attempts = writers.stop();
    repair(lab, fault, old)?;

    let cost = Cost::of(&attempts, began, new, writable.heard)
        .ok_or_else(|| LabError::Refused("nothing was written afterwards".into()))?;
    let count =
        |wanted: fn(&Attempt) -> bool| attempts.iter().filter(|attempt| wanted(attempt)).count();
    let round = Round {
        cost,
        attempts: attempts.len(),
        refused: count(Attempt::is_refused),
        cut: count(Attempt::is_cut),
        read_only: count(|attempt| attempt.outcome == Outcome::ReadOnly),
        stranded,
    };
    tell(fault, number, old, &writable, &round);
    for failed in attempts
        .iter()
        .filter(|attempt| attempt.is_failed())
        .take(2)
    {
        eprintln!(
            "    {:?} at {:?}",
            failed.outcome,
            failed.started.saturating_duration_since(began)
        );
    }
    Ok(round)
}

fn tell(fault: Fault, number: usize, old: Node, writable: &Sighting, round: &Round) {
    eprintln!(
        "{fault:?} {number}: {old} -> {}, added {}, downtime {}, refused {} and cut {} of {}, stranded {:?}",
        writable.node,
        ms(round.cost.added),
        ms(round.cost.downtime),
        round.refused,
        round.cut,
        round.attempts,
        round.stranded
    );
}

fn inject(lab: &Lab, fault: Fault, old: Node) -> Result<(), LabError> {
    match fault {
        Fault::Switchover => {
            let others = lab.replicas();
            lab.switchover(others[fastrand::usize(..others.len())])
        }
        Fault::Stop => lab.begin_stop(old),
        Fault::Kill => {
            lab.kill(old);
            lab.dcs_expire().map(drop)
        }
        Fault::KillTtl => {
            lab.kill(old);
            Ok(())
        }
        Fault::PostgresCrash => {
            lab.kill_only_postgres(old);
            Ok(())
        }
        Fault::Partition => {
            lab.partition(old)?;
            // A lock that nobody renews lives for ttl - loop_wait at least: by then everybody is in doubt.
            thread::sleep(Duration::from_secs(6));
            lab.dcs_expire().map(drop)
        }
    }
}

/// After a crash of PostgreSQL alone the leader is the same one, once it is back; else it is another.
fn wait_writable(
    lab: &Lab,
    observer: &Observer,
    fault: Fault,
    old: Node,
    began: Instant,
) -> Result<Sighting, LabError> {
    lab.wait("new leader", Duration::from_secs(120), || match fault {
        Fault::PostgresCrash => observer.writable_again(began, old),
        _ => observer.first_writable(began, Some(old)),
    })
}

fn stranded(
    lab: &Lab,
    observer: &Observer,
    fault: Fault,
    old: Node,
    began: Instant,
) -> Result<Option<usize>, LabError> {
    if fault != Fault::Switchover {
        return Ok(None);
    }
    let demoted = lab.wait("demoted leader", Duration::from_secs(60), || {
        observer.first_demoted(began, old)
    })?;
    let due = demoted.heard + Duration::from_millis(1500);
    thread::sleep(due.saturating_duration_since(Instant::now()));
    // It may just be starting; then nobody is there.
    let count = poll(Duration::from_secs(20), Duration::from_millis(50), || {
        lab.sql(old, "SELECT count(*) FROM pg_stat_activity WHERE usename = 'app' AND backend_type = 'client backend'").ok()
    });
    Ok(count.and_then(|count| count.parse().ok()))
}

fn repair(lab: &Lab, fault: Fault, old: Node) -> Result<(), LabError> {
    match fault {
        Fault::Switchover | Fault::PostgresCrash => {}
        Fault::Kill | Fault::KillTtl => lab.start(old)?,
        Fault::Stop => {
            lab.wait_stopped(old)?;
            lab.start(old)?;
        }
        Fault::Partition => lab.heal(old)?,
    }
    lab.wait_healthy().map(drop)
}

pub fn report(fault: Fault, rounds: &[Round], table: &mut Table) {
    let name = name(fault);
    let added: Vec<Duration> = rounds.iter().map(|round| round.cost.added).collect();
    let downtime: Vec<Duration> = rounds.iter().map(|round| round.cost.downtime).collect();
    table.add(
        format!("added time, {name}"),
        "p50 ≤ 100 ms, p95 ≤ 300 ms",
        format!(
            "p50 {}, p95 {} ({} rounds)",
            ms(percentile(&added, 50)),
            ms(percentile(&added, 95)),
            rounds.len()
        ),
    );
    table.add(
        format!("downtime seen by clients, {name}"),
        "–",
        format!(
            "p50 {}, max {}",
            seconds(percentile(&downtime, 50)),
            seconds(percentile(&downtime, 100))
        ),
    );
    let sum = |of: fn(&Round) -> usize| rounds.iter().map(of).sum::<usize>();
    let promised = matches!(fault, Fault::Switchover | Fault::Stop | Fault::KillTtl);
    table.add(
        format!("failed new connections, {name}"),
        if promised { "0" } else { "–" },
        format!(
            "{} of {} (also: {} cut under their INSERT, {} given a read-only server)",
            sum(|round| round.refused),
            sum(|round| round.attempts),
            sum(|round| round.cut) - sum(|round| round.read_only),
            sum(|round| round.read_only)
        ),
    );
    if fault == Fault::Switchover {
        table.add(
            format!("of {SESSIONS} sessions, on the demoted node 1.5 s after it said so"),
            "0",
            format!(
                "{}",
                sum(|round| round.stranded.unwrap_or(usize::MAX / 1000))
            ),
        );
    }
}

fn name(fault: Fault) -> &'static str {
    match fault {
        Fault::Switchover => "switchover",
        Fault::Stop => "clean stop",
        Fault::Kill => "kill -9 of the node (lock made to run out at once)",
        Fault::KillTtl => "kill -9 of the node (default ttl 30)",
        Fault::PostgresCrash => "crash of PostgreSQL alone",
        Fault::Partition => "leader cut off from everybody (lock made to run out at once)",
    }
}
