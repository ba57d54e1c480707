//! One PostgreSQL server in a temporary folder, the scripted Patroni that speaks for it, and the proxy in front.

use std::net::SocketAddr;
use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, User, geteuid};

use crate::fakes::answer::Answer;
use crate::fakes::binary::Proxy;
use crate::fakes::body::Body;
use crate::fakes::cluster::{POSTGRES_PORT, REST_PORT, Tempo, subnet};
use crate::fakes::eventually;
use crate::fakes::patroni::Patroni;
use crate::lab;
use crate::lab::install::Programs;

pub const PASSWORD: &str = "secret of the test";

/// PostgreSQL and its REST API on one address of their own, and the proxy beside it.
pub struct Stage {
    pub programs: Programs,
    pub proxy: Proxy,
    pub rest: Patroni,
    /// PostgreSQL's own address, past the proxy.
    pub server: SocketAddr,
    postmaster: Child,
    folder: tempfile::TempDir,
}

impl Stage {
    /// A leader, and the proxy in front of it. `None` where PostgreSQL cannot be had.
    pub async fn led(test: &str) -> Option<Self> {
        let stage = Self::set(test, &Tempo::default(), &[]).await?;
        stage.leads();
        Some(stage)
    }

    /// Nobody leads yet. `settings` are PostgreSQL's.
    pub async fn set(test: &str, tempo: &Tempo, settings: &[&str]) -> Option<Self> {
        let programs = lab::require(test)?;
        let folder = tempfile::tempdir().expect("a temporary folder");
        give(folder.path());
        let address = subnet();
        let server = SocketAddr::new(address(1).into(), POSTGRES_PORT);
        let postmaster = start(&programs, folder.path(), server, settings);
        let rest = Patroni::start(SocketAddr::new(server.ip(), REST_PORT)).expect("a free address");
        rest.says(Answer::new(503, Body::replica("n1", 1)));
        let node = format!(
            "[[nodes]]\nname = \"n1\"\nhost = \"{}\"\nport = {POSTGRES_PORT}\nrest_port = {REST_PORT}\n",
            server.ip(),
        );
        let at = SocketAddr::new(address(2).into(), POSTGRES_PORT);
        let proxy = Proxy::start(&(tempo.toml() + &node), at).await;
        let stage = Self {
            programs,
            proxy,
            rest,
            server,
            postmaster,
            folder,
        };
        let up = || {
            let tried = stage.psql_at(server, &[], "SELECT 1").output();
            tried.is_ok_and(|output| output.status.success())
        };
        assert!(
            eventually(Duration::from_secs(30), up).await,
            "PostgreSQL does not start: {}",
            stage.log()
        );
        Some(stage)
    }

    /// From the next question on.
    pub fn leads(&self) {
        self.rest.says(Answer::new(200, Body::primary("n1", 1)));
    }

    /// From the next question on.
    pub fn follows(&self) {
        self.rest.says(Answer::new(503, Body::replica("n1", 1)));
    }

    /// `psql` through the proxy, with more words of a connection string.
    pub fn psql(&self, words: &[&str], sql: &str) -> Command {
        self.psql_at(self.proxy.addr, words, sql)
    }

    pub fn psql_at(&self, addr: SocketAddr, words: &[&str], sql: &str) -> Command {
        let target = format!("{} {}", self.target(addr), words.join(" "));
        let mut command = self.tool("psql");
        command.args(["-XAtq", "-v", "ON_ERROR_STOP=1", "-d", &target, "-c", sql]);
        command
    }

    /// One of PostgreSQL's programs, free of the environment's settings.
    pub fn tool(&self, name: &str) -> Command {
        let mut command = Command::new(self.programs.postgres(name));
        clean(&mut command);
        command
    }

    /// A connection string.
    pub fn target(&self, addr: SocketAddr) -> String {
        format!(
            "host={} port={} user=postgres dbname=postgres",
            addr.ip(),
            addr.port()
        )
    }

    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    pub fn log(&self) -> String {
        std::fs::read_to_string(self.folder().join("log")).unwrap_or_default()
    }

    /// What a query says, straight from the server.
    pub fn straight(&self, sql: &str) -> String {
        said(self.psql_at(self.server, &[], sql).output().expect("psql"))
    }

    /// A driver's session; its connection runs until the client is dropped.
    pub async fn driver(&self, addr: SocketAddr) -> tokio_postgres::Client {
        let connected = tokio_postgres::connect(&self.target(addr), tokio_postgres::NoTls).await;
        let (client, connection) = connected.expect("a session");
        tokio::spawn(connection);
        client
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        // An immediate shutdown: nothing here is worth a checkpoint.
        let pid = Pid::from_raw(i32::try_from(self.postmaster.id()).expect("a process id"));
        let _ = kill(pid, Signal::SIGQUIT);
        let _ = self.postmaster.wait();
    }
}

/// The output of a program that ended well, without the last line's end; else a panic with its words.
pub fn said(output: Output) -> String {
    let words = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}: {words}", output.status);
    String::from_utf8_lossy(&output.stdout)
        .trim_end()
        .to_owned()
}

/// Runs a program beside the runtime, so that the scripted neighbours go on answering meanwhile.
pub async fn run(mut command: Command) -> Output {
    let ended = move || command.stdin(Stdio::null()).output().expect("it starts");
    tokio::task::spawn_blocking(ended).await.expect("it ends")
}

/// The Python beside the lab's Patroni, which carries a psycopg with a newer libpq than Debian's.
pub fn python(stage: &Stage) -> Option<PathBuf> {
    let python = stage.programs.patroni.with_file_name("python");
    let newer = "import psycopg; assert psycopg.pq.version() >= 170000";
    let fits = Command::new(&python).args(["-c", newer]).output();
    if fits.is_ok_and(|output| output.status.success()) {
        return Some(python);
    }
    let beside = stage.programs.patroni.display();
    assert!(
        std::env::var_os("CI").is_none(),
        "no psycopg with libpq 17 beside {beside}"
    );
    eprintln!("skipped: no psycopg with libpq 17 or later beside {beside}");
    None
}

fn start(programs: &Programs, folder: &Path, addr: SocketAddr, settings: &[&str]) -> Child {
    let data = folder.join("data");
    let mut init = as_postgres(&programs.postgres("initdb"), folder);
    init.args([
        "--no-sync",
        "--no-instructions",
        "-A",
        "trust",
        "-U",
        "postgres",
        "-E",
        "UTF8",
        "--locale",
        "C",
    ]);
    said(init.arg("-D").arg(&data).output().expect("initdb"));
    let rules = "host all scram 127.0.0.0/8 scram-sha-256\n\
                 host all postgres 127.0.0.0/8 trust\n\
                 host replication postgres 127.0.0.0/8 trust\n";
    std::fs::write(data.join("pg_hba.conf"), rules).expect("pg_hba.conf");
    let usual = [
        format!("listen_addresses={}", addr.ip()),
        format!("port={}", addr.port()),
        format!("unix_socket_directories={}", folder.display()),
        "fsync=off".to_owned(),
        "shared_buffers=32MB".to_owned(),
        "wal_level=logical".to_owned(),
    ];
    let log = std::fs::File::create(folder.join("log")).expect("a log file");
    let mut command = as_postgres(&programs.postgres("postgres"), folder);
    command.arg("-D").arg(&data).stdin(Stdio::null());
    for setting in usual
        .iter()
        .map(String::as_str)
        .chain(settings.iter().copied())
    {
        command.args(["-c", setting]);
    }
    command
        .stdout(log.try_clone().expect("a log file"))
        .stderr(log);
    command.spawn().expect("postgres")
}

/// PostgreSQL refuses to be root; anybody else runs it as themselves.
fn as_postgres(program: &Path, folder: &Path) -> Command {
    let mut command = Command::new(program);
    clean(&mut command);
    command.current_dir(folder);
    if let Some(user) = postgres_user() {
        command.uid(user.uid.as_raw()).gid(user.gid.as_raw());
    }
    command
}

/// Hands a file or folder to whoever runs PostgreSQL.
pub fn give(path: &Path) {
    if let Some(user) = postgres_user() {
        chown(path, Some(user.uid.as_raw()), Some(user.gid.as_raw())).expect("root may");
    }
}

fn postgres_user() -> Option<User> {
    let user = || {
        User::from_name("postgres")
            .ok()
            .flatten()
            .expect("a user `postgres`")
    };
    geteuid().is_root().then(user)
}

fn clean(command: &mut Command) {
    for (key, _) in std::env::vars_os() {
        if key.to_string_lossy().starts_with("PG") {
            command.env_remove(key);
        }
    }
    command
        .env("PGCONNECT_TIMEOUT", "30")
        .env("PGPASSWORD", PASSWORD);
}
