# The stand-in's `lib`: one flat set, put together from files that each hold one idea.
let
  part = file: import file lib;
  lib =
    part ./values.nix
    // part ./strings.nix
    // part ./properties.nix
    // part ./options.nix
    // part ./modules.nix
    // {
      inherit lib;
      types = part ./types;
      inherit (lib.types) mkOptionType mergeEqualOption;
      fileset = part ./fileset.nix;
      strings = part ./strings.nix;
      inherit (part ./fileset.nix) cleanSource;
    };
in
lib
