//! The command line: what was asked for, who does it, and with which exit code it ends.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};
use hyper::header::HeaderValue;

use super::outcome::StartError;
use super::run::{self, Failure, Source};
use super::{doctor, line, logs};
use crate::admin::{self, AdminSettings, Token};
use crate::causes::chain;
use crate::{Config, ConfigError};

/// Something went wrong while running.
const FAILED: u8 = 1;
/// The command line or the configuration is wrong: a restart will not help.
const MISUSED: u8 = 2;

const ADMIN: SocketAddr =
    SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 9090);

/// A local PostgreSQL endpoint that always lands on the current Patroni leader.
#[derive(Parser)]
#[command(name = "helios-proxy", version, args_conflicts_with_subcommands = true)]
struct Cli {
    #[command(subcommand)]
    verb: Option<Verb>,
    #[command(flatten)]
    run: RunArgs,
}

#[derive(Subcommand)]
enum Verb {
    /// Run the proxy (the default)
    Run(RunArgs),
    /// Say whether a file would start, without touching network, secrets or named files
    Check {
        #[arg(long, short, value_name = "FILE")]
        config: PathBuf,
    },
    /// Print nodes, leader, lease and sessions of the running proxy
    Status(StatusArgs),
    /// Try from this host what usually goes wrong, and say what to do first
    Doctor {
        #[arg(long, short, value_name = "FILE")]
        config: PathBuf,
        /// Print the checks as JSON
        #[arg(long)]
        json: bool,
    },
    /// Print the version
    Version,
}

#[derive(Args)]
struct RunArgs {
    /// The configuration, in TOML
    #[arg(long, short, value_name = "FILE", conflicts_with_all = ["node", "listen", "read_listen", "admin"])]
    config: Option<PathBuf>,
    /// Without a file: one node of the cluster; repeat it for each
    #[arg(long, value_name = "NAME=HOST[:PORT]")]
    node: Vec<String>,
    /// Without a file: where clients connect [default: 127.0.0.1:5432]
    #[arg(long, value_name = "ADDR", requires = "node")]
    listen: Option<String>,
    /// Without a file: where clients that only read connect
    #[arg(long, value_name = "ADDR", requires = "node")]
    read_listen: Option<String>,
    /// Without a file: the admin API, "" for none [default: 127.0.0.1:9090]
    #[arg(long, value_name = "ADDR", requires = "node")]
    admin: Option<String>,
}

#[derive(Args)]
struct StatusArgs {
    /// Take admin_address from this configuration
    #[arg(long, short, value_name = "FILE", conflicts_with = "admin")]
    config: Option<PathBuf>,
    /// The admin API of the running proxy [default: 127.0.0.1:9090]
    #[arg(long, value_name = "ADDR")]
    admin: Option<SocketAddr>,
    /// Print what the proxy says as JSON
    #[arg(long)]
    json: bool,
    /// Print it again every second, in place
    #[arg(long)]
    watch: bool,
    /// Also say why: what each node last proved, the rule that decided, and what a client would get now
    #[arg(long)]
    why: bool,
    /// The token of a protected admin API
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
}

/// The whole program; `main` only calls this.
pub fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            // Help and version are answers, and leave with 0.
            let _ = error.print();
            return ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(MISUSED));
        }
    };
    match cli.verb.unwrap_or(Verb::Run(cli.run)) {
        Verb::Run(args) => start(args),
        Verb::Check { config } => check(&config),
        Verb::Status(args) => status(&args),
        Verb::Doctor { config, json } => doctor(&config, json),
        Verb::Version => {
            println!("helios-proxy {}", env!("CARGO_PKG_VERSION"));
            ExitCode::SUCCESS
        }
    }
}

fn start(args: RunArgs) -> ExitCode {
    let source = match args.config {
        Some(file) => Source::File(file),
        None if args.node.is_empty() => {
            return misused(
                &"nothing to follow: give --config FILE, or --node NAME=HOST for each node",
            );
        }
        None => match line::table(&args.node, args.listen, args.read_listen, args.admin) {
            Ok(table) => Source::Line(table),
            Err(error) => return misused(&error),
        },
    };
    logs::start();
    let failure = match run::run(&source) {
        Ok(()) => return ExitCode::SUCCESS,
        Err(failure) => failure,
    };
    logs::fatal(&chain(&failure));
    ExitCode::from(match failure {
        Failure::Config(_) | Failure::Start(StartError::File(_)) => MISUSED,
        _ => FAILED,
    })
}

fn check(file: &Path) -> ExitCode {
    match Config::check(file) {
        Ok(warnings) => {
            for warning in warnings {
                eprintln!("{}: warning: {warning}", file.display());
            }
            println!("{}: ok", file.display());
            ExitCode::SUCCESS
        }
        Err(error) => misused(&chain(&error)),
    }
}

fn status(args: &StatusArgs) -> ExitCode {
    let (address, token_file) = match &args.config {
        None => (args.admin.unwrap_or(ADMIN), None),
        Some(file) => match admin_of(file) {
            // On loopback looking is open, and the token perhaps not for this user's eyes.
            Ok(Some(admin)) if !admin.must_have_token() => (admin.address, None),
            Ok(Some(admin)) => (admin.address, admin.token_file),
            Ok(None) => {
                let file = file.display();
                return misused(&format!("{file}: admin_address = \"\": nothing to ask"));
            }
            Err(error) => return misused(&chain(&error)),
        },
    };
    let token_file = args.token_file.as_ref().or(token_file.as_ref());
    let token = match token_file.map(|file| bearer(file)).transpose() {
        Ok(token) => token,
        Err(words) => return misused(&words),
    };
    let wanted = admin::Wanted {
        address,
        token,
        json: args.json,
        watch: args.watch,
        why: args.why,
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let asked = match runtime {
        Ok(runtime) => runtime
            .block_on(admin::status(&wanted))
            .map_err(|error| chain(&error)),
        Err(error) => Err(error.to_string()),
    };
    match asked {
        Ok(()) => ExitCode::SUCCESS,
        Err(words) => {
            eprintln!("helios-proxy: {words}");
            ExitCode::from(FAILED)
        }
    }
}

fn doctor(file: &Path, json: bool) -> ExitCode {
    let config = match Config::load(file) {
        Ok(config) => config,
        Err(error) => return misused(&chain(&error)),
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    match runtime.map(|runtime| runtime.block_on(doctor::run(&config, json))) {
        Ok(false) => ExitCode::SUCCESS,
        Ok(true) => ExitCode::from(FAILED),
        Err(error) => {
            eprintln!("helios-proxy: {error}");
            ExitCode::from(FAILED)
        }
    }
}

/// Whoever asks from a shell need not have the daemon's variables.
fn admin_of(file: &Path) -> Result<Option<AdminSettings>, ConfigError> {
    match Config::load(file) {
        Err(ConfigError::Unset { key, .. }) if key != "admin_address" => Config::sketch(file),
        loaded => loaded,
    }
    .map(|config| config.admin)
}

/// The header that a token file stands for.
fn bearer(file: &Path) -> Result<HeaderValue, String> {
    let token = Token::read(file).map_err(|error| chain(&error))?;
    let header = token.bearer();
    header.ok_or_else(|| format!("{}: no header can carry this token", file.display()))
}

fn misused(words: &dyn std::fmt::Display) -> ExitCode {
    eprintln!("helios-proxy: {words}");
    ExitCode::from(MISUSED)
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn run_is_the_default_and_takes_the_same_arguments() {
        for line in [
            &["helios-proxy", "--config", "a.toml"][..],
            &["helios-proxy", "run", "--config", "a.toml"],
        ] {
            let cli = Cli::try_parse_from(line).ok().unwrap();
            let ((Some(Verb::Run(args)), _) | (None, args)) = (cli.verb, cli.run) else {
                panic!("not run: {line:?}");
            };
            assert_eq!(args.config.as_deref(), Some(Path::new("a.toml")));
        }
    }

    #[test]
    fn a_file_and_nodes_exclude_each_other() {
        let line = ["helios-proxy", "--config", "a.toml", "--node", "a=b"];

        assert!(Cli::try_parse_from(line).is_err());
    }
}
