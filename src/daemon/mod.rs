//! Being a process: command line, signals, systemd, logs, and the house.

pub mod cli;
pub mod house;
