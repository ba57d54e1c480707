# `buildRustPackage` without a build: the program that cargo has built already, named by HELIOS_BINARY, goes into the
# store. Evaluating needs none, nor `--impure`.
{ lib, pkgs }:
attributes:
let
  binary = builtins.getEnv "HELIOS_BINARY";
  program = attributes.meta.mainProgram or attributes.pname;
  passedOn = lib.filterAttrs (_: x: lib.isString x || lib.isDerivation x) (
    removeAttrs attributes [
      "src"
      "buildPhase"
      "checkPhase"
      "installPhase"
      "postInstall"
      "postFixup"
    ]
  );
in
pkgs.runCommand "${attributes.pname}-${attributes.version}"
  (
    passedOn
    // {
      meta = attributes.meta or { };
      passthru = (attributes.passthru or { }) // {
        inherit (attributes) pname version src;
      };
      binary =
        if binary == "" then
          ""
        else
          builtins.path {
            path = binary;
            name = "binary";
          };
    }
  )
  ''
    if [ -z "$binary" ]; then
      echo "HELIOS_BINARY (with --impure) names the program that cargo has built" >&2
      exit 1
    fi
    install -Dm755 "$binary" "$out/bin/${program}"
  ''
