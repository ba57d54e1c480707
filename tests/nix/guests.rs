//! The driver in `tests/nix/driver`, started for one scenario after another.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::Command,
    sync::OnceLock,
    time::Instant,
};

use libtest_mimic::Failed;

use crate::{
    lab::{self, LabError, install, process},
    machine::{self, Flake, Nix},
};

/// Seconds for one script, many times what any needs.
const TIMEOUT: &str = "400";
/// The driver's word that this machine cannot run guests.
const UNAVAILABLE: i32 = 69;

/// What all scenarios share; made by the first that is asked for.
#[derive(Default)]
pub struct Guests {
    /// None where guests cannot be had.
    flake: OnceLock<Option<Result<Flake, LabError>>>,
}

impl Guests {
    /// Evaluates the scenario, boots its machines and runs its script; the words of a failure hold the whole log.
    pub fn play(&self, name: &str) -> Result<(), Failed> {
        let flake = match self.flake.get_or_init(|| prepared(name)) {
            Some(Ok(flake)) => flake,
            Some(Err(error)) => return Err(error.to_string().into()),
            None => {
                eprintln!("skipped {name}");
                return Ok(());
            }
        };
        let check = format!("checks.{}.vm-{name}.manifest", machine::system());
        let manifest = flake.build(&check)?;
        let began = Instant::now();
        let log = log_of(name);
        let said = fs::File::create(&log)?;
        let done = driver("driver")
            .args(["--timeout", TIMEOUT])
            .arg(&manifest)
            .stdout(said.try_clone()?)
            .stderr(said)
            .status()?;
        if done.success() {
            eprintln!("{name}: {} s", began.elapsed().as_secs());
            return Ok(());
        }
        let told = String::from_utf8_lossy(&fs::read(&log)?).into_owned();
        if done.code() == Some(UNAVAILABLE) && env::var_os("CI").is_none() {
            eprintln!("skipped {name}: {}", told.trim());
            return Ok(());
        }
        Err(format!("{done}\n{told}\nthe same is in {}", log.display()).into())
    }
}

/// The driver's own tests, which need no guest.
pub fn try_the_driver() -> Result<(), Failed> {
    process::run(driver("unittest").args(["discover", "-s", "tests/nix", "-p", "test_*.py"]))?;
    Ok(())
}

fn prepared(test: &str) -> Option<Result<Flake, LabError>> {
    if !lab::require_root(test) {
        return None;
    }
    lab::found(
        test,
        install::ensure_program_of("systemd-nspawn", "systemd-container"),
    )?;
    lab::found(test, install::ensure_program("mmdebstrap"))?;
    lab::found(test, install::ensure_program("python3"))?;
    lab::found(test, install::ensure_program_of("ip", "iproute2"))?;
    let nix = lab::found(test, Nix::ensure())?;
    Some(Flake::of_this_repository(nix))
}

/// A Python module with the driver in reach, in the folder of the sources.
fn driver(module: &str) -> Command {
    let sources = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut python = Command::new("setpriv");
    python
        // Whatever ends the tests ends the guests.
        .args(["--pdeathsig=TERM", "python3", "-m", module])
        .env("PYTHONPATH", sources.join("tests/nix"))
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .env("PYTHONUNBUFFERED", "1")
        .env("HELIOS_GUEST_ROOTS", install::kept().join("guests"))
        .current_dir(sources);
    python
}

fn log_of(name: &str) -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("vm-{name}.log"))
}
