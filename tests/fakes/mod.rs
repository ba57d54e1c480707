//! Scripted neighbours of the proxy: Patroni REST APIs, PostgreSQL servers and clients that do as a test says.
//!
//! | file | what it plays |
//! |---|---|
//! | [`door`] | a listening address that accepts, refuses or swallows connections |
//! | [`body`] | what Patroni says of a node |
//! | [`answer`] | what one path answers, and in which manner |
//! | [`patroni`] | a Patroni REST API with an answer per path, and a record of who asked when |
//! | [`ports`] | addresses that are free to be listened at |
//! | [`papers`] | a private CA, and certificates good and bad |
//! | [`tls`] | how a scripted server speaks TLS |
//! | [`view`] | what Patroni says of its cluster |
//! | [`wire`] | PostgreSQL messages as bytes |
//! | [`guest`] | who is at a server, and who was |
//! | [`postgres`] | a PostgreSQL server that says which node it is |
//! | [`sql`] | what that server answers to one statement |
//! | [`client`] | a client that sends what it is told, byte by byte if need be |
//! | [`cluster`] | several nodes with one leader, and the configuration that points at them |
//! | [`binary`] | no neighbour: the proxy itself as a child process |

#![allow(dead_code, reason = "each test program uses its part")]

pub mod answer;
pub mod binary;
pub mod body;
pub mod client;
pub mod cluster;
pub mod door;
pub mod guest;
pub mod papers;
pub mod patroni;
pub mod ports;
pub mod postgres;
pub mod sql;
pub mod tls;
pub mod view;
pub mod wire;

use std::future::Future;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Longer than anything in these tests takes on a busy machine; only a failed test waits so long.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// Looks every few milliseconds until `holds`, for at most `within`; true when it held in time.
pub async fn eventually(within: Duration, mut holds: impl FnMut() -> bool) -> bool {
    let since = Instant::now();
    loop {
        if holds() {
            return true;
        }
        if since.elapsed() > within {
            return false;
        }
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

/// The value, or a panic that names what did not happen in time.
pub async fn within<F: Future>(limit: Duration, what: &str, future: F) -> F::Output {
    match tokio::time::timeout(limit, future).await {
        Ok(value) => value,
        Err(_) => panic!("{what}: not within {limit:?}"),
    }
}

pub const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
