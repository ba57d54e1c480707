//! The log: readable on stderr, coloured on a terminal, fields in the journal.

use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixDatagram;

use nix::sys::signal::Signal;
use tokio::process::Command;

use super::daemon::{Daemon, PATIENCE, free, possible, toml};
use crate::fakes::cluster::Cluster;

#[tokio::test]
async fn in_a_file_the_log_is_plain_and_starts_at_info() {
    let mut daemon = Daemon::start(&toml("write_timeout_secs = 5", free(), free()));
    daemon.told("READY").await;
    daemon.signal(Signal::SIGTERM);
    daemon.ended().await;

    let log = daemon.log();
    assert!(
        log.contains(" INFO ") && log.contains(" WARN write_timeout_secs = 5: "),
        "{log}"
    );
    assert!(!log.contains('\u{1b}') && !log.contains("DEBUG"), "{log}");
}

#[tokio::test]
async fn rust_log_is_respected_and_last_words_are_always_heard() {
    let mut daemon = Daemon::start_with("colour = 1", |command| {
        command.env("RUST_LOG", "off");
    });

    assert_eq!(daemon.ended().await.code(), Some(2));
    assert!(
        daemon.log().contains("colour: unknown key"),
        "{}",
        daemon.log()
    );
}

#[tokio::test]
async fn on_a_terminal_the_log_is_coloured() {
    if !possible("the coloured log", &["script", "-qec", "true", "/dev/null"]).await {
        return;
    }
    let program = env!("CARGO_BIN_EXE_helios-proxy");
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("bad.toml");
    std::fs::write(&file, "colour = 1").unwrap();
    let line = format!("{program} --config {}", file.display());

    // script(1) gives its child a terminal.
    let out = Command::new("script")
        .args(["-qec", &line, "/dev/null"])
        .env_remove("JOURNAL_STREAM")
        .env_remove("NO_COLOR")
        .env_remove("RUST_LOG")
        .output()
        .await
        .unwrap();

    let log = String::from_utf8(out.stdout).unwrap();
    assert!(log.contains("\u{1b}[31mERROR\u{1b}[0m"), "{log:?}");
}

/// Where systemd listens is fixed, so the daemon is started in a mount namespace where our socket is there.
#[tokio::test]
async fn in_the_journal_fields_have_their_own_names() {
    let namespace = ["unshare", "--user", "--map-root-user", "--mount"];
    let mount = ["mount", "-t", "tmpfs", "none", "/run"];
    if !possible("the journal", &[&namespace[..], &mount].concat()).await {
        return;
    }
    let mut cluster = Cluster::start(2);
    cluster.lead(0, 5);
    let folder = tempfile::tempdir().unwrap();
    let journal = UnixDatagram::bind(folder.path().join("socket")).unwrap();
    journal.set_read_timeout(Some(PATIENCE)).unwrap();
    let stderr = File::create(folder.path().join("stderr")).unwrap();
    let about = stderr.metadata().unwrap();
    let script = format!(
        "mount -t tmpfs none /run && mkdir -p /run/systemd/journal && \
         mount --bind {} /run/systemd/journal && exec {} \"$@\"",
        folder.path().display(),
        env!("CARGO_BIN_EXE_helios-proxy"),
    );
    let mut command = Command::new(namespace[0]);
    command
        .args(&namespace[1..])
        .args(["sh", "-c", &script, "sh", "run"]);
    let daemon = Daemon::start_as(&cluster.toml(), command, |command| {
        command
            .env("JOURNAL_STREAM", format!("{}:{}", about.dev(), about.ino()))
            .stderr(stderr.try_clone().unwrap());
    });
    daemon.told("READY").await;
    cluster.lead(1, 6);

    let entry = tokio::task::spawn_blocking(move || {
        let until = std::time::Instant::now() + PATIENCE;
        while std::time::Instant::now() < until {
            let entry = entry(&journal);
            if entry.get("NODE").is_some_and(|node| node == "n2") && entry.contains_key("EPOCH") {
                return entry;
            }
        }
        panic!("no entry about n2");
    })
    .await
    .unwrap();

    assert_eq!(entry["SYSLOG_IDENTIFIER"], "helios-proxy");
    assert_eq!(entry["PRIORITY"], "6", "{entry:?}");
    assert!(!entry.keys().any(|key| key.starts_with("F_")), "{entry:?}");
    assert_eq!(
        std::fs::read_to_string(folder.path().join("stderr")).unwrap(),
        ""
    );
}

/// The next entry. Source: systemd's "Native Journal Protocol".
fn entry(journal: &UnixDatagram) -> BTreeMap<String, String> {
    let mut bytes = vec![0; 65_536];
    let length = journal.recv(&mut bytes).unwrap();
    let mut rest = &bytes[..length];
    let mut fields = BTreeMap::new();
    while let Some(end) = rest.iter().position(|b| *b == b'\n') {
        let (line, after) = rest.split_at(end);
        let line = String::from_utf8(line.to_vec()).unwrap();
        rest = &after[1..];
        if let Some((name, value)) = line.split_once('=') {
            fields.insert(name.to_owned(), value.to_owned());
            continue;
        }
        // NAME, newline, length, value, newline.
        let (size, after) = rest.split_at(8);
        let size = usize::try_from(u64::from_le_bytes(size.try_into().unwrap())).unwrap();
        fields.insert(line, String::from_utf8(after[..size].to_vec()).unwrap());
        rest = &after[size + 1..];
    }
    fields
}
