//! helios-proxy inside another process, without a file: two clusters, two houses, and an orchestrator that names the leaders.
//!
//! `cargo run --example embedded` needs no cluster. Give it servers (`cargo run --example embedded 127.0.0.1:5432
//! 127.0.0.1:5433`) and connect to the printed addresses with psql.

use std::{error::Error, net::SocketAddr, time::Duration};

use heliosdb_proxy::{Bound, Config, House};
use tokio::time::timeout;

type Failed = Box<dyn Error + Send + Sync>;

/// One cluster's house: its name, and a node of which somebody else decides that it leads.
async fn start(cluster: &str, server: SocketAddr) -> Result<House, Failed> {
    let config = Config::builder()
        .node(format!("{cluster}-a"), server.ip().to_string())
        .set("nodes[0].port", i64::from(server.port()))
        .node(format!("{cluster}-b"), "10.0.0.12")
        .set("topology.provider", "manual")
        .set("topology.scope", cluster)
        .listen("127.0.0.1:0")
        .without_admin()
        .build()?;
    for doubt in config.warnings() {
        eprintln!("{cluster}: {doubt}");
    }
    Ok(House::start(config).await?)
}

async fn lead(cluster: &str, house: &House) -> Result<(), Failed> {
    let mut primary = house.primary();
    // An orchestrator would promote here, and then tell.
    house.set_primary(&format!("{cluster}-a")).await?;
    house.confirm_primary().await?;
    let leader = timeout(Duration::from_secs(5), primary.changed()).await??;
    let leader = leader.ok_or("nobody leads")?;
    for listener in house.listeners() {
        if let Bound::Tcp(address) = listener {
            println!(
                "{cluster}: {address} leads to {} (epoch {})",
                leader.address, leader.epoch
            );
        }
    }
    Ok(())
}

/// Public for the test that runs it.
#[tokio::main]
pub async fn main() -> Result<(), Failed> {
    let mut servers = std::env::args().skip(1).filter_map(|arg| arg.parse().ok());
    let mut given = false;
    let mut houses = Vec::new();
    for (cluster, local) in [("orders", "127.0.0.1:5432"), ("users", "127.0.0.1:5433")] {
        let server = servers.next();
        given |= server.is_some();
        let house = start(cluster, server.map_or_else(|| local.parse(), Ok)?).await?;
        lead(cluster, &house).await?;
        houses.push((cluster, house));
    }
    if given {
        println!("Ctrl-C ends it");
        tokio::signal::ctrl_c().await?;
    }
    for (cluster, house) in houses {
        house.clear_primary().await?;
        house.drain().await;
        house.stop().await;
        println!("{cluster}: ended");
    }
    Ok(())
}
