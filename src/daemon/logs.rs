//! Where log lines go: to journald with fields when it reads our stderr, else to stderr for people.

use std::env;
use std::fs::File;
use std::io::{self, IsTerminal};
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;

use tracing::Level;
use tracing::level_filters::LevelFilter;
use tracing_journald::{Priority, PriorityMappings};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, fmt};

/// Called once, by the program and never by the library.
pub(super) fn start() {
    let filter = EnvFilter::builder()
        .with_default_directive(LevelFilter::INFO.into())
        .from_env_lossy();
    let lines = tracing_subscriber::registry().with(filter);
    let begun = match journal() {
        Some(journal) => lines.with(journal).try_init(),
        None => {
            let people = fmt::layer()
                .with_writer(io::stderr)
                .with_ansi(io::stderr().is_terminal() && env::var_os("NO_COLOR").is_none())
                .with_target(false);
            lines.with(people).try_init()
        }
    };
    if let Err(error) = begun {
        eprintln!("helios-proxy: no log: {error}");
    }
}

/// The last words. They are heard whatever `RUST_LOG` says.
pub(super) fn fatal(words: &str) {
    if tracing::enabled!(Level::ERROR) {
        tracing::error!("{words}");
    } else {
        eprintln!("helios-proxy: {words}");
    }
}

fn journal() -> Option<tracing_journald::Layer> {
    let stream = env::var("JOURNAL_STREAM").ok()?;
    let stderr = File::from(io::stderr().as_fd().try_clone_to_owned().ok()?);
    let stderr = stderr.metadata().ok()?;
    if !names(&stream, stderr.dev(), stderr.ino()) {
        return None;
    }
    let journal = tracing_journald::layer().ok()?;
    let as_syslog = PriorityMappings {
        info: Priority::Informational,
        debug: Priority::Debug,
        trace: Priority::Debug,
        ..PriorityMappings::new()
    };
    // The default prefix would make `F_NODE=` of `node`.
    let journal = journal.with_field_prefix(None);
    Some(journal.with_priority_mappings(as_syslog))
}

/// Does `JOURNAL_STREAM` name this file? It is inherited, so a redirected stderr must not count.
///
/// Source: systemd.exec(5), `$JOURNAL_STREAM`.
fn names(stream: &str, device: u64, inode: u64) -> bool {
    stream
        .split_once(':')
        .and_then(|(d, i)| Some((d.parse::<u64>().ok()?, i.parse::<u64>().ok()?)))
        == Some((device, inode))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_is_named_by_device_and_inode() {
        assert!(names("9:12345", 9, 12345));
        for other in ["9:12346", "8:12345", "9", "", "9:x", "9:12345:1"] {
            assert!(!names(other, 9, 12345), "{other}");
        }
    }
}
