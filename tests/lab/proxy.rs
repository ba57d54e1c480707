//! helios-proxy as a child process beside the cluster: its file, its start, and what its admin API says.

use std::{
    env,
    fmt::Write,
    fs::{self, File},
    net::SocketAddr,
    os::unix::process::CommandExt,
    path::PathBuf,
    process::{Child, Command, Stdio},
    time::Duration,
};

use nix::{sys::signal::Signal, unistd::Pid};
use serde_json::Value;

use super::{
    LabError,
    cluster::Lab,
    http,
    net::{NODES, Node},
    poll, ports, process,
};

const PATIENCE: Duration = Duration::from_secs(20);

/// A running helios-proxy; ended with SIGTERM, unless it was told to stay.
pub struct Proxy {
    child: Child,
    /// Where clients connect.
    pub listens: SocketAddr,
    pub admin: SocketAddr,
    /// The file it was started with.
    pub file: PathBuf,
    stays: bool,
}

impl Proxy {
    /// Starts the proxy in front of a lab and waits until it knows a leader. `more` is put before the tables.
    pub fn start(lab: &Lab, more: &str) -> Result<Self, LabError> {
        let program = program()?;
        let folder = lab.companion_folder("proxy")?;
        let listens = ports::free_of(lab.client_ip());
        let admin = ports::free_of(lab.client_ip());
        let file = folder.join("helios-proxy.toml");
        fs::write(&file, settings(lab, listens, Some(admin), more))
            .map_err(LabError::io("cannot write the proxy's file"))?;
        let log = File::create(folder.join("proxy.log"))
            .map_err(LabError::io("cannot write the proxy's log"))?;
        let child = Command::new(program)
            .arg("--config")
            .arg(&file)
            .current_dir(&folder)
            .env_remove("NOTIFY_SOCKET")
            .env_remove("JOURNAL_STREAM")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .process_group(0)
            .spawn()
            .map_err(LabError::io("cannot start helios-proxy"))?;
        let mut proxy = Self {
            child,
            listens,
            admin,
            file,
            stays: false,
        };
        let started = lab.wait("leader known to the proxy", Duration::from_secs(15), || {
            let over = proxy.child.try_wait().ok().flatten();
            let leads = proxy
                .topology()
                .is_some_and(|said| said["currentPrimary"].is_string());
            (leads || over.is_some()).then_some(over)
        })?;
        if let Some(status) = started {
            let said = fs::read_to_string(folder.join("proxy.log")).unwrap_or_default();
            return Err(LabError::Refused(format!(
                "helios-proxy ended at once ({status}): {}",
                said.trim()
            )));
        }
        Ok(proxy)
    }

    /// `GET /topology`.
    pub fn topology(&self) -> Option<Value> {
        Some(http::get(self.admin, "/topology", PATIENCE).ok()?.json())
    }

    /// Waits until this node is where it would send a writer.
    pub fn wait_for_leader(&self, lab: &Lab, leader: Node) -> Result<(), LabError> {
        let address = lab.postgres_at(leader).to_string();
        lab.wait("leader known to the proxy", Duration::from_secs(30), || {
            (self.topology()?["currentPrimary"] == *address).then_some(())
        })
    }

    /// The sum of a metric over its labels.
    pub fn metric(&self, name: &str) -> Option<f64> {
        let text = http::get(self.admin, "/metrics/prometheus", PATIENCE)
            .ok()?
            .body;
        let values = text.lines().filter_map(|line| {
            let rest = line.strip_prefix("heliosdb_proxy_")?.strip_prefix(name)?;
            let value = rest.rsplit_once(' ')?;
            (value.0.is_empty() || value.0.starts_with('{')).then(|| value.1.parse::<f64>().ok())?
        });
        Some(values.sum())
    }

    /// Tells it to read its file again.
    pub fn reload(&self) {
        let pid = Pid::from_raw(self.child.id().cast_signed());
        process::signal(&[pid], Signal::SIGHUP);
    }

    /// The process, for whoever counts its resources.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// It goes on when this value ends.
    pub fn keep(&mut self) {
        self.stays = true;
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        if self.stays {
            return;
        }
        let pid = Pid::from_raw(self.child.id().cast_signed());
        // Twice: the second ends it at once.
        process::signal(&[pid], Signal::SIGTERM);
        let gone = |child: &mut Child| child.try_wait().is_ok_and(|status| status.is_some());
        if poll(Duration::from_secs(1), Duration::from_millis(20), || {
            gone(&mut self.child).then_some(())
        })
        .is_none()
        {
            process::signal(&[pid], Signal::SIGTERM);
            if poll(Duration::from_secs(1), Duration::from_millis(20), || {
                gone(&mut self.child).then_some(())
            })
            .is_none()
            {
                let _ = self.child.kill();
            }
        }
        let _ = self.child.wait();
    }
}

/// The configuration for a proxy in front of a lab; `more` is put before the tables. Where it declares the roles, `n1`
/// is the primary.
pub fn settings(lab: &Lab, listens: SocketAddr, admin: Option<SocketAddr>, more: &str) -> String {
    let admin = admin.map_or_else(String::new, |admin| admin.to_string());
    let mut text = format!(
        "admin_address = \"{admin}\"\n{more}\n[[listeners]]\naddress = \"{listens}\"\nroute = \"primary\"\n"
    );
    for node in NODES {
        let _ = write!(
            text,
            "\n[[nodes]]\nname = \"{node}\"\nhost = \"{}\"\n",
            lab.ip(node)
        );
        if more.contains("provider = \"static\"") {
            let role = if node == NODES[0] {
                "primary"
            } else {
                "standby"
            };
            let _ = writeln!(text, "role = \"{role}\"");
        }
    }
    if let Some(files) = lab.client_files() {
        let _ = write!(
            text,
            "\n[rest]\nscheme = \"https\"\nca_file = {:?}\ncert_file = {:?}\nkey_file = {:?}\n",
            files.ca, files.cert, files.key
        );
    }
    text
}

/// The binary: cargo builds it for tests and benchmarks, for the demo it is asked to. `HELIOS_LAB_PROXY` names
/// another one.
fn program() -> Result<PathBuf, LabError> {
    if let Some(named) = env::var_os("HELIOS_LAB_PROXY") {
        return Ok(PathBuf::from(named));
    }
    if let Some(built) = option_env!("CARGO_BIN_EXE_helios-proxy") {
        return Ok(PathBuf::from(built));
    }
    let own = env::current_exe().map_err(LabError::io("own path"))?;
    // target/debug/examples/demo
    let folder = own
        .ancestors()
        .nth(2)
        .ok_or_else(|| LabError::Refused("not in target/".into()))?;
    let binary = folder.join("helios-proxy");
    let mut build = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    build
        // With the example, so that the dependencies have the same features and are not built again.
        .args([
            "build",
            "--quiet",
            "--bin",
            "helios-proxy",
            "--example",
            "demo",
        ])
        .current_dir(env!("CARGO_MANIFEST_DIR"));
    if folder.ends_with("release") {
        build.arg("--release");
    }
    if let Some(target) = folder.parent() {
        build.env("CARGO_TARGET_DIR", target);
    }
    match process::run(&mut build) {
        Ok(_) => Ok(binary),
        Err(_) if binary.exists() => Ok(binary),
        Err(error) => Err(error),
    }
}
