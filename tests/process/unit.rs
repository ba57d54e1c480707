//! The systemd unit that is shipped for plain distributions, as systemd itself reads it.

use std::fs;
use std::process::{Command, Output};

const UNIT: &str = include_str!("../../share/systemd/helios-proxy.service");
/// Tenths of the exposure level: network access itself, which a proxy needs, is 0.8 of it.
const EXPOSURE: &str = "--threshold=15";

fn setting(key: &str) -> Vec<&'static str> {
    let key = format!("{key}=");
    let values = UNIT.lines().filter_map(|line| line.strip_prefix(&key));
    values.collect()
}

#[test]
fn the_unit_starts_for_ever_reloads_by_signal_and_feeds_the_watchdog() {
    for (key, value) in [
        ("Type", "notify"),
        ("Restart", "always"),
        ("StartLimitIntervalSec", "0"),
        ("WatchdogSec", "15"),
        ("ExecReload", "/bin/kill -HUP $MAINPID"),
        ("RestrictAddressFamilies", "AF_INET AF_INET6 AF_UNIX"),
        ("DynamicUser", "yes"),
        ("ProtectSystem", "strict"),
    ] {
        assert_eq!(setting(key), [value], "{key}");
    }
    let limit: u64 = setting("LimitNOFILE")[0].parse().unwrap();
    assert!(
        limit >= 20_100,
        "two descriptors for each of the default 10000"
    );
}

/// With the binary that was just built, because a unit whose program is not there is refused.
#[test]
fn systemd_takes_the_unit_and_calls_it_well_shut_in() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("helios-proxy.service");
    let built = env!("CARGO_BIN_EXE_helios-proxy");
    let here = UNIT.replace("/usr/local/bin/helios-proxy", built);
    assert_ne!(here, UNIT);
    fs::write(&file, here).unwrap();
    let analyze = |arguments: &[&str]| -> Option<Output> {
        let mut command = Command::new("systemd-analyze");
        command.args(arguments).arg(&file).output().ok()
    };

    let Some(verified) = analyze(&["verify", "--man=no"]) else {
        eprintln!("skipped systemd_takes_the_unit…: there is no systemd-analyze");
        return;
    };
    let said = String::from_utf8_lossy(&verified.stderr).into_owned();
    assert!(verified.status.success() && said.is_empty(), "{said}");

    let judged = analyze(&["security", "--offline=yes", EXPOSURE, "--no-pager"]).unwrap();
    let table = String::from_utf8_lossy(&judged.stdout).into_owned();
    assert!(judged.status.success(), "{table}");
    assert!(table.contains("Overall exposure level"), "{table}");
}
