//! Processes: running one to its end, and finding those of a node without trusting a pid file.

use std::{
    fs,
    path::Path,
    process::{Command, Stdio},
    thread,
    time::Duration,
};

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};

use super::LabError;

/// Runs a command to its end and gives its output; anything but success is an error that shows it.
pub fn run(command: &mut Command) -> Result<String, LabError> {
    let words = format!("{command:?}");
    let done = command
        .stdin(Stdio::null())
        .output()
        .map_err(LabError::io(words.clone()))?;
    if done.status.success() {
        return Ok(String::from_utf8_lossy(&done.stdout).into_owned());
    }
    let mut output = String::from_utf8_lossy(&done.stderr).into_owned();
    output.push_str(&String::from_utf8_lossy(&done.stdout));
    Err(LabError::Command {
        command: words,
        output: output.trim().to_owned(),
    })
}

/// `run` for a program and its words.
pub fn sh(program: &str, words: &[&str]) -> Result<String, LabError> {
    run(Command::new(program).args(words))
}

/// The processes whose working directory is `folder` or under it.
///
/// Patroni and etcd are started in a folder of their node, PostgreSQL goes to its data directory under it, and
/// children stay where their parents were. So this finds all of them, and never a stranger with a reused id.
pub fn in_folder(folder: &Path) -> Vec<Pid> {
    matching(|cwd| cwd.starts_with(folder))
}

/// The processes that are in `folder` itself.
pub fn right_in(folder: &Path) -> Vec<Pid> {
    matching(|cwd| cwd == folder)
}

fn matching(wanted: impl Fn(&Path) -> bool) -> Vec<Pid> {
    let Ok(entries) = fs::read_dir("/proc") else {
        return Vec::new();
    };
    entries
        .flatten()
        .filter_map(|entry| {
            let id = entry.file_name().to_str()?.parse().ok()?;
            let cwd = fs::read_link(entry.path().join("cwd")).ok()?;
            wanted(&cwd).then(|| Pid::from_raw(id))
        })
        .collect()
}

pub fn signal(pids: &[Pid], signal: Signal) {
    for pid in pids {
        // One that has just ended is as good as signalled.
        let _ = kill(*pid, signal);
    }
}

/// SIGKILL to what `find` finds, until it finds nothing. All are stopped first, so that none reacts to
/// another's death; the kernel closes their sockets, nothing is cleaned up.
pub fn kill_all(find: impl Fn() -> Vec<Pid>) {
    signal(&find(), Signal::SIGSTOP);
    for _ in 0..100 {
        let pids = find();
        if pids.is_empty() {
            return;
        }
        signal(&pids, Signal::SIGKILL);
        thread::sleep(Duration::from_millis(10));
    }
}
