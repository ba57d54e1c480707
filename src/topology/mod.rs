//! Looking at the cluster: questions, answers, evidence, cadence. Decides nothing.

mod settings;

pub(crate) use settings::{HealthSettings, NodeSettings};
