//! The program as systemd and an operator see it: a child process, its notify socket, its signals and its log.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test program")]

mod fakes;

mod process {
    mod daemon;
    mod doctor;
    mod dynasty;
    mod ending;
    mod https;
    mod logging;
    mod moving;
    mod reloading;
    mod restarting;
    mod shelf;
    mod starting;
    mod status;
    mod unit;
    mod upgrading;
    mod watchdog;
}
