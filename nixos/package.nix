# The package.
{ lib, rustPlatform }:
let
  inherit (lib) fileset;
  inherit (lib.importTOML ../Cargo.toml) package;
in
rustPlatform.buildRustPackage {
  pname = package.name;
  inherit (package) version;

  # What cargo reads; the tests of the Nix side are left out, so that a change of theirs builds nothing anew.
  src = fileset.toSource {
    root = ../.;
    fileset =
      fileset.difference
        (fileset.unions [
          ../Cargo.lock
          ../Cargo.toml
          ../README.md
          ../benches
          ../clippy.toml
          ../examples
          ../share
          ../src
          ../tests
        ])
        (
          fileset.unions [
            (fileset.maybeMissing ../tests/nix)
            (fileset.maybeMissing ../tests/vm)
          ]
        );
  };
  cargoLock.lockFile = ../Cargo.lock;

  # What needs no network, no root and no PostgreSQL, and passes however busy the builder is. The rest is `cargo test` in the
  # development shell.
  cargoTestFlags = [
    "--lib"
    "--test=config_table"
    "--test=library"
    "--test=walls"
  ];
  # Without the optimisations that link for minutes.
  checkType = "debug";

  meta = {
    inherit (package) description;
    license = lib.licenses.asl20;
    mainProgram = package.name;
    platforms = lib.platforms.linux;
  };
}
