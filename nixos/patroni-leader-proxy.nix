# NixOS module: the option path of the module patroni-leader-proxy, answered by helios-proxy. Imported alone, it is enough.
{
  config,
  lib,
  options,
  pkgs,
  ...
}:
let
  cfg = config.services.patroni-leader-proxy;
  common = import ./common-options.nix { inherit lib pkgs; };
  declared = options.services.patroni-leader-proxy;

  # What the user set, with the priority that it was set with; what is a default is one there as well.
  passed = lib.mapAttrs (
    name: value:
    lib.mkIf (declared.${name}.highestPrio < (lib.mkOptionDefault null).priority) (
      lib.mkOverride declared.${name}.highestPrio value
    )
  );
in
{
  imports = [ ./module.nix ];

  options.services.patroni-leader-proxy = common // {
    enable = lib.mkEnableOption "the local endpoint that leads PostgreSQL clients to the current Patroni leader (helios-proxy; its other options are those of `services.helios-proxy`)";
  };

  config.services.helios-proxy = lib.mkIf cfg.enable (passed cfg);
}
