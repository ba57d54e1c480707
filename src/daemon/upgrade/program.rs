//! The file that this process was started from: whether it is another one by now, and how it is started once more.

use std::env;
use std::ffi::{CString, OsStr, OsString};
use std::fs;
use std::io::{self, Read};
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Names the descriptor of the link to the process that starts this one.
pub(super) const LINK: &str = "HELIOS_PROXY_HANDOVER";
/// Digits of a process id, and the end of the text.
const ROOM: usize = 11;

/// What this process was started as. Never `/proc/self/exe`: that is the old file for ever.
#[derive(Debug)]
pub(crate) struct Program {
    path: PathBuf,
    /// The first of them is the name that it was called by.
    arguments: Vec<OsString>,
    /// What the path led to, symlinks resolved, when this process started.
    file: Option<Identity>,
}

/// Tells two files apart, also where one has taken the other's place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Identity {
    device: u64,
    inode: u64,
    size: u64,
    changed: (i64, i64),
}

impl Program {
    /// To be called early: what the path leads to now is taken for what runs.
    pub(crate) fn of_this_process() -> io::Result<Self> {
        let arguments: Vec<_> = env::args_os().collect();
        let name = arguments.first().map(PathBuf::from).unwrap_or_default();
        let path = located(&name, env::var_os("PATH").as_deref())?;
        Ok(Self {
            file: Identity::of(&path).ok(),
            path,
            arguments,
        })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Does the path lead to another file than when this process started? One that leads nowhere is no other file.
    pub(crate) fn has_changed(&self) -> bool {
        Identity::of(&self.path).is_ok_and(|now| Some(now) != self.file)
    }

    /// Starts it once more, with the same arguments and environment, as a child of whoever is the parent of this
    /// process: a service manager hears of its end. Returns its process id and our end of the link, once it runs.
    ///
    /// # Errors
    /// There is no such file, or it is none that can be run.
    pub(super) fn start(&self) -> io::Result<(i32, UnixStream)> {
        let (mut ours, theirs) = UnixStream::pair()?;
        let mut image = Image::new(self, theirs.as_raw_fd())?;
        let mut command = Command::new(&self.path);
        // SAFETY: between fork and exec only system calls that are safe there are made, on memory that was made before.
        unsafe { command.pre_exec(move || image.become_it()) };
        // What is waited for has ended already: it has only made the process that now runs.
        command.spawn()?.wait()?;
        drop(theirs);
        let mut id = [0; size_of::<libc::pid_t>()];
        ours.read_exact(&mut id)?;
        Ok((libc::pid_t::from_ne_bytes(id), ours))
    }
}

/// What `execve` takes, made before the fork.
struct Image {
    path: CString,
    _arguments: Vec<CString>,
    environment: Vec<Vec<u8>>,
    pointers: Pointers,
    link: RawFd,
    /// Where in `environment` the process id belongs.
    own_id: Option<(usize, usize)>,
}

/// Into the texts of an [`Image`], whose heap does not move.
struct Pointers {
    arguments: Vec<*const libc::c_char>,
    environment: Vec<*const libc::c_char>,
}

// SAFETY: the pointers lead into memory that the same value owns.
unsafe impl Send for Image {}
// SAFETY: it is only used by one thread, in the child.
unsafe impl Sync for Image {}

impl Image {
    fn new(program: &Program, link: RawFd) -> io::Result<Self> {
        let arguments = program.arguments.iter().cloned().map(text);
        let arguments: Vec<_> = arguments.collect::<Result<_, _>>()?;
        let (environment, own_id) = environment(env::vars_os(), link);
        let mut image = Self {
            path: text(program.path.clone().into_os_string())?,
            pointers: Pointers {
                arguments: arguments.iter().map(|one| one.as_ptr()).collect(),
                environment: Vec::new(),
            },
            _arguments: arguments,
            environment,
            link,
            own_id,
        };
        let environment = image.environment.iter_mut();
        image.pointers.environment = environment
            .map(|one| one.as_mut_ptr().cast_const().cast())
            .collect();
        image.pointers.arguments.push(std::ptr::null());
        image.pointers.environment.push(std::ptr::null());
        Ok(image)
    }

    /// In the child: makes a child of its own and ends, so that this one's parent is not the old process.
    fn become_it(&mut self) -> io::Result<()> {
        // SAFETY: the child of a fork has one thread, and what it calls until exec may be called there.
        match unsafe { libc::fork() } {
            -1 => return Err(io::Error::last_os_error()),
            0 => {}
            // SAFETY: ends without running anything of the parent's.
            _ => unsafe { libc::_exit(0) },
        }
        // SAFETY: has no arguments and cannot fail.
        let own_id = unsafe { libc::getpid() };
        if let Some((at, begin)) = self.own_id {
            write_number(own_id, &mut self.environment[at][begin..]);
        }
        // SAFETY: the descriptor is this process's own, and what the pointers lead to lives in `self`.
        unsafe {
            let (id, size) = ((&raw const own_id).cast(), size_of_val(&own_id));
            if libc::write(self.link, id, size) == -1 {
                return Err(io::Error::last_os_error());
            }
            if libc::fcntl(self.link, libc::F_SETFD, 0) == -1 {
                return Err(io::Error::last_os_error());
            }
            libc::execve(
                self.path.as_ptr(),
                self.pointers.arguments.as_ptr(),
                self.pointers.environment.as_ptr(),
            );
        }
        Err(io::Error::last_os_error())
    }
}

impl Identity {
    fn of(path: &Path) -> io::Result<Self> {
        let found = fs::metadata(path)?;
        Ok(Self {
            device: found.dev(),
            inode: found.ino(),
            size: found.size(),
            changed: (found.mtime(), found.mtime_nsec()),
        })
    }
}

/// Where the kernel has found the program: a name without a slash was looked for.
fn located(name: &Path, path: Option<&OsStr>) -> io::Result<PathBuf> {
    if name.as_os_str().is_empty() {
        return env::current_exe();
    }
    if name.components().count() > 1 || name.is_absolute() {
        return std::path::absolute(name);
    }
    let folders = path.map(env::split_paths).into_iter().flatten();
    let mut candidates = folders.map(|folder| folder.join(name));
    match candidates.find(|candidate| candidate.is_file()) {
        Some(found) => std::path::absolute(found),
        None => env::current_exe(),
    }
}

/// The same environment, as far as it is true for another process: sockets come over the link and not from systemd,
/// and `WATCHDOG_PID` names whoever feeds it. Also where the id belongs that is known in the child only.
fn environment(
    variables: impl Iterator<Item = (OsString, OsString)>,
    link: RawFd,
) -> (Vec<Vec<u8>>, Option<(usize, usize)>) {
    let not_for_it = |name: &OsStr| name == LINK || name.as_encoded_bytes().starts_with(b"LISTEN_");
    let ours = std::process::id().to_string();
    let (mut texts, mut own_id) = (Vec::new(), None);
    for (name, value) in variables.filter(|(name, _)| !not_for_it(name)) {
        let mut one = name.clone().into_vec();
        one.push(b'=');
        if name == "WATCHDOG_PID" && *value == *ours {
            own_id = Some((texts.len(), one.len()));
            one.extend_from_slice(&[0; ROOM]);
        } else {
            one.extend(value.into_vec());
            one.push(0);
        }
        texts.push(one);
    }
    texts.push(format!("{LINK}={link}\0").into_bytes());
    (texts, own_id)
}

/// Without asking for memory: the child of a fork must not.
fn write_number(number: libc::pid_t, into: &mut [u8]) {
    let mut digits = 1;
    while number / 10_i32.pow(digits) > 0 && digits < 9 {
        digits += 1;
    }
    let mut rest = number;
    for place in (0..digits as usize).rev() {
        into[place] = b'0' + u8::try_from(rest % 10).unwrap_or(0);
        rest /= 10;
    }
}

fn text(argument: OsString) -> io::Result<CString> {
    Ok(CString::new(argument.into_vec())?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_without_a_slash_is_looked_for_as_the_shell_did() {
        let found = located(Path::new("sh"), Some(OsStr::new("/nowhere:/bin"))).unwrap();
        assert_eq!(found, Path::new("/bin/sh"));
        let here = env::current_dir().unwrap();
        assert_eq!(located(Path::new("./x"), None).unwrap(), here.join("x"));
        assert_eq!(located(Path::new("/a/b"), None).unwrap(), Path::new("/a/b"));
    }

    #[test]
    fn the_watchdog_is_handed_on_and_sockets_of_systemd_are_not() {
        let ours = std::process::id().to_string();
        let all = [
            ("A", "1"),
            ("LISTEN_FDS", "2"),
            ("LISTEN_PID", &ours),
            ("WATCHDOG_PID", &ours),
            (LINK, "4"),
            ("WATCHDOG_USEC", "9"),
        ];
        let all = all.map(|(name, value)| (name.into(), value.into()));

        let (mut texts, own_id) = environment(all.into_iter(), 7);
        let (at, begin) = own_id.unwrap();
        write_number(4_194_304, &mut texts[at][begin..]);

        let words = texts.iter().map(|one| {
            let end = one.iter().position(|byte| *byte == 0).unwrap();
            String::from_utf8(one[..end].to_vec()).unwrap()
        });
        let wanted = [
            "A=1",
            "WATCHDOG_PID=4194304",
            "WATCHDOG_USEC=9",
            "HELIOS_PROXY_HANDOVER=7",
        ];
        assert_eq!(words.collect::<Vec<_>>(), wanted);
    }

    #[test]
    fn a_number_is_written_as_people_write_it() {
        for number in [1, 9, 10, 99, 100, 12_345, 4_194_304, 999_999_999] {
            let mut room = [0; ROOM];
            write_number(number, &mut room);
            let end = room.iter().position(|byte| *byte == 0).unwrap();
            assert_eq!(room[..end], *number.to_string().as_bytes());
        }
    }

    #[test]
    fn a_file_in_the_place_of_another_is_a_change_and_none_at_all_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let [path, other] = ["link", "other"].map(|name| folder.path().join(name));
        fs::write(&other, "new").unwrap();
        std::os::unix::fs::symlink("/bin/sh", &path).unwrap();
        let program = Program {
            file: Identity::of(&path).ok(),
            path: path.clone(),
            arguments: Vec::new(),
        };
        assert!(!program.has_changed());

        fs::remove_file(&path).unwrap();
        assert!(!program.has_changed());

        std::os::unix::fs::symlink(&other, &path).unwrap();
        assert!(program.has_changed());
    }
}
