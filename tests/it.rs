//! Scenarios with scripted faults: a whole proxy in this process, with scripted nodes and clients around it.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test program")]

mod fakes;

mod it {
    mod cancel;
    mod conflict;
    mod declared;
    mod dialling;
    mod fakes_speak;
    mod holding;
    mod names;
    mod operator;
    mod probes;
    mod process;
    mod proof;
    mod property;
    mod rates;
    mod reading;
    mod relay;
    mod reload;
    mod rest;
    mod scene;
    mod shipped;
    mod silence;
    mod startup;
    mod switchover;
    mod vanished;
    mod view;
    mod window;
    mod witness;
}
