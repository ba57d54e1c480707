//! Medians, percentiles, and the table they end in.

use std::{fmt, time::Duration};

/// What was wanted and what came out.
#[derive(Default)]
pub struct Table {
    rows: Vec<(String, String, String)>,
}

impl Table {
    pub fn add(
        &mut self,
        figure: impl Into<String>,
        goal: impl Into<String>,
        measured: impl Into<String>,
    ) {
        self.rows
            .push((figure.into(), goal.into(), measured.into()));
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "| figure | goal | measured |\n|---|---|---|")?;
        self.rows.iter().try_for_each(|(figure, goal, measured)| {
            writeln!(f, "| {figure} | {goal} | {measured} |")
        })
    }
}

/// The value below which `percent` of all lie (nearest rank); zero of none.
pub fn percentile(values: &[Duration], percent: usize) -> Duration {
    let mut sorted = values.to_vec();
    sorted.sort();
    let rank = (sorted.len() * percent).div_ceil(100).max(1);
    sorted.get(rank - 1).copied().unwrap_or_default()
}

pub fn ms(time: Duration) -> String {
    format!("{:.0} ms", time.as_secs_f64() * 1000.0)
}

pub fn seconds(time: Duration) -> String {
    format!("{:.1} s", time.as_secs_f64())
}
