//! Files that the configuration names, and what is made of them: made anew when one of them was renewed.

use std::fmt;
use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime};

/// No certificate, key or password is longer.
const LARGEST: u64 = 4 * 1024 * 1024;
/// A file that was changed less than this before it was read may change again without looking changed.
const UNSETTLED: Duration = Duration::from_secs(1);

/// A path, and the key that names it for whoever must mend it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NamedFile {
    pub(crate) key: &'static str,
    pub(crate) path: PathBuf,
}

/// Why a named file cannot be used. All of these are for the operator to mend; none shows what a secret file holds.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FileError {
    #[error("{file}: cannot be read")]
    Read { file: NamedFile, source: io::Error },

    #[error("{file}: {why}")]
    Unusable { file: NamedFile, why: &'static str },

    #[error("{}: does not go with {}", .pair.0, .pair.1)]
    Pair {
        /// Boxed, or every result that may hold this error would be as large as it.
        pair: Box<(NamedFile, NamedFile)>,
        source: rustls::Error,
    },
}

impl fmt::Display for NamedFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} = {:?}", self.key, self.path)
    }
}

impl NamedFile {
    pub(crate) fn read(&self) -> Result<Vec<u8>, FileError> {
        let failed = |source| FileError::Read {
            file: self.clone(),
            source,
        };
        let about = fs::metadata(&self.path).map_err(failed)?;
        if !about.is_file() {
            // Opening a pipe would wait for whoever writes into it.
            return Err(self.unusable("not a regular file"));
        }
        if about.len() > LARGEST {
            return Err(self.unusable("larger than 4 MiB"));
        }
        fs::read(&self.path).map_err(failed)
    }

    pub(crate) fn unusable(&self, why: &'static str) -> FileError {
        FileError::Unusable {
            file: self.clone(),
            why,
        }
    }

    fn look(&self) -> Option<Stamp> {
        fs::metadata(&self.path).ok().as_ref().map(Stamp::of)
    }
}

/// What is different after a file was written or replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stamp {
    place: (u64, u64),
    length: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl Stamp {
    fn of(about: &Metadata) -> Self {
        Self {
            place: (about.dev(), about.ino()),
            length: about.len(),
            modified: (about.mtime(), about.mtime_nsec()),
            changed: (about.ctime(), about.ctime_nsec()),
        }
    }

    /// May the file have been written again after this look, within one tick of its file system's clock?
    fn is_unsettled(&self, looked: SystemTime) -> bool {
        let (secs, nanos) = self.changed;
        let changed = u64::try_from(secs)
            .ok()
            .zip(u32::try_from(nanos).ok())
            .map(|(secs, nanos)| SystemTime::UNIX_EPOCH + Duration::new(secs, nanos));
        changed
            .and_then(|changed| looked.duration_since(changed).ok())
            .is_some_and(|age| age < UNSETTLED)
    }
}

/// A value made of files. The start is strict; later a file that is bad, half-written or gone leaves the value that
/// was made last, and is said once.
pub(crate) struct Renewable<T> {
    files: Vec<NamedFile>,
    make: Box<dyn Fn() -> Result<T, FileError> + Send + Sync>,
    /// Held for a look at the files, and after a renewal for reading them: whoever needs the value waits for both
    /// anyway.
    now: Mutex<Now<T>>,
}

struct Now<T> {
    value: T,
    seen: Vec<Option<Stamp>>,
    looked: SystemTime,
    /// What was logged about a bad renewal that still lasts.
    said: Option<String>,
}

impl<T: Clone> Renewable<T> {
    pub(crate) fn open(
        files: Vec<NamedFile>,
        make: impl Fn() -> Result<T, FileError> + Send + Sync + 'static,
    ) -> Result<Self, FileError> {
        // Looked at before they are read: what changes in between looks changed the next time.
        let (looked, seen) = look(&files);
        let now = Now {
            value: make()?,
            seen,
            looked,
            said: None,
        };
        Ok(Self {
            files,
            make: Box::new(make),
            now: Mutex::new(now),
        })
    }

    /// The value of the files as they are, or the last good one.
    pub(crate) fn get(&self) -> T {
        let mut now = self.now.lock().unwrap_or_else(PoisonError::into_inner);
        let (looked, seen) = look(&self.files);
        let renewed = seen != now.seen;
        let unsettled = seen.iter().flatten().any(|s| s.is_unsettled(now.looked));
        if renewed || unsettled {
            match (self.make)() {
                Ok(value) => {
                    now.value = value;
                    now.said = None;
                    if renewed {
                        tracing::info!(files = %self.in_words(), "renewed, in use from now on");
                    }
                }
                // Whoever writes in place is not done yet, perhaps: the next look tells.
                Err(_) if seen.iter().flatten().any(|s| s.is_unsettled(looked)) => {}
                Err(error) => now.complain(&error),
            }
            now.seen = seen;
            now.looked = looked;
        }
        now.value.clone()
    }

    fn in_words(&self) -> String {
        let words: Vec<String> = self.files.iter().map(NamedFile::to_string).collect();
        words.join(", ")
    }
}

impl<T> Now<T> {
    fn complain(&mut self, error: &FileError) {
        let cause = std::error::Error::source(error).map(|cause| format!(": {cause}"));
        let words = format!("{error}{}", cause.unwrap_or_default());
        if self.said.as_ref() != Some(&words) {
            tracing::warn!("{words}; what was read before stays in use");
            self.said = Some(words);
        }
    }
}

impl<T> fmt::Debug for Renewable<T> {
    /// The files and never what they hold.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Renewable").field(&self.files).finish()
    }
}

fn look(files: &[NamedFile]) -> (SystemTime, Vec<Option<Stamp>>) {
    let looked = SystemTime::now();
    (looked, files.iter().map(NamedFile::look).collect())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    struct Desk {
        folder: tempfile::TempDir,
        file: NamedFile,
        reads: Arc<AtomicUsize>,
        value: Renewable<String>,
    }

    fn words_of(file: &NamedFile) -> Result<String, FileError> {
        let text = String::from_utf8(file.read()?).map_err(|_| file.unusable("not text"))?;
        if text.is_empty() {
            return Err(file.unusable("empty"));
        }
        Ok(text)
    }

    fn desk(text: &str) -> Desk {
        let folder = tempfile::tempdir().unwrap();
        let file = NamedFile {
            key: "rest.password_file",
            path: folder.path().join("word"),
        };
        fs::write(&file.path, text).unwrap();
        let reads = Arc::new(AtomicUsize::new(0));
        let value = Renewable::open(vec![file.clone()], {
            let (file, reads) = (file.clone(), Arc::clone(&reads));
            move || {
                reads.fetch_add(1, Ordering::Relaxed);
                words_of(&file)
            }
        });
        Desk {
            folder,
            file,
            reads,
            value: value.unwrap(),
        }
    }

    fn age(path: &std::path::Path) {
        // The change time cannot be set, so the file is looked at as if later.
        std::thread::sleep(UNSETTLED);
        assert!(path.exists());
    }

    #[test]
    fn a_file_that_stays_is_looked_at_and_not_read() {
        let desk = desk("one");
        age(&desk.file.path);
        desk.value.get();
        let before = desk.reads.load(Ordering::Relaxed);

        for _ in 0..10 {
            assert_eq!(desk.value.get(), "one");
        }

        assert_eq!(desk.reads.load(Ordering::Relaxed), before);
    }

    #[test]
    fn a_replaced_and_an_overwritten_file_are_used_at_once() {
        let desk = desk("one");
        let beside = desk.folder.path().join("beside");
        fs::write(&beside, "two").unwrap();
        fs::rename(&beside, &desk.file.path).unwrap();
        assert_eq!(desk.value.get(), "two");

        // The same length within the same tick of the clock.
        for text in ["3rd", "4th", "5th", "6th"] {
            fs::write(&desk.file.path, text).unwrap();
            assert_eq!(desk.value.get(), text);
        }
    }

    #[test]
    fn a_bad_half_written_or_missing_file_leaves_the_last_good_value() {
        let desk = desk("one");

        fs::write(&desk.file.path, "").unwrap();
        assert_eq!(desk.value.get(), "one");
        fs::remove_file(&desk.file.path).unwrap();
        assert_eq!(desk.value.get(), "one");
        fs::create_dir(&desk.file.path).unwrap();
        assert_eq!(desk.value.get(), "one");
        fs::remove_dir(&desk.file.path).unwrap();

        fs::write(&desk.file.path, "two").unwrap();
        assert_eq!(desk.value.get(), "two");
    }

    #[test]
    fn a_start_names_the_key_and_the_file() {
        let file = NamedFile {
            key: "rest.ca_file",
            path: "/no/such/ca.pem".into(),
        };

        let error = Renewable::open(vec![file.clone()], move || words_of(&file)).unwrap_err();

        assert_eq!(
            error.to_string(),
            "rest.ca_file = \"/no/such/ca.pem\": cannot be read"
        );
    }

    #[test]
    fn what_a_file_holds_is_not_shown() {
        assert!(!format!("{:?}", desk("hunter2").value).contains("hunter2"));
    }
}
