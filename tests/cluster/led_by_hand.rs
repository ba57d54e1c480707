//! Provider `manual` in front of a real cluster: the test is the orchestrator, by the library and by the admin API.

use std::{
    net::SocketAddr,
    thread,
    time::{Duration, Instant},
};

use heliosdb_proxy::{Bound, Config, House};
use serde_json::{Value, json};
use tokio::runtime::Runtime;

use super::stage::SOON;
use crate::lab::{
    self, Lab, NODES, Node,
    client::{self, Outcome},
    http,
};

fn config(lab: &Lab) -> Config {
    let nodes = NODES.into_iter().fold(Config::builder(), |config, node| {
        config.node(node.to_string(), lab.ip(node).to_string())
    });
    nodes
        .set("topology.provider", "manual")
        .set("admin_address", "127.0.0.1:0")
        .set("admin_allow_insecure", true)
        .listen("127.0.0.1:0")
        .build()
        .unwrap()
}

fn order(house: &House, address: &Value) -> http::Answer {
    let body = json!({ "address": address });
    let admin = house.admin().unwrap();
    let path = "/topology/primary";
    http::ask(admin, "POST", path, Some(&body), SOON).unwrap()
}

async fn write(at: SocketAddr) -> Outcome {
    client::write_once(client::config(at), client::new_id(), || ()).await
}

#[test]
fn clients_follow_what_an_orchestrator_says_through_a_switchover_and_a_kill() {
    if lab::require("led by hand").is_none() {
        return;
    }
    let lab = Lab::builder().fast().up().unwrap();
    let first = lab.wait_healthy().unwrap();
    client::make_table(&lab, first).unwrap();
    let runtime = Runtime::new().unwrap();
    let house = runtime.block_on(House::start(config(&lab))).unwrap();
    let [Bound::Tcp(at)] = house.listeners()[..] else {
        panic!("one listener");
    };
    let written = |node: Node| Outcome::Written(lab.ip(node));
    let address = |node: Node| json!(lab.postgres_at(node).to_string());

    // By the library: held until confirmed.
    let held = runtime.spawn(write(at));
    runtime
        .block_on(house.set_primary(&first.to_string()))
        .unwrap();
    thread::sleep(Duration::from_millis(500));
    assert!(!held.is_finished());
    runtime.block_on(house.confirm_primary()).unwrap();
    assert_eq!(runtime.block_on(held).unwrap(), written(first));

    // By the admin API: cleared before the switchover, named after it.
    let session = runtime
        .block_on(client::connect(&client::config(at)))
        .unwrap();
    let cleared = order(&house, &Value::Null);
    assert_eq!(cleared.status, 200, "{}", cleared.body);
    assert_eq!(cleared.json()["currentPrimary"], Value::Null);
    let ended = runtime.block_on(session.simple_query("SELECT 1"));
    assert!(ended.is_err(), "a session of the old leader");
    let held = runtime.spawn(write(at));
    let second = lab.replicas()[0];
    lab.switchover(second).unwrap();
    lab.wait_healthy().unwrap();
    assert!(!held.is_finished());

    let began = Instant::now();
    let named = order(&house, &address(second));
    assert_eq!(named.status, 200, "{}", named.body);
    assert_eq!(named.json()["authoritative"]["epoch"], 2);
    assert_eq!(named.json()["authoritative"].get("leaseRemainingMs"), None);
    assert_eq!(runtime.block_on(held).unwrap(), written(second));
    eprintln!("led by hand: written {:?} after the order", began.elapsed());

    // It stands, whatever its node does: PostgreSQL dies under it and is repaired in place.
    lab.kill_only_postgres(second);
    let written_again = runtime.block_on(write(at));
    assert_eq!(written_again, written(second));
    let epoch = house.primary().get_primary().unwrap().epoch;
    assert_eq!(epoch, 2);

    // Nor does it fall with its machine: clients wait for the word, and then go where that says.
    lab.kill(second);
    assert!(lab.dcs_expire().unwrap());
    let held = runtime.spawn(write(at));
    let third = lab::poll(SOON, Duration::from_millis(50), || {
        let leader = lab.leader().filter(|leader| *leader != second)?;
        (lab.sql(leader, "SELECT pg_is_in_recovery()").ok()? == "f").then_some(leader)
    });
    let third = third.unwrap();
    thread::sleep(Duration::from_millis(500));
    assert!(!held.is_finished());
    let named = order(&house, &address(third));
    assert_eq!(named.json()["authoritative"]["epoch"], 3, "{}", named.body);
    assert_eq!(runtime.block_on(held).unwrap(), written(third));
    // The old one comes back and follows: nobody goes there.
    lab.start(second).unwrap();
    assert_eq!(lab.wait_healthy().unwrap(), third);
    assert_eq!(runtime.block_on(write(at)), written(third));
    runtime.block_on(house.stop());
}
