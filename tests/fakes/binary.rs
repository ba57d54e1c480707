//! The proxy's own binary as a child process, seen from outside: its log, descriptors and memory.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::{PATIENCE, eventually, locked};

/// The binary with a configuration in a file of its own; ended when dropped.
#[derive(Debug)]
pub struct Proxy {
    child: Child,
    /// Those that took over, the newest last.
    heirs: Vec<i32>,
    pub addr: SocketAddr,
    log: Arc<Mutex<Vec<String>>>,
    _folder: tempfile::TempDir,
}

impl Proxy {
    /// Starts it with this configuration, whose `127.0.0.1:0` becomes `addr`; returns once it listens there.
    pub async fn start(text: &str, addr: SocketAddr) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let file = folder.path().join("proxy.toml");
        std::fs::write(&file, text.replace("127.0.0.1:0", &addr.to_string())).expect("a file");
        let mut child = Command::new(env!("CARGO_BIN_EXE_helios-proxy"))
            .arg("--config")
            .arg(&file)
            .env_remove("JOURNAL_STREAM")
            .env_remove("NOTIFY_SOCKET")
            .env_remove("RUST_LOG")
            .stderr(Stdio::piped())
            .spawn()
            .expect("the child process");
        let log = Arc::new(Mutex::new(Vec::new()));
        let stderr = BufReader::new(child.stderr.take().expect("the child process"));
        std::thread::spawn({
            let log = Arc::clone(&log);
            move || {
                for line in stderr.lines().map_while(Result::ok) {
                    locked(&log).push(line);
                }
            }
        });
        let proxy = Self {
            child,
            heirs: Vec::new(),
            addr,
            log,
            _folder: folder,
        };
        let up = eventually(PATIENCE, || std::net::TcpStream::connect(addr).is_ok()).await;
        assert!(up, "it does not listen: {:?}", proxy.log());
        proxy
    }

    /// The process that serves.
    fn head(&self) -> i32 {
        let first = i32::try_from(self.child.id()).expect("a process id");
        self.heirs.last().copied().unwrap_or(first)
    }

    /// A new process takes over; returns once it is the only one.
    pub async fn upgrade(&mut self, single_within: Duration) {
        let old = self.head();
        kill(Pid::from_raw(old), Signal::SIGUSR2).expect("a living process");
        let mut heir: Option<i32> = None;
        let handed = eventually(single_within, || {
            let log = self.log();
            let mut said = log.iter().filter_map(|line| {
                let after = line.split("handed over to process ").nth(1)?;
                after.split(' ').next()?.parse().ok()
            });
            heir = said.nth(self.heirs.len());
            heir.is_some()
        })
        .await;
        assert!(handed, "it does not hand over: {:?}", self.log());
        self.heirs.extend(heir);
        let single = eventually(single_within, || is_gone(old)).await;
        assert!(single, "process {old} stays: {:?}", self.log());
    }

    pub fn log(&self) -> Vec<String> {
        locked(&self.log).clone()
    }

    pub fn descriptors(&self) -> usize {
        std::fs::read_dir(format!("/proc/{}/fd", self.head()))
            .expect("the child process")
            .count()
    }

    /// Resident memory of its own (no files), in KiB.
    pub fn memory(&self) -> u64 {
        let file = format!("/proc/{}/status", self.head());
        let status = std::fs::read_to_string(file).expect("a living process");
        let own = status
            .lines()
            .find_map(|line| line.strip_prefix("RssAnon:"));
        let number = own.and_then(|line| line.split_ascii_whitespace().next()?.parse().ok());
        number.expect("RssAnon in /proc")
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        for heir in &self.heirs {
            let _ = kill(Pid::from_raw(*heir), Signal::SIGKILL);
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Has it ended, waited for or not?
pub fn is_gone(process: i32) -> bool {
    let state = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    let state = state.rsplit(')').next().unwrap_or_default().trim_start();
    state.is_empty() || state.starts_with('Z')
}
