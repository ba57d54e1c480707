//! The whole proxy in front of a real three-node Patroni cluster: planned moves, deaths, repairs, maintenance, a dead
//! etcd. Where the programs cannot be had, each test is skipped by its name; under `CI` it fails.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test program")]

#[path = "lab/mod.rs"]
mod lab;

mod cluster {
    mod browser;
    mod change;
    mod doctor;
    mod etcd;
    mod guests;
    mod https;
    mod ipv6;
    mod led_by_hand;
    #[cfg(feature = "postgres-topology")]
    mod library;
    mod maintenance;
    mod manners;
    mod moves;
    mod page;
    mod pause;
    mod pgprobe;
    mod reading;
    mod reinit;
    mod repairs;
    mod stage;
    mod views;
    mod witness;
}
