//! Programs and drivers that know nothing of the proxy.

use std::future::poll_fn;
use std::time::{Duration, Instant};

use tokio_postgres::{AsyncMessage, NoTls};

use super::server::{Stage, run, said};
use crate::fakes::cluster::Tempo;
use crate::fakes::within;

#[tokio::test]
async fn psql_works_with_every_way_of_asking_for_a_session() {
    let Some(stage) = Stage::led("psql").await else {
        return;
    };
    for words in [
        "sslmode=disable",
        "sslmode=prefer",
        "sslmode=allow",
        "gssencmode=prefer sslmode=prefer",
        "target_session_attrs=read-write",
        "target_session_attrs=primary",
        "options='-c statement_timeout=1234'",
    ] {
        let output = run(stage.psql(&[words], "SELECT 6 * 7")).await;
        assert_eq!(said(output), "42", "{words}");
    }
}

#[tokio::test]
async fn a_leader_whose_transactions_are_read_only_by_default_is_still_the_leader() {
    let read_only = ["default_transaction_read_only=on"];
    let Some(stage) = Stage::set("read only", &Tempo::default(), &read_only).await else {
        return;
    };
    stage.leads();

    assert_eq!(
        said(run(stage.psql(&[], "SHOW transaction_read_only")).await),
        "on"
    );
    let wanting = run(stage.psql(&["target_session_attrs=read-write"], "SELECT 1")).await;
    assert!(
        !wanting.status.success(),
        "the client's own check decides for the client"
    );
    let mut writing = stage.psql(&[], "SET default_transaction_read_only = off");
    writing.args(["-c", "CREATE TABLE t (i int)"]);
    said(run(writing).await);
}

#[tokio::test]
async fn a_dump_and_a_restore_through_the_proxy_give_the_same_database() {
    let Some(stage) = Stage::led("dump").await else {
        return;
    };
    let fill = "CREATE TABLE t AS SELECT i, md5(i::text) AS word FROM generate_series(1, 200000) i; \
                CREATE INDEX ON t (word); CREATE VIEW v AS SELECT count(*) FROM t";
    said(run(stage.psql(&[], fill)).await);
    said(run(stage.psql(&[], "CREATE DATABASE copy")).await);
    let file = stage.folder().join("dump");

    let mut dump = stage.tool("pg_dump");
    dump.args(["-Fc", "-d", &stage.target(stage.proxy.addr), "-f"])
        .arg(&file);
    said(run(dump).await);
    let mut restore = stage.tool("pg_restore");
    let target = stage
        .target(stage.proxy.addr)
        .replace("dbname=postgres", "dbname=copy");
    restore.args(["-j", "2", "-d", &target]).arg(&file);
    said(run(restore).await);

    let sum = "SELECT md5(string_agg(t::text, ',' ORDER BY i)) || (TABLE v) FROM t";
    let copied = said(run(stage.psql(&["dbname=copy"], sum)).await);
    assert_eq!(copied, stage.straight(sum));
}

#[tokio::test]
async fn a_notification_reaches_an_idle_client_at_once() {
    let Some(stage) = Stage::led("notify").await else {
        return;
    };
    let target = stage.target(stage.proxy.addr);
    let (listener, mut connection) = tokio_postgres::connect(&target, NoTls).await.unwrap();
    let (heard, mut notices) = tokio::sync::mpsc::unbounded_channel();
    tokio::spawn(async move {
        while let Some(Ok(message)) = poll_fn(|cx| connection.poll_message(cx)).await {
            if let AsyncMessage::Notification(notice) = message {
                let _ = heard.send((notice.payload().to_owned(), Instant::now()));
            }
        }
    });
    listener.batch_execute("LISTEN news").await.unwrap();
    let direct = stage.driver(stage.server).await;

    let mut took = Vec::new();
    for i in 0..20 {
        tokio::time::sleep(Duration::from_millis(20)).await;
        direct
            .batch_execute(&format!("NOTIFY news, '{i}'"))
            .await
            .unwrap();
        let sent = Instant::now();
        let notice = within(Duration::from_secs(5), "a notification", notices.recv()).await;
        let (payload, at) = notice.unwrap();
        assert_eq!(payload, i.to_string());
        took.push(at.saturating_duration_since(sent));
    }
    took.sort();
    // What is kept back waits for 40 ms and more, each time; what is above in some belongs to a busy machine.
    assert!(took[9] < Duration::from_millis(25), "{took:?}");
}

#[tokio::test]
async fn a_driver_prepares_pipelines_and_rolls_back() {
    let Some(stage) = Stage::led("driver").await else {
        return;
    };
    let mut client = stage.driver(stage.proxy.addr).await;
    client
        .batch_execute("CREATE TEMP TABLE t (i int8)")
        .await
        .unwrap();
    let insert = client.prepare("INSERT INTO t VALUES ($1)").await.unwrap();
    let pieces = |part: i64| {
        let (client, insert) = (&client, &insert);
        async move {
            for i in part * 50..(part + 1) * 50 {
                assert_eq!(client.execute(insert, &[&i]).await.unwrap(), 1);
            }
        }
    };
    // Joined, so that each has its statements in the pipeline behind the others'.
    tokio::join!(
        pieces(0),
        pieces(1),
        pieces(2),
        pieces(3),
        pieces(4),
        pieces(5),
        pieces(6),
        pieces(7)
    );

    let transaction = client.transaction().await.unwrap();
    transaction.batch_execute("DELETE FROM t").await.unwrap();
    transaction.rollback().await.unwrap();

    let sum: i64 = client
        .query_one("SELECT sum(i)::int8 FROM t", &[])
        .await
        .unwrap()
        .get(0);
    assert_eq!(sum, 399 * 400 / 2);
}
