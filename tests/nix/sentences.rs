//! The NixOS module, sentence by sentence (tests/nix/module).

use serde_json::json;

use super::hosts::flake;

#[test]
fn every_sentence_about_the_module_is_true() {
    let Some(flake) = flake("module") else { return };
    let wrong = flake.value_of("tests/nix/module", "wrong").unwrap();
    assert_eq!(wrong, json!({}), "{wrong:#}");
    let all = flake.value_of("tests/nix/module", "sentences").unwrap();
    assert!(all.as_object().unwrap().len() > 50);
}
