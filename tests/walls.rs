//! Who may import whom: the table of the crate docs, held against the source.

#![allow(clippy::unwrap_used, reason = "the helpers of a test are tests")]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// A room and the rooms it may import. `clock`, `metrics` and `causes` are open to all rooms above `protocol`.
const MAY: &[(&str, &[&str])] = &[
    ("clock", &[]),
    ("metrics", &[]),
    ("causes", &[]),
    ("protocol", &[]),
    ("net", &[]),
    ("backend", &["protocol", "net"]),
    ("topology", &["net", "backend"]),
    ("primary_tracker", &["net", "backend", "topology"]),
    ("routing", &["net", "topology", "primary_tracker"]),
    (
        "session",
        &["protocol", "net", "backend", "routing", "primary_tracker"],
    ),
    ("admin", &["net", "topology", "primary_tracker", "routing"]),
    // The rooms' settings types.
    (
        "config",
        &[
            "net",
            "backend",
            "topology",
            "primary_tracker",
            "routing",
            "session",
            "admin",
        ],
    ),
];
const TOOLS: &[&str] = &["clock", "metrics", "causes"];

/// The process wires the rooms, so these may name everything.
const ABOVE: [&str; 3] = ["daemon", "lib", "main"];

fn allowed(room: &str, other: &str) -> bool {
    let own = MAY.iter().find(|(name, _)| *name == room);
    let (_, may) = own.unwrap_or_else(|| panic!("{room} is no room of the table"));
    let uses_tools = !["clock", "metrics", "causes", "protocol"].contains(&room);
    room == other || may.contains(&other) || uses_tools && TOOLS.contains(&other)
}

/// What a source names behind `crate::`, its own tests and its comments left out.
fn named_rooms(source: &str) -> BTreeSet<String> {
    let code = source
        .split("#[cfg(test)]\nmod tests {")
        .next()
        .unwrap_or("");
    let code: Vec<_> = code
        .lines()
        .filter(|line| !line.trim_start().starts_with("//"))
        .collect();
    let code = code.join("\n");
    // A group (`crate::{`) gives an empty word, which no row allows: one line per room is easier to read anyway.
    let word = |text: &str| {
        let end = text.find(|c: char| !c.is_alphanumeric() && c != '_');
        text[..end.unwrap_or(text.len())].to_owned()
    };
    code.split("crate::").skip(1).map(word).collect()
}

fn rust_files(folder: &str) -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
    let (mut folders, mut files) = (vec![root], Vec::new());
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).into_iter().flatten() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|e| e == "rs") {
                files.push(path);
            }
        }
    }
    files
}

fn below_src(file: &Path) -> &Path {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    file.strip_prefix(src).unwrap()
}

fn room_of(file: &Path) -> String {
    let first = below_src(file).components().next().unwrap().as_os_str();
    Path::new(first)
        .file_stem()
        .unwrap()
        .to_string_lossy()
        .into_owned()
}

/// `#[cfg(test)] mod tests;` puts a whole file or folder of tests beside the code.
fn is_test_code(file: &Path) -> bool {
    let inner = below_src(file).iter().skip(1);
    inner.map(Path::new).any(|part| {
        let stem = part.file_stem().unwrap_or_default();
        stem == "tests" || stem == "testing"
    })
}

fn houses_own_code() -> impl Iterator<Item = (String, PathBuf, String)> {
    let files = rust_files("src")
        .into_iter()
        .filter(|file| !is_test_code(file));
    files.map(|file| {
        (
            room_of(&file),
            file.clone(),
            fs::read_to_string(file).unwrap(),
        )
    })
}

#[test]
fn a_room_imports_only_what_its_row_allows() {
    let mut seen = BTreeSet::new();
    for (room, file, source) in houses_own_code().filter(|(r, ..)| !ABOVE.contains(&r.as_str())) {
        for other in named_rooms(&source) {
            let file = file.display();
            assert!(
                allowed(&room, &other),
                "{file}: {room} must not import crate::{other}"
            );
            seen.insert((room.clone(), other));
        }
    }
    // The scan sees imports at all.
    for (room, other) in [("admin", "primary_tracker"), ("session", "routing")] {
        assert!(
            seen.contains(&(room.into(), other.into())),
            "{room} → {other}"
        );
    }
}

#[test]
fn nobody_leaves_a_room_through_super() {
    for (_, file, source) in houses_own_code() {
        let inner = below_src(&file).with_extension("");
        let is_mod = inner.ends_with("mod");
        let depth = inner.iter().count() - usize::from(is_mod);
        let out = "super::".repeat(depth);
        let own = source.split("#[cfg(test)]\nmod tests {").next().unwrap();
        assert!(
            !own.contains(&out),
            "{}: write crate:: instead",
            file.display()
        );
    }
}

#[test]
fn the_table_knows_every_room_and_no_other() {
    let rooms: BTreeSet<_> = houses_own_code().map(|(room, ..)| room).collect();
    let table = MAY.iter().map(|(room, _)| *room).chain(ABOVE);
    assert_eq!(rooms, table.map(str::to_owned).collect());
}

#[test]
fn a_file_opens_with_a_sentence_for_a_newcomer() {
    for folder in ["src", "tests", "benches", "examples"] {
        for file in rust_files(folder) {
            let source = fs::read_to_string(&file).unwrap();
            assert!(source.starts_with("//! "), "{}", file.display());
        }
    }
}

#[test]
fn features_stand_only_on_mod_lines() {
    for file in rust_files("src") {
        let source = fs::read_to_string(&file).unwrap();
        let mut lines = source.lines().map(str::trim_start);
        while let Some(line) = lines.next() {
            let code = line.split("//").next().unwrap();
            if code.contains("feature = \"") {
                let gated = lines
                    .find(|line| !line.starts_with(['#', '/']))
                    .unwrap_or("");
                let is_mod = gated.split("mod ").next().is_some_and(|before| {
                    gated.contains("mod ") && ["", "pub ", "pub(crate) "].contains(&before)
                });
                assert!(is_mod, "{}: {line}", file.display());
            }
        }
    }
}

#[test]
fn the_scan_finds_what_it_must() {
    let source = "
        //! Not [`crate::daemon`].
        use crate::net::Address;
        use crate::clock::{BootTime, Clock};
        use crate::{routing};
        fn f() { crate::session::g(crate::Config) }
        #[cfg(test)]\nmod tests { use crate::admin; }";
    let named = named_rooms(source);
    assert_eq!(
        Vec::from_iter(named),
        ["", "Config", "clock", "net", "session"]
    );
    assert!(!allowed("protocol", "clock") && !allowed("net", "topology"));
    assert!(allowed("session", "metrics") && !allowed("routing", ""));
}
