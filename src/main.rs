//! The `helios-proxy` daemon.

use std::process::ExitCode;

fn main() -> ExitCode {
    heliosdb_proxy::cli::main()
}
