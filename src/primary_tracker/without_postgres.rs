//! No public provider that asks PostgreSQL: this build has no `postgres-topology`.

pub use super::provider_error::ProviderError;
