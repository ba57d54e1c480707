//! Finds PostgreSQL, etcd and Patroni, and fetches what lacks where that can be done.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::Command,
};

use nix::unistd::geteuid;

use super::{LabError, process};

/// The Patroni that is put into the virtual environment.
const PATRONI: &str = "4.1.5";

/// Where the programs are.
#[derive(Clone, Debug)]
pub struct Programs {
    /// The folder of `postgres`, `initdb`, `psql` and their like.
    pub postgresql: PathBuf,
    pub etcd: PathBuf,
    pub patroni: PathBuf,
}

impl Programs {
    /// A program of PostgreSQL, such as `psql`.
    pub fn postgres(&self, name: &str) -> PathBuf {
        self.postgresql.join(name)
    }
}

/// What is not here and could not be fetched, and what to do about it.
#[derive(Debug, thiserror::Error)]
#[error("missing: {}. {advice}", .programs.join(", "))]
pub struct Missing {
    programs: Vec<&'static str>,
    advice: String,
}

/// The programs; on Debian and its kin what lacks is installed, as root or through `sudo`.
///
/// `HELIOS_LAB_PATRONI` names a Patroni to use instead, `HELIOS_LAB_POSTGRESQL` a folder of PostgreSQL's programs.
pub fn ensure() -> Result<Programs, Missing> {
    found_or_fetched(find, fetch).map_err(|error| Missing {
        programs: lacking(),
        advice: with_reason(advice(), error),
    })
}

/// Patroni in another version than the usual one, fetched in the same way.
pub fn ensure_patroni(version: &str) -> Result<PathBuf, Missing> {
    found_or_fetched(|| in_venv(version), || make_venv(version)).map_err(|error| Missing {
        programs: vec!["Patroni"],
        advice: with_reason(format!("Patroni {version} could not be installed"), error),
    })
}

/// A browser, fetched in the same way.
pub fn ensure_chromium() -> Result<PathBuf, Missing> {
    let names = ["chromium", "chromium-browser"];
    let find = || names.iter().find_map(|name| on_path(name));
    let fetch = || apt(&["chromium", "fonts-dejavu-core"]);
    found_or_fetched(find, fetch).map_err(|error| Missing {
        programs: vec!["Chromium"],
        advice: with_reason("Install Chromium so that it is on PATH".to_owned(), error),
    })
}

/// A program by itself, fetched in the same way as the package of that name.
pub fn ensure_program(name: &'static str) -> Result<PathBuf, Missing> {
    ensure_program_of(name, name)
}

/// The same, out of a package of another name.
pub fn ensure_program_of(name: &'static str, package: &str) -> Result<PathBuf, Missing> {
    found_or_fetched(|| on_path(name), || apt(&[package])).map_err(|error| Missing {
        programs: vec![name],
        advice: with_reason(
            format!("Install {package} so that {name} is on PATH"),
            error,
        ),
    })
}

/// What `find` finds, and where that is nothing, what it finds after `fetch`; else why not, as far as it is known. Who
/// looks meanwhile waits: half of a program may be there already.
fn found_or_fetched<T>(
    find: impl Fn() -> Option<T>,
    fetch: impl FnOnce() -> Result<(), LabError>,
) -> Result<T, Option<LabError>> {
    let alone = one_at_a_time("programs");
    if let Some(found) = find() {
        return Ok(found);
    }
    let fetched = alone.and_then(|_lock| fetch());
    find().ok_or(fetched.err())
}

fn with_reason(advice: String, error: Option<LabError>) -> String {
    match error {
        Some(error) => format!("{advice} ({error})"),
        None => advice,
    }
}

/// Whatever else is made once and kept: `make` is given a folder that is not there yet, and makes it.
pub fn ensure_folder(
    name: &'static str,
    make: impl FnOnce(&Path) -> Result<(), LabError>,
) -> Result<PathBuf, Missing> {
    let folder = kept().join(name);
    let made = || folder.join(WHOLE).exists();
    if made() {
        return Ok(folder);
    }
    // A lock of its own: programs may have to be fetched for it.
    let tried = one_at_a_time(name).and_then(|_lock| {
        if made() {
            return Ok(());
        }
        // What an interrupted one left.
        let _ = fs::remove_dir_all(&folder);
        make(&folder)?;
        fs::write(folder.join(WHOLE), "").map_err(LabError::io(format!("cannot finish {name}")))
    });
    tried.map(|()| folder).map_err(|error| Missing {
        programs: vec![name],
        advice: format!("It could not be fetched ({error})"),
    })
}

fn advice() -> String {
    format!(
        "Install PostgreSQL (13 or later, with pg_rewind), etcd 3.4 or later and Patroni \
         (`pip install 'patroni[etcd3,psycopg3]=={PATRONI}' 'psycopg[binary]'`) so that they are on PATH, \
         or enter `nix develop`"
    )
}

fn find() -> Option<Programs> {
    Some(Programs {
        postgresql: find_postgresql()?,
        etcd: on_path("etcd")?,
        patroni: find_patroni()?,
    })
}

fn lacking() -> Vec<&'static str> {
    let found = [
        ("PostgreSQL", find_postgresql()),
        ("etcd", on_path("etcd")),
        ("Patroni", find_patroni()),
    ];
    found
        .into_iter()
        .filter(|(_, path)| path.is_none())
        .map(|(name, _)| name)
        .collect()
}

fn find_postgresql() -> Option<PathBuf> {
    let complete = |folder: &PathBuf| {
        ["postgres", "initdb", "psql", "pg_rewind", "pg_basebackup"]
            .iter()
            .all(|name| folder.join(name).exists())
    };
    if let Some(folder) = env::var_os("HELIOS_LAB_POSTGRESQL") {
        return Some(PathBuf::from(folder)).filter(complete);
    }
    let from_path = env::var_os("PATH")
        .into_iter()
        .flat_map(|path| env::split_paths(&path).collect::<Vec<_>>());
    from_path.chain(debian_postgresql()).find(complete)
}

/// Debian keeps the server's programs off PATH, in a folder for each major version; newest first.
fn debian_postgresql() -> Vec<PathBuf> {
    let mut versions: Vec<(u32, PathBuf)> = fs::read_dir("/usr/lib/postgresql")
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| {
            let major = entry.file_name().to_str()?.parse().ok()?;
            Some((major, entry.path().join("bin")))
        })
        .collect();
    versions.sort_by_key(|(major, _)| std::cmp::Reverse(*major));
    versions.into_iter().map(|(_, folder)| folder).collect()
}

fn find_patroni() -> Option<PathBuf> {
    if let Some(named) = env::var_os("HELIOS_LAB_PATRONI") {
        return Some(PathBuf::from(named)).filter(|path| path.exists());
    }
    in_venv(PATRONI).or_else(|| on_path("patroni"))
}

fn in_venv(version: &str) -> Option<PathBuf> {
    [venv(version), venv_in(Path::new(SHARED), version)]
        .into_iter()
        .find(|venv| venv.join(WHOLE).exists())
        .map(|venv| venv.join("bin/patroni"))
}

fn on_path(program: &str) -> Option<PathBuf> {
    env::split_paths(&env::var_os("PATH")?)
        .chain([PathBuf::from("/usr/sbin"), PathBuf::from("/usr/bin")])
        .map(|folder| folder.join(program))
        .find(|path| path.is_file())
}

/// Where root puts the virtual environment: its own folders are closed to the `postgres` user.
const SHARED: &str = "/var/lib";

/// A file in the virtual environment that is written after pip has ended well: an interrupted installation is
/// begun anew.
const WHOLE: &str = "installed";

fn venv(version: &str) -> PathBuf {
    if geteuid().is_root() {
        return venv_in(Path::new(SHARED), version);
    }
    let cache = env::var_os("XDG_CACHE_HOME")
        .map(PathBuf::from)
        .or_else(|| env::home_dir().map(|home| home.join(".cache")))
        .unwrap_or_else(env::temp_dir);
    venv_in(&cache, version)
}

fn venv_in(folder: &Path, version: &str) -> PathBuf {
    folder.join("helios-lab").join(format!("venv-{version}"))
}

/// Where all that was fetched is kept.
pub fn kept() -> PathBuf {
    venv(PATRONI)
        .parent()
        .map(Path::to_path_buf)
        .unwrap_or_default()
}

/// Two tests that start together must not fetch the same thing twice. Not to be asked for again by who holds it.
fn one_at_a_time(what: &str) -> Result<fs::File, LabError> {
    let folder = kept();
    let at = |what: &str| LabError::io(format!("{what} {}", folder.display()));
    fs::create_dir_all(&folder).map_err(at("cannot make"))?;
    let lock =
        fs::File::create(folder.join(format!("{what}.lock"))).map_err(at("cannot write in"))?;
    lock.lock().map_err(at("cannot lock"))?;
    Ok(lock)
}

fn fetch() -> Result<(), LabError> {
    let mut packages = Vec::new();
    if find_postgresql().is_none() {
        packages.push("postgresql");
    }
    if on_path("etcd").is_none() {
        packages.extend(etcd_packages());
    }
    let wanted = [
        ("ip", "iproute2"),
        ("iptables", "iptables"),
        ("setpriv", "util-linux"),
        ("openssl", "openssl"),
    ];
    let absent = wanted
        .iter()
        .filter(|(program, _)| on_path(program).is_none());
    packages.extend(absent.map(|(_, package)| *package));
    let need_patroni = find_patroni().is_none();
    if need_patroni && process::sh("/usr/bin/python3", &["-c", "import ensurepip, venv"]).is_err() {
        packages.push("python3-venv");
    }
    if !packages.is_empty() {
        apt(&packages)?;
    }
    if need_patroni {
        make_venv(PATRONI)
    } else {
        Ok(())
    }
}

/// Debian 12 and Ubuntu 24.04 split etcd in two; before and after that it was one package.
fn etcd_packages() -> Vec<&'static str> {
    let known = |name| process::sh("apt-cache", &["show", "--no-all-versions", name]).is_ok();
    if known("etcd-server") || !known("etcd") {
        vec!["etcd-server", "etcd-client"]
    } else {
        vec!["etcd"]
    }
}

fn apt(packages: &[&str]) -> Result<(), LabError> {
    if on_path("apt-get").is_none() {
        return Err(LabError::Refused("no apt-get here".into()));
    }
    eprintln!("installing {} with apt-get", packages.join(", "));
    if packages.contains(&"postgresql") {
        no_default_cluster()?;
    }
    // A mirror that is changing under us, or somebody else's apt, is over in a moment.
    update_and_install(packages).or_else(|_first| update_and_install(packages))
}

fn update_and_install(packages: &[&str]) -> Result<(), LabError> {
    let patience = ["-o", "Acquire::Retries=5", "-o", "DPkg::Lock::Timeout=300"];
    process::run(as_root("apt-get").args(patience).args(["update", "-q"]))?;
    process::run(
        as_root("env")
            .args(["DEBIAN_FRONTEND=noninteractive", "apt-get"])
            .args(patience)
            .args(["install", "-y", "-q", "--no-install-recommends"])
            .args(packages),
    )?;
    Ok(())
}

/// Debian's package starts a cluster of its own on 5432 unless told before.
fn no_default_cluster() -> Result<(), LabError> {
    if Path::new("/etc/postgresql-common/createcluster.conf").exists() {
        return Ok(());
    }
    process::run(as_root("sh").args([
        "-c",
        "mkdir -p /etc/postgresql-common && echo 'create_main_cluster = false' > /etc/postgresql-common/createcluster.conf",
    ]))?;
    Ok(())
}

fn as_root(program: &str) -> Command {
    if geteuid().is_root() {
        return Command::new(program);
    }
    let mut command = Command::new("sudo");
    command.arg("-n").arg(program);
    command
}

fn make_venv(version: &str) -> Result<(), LabError> {
    let venv = venv(version);
    eprintln!("installing Patroni {version} into {}", venv.display());
    // Never a Python of root's own: the postgres user must be able to run it.
    process::run(
        Command::new("/usr/bin/python3")
            .args(["-m", "venv", "--clear"])
            .arg(&venv),
    )?;
    process::run(Command::new(venv.join("bin/pip")).args([
        "install",
        "-q",
        &format!("patroni[etcd3,psycopg3]=={version}"),
        "psycopg[binary]",
    ]))?;
    fs::write(venv.join(WHOLE), "").map_err(LabError::io("cannot finish the virtual environment"))
}
