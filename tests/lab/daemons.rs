//! The processes of a lab: each started in its host's folder, as the cluster's user, waited for when it is over.

use std::{
    fs::{self, File},
    net::SocketAddr,
    os::unix::process::CommandExt,
    path::Path,
    process::{Child, Command, Stdio},
    sync::{MutexGuard, PoisonError},
    time::Duration,
};

use nix::unistd::Pid;

use super::{
    LabError,
    cluster::{Lab, PATIENCE},
    config::{self, Site},
    home, http,
    net::{Host, Node},
    process,
};

impl Lab {
    /// Writes what Patroni reads at its start.
    pub(crate) fn prepare(&self, node: Node) -> Result<(), LabError> {
        let folder = self.home.folder(&node.to_string())?;
        if self.settings.tls {
            certificate(&folder)?;
        }
        let place = self.home.place;
        let site = Site {
            node,
            home: &folder,
            programs: &self.programs,
            ip: &|host| place.ip(host),
        };
        let file = folder.join("patroni.yml");
        let text = format!("{:#}\n", config::patroni(&site, &self.settings));
        fs::write(&file, text).map_err(LabError::io(format!("cannot write {}", file.display())))?;
        home::give(&file)
    }

    /// Starts etcd, with the keys it had.
    pub fn start_dcs(&self) -> Result<(), LabError> {
        let folder = self.home.folder("dcs")?;
        let url = |port| {
            format!(
                "http://{}",
                SocketAddr::new(self.home.place.ip(Host::Dcs), port)
            )
        };
        let mut etcd = self.daemon(Host::Dcs, &self.programs.etcd)?;
        etcd.args(["--name", "dcs", "--logger", "zap", "--data-dir"])
            .arg(folder.join("data"));
        etcd.args([
            "--listen-client-urls",
            &url(2379),
            "--advertise-client-urls",
            &url(2379),
        ]);
        etcd.args([
            "--listen-peer-urls",
            &url(2380),
            "--initial-advertise-peer-urls",
            &url(2380),
        ]);
        etcd.args(["--initial-cluster", &format!("dcs={}", url(2380))]);
        self.spawn(Host::Dcs, etcd, &folder.join("etcd.log"))?;
        self.wait("healthy etcd", Duration::from_secs(20), || {
            let answer = http::get(self.dcs_at(), "/health", PATIENCE).ok()?;
            (answer.status == 200).then_some(())
        })
    }

    /// Starts Patroni on a node, as after a boot; PostgreSQL may be running already.
    pub fn start(&self, node: Node) -> Result<(), LabError> {
        let folder = self.node_folder(node);
        if !process::right_in(&folder).is_empty() {
            return Err(LabError::Refused(format!("{node} is running already")));
        }
        let mut patroni = self.daemon(Host::Node(node), &self.programs.patroni)?;
        patroni.arg(folder.join("patroni.yml"));
        self.spawn(Host::Node(node), patroni, &folder.join("patroni.log"))
    }

    /// Starts a node's PostgreSQL by hand, as somebody might who does not know of Patroni: it is what it was when it
    /// died. `kill` ends it.
    pub fn start_only_postgres(&self, node: Node) -> Result<(), LabError> {
        let folder = self.node_folder(node);
        // Its last postmaster may be a zombie that nobody waits for, and would be taken for alive.
        for lock in ["data/postmaster.pid", ".s.PGSQL.5432.lock"] {
            let _ = fs::remove_file(folder.join(lock));
        }
        let mut postgres = self.daemon(Host::Node(node), &self.programs.postgres("postgres"))?;
        postgres.arg("-D").arg(folder.join("data"));
        self.spawn(Host::Node(node), postgres, &folder.join("by-hand.log"))
    }

    /// A command that runs on a host, as the cluster's user, in the host's folder.
    fn daemon(&self, host: Host, program: &Path) -> Result<Command, LabError> {
        let folder = self.home.path.join(host.to_string());
        let mut command = match home::user()? {
            None => self.home.place.command(host, program),
            Some(user) => {
                let mut command = self.home.place.command(host, "setpriv");
                command
                    .arg(format!("--reuid={}", user.uid))
                    .arg(format!("--regid={}", user.gid))
                    .arg("--clear-groups")
                    .arg(program);
                command
            }
        };
        let path = std::env::var("PATH").unwrap_or_default();
        command
            .env_clear()
            .env(
                "PATH",
                format!(
                    "{}:{path}:/usr/sbin:/usr/bin:/sbin:/bin",
                    self.programs.postgresql.display()
                ),
            )
            .env("LANG", "C.UTF-8")
            .env("HOME", &folder)
            .current_dir(&folder);
        Ok(command)
    }

    fn spawn(&self, host: Host, mut command: Command, log: &Path) -> Result<(), LabError> {
        let at = || LabError::io(format!("cannot write {}", log.display()));
        let out = File::options()
            .create(true)
            .append(true)
            .open(log)
            .map_err(at())?;
        let child = command
            .stdin(Stdio::null())
            .stdout(out.try_clone().map_err(at())?)
            .stderr(out)
            // A Ctrl-C at the terminal is for us, not for the cluster.
            .process_group(0)
            .spawn()
            .map_err(LabError::io(format!("cannot start {host}")))?;
        self.reap_of(host);
        self.locked().push((host, child));
        Ok(())
    }

    fn locked(&self) -> MutexGuard<'_, Vec<(Host, Child)>> {
        self.daemons.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The process we started on a host, while it is there.
    pub(crate) fn daemon_pid(&self, host: Host) -> Option<Pid> {
        let mut daemons = self.locked();
        let (_, child) = daemons.iter_mut().find(|(whose, _)| *whose == host)?;
        matches!(child.try_wait(), Ok(None)).then(|| Pid::from_raw(child.id().cast_signed()))
    }

    /// Waits for what has been killed, so that no zombie stays.
    pub(crate) fn reap_of(&self, host: Host) {
        let mut daemons = self.locked();
        daemons.retain_mut(|(whose, child)| *whose != host || child.wait().is_err());
    }

    pub(crate) fn reap(&self) {
        self.locked().retain_mut(|(_, child)| child.wait().is_err());
    }
}

/// A self-signed certificate for one node.
fn certificate(folder: &Path) -> Result<(), LabError> {
    let (key, cert) = (folder.join("server.key"), folder.join("server.crt"));
    process::run(
        Command::new("openssl")
            .args([
                "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=lab",
                "-keyout",
            ])
            .arg(&key)
            .arg("-out")
            .arg(&cert),
    )?;
    home::give(&key)?;
    home::give(&cert)
}
