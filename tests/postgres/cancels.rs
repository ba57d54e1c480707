//! Cancels by real clients, in clear text and wrapped in TLS.

use std::process::Command;

use tokio_postgres::NoTls;

use super::server::{Stage, python, run, said};
use super::tls;
use crate::fakes::{PATIENCE, within};
use crate::lab::client::until_asleep;

#[tokio::test]
async fn a_drivers_cancel_in_clear_text_ends_its_query() {
    let Some(stage) = Stage::led("cancel").await else {
        return;
    };
    let client = stage.driver(stage.proxy.addr).await;
    let server = [stage.driver(stage.server).await];
    for _ in 0..5 {
        let token = client.cancel_token();
        let query = client.batch_execute("SELECT pg_sleep(30)");
        let cancel = async {
            until_asleep(&server).await.unwrap();
            token.cancel_query(NoTls).await
        };
        let both = async { tokio::join!(query, cancel) };
        let (ended, asked) = within(PATIENCE, "the cancel", both).await;
        asked.unwrap();
        let error = ended.expect_err("a cancelled query");
        assert_eq!(error.code().map(|code| code.code()), Some("57014"));
    }
}

/// Queries, each cancelled by libpq 17's cancel, which opens a TLS connection of its own where the session has one. Each
/// says when it is there to be cancelled.
const EACH_CANCELLED: &str = r#"
import sys, threading, psycopg
SLEEP = "DO $$ BEGIN RAISE NOTICE 'asleep'; PERFORM pg_sleep(60); END $$"
with psycopg.connect(sys.argv[1], autocommit=True) as connection:
    def cancel(notice):
        threading.Thread(target=connection.cancel_safe, kwargs={'timeout': 20}).start()
    connection.add_notice_handler(cancel)
    for _ in range(int(sys.argv[2])):
        try:
            connection.execute(SLEEP)
            sys.exit('not cancelled')
        except psycopg.errors.QueryCanceled:
            pass
    print('cancelled, TLS:', connection.pgconn.ssl_in_use)
"#;

#[tokio::test]
async fn a_cancel_inside_tls_reaches_the_leader_twenty_times_of_twenty() {
    let Some(stage) = tls::stage("TLS cancel").await else {
        return;
    };
    let Some(python) = python(&stage) else { return };
    let mut script = Command::new(python);
    script.args([
        "-c",
        EACH_CANCELLED,
        &format!("{} sslmode=require", stage.target(stage.proxy.addr)),
        "20",
    ]);

    assert_eq!(said(run(script).await), "cancelled, TLS: True");
}

#[tokio::test]
async fn the_newest_protocol_is_negotiated_and_its_cancels_work() {
    let Some(stage) = Stage::led("newest protocol").await else {
        return;
    };
    let Some(python) = python(&stage) else { return };
    let mut knows = Command::new(&python);
    knows.args(["-c", "import psycopg; print(psycopg.pq.version())"]);
    let version: u32 = said(run(knows).await).parse().unwrap();
    if version < 180_000 {
        eprintln!("skipped the newest protocol: libpq {version} knows only 3.0");
        return;
    }
    let mut script = Command::new(python);
    let target = stage.target(stage.proxy.addr);
    script.args([
        "-c",
        EACH_CANCELLED,
        &format!("{target} sslmode=disable max_protocol_version=latest"),
        "5",
    ]);

    assert_eq!(said(run(script).await), "cancelled, TLS: False");
}
