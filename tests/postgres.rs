//! One real PostgreSQL behind a scripted Patroni: what clients of all kinds do must work through the proxy as without it.
//!
//! What cannot run for lack of a program fails under `CI` and is skipped with its name elsewhere.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test program")]

mod fakes;
mod lab;

mod postgres {
    mod bulk;
    mod cancels;
    mod held;
    mod ordinary;
    mod probes;
    mod replication;
    mod server;
    mod tls;
    mod upgrades;
}
