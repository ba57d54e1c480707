//! A local PostgreSQL endpoint that always lands on the current Patroni leader.
//!
//! **Observations flow in, one lease decides, sessions follow it, and a token ends what the lease no longer
//! covers.**
//!
//! ```text
//!                     ┌─────────────────────────── daemon ──────────────────────────┐
//!                     │     reads config · binds sockets · wires rooms · drains     │
//!                     └─────────────────────────────────────────────────────────────┘
//!  Patroni REST ──▶ topology ─Observation─▶ primary_tracker ─Picture─▶ routing ─Target─▶ session ◀── clients
//!                    (looks)                   (decides)               (picks)          (carries) ──▶ PostgreSQL
//!                       ▲                       │     ▲                                    │
//!                       └───────── Pace ────────┘     └────────────── Demand ──────────────┘
//!                                               │
//!                                               ├──Picture──▶ admin (the operator's window)
//!                                               └◀──Order────
//! ```
//!
//! | room | what lives there |
//! |---|---|
//! | [`clock`] | the time that runs through suspend |
//! | [`metrics`] | counters and their names |
//! | [`causes`] | an error told with everything behind it |
//! | [`protocol`] | the PostgreSQL wire as values: no sockets, no async, no clock |
//! | [`net`] | sockets without knowing what is spoken |
//! | [`backend`] | we as a PostgreSQL client |
//! | [`topology`] | looking at the cluster: questions, answers, evidence, cadence |
//! | [`primary_tracker`] | deciding who may be written to and until when: lease, epoch, conflict |
//! | [`routing`] | where a client goes, and the line in which it waits |
//! | [`session`] | one client's stay: greet → route → dial → prologue → relay → goodbye |
//! | [`admin`] | facts as JSON, as metrics and as words |
//! | [`config`] | the TOML as written and the [`Config`] it becomes |
//! | [`daemon`] | being a process: command line, signals, systemd, logs, the hand-over to a new binary, and [`House`] |
//!
//! Two threads: *control* runs poller, tracker and admin; *worker* runs the sessions. A busy relay does not age
//! the lease. Rooms meet in `watch` channels with one writer each; whether something is still valid is asked by
//! the reader at the moment of use, with its own `now`. `tests/walls.rs` enforces who may import whom.

mod admin;
pub mod backend;
mod causes;
pub mod clock;
mod config;
mod daemon;
mod metrics;
mod net;
pub mod primary_tracker;
mod protocol;
mod routing;
mod session;
mod topology;

pub use config::{Config, ConfigBuilder, ConfigError, ConfigValue};
pub use daemon::cli;
pub use daemon::house::House;
pub use daemon::outcome::{BindFailed, Bound, FileFailed, ReloadError, ReloadReport, StartError};
