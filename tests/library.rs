//! The public contract of the topology: trackers, providers, leases, epochs, and nothing that is not public.

#![allow(clippy::unwrap_used, reason = "a test ends where it cannot go on")]

#[path = "library/mock.rs"]
mod mock;

#[path = "library/by_hand.rs"]
mod by_hand;
#[path = "library/custom.rs"]
mod custom;
#[path = "../examples/custom_provider.rs"]
mod custom_provider;
#[path = "../examples/embedded.rs"]
mod embedded;
#[cfg(feature = "postgres-topology")]
#[path = "library/ours.rs"]
mod ours;
#[path = "library/property.rs"]
mod property;
#[path = "library/standalone.rs"]
mod standalone;
#[path = "library/watched.rs"]
mod watched;
#[cfg(not(feature = "postgres-topology"))]
#[path = "library/without_postgres.rs"]
mod without_postgres;

#[test]
fn the_example_of_a_custom_provider_follows_its_key() {
    custom_provider::main().unwrap();
}

#[test]
fn the_example_of_an_embedder_leads_two_clusters_without_a_file() {
    embedded::main().unwrap();
}
