//! `helios-proxy doctor`: tries from this host what usually goes wrong, and says what to do first.
//!
//! [`gather`] asks everybody at once, the checks judge what came back without touching anything, [`report`] prints.

mod cluster;
mod facts;
mod gather;
mod here;
mod nodes;
mod postgres;
mod report;

use std::io::{self, Write};

use facts::Facts;
use report::{Finding, Report};

use crate::Config;
use crate::causes::chain;
use crate::topology::Provider;

/// Prints what was found. True when something is wrong: a warning is not.
pub(super) async fn run(config: &Config, json: bool) -> bool {
    let findings = match gather::gather(config).await {
        Ok(facts) => examine(&facts, config),
        Err(error) => vec![Finding::wrong(
            "file",
            chain(&error),
            "nothing starts without it: mend it, and its permissions for the service's user",
        )],
    };
    let report = Report::of(findings);
    let page = if json { report.json() } else { report.page() };
    // Whoever reads may have seen enough (`doctor | head`): the exit code says it all the same.
    let _ = io::stdout().lock().write_all(page.as_bytes());
    report.is_wrong()
}

/// All checks, in the order in which they matter: what stands behind is often a consequence.
fn examine(facts: &Facts, config: &Config) -> Vec<Finding> {
    let mut findings = nodes::judge(&facts.nodes, config);
    let provider = config.source.provider();
    if provider.is_patroni() {
        findings.extend(cluster::identity(&facts.nodes, config));
    }
    findings.push(match provider {
        Provider::Manual => Finding::ok("leader", "is named by hand (POST /topology/primary)"),
        _ => cluster::leader(&facts.nodes, provider),
    });
    findings.extend(cluster::views(&facts.views));
    if provider.is_patroni() {
        findings.extend(cluster::numbers(facts.cluster.as_ref(), config));
        findings.extend(nodes::clocks(&facts.nodes));
        findings.push(cluster::versions(&facts.nodes));
    }
    findings.extend(here::judge(&facts.here, config));
    findings
}

#[cfg(test)]
mod tests;
