//! The command line.

use std::process::ExitCode;

/// The whole program; `main` only calls this.
pub fn main() -> ExitCode {
    ExitCode::SUCCESS
}
