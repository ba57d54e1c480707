//! Replication through the proxy: copies in both directions at once, and long silent streams.

use std::time::{Duration, Instant};

use super::server::{Stage, run, said};
use crate::fakes::eventually;

#[tokio::test]
async fn a_base_backup_with_streamed_wal_is_whole() {
    let Some(stage) = Stage::led("base backup").await else {
        return;
    };
    said(run(stage.psql(&[], "CREATE TABLE t AS SELECT generate_series(1, 100000) i")).await);
    let backup = stage.folder().join("backup");

    let target = stage
        .target(stage.proxy.addr)
        .replace(" dbname=postgres", "");
    let mut command = stage.tool("pg_basebackup");
    command
        .args([
            "-X",
            "stream",
            "-c",
            "fast",
            "--no-sync",
            "-d",
            &target,
            "-D",
        ])
        .arg(&backup);
    said(run(command).await);

    let mut verify = stage.tool("pg_verifybackup");
    verify.arg(&backup);
    said(run(verify).await);
    assert!(
        backup.join("pg_wal").read_dir().unwrap().count() > 1,
        "no WAL came along"
    );
}

#[tokio::test]
async fn a_logical_stream_runs_and_ends_when_its_leader_is_demoted() {
    let Some(stage) = Stage::led("logical").await else {
        return;
    };
    said(run(stage.psql(&[], "CREATE TABLE t (i int)")).await);
    let file = stage.folder().join("changes");
    let stream = |action: &str| {
        let mut command = stage.tool("pg_recvlogical");
        command.args(["-d", &stage.target(stage.proxy.addr), "-S", "s", action]);
        command
    };
    let mut create = stream("--create-slot");
    create.args(["-P", "test_decoding"]);
    said(run(create).await);
    let mut receive = stream("--start");
    receive.args(["--no-loop", "-F", "0", "-f"]).arg(&file);
    let mut receiver = receive.spawn().unwrap();
    let read = || std::fs::read_to_string(&file).unwrap_or_default();

    said(run(stage.psql(&[], "INSERT INTO t VALUES (4711)")).await);
    assert!(
        eventually(Duration::from_secs(10), || read().contains("4711")).await,
        "{}",
        read()
    );
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(
        receiver.try_wait().unwrap().is_none(),
        "a silent stream was cut"
    );

    stage.follows();
    let since = Instant::now();
    let ended = eventually(Duration::from_secs(5), || {
        receiver.try_wait().unwrap().is_some()
    })
    .await;
    let _ = receiver.kill();
    let _ = receiver.wait();
    assert!(ended, "the stream goes on after {:?}", since.elapsed());
}
