# Making things for the store with the machine's own shell: no sandbox, no compiler.
{ lib, system }:
let
  notForTheBuilder = [
    "meta"
    "passthru"
    "name"
  ];

  # A derivation from a script; like nixpkgs' ones it can be changed by `overrideAttrs`.
  fromScript =
    attributes: script:
    let
      inherit (attributes) name;
      drv = derivation (
        {
          inherit system;
          name = lib.sanitizeDerivationName name;
          builder = "/bin/bash";
          PATH = "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin";
          # The last line keeps the shell alive behind the last program: it reports the script's end.
          args = [
            "-euo"
            "pipefail"
            "-c"
            "${script}\n:"
          ];
        }
        // removeAttrs attributes notForTheBuilder
      );
    in
    drv
    // (attributes.passthru or { })
    // {
      inherit name;
      meta = attributes.meta or { };
      overrideAttrs =
        change:
        fromScript (attributes // lib.toFunction (lib.toFunction change attributes) attributes) script;
    };
in
rec {
  runCommand = name: attributes: fromScript (attributes // { inherit name; });

  writeText =
    name: text:
    runCommand name {
      inherit text;
      passAsFile = [ "text" ];
    } ''cp "$textPath" "$out"'';
  writeShellScript =
    name: text:
    runCommand name {
      text = "#!/bin/bash\n${text}\n";
      passAsFile = [ "text" ];
    } ''install -m755 "$textPath" "$out"'';
  writeShellScriptBin =
    name: text:
    runCommand name {
      text = "#!/bin/bash\n${text}\n";
      passAsFile = [ "text" ];
      meta.mainProgram = name;
    } ''install -Dm755 "$textPath" "$out/bin/${name}"'';
  mkShell =
    attributes:
    runCommand "shell" {
      inputs = attributes.packages;
    } ''echo "$inputs" > "$out"'';
}
