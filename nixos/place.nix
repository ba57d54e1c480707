# Where one proxy lives on the host: names and paths that stay the same whatever its settings and package are.
{ lib, pkgs }:
# `name` is null for the top level, else the name of the cluster.
name: cfg:
let
  toml = pkgs.formats.toml { };
  suffix = lib.optionalString (name != null) "-${name}";
  written = toml.generate "helios-proxy${suffix}.toml" cfg.settings;

  # The daemon's own verdict, in its own words.
  checked = pkgs.runCommand "helios-proxy${suffix}-checked.toml" { preferLocalBuild = true; } ''
    if ! ${program} check --config ${written}; then
      echo "helios-proxy refuses the file that ${option} describes: see the line above" >&2
      exit 1
    fi
    cp ${written} $out
  '';

  program = lib.getExe' cfg.package "helios-proxy";
  option = "services.helios-proxy" + lib.optionalString (name != null) ".clusters.${name}";
  bound = import ./bound.nix { inherit lib; } { inherit cfg option; };
in
{
  inherit
    bound
    cfg
    name
    option
    program
    ;
  unit = "helios-proxy${suffix}";
  # Below /etc: the links that a switch moves.
  folder = "helios-proxy" + lib.optionalString (name != null) "/${name}";
  file = if cfg.checkConfig then checked else written;
}
