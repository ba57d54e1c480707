//! The folder of a lab, the lock that says who owns it, and sweeping up what a dead owner left.

use std::{
    fs::{self, File},
    io::Write,
    os::unix::fs::{MetadataExt, PermissionsExt, chown},
    path::{Path, PathBuf},
    sync::LazyLock,
    thread,
};

use nix::{
    sys::statvfs::statvfs,
    unistd::{User, geteuid},
};
use tokio::{
    runtime,
    signal::unix::{SignalKind, signal},
};

use super::{
    LabError,
    net::{NODES, Net, Place},
    process::{self, sh},
};

/// Labs that may run side by side.
const SLOTS: std::ops::RangeInclusive<u8> = 1..=40;

/// Data of this size on disk would make initdb and crash recovery wait for fsync; memory is used if so much is free.
const ROOM: u64 = 3 << 30;

/// One lab's folder, and the right to it.
pub(crate) struct Home {
    pub(crate) path: PathBuf,
    pub(crate) place: Place,
    /// The kernel gives it back however this process ends; whoever gets it next may sweep.
    _lock: File,
}

impl Home {
    /// The first slot that nobody uses. What dead owners left anywhere is swept before.
    pub(crate) fn take(net: Net) -> Result<Self, LabError> {
        clear(|path| path.exists() && !is_kept(path));
        for slot in SLOTS {
            let Some(lock) = lock(slot) else { continue };
            let path = folder(slot);
            if is_kept(&path) {
                continue;
            }
            let home = Self {
                path,
                place: Place { net, slot },
                _lock: lock,
            };
            home.lay_out()?;
            return Ok(home);
        }
        Err(LabError::Refused("every slot for a lab is taken".into()))
    }

    fn lay_out(&self) -> Result<(), LabError> {
        let at = || LabError::io(format!("cannot make {}", self.path.display()));
        fs::create_dir_all(&self.path).map_err(at())?;
        fs::set_permissions(&self.path, PermissionsExt::from_mode(0o755)).map_err(at())?;
        fs::write(self.path.join("net"), word(self.place.net)).map_err(at())
    }

    /// A folder in which the cluster's user may write.
    pub(crate) fn folder(&self, name: &str) -> Result<PathBuf, LabError> {
        let path = self.path.join(name);
        fs::create_dir_all(&path)
            .map_err(LabError::io(format!("cannot make {}", path.display())))?;
        give(&path)?;
        Ok(path)
    }

    /// Leaves everything running when this process ends, until `end_kept` is asked for.
    pub(crate) fn keep(&self) -> Result<(), LabError> {
        fs::write(self.path.join("kept"), "").map_err(LabError::io("cannot keep the lab"))
    }

    pub(crate) fn is_kept(&self) -> bool {
        is_kept(&self.path)
    }

    pub(crate) fn sweep(&self) {
        sweep(&self.path, self.place.slot);
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        // Still locked, so nobody else's.
        let _ = fs::remove_file(lock_path(self.place.slot));
    }
}

/// Whom Patroni, PostgreSQL and etcd run as: PostgreSQL refuses to be root.
pub(crate) fn user() -> Result<Option<User>, LabError> {
    if !geteuid().is_root() {
        return Ok(None);
    }
    for name in ["postgres", "nobody"] {
        let found =
            User::from_name(name).map_err(|errno| LabError::io("user database")(errno.into()))?;
        if found.is_some() {
            return Ok(found);
        }
    }
    Err(LabError::Refused(
        "no user `postgres` to run PostgreSQL as".into(),
    ))
}

/// Hands a file or folder to the cluster's user.
pub(crate) fn give(path: &Path) -> Result<(), LabError> {
    let Some(user) = user()? else { return Ok(()) };
    chown(path, Some(user.uid.as_raw()), Some(user.gid.as_raw()))
        .map_err(LabError::io(format!("cannot hand over {}", path.display())))
}

/// From now on Ctrl-C (or SIGTERM, SIGHUP) ends this process's labs before it ends the process.
///
/// With handlers, not with a blocked mask: the cluster's processes would inherit that and never hear SIGTERM.
pub fn end_on_signal() -> Result<(), LabError> {
    let runtime = runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(LabError::io("runtime"))?;
    let listen = |kind| {
        let _runtime = runtime.enter();
        signal(kind).map_err(LabError::io("signal handler"))
    };
    let mut interrupt = listen(SignalKind::interrupt())?;
    let mut terminate = listen(SignalKind::terminate())?;
    let mut hangup = listen(SignalKind::hangup())?;
    thread::spawn(move || {
        runtime.block_on(async {
            tokio::select! {
                _ = interrupt.recv() => {}
                _ = terminate.recv() => {}
                _ = hangup.recv() => {}
            }
        });
        eprintln!("\nending the cluster");
        SLOTS.filter(|slot| is_ours(*slot)).for_each(|slot| {
            sweep(&folder(slot), slot);
            let _ = fs::remove_file(lock_path(slot));
        });
        std::process::exit(130);
    });
    Ok(())
}

/// Ends the labs that were kept; gives how many there were.
pub fn end_kept() -> usize {
    clear(is_kept)
}

/// Ends those of the labs without an owner that are wanted; gives how many there were.
fn clear(wanted: impl Fn(&Path) -> bool) -> usize {
    SLOTS
        .filter(|slot| {
            let path = folder(*slot);
            let Some(_lock) = wanted(&path).then(|| lock(*slot)).flatten() else {
                return false;
            };
            sweep(&path, *slot);
            let _ = fs::remove_file(lock_path(*slot));
            true
        })
        .count()
}

/// In memory where there is room. One place for all labs of a process: the first of them may fill it.
fn root() -> &'static Path {
    static ROOT: LazyLock<PathBuf> = LazyLock::new(|| {
        let memory = Path::new("/dev/shm");
        let free = statvfs(memory).map_or(0, |fs| fs.blocks_available() * fs.fragment_size());
        if free > ROOM {
            memory.to_path_buf()
        } else {
            std::env::temp_dir()
        }
    });
    &ROOT
}

fn folder(slot: u8) -> PathBuf {
    root().join(format!("helios-lab-{slot}"))
}

/// Another user's slot is taken as well. The owner writes its process id into the file.
fn lock(slot: u8) -> Option<File> {
    let path = lock_path(slot);
    let mut file = File::options()
        .write(true)
        .create(true)
        .truncate(false)
        .open(&path)
        .ok()?;
    file.try_lock().ok()?;
    // Its last owner may have removed it between the two lines.
    let same = file.metadata().ok()?.ino() == fs::metadata(&path).ok()?.ino();
    file.set_len(0).ok()?;
    write!(file, "{}", std::process::id()).ok()?;
    same.then_some(file)
}

fn is_ours(slot: u8) -> bool {
    fs::read_to_string(lock_path(slot)).is_ok_and(|owner| owner == std::process::id().to_string())
}

fn lock_path(slot: u8) -> PathBuf {
    folder(slot).with_extension("lock")
}

fn is_kept(path: &Path) -> bool {
    path.join("kept").exists()
}

/// Ends all that runs in a lab's folder and removes it, with everything it had outside.
///
/// The folder alone tells what there is, so this works as well for a lab whose owner was killed.
fn sweep(path: &Path, slot: u8) {
    if !path.exists() {
        return;
    }
    let segments: Vec<String> = NODES
        .into_iter()
        .filter_map(|node| shared_memory(&path.join(node.to_string()).join("data")))
        .collect();
    let shared = shared_files(path);
    process::kill_all(|| process::in_folder(path));
    for file in shared {
        let _ = fs::remove_file(file);
    }
    for segment in segments {
        let _ = sh("ipcrm", &["-m", &segment]);
    }
    let net = fs::read_to_string(path.join("net")).unwrap_or_default();
    if let Some(net) = from_word(&net) {
        Place { net, slot }.unmake();
    }
    let _ = fs::remove_dir_all(path);
    // Started while the first were ended.
    process::kill_all(|| process::in_folder(path));
}

/// A killed postmaster leaves its System V segment; line 7 of its pid file has key and id.
fn shared_memory(data: &Path) -> Option<String> {
    let file = fs::read_to_string(data.join("postmaster.pid")).ok()?;
    let id = file.lines().nth(6)?.split_whitespace().nth(1)?;
    Some(id.to_owned())
}

/// An initdb that is killed leaves its POSIX segments: it does not know the setting that avoids them.
fn shared_files(path: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for pid in process::in_folder(path) {
        let maps = fs::read_to_string(format!("/proc/{pid}/maps")).unwrap_or_default();
        let files = maps
            .split_whitespace()
            .filter(|word| word.starts_with("/dev/shm/PostgreSQL."));
        found.extend(files.map(PathBuf::from));
    }
    found
}

fn word(net: Net) -> &'static str {
    match net {
        Net::Loopback => "loopback",
        Net::Loopback6 => "loopback6",
        Net::Netns => "netns",
    }
}

fn from_word(text: &str) -> Option<Net> {
    [Net::Loopback, Net::Loopback6, Net::Netns]
        .into_iter()
        .find(|net| word(*net) == text.trim())
}
