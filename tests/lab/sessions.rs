//! Long-lived sessions that ask again and again whether their server may be written to.

use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread::JoinHandle,
    time::Duration,
};

use tokio::time;
use tokio_postgres::SimpleQueryMessage;

use super::{LabError, client};

/// What the sessions met, counted.
#[derive(Debug, Default)]
pub struct Tally {
    /// Questions answered.
    pub answered: AtomicU64,
    /// Answers by a server that was in recovery: a read-write session that should not have been there.
    pub in_recovery: AtomicU64,
    /// Times a session ended and had to be opened anew.
    pub ended: AtomicU64,
}

/// Sessions that ask every 50 ms and come back when they are ended.
pub struct Sessions {
    pub tally: Arc<Tally>,
    over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Sessions {
    pub fn start(at: SocketAddr, count: usize) -> Result<Self, LabError> {
        let tally = Arc::<Tally>::default();
        let over = Arc::<AtomicBool>::default();
        let (tally_there, over_there) = (Arc::clone(&tally), Arc::clone(&over));
        let thread = client::on_own_thread(async move {
            let mut all = tokio::task::JoinSet::new();
            for _ in 0..count {
                all.spawn(session(
                    at,
                    Arc::clone(&tally_there),
                    Arc::clone(&over_there),
                ));
            }
            while !over_there.load(Ordering::Relaxed) {
                time::sleep(Duration::from_millis(50)).await;
            }
            // Those that are held just now are let go.
            all.shutdown().await;
        })?;
        Ok(Self {
            tally,
            over,
            thread: Some(thread),
        })
    }
}

impl Drop for Sessions {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

async fn session(at: SocketAddr, tally: Arc<Tally>, over: Arc<AtomicBool>) {
    while !over.load(Ordering::Relaxed) {
        let Ok(client) = client::connect(&client::config(at)).await else {
            time::sleep(Duration::from_millis(50)).await;
            continue;
        };
        while let Ok(answer) = client.simple_query("SELECT pg_is_in_recovery()").await {
            tally.answered.fetch_add(1, Ordering::Relaxed);
            let recovering = answer.iter().any(|message| {
                matches!(message, SimpleQueryMessage::Row(row) if row.get(0) == Some("t"))
            });
            tally
                .in_recovery
                .fetch_add(u64::from(recovering), Ordering::Relaxed);
            time::sleep(Duration::from_millis(50)).await;
        }
        tally.ended.fetch_add(1, Ordering::Relaxed);
    }
}
