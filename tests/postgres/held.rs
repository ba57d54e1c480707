//! What real clients see of a cluster without a leader.

use std::time::{Duration, Instant};

use tokio_postgres::NoTls;

use super::server::{Stage, run, said};
use crate::fakes::cluster::Tempo;
use crate::fakes::{eventually, within};

#[tokio::test]
async fn whoever_waits_in_vain_reads_words_and_whoever_is_lucky_gets_in() {
    let tempo = Tempo {
        write_timeout_secs: 2,
        ..Tempo::default()
    };
    let Some(stage) = Stage::set("held", &tempo, &[]).await else {
        return;
    };
    for words in [
        "sslmode=disable",
        "sslmode=prefer",
        "sslmode=prefer gssencmode=prefer",
        "sslmode=allow",
    ] {
        let since = Instant::now();
        let output = run(stage.psql(&[words], "SELECT 1")).await;
        let seen = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{words}: {seen}");
        assert!(
            seen.contains("FATAL:  no leader of demo after 2 s"),
            "{words}: {seen}"
        );
        assert!(
            seen.contains("DETAIL:") && seen.contains("n1") && seen.contains("HINT:"),
            "{words}: {seen}"
        );
        assert!(
            since.elapsed() < Duration::from_secs(6),
            "{words}: {:?}",
            since.elapsed()
        );
    }
    let insisting = run(stage.psql(&["sslmode=require"], "SELECT 1")).await;
    let seen = String::from_utf8_lossy(&insisting.stderr).into_owned();
    assert_eq!(insisting.status.code(), Some(2), "{seen}");
    assert!(seen.contains("SSL") || seen.contains("closed"), "{seen}");

    let refused = tokio_postgres::connect(&stage.target(stage.proxy.addr), NoTls)
        .await
        .err();
    let refused = refused.expect("a refusal");
    let words = refused.as_db_error().expect("words");
    assert_eq!(
        (words.code().code(), words.message()),
        ("57P03", "no leader of demo after 2 s")
    );
    assert!(
        words.detail().is_some_and(|detail| detail.contains("n1")),
        "{words:?}"
    );
    assert!(words.hint().is_some(), "{words:?}");

    let waiting = run(stage.psql(&[], "SELECT 'here'"));
    let promoted = async {
        tokio::time::sleep(Duration::from_millis(300)).await;
        stage.leads();
    };
    let (output, ()) = tokio::join!(waiting, promoted);
    assert_eq!(said(output), "here");
}

#[tokio::test]
async fn a_revoked_driver_reads_why() {
    let Some(stage) = Stage::led("revoked").await else {
        return;
    };
    let connected = tokio_postgres::connect(&stage.target(stage.proxy.addr), NoTls).await;
    let (client, connection) = connected.unwrap();
    let connection = tokio::spawn(connection);
    let process: i32 = client
        .query_one("SELECT pg_backend_pid()", &[])
        .await
        .unwrap()
        .get(0);

    stage.follows();

    let end = within(Duration::from_secs(10), "the end", connection)
        .await
        .unwrap();
    let end = end.expect_err("an end with words");
    let words = end.as_db_error().expect("words");
    assert_eq!(words.code().code(), "57P01", "{words:?}");
    let gone = format!("SELECT count(*) FROM pg_stat_activity WHERE pid = {process}");
    let is_gone = || stage.straight(&gone) == "0";
    assert!(eventually(Duration::from_secs(5), is_gone).await);
}
