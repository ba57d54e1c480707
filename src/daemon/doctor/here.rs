//! This host: the addresses that it listens on, its open files, and the file itself.

use super::facts::HostFacts;
use super::report::Finding;
use crate::Config;
use crate::net::Address;

pub(super) fn judge(here: &HostFacts, config: &Config) -> Vec<Finding> {
    let mut findings: Vec<_> = here
        .listeners
        .iter()
        .map(|listener| {
            let subject = format!("listener {}", listener.address);
            match (&listener.address, listener.missing) {
                (Address::Tcp(_), false) => Finding::ok(subject, "its address is there"),
                (Address::Unix(_), false) => Finding::ok(subject, "its folder is there"),
                (Address::Tcp(at), true) => Finding::warning(
                    subject,
                    format!("no interface carries {}", at.ip()),
                    "fine for an address that moves (VIP, VPN, bridge): clients reach it once it is here; else correct the address",
                ),
                (Address::Unix(_), true) => Finding::warning(
                    subject,
                    "its folder is not there",
                    "fine where systemd makes it at the start (RuntimeDirectory=helios-proxy makes /run/helios-proxy); else make it",
                ),
            }
        })
        .collect();
    findings.push(match &here.descriptors {
        Some(words) => Finding::warning(
            "open files",
            format!("{words}, as seen from this shell"),
            "the limit of the service is LimitNOFILE of its unit",
        ),
        None => Finding::ok("open files", "the limit is enough for max_connections"),
    });
    if let Some(words) = &here.token {
        let must = config
            .admin
            .as_ref()
            .is_some_and(|admin| admin.must_have_token());
        findings.push(match must {
            true => Finding::wrong(
                "admin token",
                words,
                "off loopback nothing starts without it: write a token into the file, readable for the service's user",
            ),
            false => Finding::warning(
                "admin token",
                words,
                "without it nobody may change anything: write a token into the file, readable for the service's user",
            ),
        });
    }
    // What a check says without the cluster's own numbers: those were asked for here.
    let doubts = config.warnings().into_iter();
    let doubts = doubts.filter(|doubt| !doubt.starts_with("write_timeout_secs"));
    findings.extend(doubts.map(|doubt| Finding::warning("file", doubt, "mend the file")));
    findings
}
