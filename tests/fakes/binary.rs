//! The proxy's own binary as a child process, seen from outside: its log, descriptors and memory.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::{eventually, locked};

/// The binary with a configuration in a file of its own; ended when dropped.
#[derive(Debug)]
pub struct Proxy {
    child: Child,
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
            addr,
            log,
            _folder: folder,
        };
        let up = eventually(Duration::from_secs(10), || {
            std::net::TcpStream::connect(addr).is_ok()
        })
        .await;
        assert!(up, "it does not listen: {:?}", proxy.log());
        proxy
    }

    pub fn log(&self) -> Vec<String> {
        locked(&self.log).clone()
    }

    pub fn descriptors(&self) -> usize {
        std::fs::read_dir(format!("/proc/{}/fd", self.child.id()))
            .expect("the child process")
            .count()
    }

    /// Resident memory of its own (no files), in KiB.
    pub fn memory(&self) -> u64 {
        let file = format!("/proc/{}/status", self.child.id());
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
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
