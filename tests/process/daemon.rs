//! helios-proxy as a child, with a scripted service manager at the other end of `NOTIFY_SOCKET`.

use std::fs::{self, File};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{ExitStatus, Stdio};
use std::sync::Mutex;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpStream, UnixDatagram};
use tokio::process::{Child, Command};

use super::shelf::{Shelf, receive, receive_now};
use crate::fakes::eventually;

pub use crate::fakes::PATIENCE;
pub use crate::fakes::ports::free;

/// A running helios-proxy. Dropping it kills it.
pub struct Daemon {
    child: Child,
    /// Its configuration; write it anew before [`Daemon::hang_up`].
    pub file: PathBuf,
    log: PathBuf,
    manager: UnixDatagram,
    shelf: Mutex<Shelf>,
    /// Kept for its end, which removes it.
    _folder: tempfile::TempDir,
}

/// One datagram to the service manager.
#[derive(Debug)]
pub struct Notice(String);

impl Notice {
    pub fn read(bytes: &[u8]) -> Self {
        Self(String::from_utf8(bytes.to_vec()).unwrap())
    }

    pub fn get(&self, key: &str) -> Option<&str> {
        self.0
            .lines()
            .filter_map(|line| line.split_once('='))
            .find_map(|(name, value)| (name == key).then_some(value))
    }
}

impl Daemon {
    pub fn start(toml: &str) -> Self {
        Self::start_with(toml, |_| {})
    }

    /// `change` may add to the command: its environment, for one.
    pub fn start_with(toml: &str, change: impl FnOnce(&mut Command)) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_helios-proxy"));
        command.arg("run");
        Self::start_as(toml, command, change)
    }

    /// With what another one has left with systemd, which it takes over.
    pub fn start_from(toml: &str, shelf: Shelf) -> Self {
        let command = shelf.hand_to(env!("CARGO_BIN_EXE_helios-proxy"));
        let daemon = Self::start_as(toml, command, |_| {});
        *daemon.shelf.lock().unwrap() = shelf;
        daemon
    }

    /// `command` is started with `--config FILE` behind its own arguments.
    pub fn start_as(toml: &str, mut command: Command, change: impl FnOnce(&mut Command)) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let at = |name| folder.path().join(name);
        let (file, log) = (at("helios-proxy.toml"), at("log"));
        fs::write(&file, toml).unwrap();
        let manager = UnixDatagram::bind(at("notify")).unwrap();
        command
            .arg("--config")
            .arg(&file)
            .env("NOTIFY_SOCKET", at("notify"))
            .env_remove("JOURNAL_STREAM")
            .env_remove("RUST_LOG")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(File::create(&log).unwrap())
            .kill_on_drop(true);
        change(&mut command);
        Self {
            child: command.spawn().unwrap(),
            file,
            log,
            manager,
            shelf: Mutex::default(),
            _folder: folder,
        }
    }

    /// The next notice.
    pub async fn notice(&self) -> Notice {
        match tokio::time::timeout(PATIENCE, receive(&self.manager)).await {
            Ok(got) => {
                let (notice, with) = got.unwrap();
                self.shelf.lock().unwrap().hear(&notice, with);
                notice
            }
            Err(_) => panic!(
                "nothing more is told to the manager; the log:\n{}",
                self.log()
            ),
        }
    }

    /// The next notice with this key; those before it are skipped.
    pub async fn told(&self, key: &str) -> Notice {
        loop {
            let notice = self.notice().await;
            if notice.get(key).is_some() {
                return notice;
            }
        }
    }

    /// Waits for a status line that says this.
    pub async fn says(&self, words: &str) -> String {
        loop {
            let notice = self.told("STATUS").await;
            let status = notice.get("STATUS").unwrap();
            if status.contains(words) {
                return status.to_owned();
            }
        }
    }

    /// Everything that waits in the manager's socket is thrown away.
    pub fn forget_notices(&self) {
        while let Ok((notice, with)) = receive_now(&self.manager) {
            self.shelf.lock().unwrap().hear(&notice, with);
        }
    }

    /// What the manager keeps now.
    pub fn stored(&self) -> Vec<String> {
        self.forget_notices();
        let shelf = self.shelf.lock().unwrap();
        shelf.names().into_iter().map(str::to_owned).collect()
    }

    /// What the manager keeps after the end, for the next one.
    pub async fn left(mut self) -> Shelf {
        self.ended().await;
        self.forget_notices();
        std::mem::take(&mut *self.shelf.lock().unwrap())
    }

    pub fn log(&self) -> String {
        fs::read_to_string(&self.log).unwrap()
    }

    /// Waits until the log says this.
    pub async fn logs(&self, words: &str) -> String {
        let said = eventually(PATIENCE, || self.log().contains(words)).await;
        assert!(said, "{words:?} is not in the log:\n{}", self.log());
        self.log()
    }

    pub fn id(&self) -> i32 {
        i32::try_from(self.child.id().expect("running")).unwrap()
    }

    pub fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.id()), signal).unwrap();
    }

    /// SIGHUP with this file in place, or with none.
    pub fn hang_up(&self, toml: Option<&str>) {
        match toml {
            Some(toml) => fs::write(&self.file, toml).unwrap(),
            None => fs::remove_file(&self.file).unwrap(),
        }
        self.signal(Signal::SIGHUP);
    }

    pub async fn ended(&mut self) -> ExitStatus {
        match tokio::time::timeout(PATIENCE, self.child.wait()).await {
            Ok(status) => status.unwrap(),
            Err(_) => panic!("still running; the log:\n{}", self.log()),
        }
    }
}

/// A configuration with one node; lines of `top` come before the tables.
pub fn toml(top: &str, listen: SocketAddr, node: SocketAddr) -> String {
    format!(
        "admin_address = ''\n{top}\n[[listeners]]\naddress = '{listen}'\n\
         [[nodes]]\nname = 'n1'\nhost = '{}'\nrest_port = {}\n",
        node.ip(),
        node.port(),
    )
}

/// `GET path`, head and body.
pub async fn get(from: SocketAddr, path: &str) -> String {
    let mut stream = TcpStream::connect(from).await.unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nHost: {from}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    answer
}

/// Does `command` work here? What it makes possible is skipped where it does not, and fails under `CI`.
pub async fn possible(test: &str, command: &[&str]) -> bool {
    let (program, arguments) = command.split_first().unwrap();
    let out = Command::new(program).args(arguments).output().await;
    let works = out.is_ok_and(|out| out.status.success());
    assert!(
        works || std::env::var_os("CI").is_none(),
        "{test}: {command:?} fails"
    );
    if !works {
        eprintln!("skipped {test}: {command:?} fails");
    }
    works
}
