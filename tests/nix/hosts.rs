//! Hosts with the module: the units and files they get, for what these mean.

use std::{collections::BTreeSet, fs};

use serde_json::Value;

use super::meaning::{self, golden, toml, unit, without_triggers};
use crate::{
    lab,
    machine::{Flake, Nix},
};

/// This repository as a flake, or `None` where no Nix can be had.
pub fn flake(test: &str) -> Option<Flake> {
    let nix = lab::found(test, Nix::ensure())?;
    Some(Flake::of_this_repository(nix).unwrap())
}

/// A host of tests/nix/hosts.nix, as its manifest describes it.
pub struct Host(Value);

impl Host {
    pub fn build(flake: &Flake, name: &str) -> Self {
        let built = flake
            .build_of("tests/nix/hosts.nix", &format!("{name}.manifest"))
            .unwrap();
        Self(serde_json::from_str(&fs::read_to_string(built).unwrap()).unwrap())
    }

    pub fn unit(&self, name: &str) -> meaning::Unit {
        unit(self.0["base"]["units"][name]["text"].as_str().unwrap())
    }

    pub fn units(&self) -> BTreeSet<&str> {
        let units = self.0["base"]["units"].as_object().unwrap();
        units.keys().map(String::as_str).collect()
    }

    /// Where a file below /etc leads to.
    pub fn etc(&self, path: &str) -> &str {
        self.0["base"]["etc"][path]["source"].as_str().unwrap()
    }

    pub fn toml(&self, path: &str) -> toml::Table {
        toml(&fs::read_to_string(self.etc(path)).unwrap())
    }

    pub fn open_ports(&self) -> Vec<u64> {
        let ports = self.0["base"]["firewall"]["tcp"].as_array().unwrap();
        ports.iter().map(|port| port.as_u64().unwrap()).collect()
    }
}

#[test]
fn with_its_defaults_the_unit_and_the_file_mean_what_they_should() {
    let Some(flake) = flake("plain") else { return };
    let host = Host::build(&flake, "plain");

    assert_eq!(host.units(), BTreeSet::from(["helios-proxy.service"]));
    assert_eq!(
        without_triggers(host.unit("helios-proxy.service")),
        unit(&golden("plain.service"))
    );
    assert_eq!(
        host.toml("helios-proxy/config.toml"),
        toml(&golden("plain.toml"))
    );
    assert!(
        host.etc("helios-proxy/helios-proxy")
            .ends_with("/bin/helios-proxy")
    );
    assert!(host.open_ports().is_empty());
}

#[test]
fn every_option_arrives_in_the_unit_or_in_the_file() {
    let Some(flake) = flake("full") else { return };
    let host = Host::build(&flake, "full");

    let mut expected = unit(&golden("plain.service"));
    for (section, directives) in unit(&golden("full.service")) {
        expected.get_mut(&section).unwrap().extend(directives);
    }
    assert_eq!(
        without_triggers(host.unit("helios-proxy.service")),
        expected
    );
    assert_eq!(
        host.toml("helios-proxy/config.toml"),
        toml(&golden("full.toml"))
    );
    assert_eq!(host.open_ports(), [543, 544, 9090]);
}

#[test]
fn each_cluster_has_a_unit_and_a_file_of_its_own_and_the_top_level_none() {
    let Some(flake) = flake("clusters") else {
        return;
    };
    let host = Host::build(&flake, "clusters");

    let names = [
        "helios-proxy-billing.service",
        "helios-proxy-orders.service",
    ];
    assert_eq!(host.units(), names.into());
    let billing = &host.unit(names[0])["Service"];
    assert_eq!(
        billing["ExecStart"],
        ["/etc/helios-proxy/billing/helios-proxy run --config /etc/helios-proxy/billing/config.toml".to_owned()].into()
    );
    assert_eq!(
        billing["RuntimeDirectory"],
        ["helios-proxy-billing".to_owned()].into()
    );
    let listens = |cluster: &str| {
        let file = host.toml(&format!("helios-proxy/{cluster}/config.toml"));
        file["listeners"][0]["address"].as_str().unwrap().to_owned()
    };
    assert_eq!(listens("billing"), "127.0.0.1:5434");
    assert_eq!(listens("orders"), "127.0.0.1:5432");
}

#[test]
fn the_option_path_of_patroni_leader_proxy_gives_the_very_same_host() {
    let Some(flake) = flake("alias") else { return };
    let (before, after) = (Host::build(&flake, "before"), Host::build(&flake, "after"));
    assert_eq!(before.0, after.0);
    let health = &before.toml("helios-proxy/config.toml")["health"];
    assert_eq!(health["check_interval_ms"].as_integer(), Some(500));
    assert_eq!(health["check_timeout_ms"].as_integer(), Some(1500));
}

#[test]
fn the_links_lead_to_what_is_new_and_only_to_that() {
    let Some(flake) = flake("links") else { return };
    let plain = Host::build(&flake, "plain");
    let (file, program) = ("helios-proxy/config.toml", "helios-proxy/helios-proxy");

    let resettled = Host::build(&flake, "resettled");
    assert_ne!(plain.etc(file), resettled.etc(file));
    assert_eq!(plain.etc(program), resettled.etc(program));
    assert_eq!(
        resettled.toml(file)["write_timeout_secs"].as_integer(),
        Some(60)
    );

    let repackaged = Host::build(&flake, "repackaged");
    assert_ne!(plain.etc(program), repackaged.etc(program));
    assert_eq!(plain.toml(file), repackaged.toml(file));
}
