# From the options to the keys of the configuration file. All of them are defaults: `settings` may override any.
{ lib }:
cfg:
let
  inherit (lib) mapAttrs mapAttrsToList mkDefault;
  addresses = import ./addresses.nix { inherit lib; };
  time = import ./time.nix { inherit lib; };

  listenersAt =
    port: route:
    map (host: {
      address = addresses.join host port;
      inherit route;
    }) cfg.bindAddresses;

  spelled = {
    restHost = "rest_host";
    restPort = "rest_port";
  };
  given = lib.filterAttrs (_: value: value != null);
  node =
    name: written:
    {
      inherit name;
      port = cfg.pgPort;
    }
    // (
      if builtins.isString written then
        { host = written; }
      else
        lib.mapAttrs' (key: lib.nameValuePair (spelled.${key} or key)) (given written)
    );
in
{
  admin_address = mkDefault (if cfg.admin.address == null then "" else cfg.admin.address);
  listeners = mkDefault (
    listenersAt cfg.port "primary"
    ++ lib.optionals (cfg.readPort != null) (listenersAt cfg.readPort "replica")
  );
  nodes = mkDefault (mapAttrsToList node cfg.nodes);
  health = mapAttrs (_: mkDefault) {
    check_interval_ms = time.toMilliseconds cfg.checkInter;
    check_timeout_ms = time.toMilliseconds cfg.checkTimeout;
    failure_threshold = cfg.checkFall;
    success_threshold = cfg.checkRise;
  };
  rest.port = mkDefault cfg.restApiPort;
  topology.provider = mkDefault cfg.provider;
}
