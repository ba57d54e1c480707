//! The flake and the NixOS module, evaluated by a real Nix with a stand-in for nixpkgs (`tests/nix/stub`): outputs, units,
//! generated files, what a switch sees, mistakes and their words. Nix itself is fetched where it can be; where not, each
//! test is skipped by its name, and under `CI` it fails.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test program")]

#[path = "lab/mod.rs"]
mod lab;
#[path = "nix/machine/mod.rs"]
mod machine;

#[path = "nix"]
mod about {
    mod flake;
    mod hosts;
    mod meaning;
    mod mistakes;
    mod scripts;
    mod sentences;
    mod style;
}
