//! What a switch to another configuration sees: a reload, whatever has changed.

use super::{
    hosts::{Host, flake},
    meaning::without_triggers,
};

const UNIT: &str = "helios-proxy.service";

#[test]
fn other_settings_and_another_package_change_nothing_of_the_unit_but_its_reload_triggers() {
    let Some(flake) = flake("switch") else { return };
    let plain = Host::build(&flake, "plain");
    for name in ["resettled", "repackaged"] {
        let other = Host::build(&flake, name);
        let (old, new) = (plain.unit(UNIT), other.unit(UNIT));
        assert_ne!(
            old["Unit"]["X-Reload-Triggers"], new["Unit"]["X-Reload-Triggers"],
            "{name}"
        );
        assert_eq!(without_triggers(old), without_triggers(new), "{name}");
    }
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
