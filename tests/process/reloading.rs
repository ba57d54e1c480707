//! SIGHUP: all or nothing, and said.

use std::net::SocketAddr;

use nix::time::{ClockId, clock_gettime};
use tokio::net::{TcpListener, TcpStream};

use super::daemon::{Daemon, free, get, toml};

fn monotonic_usec() -> u128 {
    std::time::Duration::from(clock_gettime(ClockId::CLOCK_MONOTONIC).unwrap()).as_micros()
}

fn with_second(toml: &str, listen: SocketAddr) -> String {
    format!("{toml}\n[[listeners]]\naddress = '{listen}'\n")
}

#[tokio::test]
async fn a_good_file_is_taken_on_between_reloading_and_ready() {
    let (first, second) = (free(), free());
    let old = toml("", first, free());
    let daemon = Daemon::start(&old);
    daemon.told("READY").await;
    daemon.forget_notices();
    let before = monotonic_usec();

    daemon.hang_up(Some(&with_second(&old, second)));

    let reloading = daemon.notice().await;
    assert_eq!(reloading.get("RELOADING"), Some("1"), "{reloading:?}");
    let at: u128 = reloading.get("MONOTONIC_USEC").unwrap().parse().unwrap();
    assert!((before..=monotonic_usec()).contains(&at), "{before} {at}");
    let ready = daemon.notice().await;
    assert_eq!(ready.get("READY"), Some("1"), "{ready:?}");
    assert!(
        ready.get("STATUS").unwrap().ends_with("; reloaded"),
        "{ready:?}"
    );
    // READY means done: the new listener is there, the old one was not touched.
    TcpStream::connect(second).await.unwrap();
    TcpStream::connect(first).await.unwrap();
    daemon.logs("reloaded").await;
}

#[tokio::test]
async fn a_removed_listener_is_closed_and_the_other_goes_on() {
    let (first, second) = (free(), free());
    let old = toml("", first, free());
    let daemon = Daemon::start(&with_second(&old, second));
    daemon.told("READY").await;

    daemon.hang_up(Some(&old));
    daemon.told("RELOADING").await;
    daemon.told("READY").await;

    TcpStream::connect(first).await.unwrap();
    let gone = async {
        while TcpStream::connect(second).await.is_ok() {
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
    };
    crate::fakes::within(super::daemon::PATIENCE, "the listener's end", gone).await;
}

#[tokio::test]
async fn a_bad_file_changes_nothing_and_is_said_in_the_log_the_metric_and_the_status() {
    let (listen, admin) = (free(), free());
    let taken = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let taken = taken.local_addr().unwrap();
    let old = toml("", listen, free()).replace("''", &format!("'{admin}'"));
    let daemon = Daemon::start(&old);
    daemon.told("READY").await;
    let gone = old.replace(&listen.to_string(), &free().to_string());
    let bad = [
        (Some("nodes = ".to_owned()), "not TOML".to_owned()),
        (
            Some(format!("colour = 1\n{gone}")),
            "colour: unknown key".to_owned(),
        ),
        (
            Some(format!("max_connections = '${{HELIOS_NO}}'\n{gone}")),
            "HELIOS_NO is not set".to_owned(),
        ),
        (Some(with_second(&gone, taken)), taken.to_string()),
        (None, "cannot be read".to_owned()),
    ];

    for (i, (toml, words)) in bad.iter().enumerate() {
        daemon.hang_up(toml.as_deref());

        daemon.told("RELOADING").await;
        let ready = daemon.told("READY").await;
        let status = ready.get("STATUS").unwrap();
        assert!(
            status.contains("reload failed: ") && status.contains(words),
            "{status}"
        );
        let log = daemon.log();
        let errors: Vec<_> = log.lines().filter(|line| line.contains("ERROR")).collect();
        assert_eq!(errors.len(), i + 1, "{log}");
        assert!(
            errors[i].contains("the old configuration goes on") && errors[i].contains(words),
            "{log}"
        );
        TcpStream::connect(listen).await.unwrap();
        let metrics = get(admin, "/metrics/prometheus").await;
        let count = format!(
            "heliosdb_proxy_config_reloads_total{{result=\"failed\"}} {}",
            i + 1
        );
        assert!(metrics.contains(&count), "{metrics}");
    }

    daemon.hang_up(Some(&old));
    daemon.says("; reloaded").await;
    let metrics = get(admin, "/metrics/prometheus").await;
    assert!(
        metrics.contains("config_reloads_total{result=\"ok\"} 1"),
        "{metrics}"
    );
}

#[tokio::test]
async fn keys_that_need_a_restart_are_named_in_the_status() {
    let old = toml("", free(), free());
    let daemon = Daemon::start(&old);
    daemon.told("READY").await;

    let new = old.replace("''", &format!("'{}'", free()));
    for again in [&new, &format!("{new}\n[health]\nfast_interval_ms = 50")] {
        daemon.hang_up(Some(again));

        daemon.told("RELOADING").await;
        let ready = daemon.told("READY").await;
        let status = ready.get("STATUS").unwrap();
        assert!(
            status.ends_with("; reloaded, restart needed for admin_address"),
            "{status}"
        );
    }
    daemon.logs("reloaded: health.fast_interval_ms; ").await;

    daemon.hang_up(Some(&old));
    daemon.says("; reloaded").await;
}
