//! A proxy that was started by a path which may come to lead elsewhere, and the processes that took over from it.

use std::fs;
use std::net::SocketAddr;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tokio::net::TcpStream;
use tokio::process::Command;

use super::daemon::{Daemon, PATIENCE, get};
use crate::fakes::binary::is_gone;
use crate::fakes::cluster::{Cluster, Tempo};
use crate::fakes::{eventually, ms, within};

pub const BINARY: &str = env!("CARGO_BIN_EXE_helios-proxy");

/// Dropping it kills whoever serves.
pub struct Dynasty {
    pub daemon: Daemon,
    pub heads: Vec<i32>,
    pub path: PathBuf,
    pub folder: tempfile::TempDir,
    pub listen: SocketAddr,
    pub admin: SocketAddr,
}

impl Drop for Dynasty {
    fn drop(&mut self) {
        for head in &self.heads {
            let _ = kill(Pid::from_raw(*head), Signal::SIGKILL);
        }
    }
}

impl Dynasty {
    /// Node `n1` of the cluster must lead.
    pub async fn start(cluster: &Cluster) -> Self {
        Self::start_with(cluster, "", |path| Command::new(path)).await
    }

    /// `top` comes before the tables; `command` starts the path, with the arguments that are added to it.
    pub async fn start_with(
        cluster: &Cluster,
        top: &str,
        command: impl FnOnce(&Path) -> Command,
    ) -> Self {
        // No other test has this address, and the kernel gives it to no connection.
        let own = |port| SocketAddr::new(cluster.beside(), port);
        let (listen, admin) = (own(25_432), own(29_090));
        let toml = cluster.toml_with(&Tempo {
            top: top.to_owned(),
            ..Tempo::default()
        });
        let toml = toml.replace("127.0.0.1:0", &listen.to_string()).replace(
            "admin_address = \"\"",
            &format!("admin_address = \"{admin}\""),
        );
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("helios-proxy");
        symlink(BINARY, &path).unwrap();
        let daemon = Daemon::start_as(&toml, command(&path), |_| {});
        let ready = async {
            loop {
                if TcpStream::connect(admin).await.is_ok()
                    && get(admin, "/health/ready").await.contains(" 200 ")
                {
                    return;
                }
                tokio::time::sleep(ms(10)).await;
            }
        };
        within(PATIENCE, "a leader", ready).await;
        Self {
            daemon,
            heads: Vec::new(),
            path,
            folder,
            listen,
            admin,
        }
    }

    /// The path leads to a script from now on, or to nothing.
    pub fn replace(&self, script: Option<&str>) {
        let _ = fs::remove_file(&self.path);
        if let Some(script) = script {
            let other = self
                .folder
                .path()
                .join(format!("other{}", fastrand::u32(..)));
            fs::write(&other, format!("#!/usr/bin/env bash\n{script}\n")).unwrap();
            fs::set_permissions(&other, fs::Permissions::from_mode(0o755)).unwrap();
            symlink(&other, &self.path).unwrap();
        }
    }

    pub fn head(&self) -> i32 {
        self.heads
            .last()
            .copied()
            .unwrap_or_else(|| self.daemon.id())
    }

    pub fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.head()), signal).unwrap();
    }

    /// The signal, and what the manager is told of a hand-over that is done.
    pub async fn hands_over(&mut self, signal: Signal) -> String {
        self.daemon.forget_notices();
        self.signal(signal);
        let notice = self.daemon.told("RELOADING").await;
        assert!(notice.get("MONOTONIC_USEC").is_some(), "{notice:?}");
        let main = self.daemon.told("MAINPID").await;
        self.heads
            .push(main.get("MAINPID").unwrap().parse().unwrap());
        let ready = self.daemon.told("READY").await;
        ready.get("STATUS").unwrap().to_owned()
    }

    /// The signal, and the status after a hand-over that was none.
    pub async fn fails(&self, signal: Signal) -> String {
        self.daemon.forget_notices();
        self.signal(signal);
        self.daemon.told("RELOADING").await;
        let ready = self.daemon.notice().await;
        assert_eq!(ready.get("READY"), Some("1"), "{ready:?}");
        ready.get("STATUS").unwrap().to_owned()
    }

    pub async fn metric(&self, name: &str) -> String {
        let all = get(self.admin, "/metrics/prometheus").await;
        let line = all
            .lines()
            .find_map(|line| line.strip_prefix(&format!("heliosdb_proxy_{name} ")));
        line.unwrap_or_else(|| panic!("no {name} in {all}"))
            .to_owned()
    }
}

impl Dynasty {
    /// Its configuration is changed; nobody is told.
    pub fn rewrite(&self, change: impl FnOnce(String) -> String) {
        let toml = fs::read_to_string(&self.daemon.file).unwrap();
        fs::write(&self.daemon.file, change(toml)).unwrap();
    }

    /// Waits until this process is no more.
    pub async fn gone(&self, process: i32) {
        let gone = eventually(PATIENCE, || is_gone(process)).await;
        assert!(gone, "process {process} lives on:\n{}", self.daemon.log());
    }
}
