//! Mistakes that end the build of a system or have no value at all, and their words. (What is wrong as a whole: tests/nix/module.)

use super::hosts::flake;

/// Values that an option cannot have, and what is said of them.
const UNTYPED: [(&str, &[&str]); 3] = [
    ("time", &["services.helios-proxy.checkInter", "5s"]),
    ("option", &["services.helios-proxy.nodez", "does not exist"]),
    ("port", &["services.helios-proxy.port", "65535"]),
];

#[test]
fn a_value_of_the_wrong_type_is_refused_with_its_option() {
    let Some(flake) = flake("types") else { return };
    for (name, words) in UNTYPED {
        let refused = flake
            .value_of("tests/nix/hosts.nix", &format!("untyped.{name}"))
            .unwrap_err()
            .to_string();
        for word in words {
            assert!(refused.contains(word), "{name}: {word}: {refused}");
        }
    }
}

#[test]
fn a_misspelt_key_fails_the_build_with_the_daemons_own_words() {
    let Some(flake) = flake("misspelt") else {
        return;
    };
    let refused = flake
        .build_of("tests/nix/hosts.nix", "misspelt.toplevel")
        .unwrap_err()
        .to_string();
    let words = "max_conections: unknown key; did you mean max_connections?";
    assert!(refused.contains(words), "{refused}");
}

#[test]
fn a_failed_assertion_fails_the_build_of_the_system() {
    let Some(flake) = flake("toplevel") else {
        return;
    };
    let refused = flake
        .build_of("tests/nix/hosts.nix", "broken.toplevel")
        .unwrap_err()
        .to_string();
    assert!(refused.contains("Failed assertions"), "{refused}");
    assert!(refused.contains("services.helios-proxy.nodes"), "{refused}");
}
