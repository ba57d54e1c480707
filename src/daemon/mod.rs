//! Being a process: command line, signals, systemd, logs, and the house.

mod alarm;
pub mod cli;
mod doctor;
pub mod house;
mod limits;
mod line;
mod logs;
mod opening;
pub mod outcome;
mod run;
mod signals;
mod store;
mod succession;
mod systemd;
mod threads;
mod upgrade;
mod window;
