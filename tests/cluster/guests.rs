//! Clients that stay: some idle, some in the middle of a statement, and the words with which each was ended.

use std::{
    net::SocketAddr,
    sync::Arc,
    time::{Duration, Instant},
};

use tokio::{
    runtime::{self, Runtime},
    task::JoinHandle,
    time,
};
use tokio_postgres::{Client, NoTls, SimpleQueryMessage};

use crate::lab::client::{config, in_words};

/// How a guest's stay ended.
#[derive(Clone, Debug)]
pub struct End {
    pub at: Instant,
    pub words: String,
}

struct Guest {
    client: Arc<Client>,
    /// Its server process: another one would mean another session.
    backend: String,
    /// The driver of its connection, which hears what is said to an idle client.
    stay: JoinHandle<End>,
    /// What a busy one waits for.
    statement: Option<JoinHandle<Result<(), End>>>,
}

/// Sessions that are open until the test, or somebody else, ends them.
pub struct Guests {
    guests: Vec<Guest>,
    runtime: Runtime,
}

impl Guests {
    /// Opens `idle` sessions and `busy` ones, whose statement takes `long`; all are connected when this returns.
    pub fn arrive(at: SocketAddr, idle: usize, busy: usize, long: Duration) -> Self {
        let runtime = runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        let guests = runtime.block_on(async {
            let mut guests = Vec::new();
            for number in 0..idle + busy {
                guests.push(open(at, (number >= idle).then_some(long)).await);
            }
            guests
        });
        Self { guests, runtime }
    }

    /// Waits until every session is over, and tells how each of them ended.
    pub fn all_gone(self, limit: Duration) -> Vec<End> {
        let Self { guests, runtime } = self;
        runtime.block_on(async {
            let until = time::Instant::now() + limit;
            let mut ends = Vec::new();
            for guest in guests {
                let stay = time::timeout_at(until, guest.stay).await;
                let end = stay.expect("a session is still open").unwrap();
                ends.push(match guest.statement {
                    None => end,
                    Some(statement) => match statement.await.unwrap() {
                        Err(told) => told,
                        Ok(()) => panic!("the statement was not long enough"),
                    },
                });
            }
            ends
        })
    }

    /// Every session is the one it was, and every statement comes to its own end.
    pub fn assert_undisturbed(self, what: &str) {
        let Self { guests, runtime } = self;
        runtime.block_on(async {
            for guest in guests {
                if let Some(statement) = guest.statement {
                    let done = statement.await.unwrap();
                    assert!(done.is_ok(), "{what}: a busy session met {done:?}");
                }
                let backend = backend(&guest.client).await;
                assert_eq!(backend.as_ref(), Ok(&guest.backend), "{what}");
            }
        });
    }
}

async fn open(at: SocketAddr, long: Option<Duration>) -> Guest {
    let (client, connection) = config(at).connect(NoTls).await.unwrap();
    let client = Arc::new(client);
    let stay = tokio::spawn(async move {
        let words = match connection.await {
            Ok(()) => "closed without a word".to_owned(),
            Err(error) => in_words(&error),
        };
        End {
            at: Instant::now(),
            words,
        }
    });
    let backend = backend(&client).await.unwrap();
    let statement = long.map(|long| tokio::spawn(sleep(Arc::clone(&client), long)));
    Guest {
        client,
        backend,
        stay,
        statement,
    }
}

async fn sleep(client: Arc<Client>, long: Duration) -> Result<(), End> {
    let text = format!("SELECT pg_sleep({})", long.as_secs());
    client
        .simple_query(&text)
        .await
        .map(drop)
        .map_err(|error| End {
            at: Instant::now(),
            words: in_words(&error),
        })
}

async fn backend(client: &Client) -> Result<String, String> {
    let answer = client
        .simple_query("SELECT pg_backend_pid()")
        .await
        .map_err(|error| in_words(&error))?;
    answer
        .iter()
        .find_map(|message| match message {
            SimpleQueryMessage::Row(row) => row.get(0).map(str::to_owned),
            _ => None,
        })
        .ok_or_else(|| "no row".to_owned())
}
