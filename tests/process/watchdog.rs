//! WATCHDOG: fed by the poller's own progress, not by the life of the process.

use std::fs;
use std::time::{Duration, Instant};

use tokio::net::TcpListener;

use super::daemon::{Daemon, free, toml};

fn watched(command: &mut tokio::process::Command) {
    command.env("WATCHDOG_USEC", "900000");
}

/// How often the watchdog is fed within `time`.
async fn beats(daemon: &Daemon, time: Duration) -> usize {
    daemon.forget_notices();
    let until = Instant::now() + time;
    let mut beats = 0;
    while let Ok(notice) = tokio::time::timeout(
        until.saturating_duration_since(Instant::now()),
        daemon.notice(),
    )
    .await
    {
        beats += usize::from(notice.get("WATCHDOG") == Some("1"));
    }
    beats
}

/// From now on.
async fn is_fed(daemon: &Daemon) {
    daemon.forget_notices();
    for _ in 0..2 {
        daemon.told("WATCHDOG").await;
    }
}

#[tokio::test]
async fn dead_nodes_do_not_starve_the_watchdog() {
    // One that refuses, one that accepts and says nothing.
    let mute = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mut toml = toml("", free(), free());
    toml.push_str(&format!(
        "[[nodes]]\nname = 'mute'\nhost = 'localhost'\nrest_port = {}\n",
        mute.local_addr().unwrap().port()
    ));
    let daemon = Daemon::start_with(&toml, watched);
    daemon.told("READY").await;

    let beats = beats(&daemon, Duration::from_secs(6)).await;

    assert!(
        (8..=30).contains(&beats),
        "{beats} in 6 s at one each 300 ms"
    );
}

#[tokio::test]
async fn without_a_watchdog_nothing_is_fed() {
    let daemon = Daemon::start(&toml("", free(), free()));
    daemon.told("READY").await;

    assert_eq!(beats(&daemon, Duration::from_secs(1)).await, 0);
}

#[tokio::test]
async fn a_hung_poller_is_not_kept_alive() {
    let daemon = Daemon::start_with(&toml("", free(), free()), watched);
    daemon.told("READY").await;
    is_fed(&daemon).await;

    let hung = Hung::thread(daemon.id(), "helios-control");
    // It is given three seconds, however short systemd's patience is.
    tokio::time::sleep(Duration::from_millis(3500)).await;
    assert_eq!(
        beats(&daemon, Duration::from_secs(2)).await,
        0,
        "{}",
        daemon.log()
    );
    assert!(
        daemon.log().contains("the poller hangs"),
        "{}",
        daemon.log()
    );

    drop(hung);
    is_fed(&daemon).await;
}

/// A thread of a child that a debugger holds still, while all its others run. Dropping it lets go.
struct Hung(i32);

impl Hung {
    /// All calls come from one thread: the runtime of a test has no other.
    fn thread(process: i32, name: &str) -> Self {
        let thread = fs::read_dir(format!("/proc/{process}/task"))
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .find(|task| fs::read_to_string(task.join("comm")).unwrap().trim() == name)
            .unwrap_or_else(|| panic!("no thread is named {name}"));
        let id = thread
            .file_name()
            .unwrap()
            .to_str()
            .unwrap()
            .parse()
            .unwrap();
        Self::ask(libc::PTRACE_SEIZE, id);
        Self::ask(libc::PTRACE_INTERRUPT, id);
        let mut how = 0;
        // SAFETY: `how` outlives the call.
        let stopped = unsafe { libc::waitpid(id, &raw mut how, libc::__WALL) };
        assert_eq!(stopped, id);
        Self(id)
    }

    fn ask(what: libc::c_uint, id: i32) {
        let none = std::ptr::null_mut::<libc::c_void>();
        // SAFETY: none of these requests reads or writes memory.
        let answer = unsafe { libc::ptrace(what, id, none, none) };
        assert_eq!(answer, 0, "ptrace: {}", std::io::Error::last_os_error());
    }
}

impl Drop for Hung {
    fn drop(&mut self) {
        Self::ask(libc::PTRACE_DETACH, self.0);
    }
}
