# A host's files, users, network and kernel settings.
{
  lib,
  pkgs,
  ...
}:
let
  inherit (lib) types;
  option = type: default: lib.mkOption { inherit type default; };
  set = option (types.attrsOf types.anything) { };
  ports = option (types.listOf types.port) [ ];
  openings = {
    allowedTCPPorts = ports;
    allowedUDPPorts = ports;
  };
  file =
    { name, config, ... }:
    {
      options = {
        enable = option types.bool true;
        target = option types.str name;
        text = option (types.nullOr types.lines) null;
        source = lib.mkOption { type = types.path; };
        mode = option types.str "symlink";
        user = option types.str "+0";
        group = option types.str "+0";
      };
      config.source = lib.mkIf (config.text != null) (
        lib.mkDefault (pkgs.writeText ("etc-" + baseNameOf name) config.text)
      );
    };
in
{
  options = {
    assertions = option (types.listOf types.unspecified) [ ];
    warnings = option (types.listOf types.str) [ ];
    system.stateVersion = option types.str "26.05";
    nixpkgs = {
      hostPlatform = lib.mkOption { type = types.str; };
      overlays = option (types.listOf types.raw) [ ];
    };
    environment = {
      etc = option (types.attrsOf (types.submodule file)) { };
      systemPackages = option (types.listOf types.package) [ ];
      sessionVariables = set;
    };
    networking = {
      hostName = option types.str "nixos";
      hosts = option (types.attrsOf (types.listOf types.str)) { };
      firewall = openings // {
        enable = option types.bool true;
        trustedInterfaces = option (types.listOf types.str) [ ];
      };
      primaryIPAddress = option types.str "";
    };
    users = {
      users = option (types.attrsOf (types.attrsOf types.anything)) { };
      groups = option (types.attrsOf (types.attrsOf types.anything)) { };
    };
    boot = {
      kernel.sysctl = set;
    };
    # Accepted, and without a meaning here.
    virtualisation = set;
  };
}
