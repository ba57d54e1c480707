# NixOS module: services.helios-proxy, a local PostgreSQL endpoint that always leads to the current Patroni leader.
{
  config,
  lib,
  options,
  pkgs,
  ...
}:
let
  inherit (lib) mkOption types;
  cfg = config.services.helios-proxy;

  instance = enabled: import ./instance.nix { inherit lib pkgs enabled; };
  place = import ./place.nix { inherit lib pkgs; };
  unit = import ./unit.nix { inherit lib; };

  # The top level is a proxy of its own, unless only its clusters say what to follow.
  isAlone = cfg.nodes != { } || cfg.settings.nodes != [ ] || cfg.clusters == { };
  places =
    lib.optional (cfg.enable && isAlone) (place null cfg)
    ++ lib.mapAttrsToList place (lib.filterAttrs (_: cluster: cluster.enable) cfg.clusters);

  ports =
    { bound, cfg, ... }:
    let
      isOpen = claim: if claim.isAdmin then cfg.admin.openFirewall else cfg.openFirewall;
    in
    map (claim: claim.at.port) (lib.filter (claim: claim.at ? port && isOpen claim) bound);
in
{
  options.services.helios-proxy = mkOption {
    default = { };
    description = ''
      A local PostgreSQL endpoint that always leads to the current Patroni leader. The options here are those of a single
      proxy; `clusters` has the same ones for several.
    '';
    type = types.submodule [
      (instance false)
      {
        options.clusters = mkOption {
          type = types.attrsOf (types.submodule (instance true));
          default = { };
          example = {
            orders = {
              nodes.pg1 = "10.0.0.11";
              port = 5432;
            };
            billing = {
              nodes.pg1 = "10.0.1.11";
              port = 5433;
              admin.address = "127.0.0.1:9091";
            };
          };
          description = ''
            Several clusters on one host: a proxy each, `helios-proxy-<name>.service`, with all the options of the top level.
            They run unless `enable = false`. Ports and addresses that collide, those of the admin APIs included, fail the build.
          '';
        };
      }
    ];
  };

  config = {
    assertions =
      lib.concatMap (import ./assertions.nix { inherit lib; }) places
      ++ lib.concatMap (import ./secrets.nix { inherit lib; }) places
      ++ import ./collisions.nix { inherit lib config options; } places;
    warnings = lib.concatMap (import ./warnings.nix { inherit lib; }) places;

    # Stable paths: a switch moves these links and reloads, and the unit stays as it is.
    environment.etc = lib.listToAttrs (
      lib.concatMap (at: [
        (lib.nameValuePair "${at.folder}/config.toml" { source = at.file; })
        (lib.nameValuePair "${at.folder}/helios-proxy" { source = at.program; })
      ]) places
    );
    environment.systemPackages = lib.unique (map (at: at.cfg.package) places);

    systemd.services = lib.listToAttrs (map (at: lib.nameValuePair at.unit (unit at)) places);

    networking.firewall.allowedTCPPorts = lib.unique (lib.concatMap ports places);
  };
}
