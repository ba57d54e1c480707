//! `cargo bench --bench failover`: what a change of leader costs clients of the proxy, measured on a real cluster.
//!
//! Prints a Markdown table. `-- --rounds 3 --only switchover,kill` does less.

#[path = "../../tests/lab/mod.rs"]
mod lab;

mod failovers;
mod figures;
mod fleet;
mod storm;

use std::{error::Error, process::ExitCode};

use clap::{Parser, ValueEnum};
use failovers::Fault;
use figures::Table;
use lab::{Lab, Net, client, proxy::Proxy};

/// Measures failovers of a real Patroni cluster through the proxy.
#[derive(Parser)]
struct Options {
    /// Rounds of each kind.
    #[arg(long, default_value_t = 10)]
    rounds: usize,
    /// Only these.
    #[arg(long, value_delimiter = ',')]
    only: Vec<Item>,
    /// What cargo says to every benchmark.
    #[arg(long, hide = true)]
    bench: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "snake_case")]
enum Item {
    /// Patroni's planned change, and the sessions found on the demoted node.
    Switchover,
    /// `systemctl stop patroni` on the leader.
    Stop,
    /// kill -9 of the whole leader; its lock is made to run out at once.
    Kill,
    /// The same with the lock's real ttl of 30 s.
    KillTtl,
    /// kill -9 of PostgreSQL alone.
    PostgresCrash,
    /// The leader cut off from everybody.
    Partition,
    /// A thousand clients that wait for a leader at once.
    Storm,
    /// Two hundred proxies before one cluster.
    Fleet,
}

fn main() -> ExitCode {
    match run(&Options::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("failover: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(options: &Options) -> Result<(), Box<dyn Error>> {
    lab::end_on_signal()?;
    let wanted = |item: Item| options.only.is_empty() || options.only.contains(&item);
    let mut table = Table::default();

    let on_loopback: Vec<Fault> = [
        (Item::Switchover, Fault::Switchover),
        (Item::Stop, Fault::Stop),
        (Item::Kill, Fault::Kill),
        (Item::PostgresCrash, Fault::PostgresCrash),
        (Item::KillTtl, Fault::KillTtl),
    ]
    .into_iter()
    .filter(|(item, _)| wanted(*item))
    .map(|(_, fault)| fault)
    .collect();
    if !on_loopback.is_empty() {
        measure(Net::Loopback, &on_loopback, options.rounds, &mut table)?;
    }
    if wanted(Item::Partition) {
        measure(Net::Netns, &[Fault::Partition], options.rounds, &mut table)?;
    }
    if wanted(Item::Storm) {
        storm::measure(&mut table)?;
    }
    if wanted(Item::Fleet) {
        fleet::measure(&mut table)?;
    }
    println!("{table}");
    Ok(())
}

fn measure(
    net: Net,
    faults: &[Fault],
    rounds: usize,
    table: &mut Table,
) -> Result<(), Box<dyn Error>> {
    let lab = Lab::builder().net(net).up()?;
    client::make_table(&lab, lab.wait_healthy()?)?;
    let proxy = Proxy::start(&lab, "")?;
    for fault in faults {
        let rounds: Vec<_> = (1..=rounds)
            .map(|number| failovers::round(&lab, &proxy, *fault, number))
            .collect::<Result<_, _>>()?;
        failovers::report(*fault, &rounds, table);
    }
    Ok(())
}
