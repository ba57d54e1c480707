//! Scenarios with scripted faults: a whole proxy in this process, with scripted nodes and clients around it.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test program")]

mod fakes;

mod it {
    mod fakes_speak;
}
