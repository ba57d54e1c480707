//! `helios-proxy status` against a running one, with and without a token.

use std::path::Path;

use tokio::process::Command;

use super::daemon::{Daemon, PATIENCE, free};
use crate::fakes::cluster::Cluster;
use crate::fakes::eventually;

async fn status(more: &[&str]) -> (String, String, Option<i32>) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_helios-proxy"));
    command.arg("status").args(more);
    let out = tokio::time::timeout(PATIENCE, command.output()).await;
    let out = out.unwrap().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (text(out.stdout), text(out.stderr), out.status.code())
}

fn text(file: &Path) -> &str {
    file.to_str().unwrap()
}

/// A proxy whose admin API answers on every address, so that even looking needs the token.
#[tokio::test]
async fn a_protected_admin_api_is_shown_the_token_of_its_file_or_of_the_command_line() {
    let mut cluster = Cluster::start(2);
    cluster.lead(0, 5);
    let folder = tempfile::tempdir().unwrap();
    let token = folder.path().join("token");
    std::fs::write(&token, "open sesame\n").unwrap();
    let admin = format!("0.0.0.0:{}", free().port());
    let window = format!("\"{admin}\"\nadmin_token_file = {token:?}");
    let daemon = Daemon::start(&cluster.toml().replacen("\"\"", &window, 1));
    daemon.says("n1").await;

    let (_, error, code) = status(&["--admin", &admin]).await;
    assert_eq!(code, Some(1));
    assert!(error.contains("wants a token"), "{error}");

    let (page, error, code) = status(&["--config", text(&daemon.file), "--why"]).await;
    assert_eq!((error.as_str(), code), ("", Some(0)));
    assert!(page.starts_with("leader  n1 ("), "{page}");
    assert!(page.contains("n2  503 running replica 5, "), "{page}");

    let token = text(&token);
    let (page, ..) = status(&["--admin", &admin, "--token-file", token]).await;
    assert!(page.starts_with("leader  n1 ("), "{page}");

    let wrong = folder.path().join("wrong");
    std::fs::write(&wrong, "open barley").unwrap();
    let (_, error, code) = status(&["--admin", &admin, "--token-file", text(&wrong)]).await;
    assert_eq!(code, Some(1));
    assert!(error.contains("does not take this token"), "{error}");
    assert!(!error.contains("barley"), "{error}");
}

#[tokio::test]
async fn json_has_the_reasons_and_the_changes_of_leader() {
    let mut cluster = Cluster::start(2);
    cluster.lead(0, 5);
    let admin = free().to_string();
    let toml = cluster.toml().replacen("\"\"", &format!("\"{admin}\""), 1);
    let daemon = Daemon::start(&toml);
    daemon.says("n1").await;
    cluster.flip();
    daemon.says("n2").await;

    let told = tokio::time::timeout(PATIENCE, async {
        loop {
            let (page, _, code) = status(&["--admin", &admin, "--json"]).await;
            assert_eq!(code, Some(0));
            let all: serde_json::Value = serde_json::from_str(&page).unwrap();
            // Until the old leader was heard again, its last claim is what it last proved.
            if all["why"]["nodes"][0]["rule"] == "follows" {
                return all;
            }
        }
    });
    let all = told.await.expect("the old leader follows");

    assert_eq!(all["why"]["nodes"][1]["rule"], "leads");
    assert_eq!(all["why"]["routes"][0]["nodes"][0], "n2");
    assert_eq!(all["why"]["changes"][0]["was"], "n1");
    assert_eq!(all["why"]["changes"][1]["was"], serde_json::Value::Null);
}

/// Watching survives what it watches.
#[tokio::test]
async fn a_watch_says_when_nobody_answers_and_goes_on() {
    let admin = free().to_string();
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("pages");
    let mut watch = Command::new(env!("CARGO_BIN_EXE_helios-proxy"))
        .args(["status", "--watch", "--admin", &admin])
        .stdout(std::fs::File::create(&log).unwrap())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let shows = |words: &'static str| {
        let log = log.clone();
        eventually(PATIENCE, move || {
            std::fs::read_to_string(&log).unwrap().contains(words)
        })
    };
    assert!(shows("nothing answers on").await);

    let mut cluster = Cluster::start(1);
    cluster.lead(0, 5);
    let toml = cluster.toml().replacen("\"\"", &format!("\"{admin}\""), 1);
    let _daemon = Daemon::start(&toml);

    assert!(shows("leader  n1 (").await);
    assert!(watch.try_wait().unwrap().is_none());
}
