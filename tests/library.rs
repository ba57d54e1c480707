//! The public contract of the topology: trackers, providers, leases, epochs, and nothing that is not public.

#![allow(clippy::unwrap_used, reason = "a test ends where it cannot go on")]

#[path = "library/mock.rs"]
mod mock;

#[path = "library/custom.rs"]
mod custom;
#[path = "../examples/custom_provider.rs"]
mod custom_provider;
#[path = "library/property.rs"]
mod property;
#[path = "library/standalone.rs"]
mod standalone;
#[path = "library/watched.rs"]
mod watched;

#[test]
fn the_example_of_a_custom_provider_follows_its_key() {
    custom_provider::main().unwrap();
}
