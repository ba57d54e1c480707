//! TLS from end to end: the proxy carries it and reads nothing.

use std::process::Command;
use std::time::Duration;

use super::server::{PASSWORD, Stage, give, python, run, said};
use crate::fakes::cluster::Tempo;
use crate::fakes::eventually;

/// A leader with a certificate of its own making, and a user whose password is kept as SCRAM wants it.
pub async fn stage(test: &str) -> Option<Stage> {
    let stage = Stage::set(test, &Tempo::default(), &[]).await?;
    let (key, certificate) = (
        stage.folder().join("key.pem"),
        stage.folder().join("cert.pem"),
    );
    let mut make = Command::new("openssl");
    make.args([
        "req",
        "-x509",
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:P-256",
        "-nodes",
        "-days",
        "30",
    ]);
    make.args([
        "-subj",
        "/CN=pg.example",
        "-addext",
        "subjectAltName=DNS:pg.example",
        "-keyout",
    ]);
    make.arg(&key).arg("-out").arg(&certificate);
    said(run(make).await);
    give(&key);
    give(&certificate);
    for sql in [
        format!("ALTER SYSTEM SET ssl_key_file = '{}'", key.display()),
        format!(
            "ALTER SYSTEM SET ssl_cert_file = '{}'",
            certificate.display()
        ),
        "ALTER SYSTEM SET ssl = on".to_owned(),
        format!("CREATE ROLE scram LOGIN PASSWORD '{PASSWORD}'"),
        "SELECT pg_reload_conf()".to_owned(),
    ] {
        stage.straight(&sql);
    }
    let on = || stage.straight("SHOW ssl") == "on";
    assert!(
        eventually(Duration::from_secs(10), on).await,
        "{}",
        stage.log()
    );
    stage.leads();
    Some(stage)
}

const MINE: &str = "SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()";

#[tokio::test]
async fn psql_gets_tls_where_it_asks_for_it_and_clear_text_where_it_does_not() {
    let Some(stage) = stage("TLS").await else {
        return;
    };
    for (words, tls) in [
        ("sslmode=require", "t"),
        ("sslmode=prefer", "t"),
        ("sslmode=disable", "f"),
        ("sslmode=require gssencmode=prefer", "t"),
    ] {
        assert_eq!(said(run(stage.psql(&[words], MINE)).await), tls, "{words}");
    }
    // The certificate's name counts, not the address that is dialled.
    let root = format!("sslrootcert={}", stage.folder().join("cert.pem").display());
    let hostaddr = format!("hostaddr={}", stage.proxy.addr.ip());
    let full = ["sslmode=verify-full", &root, &hostaddr, "host=pg.example"];
    assert_eq!(said(run(stage.psql(&full, MINE)).await), "t");
    let other = run(stage.psql(&["sslmode=verify-full", &root], MINE)).await;
    assert!(
        !other.status.success(),
        "a certificate for another name was taken"
    );
}

#[tokio::test]
async fn scram_with_channel_binding_works_through_the_proxy() {
    let Some(stage) = stage("channel binding").await else {
        return;
    };
    let words = ["user=scram", "sslmode=require", "channel_binding=require"];

    assert_eq!(
        said(run(stage.psql(&words, "SELECT current_user")).await),
        "scram"
    );
    let clear = ["user=scram", "sslmode=disable"];
    assert_eq!(
        said(run(stage.psql(&clear, "SELECT current_user")).await),
        "scram"
    );
}

const BOTH_WAYS: &str = "
import sys, psycopg
with psycopg.connect(sys.argv[1]) as connection:
    connection.execute('CREATE TEMP TABLE t (word text)')
    with connection.cursor().copy('COPY t FROM STDIN') as copy:
        for i in range(100000):
            copy.write_row((str(i) * 20,))
    total, = connection.execute('SELECT sum(length(word)) FROM t').fetchone()
    read = 0
    with connection.cursor().copy('COPY t TO STDOUT') as copy:
        for row in copy.rows():
            read += len(row[0])
    print(total == read, connection.pgconn.ssl_in_use)
";

#[tokio::test]
async fn a_newer_libpq_copies_both_ways_inside_tls() {
    let Some(stage) = stage("TLS copy").await else {
        return;
    };
    let Some(python) = python(&stage) else { return };
    let mut script = Command::new(python);
    script.args([
        "-c",
        BOTH_WAYS,
        &format!("{} sslmode=require", stage.target(stage.proxy.addr)),
    ]);

    assert_eq!(said(run(script).await), "True True");
}

#[tokio::test]
async fn direct_tls_works_where_the_server_knows_it() {
    let Some(stage) = stage("direct TLS").await else {
        return;
    };
    let version: u32 = stage.straight("SHOW server_version_num").parse().unwrap();
    if version < 170_000 {
        eprintln!("skipped direct TLS: PostgreSQL {version} does not know it");
        return;
    }
    let Some(python) = python(&stage) else { return };
    let ask = "import sys, psycopg; print(psycopg.connect(sys.argv[1]).pgconn.ssl_in_use)";
    let target = format!(
        "{} sslmode=require sslnegotiation=direct",
        stage.target(stage.proxy.addr)
    );
    let mut script = Command::new(python);
    script.args(["-c", ask, &target]);

    assert_eq!(said(run(script).await), "True");
}
