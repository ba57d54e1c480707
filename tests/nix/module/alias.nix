# The option path of patroni-leader-proxy: its options, and what becomes of them.
{
  lib,
  evaluate,
  packageOf,
  settingsOf,
  is,
  ...
}:
let
  alone =
    options: more:
    evaluate (
      [
        ../../../nixos/patroni-leader-proxy.nix
        {
          services.patroni-leader-proxy = options;
          services.helios-proxy.package = packageOf "1";
        }
      ]
      ++ more
    );
  # As in that module's own README.
  usual = {
    enable = true;
    nodes = {
      pg1 = "10.0.0.11";
      pg2 = "10.0.0.12";
      pg3 = "10.0.0.13";
    };
  };
  everything = usual // {
    pgPort = 15432;
    restApiPort = 18008;
    port = 25432;
    readPort = 25433;
    bindAddresses = [ "172.20.0.1" ];
    checkInter = "3s";
    checkTimeout = "4500";
    checkFall = 3;
    checkRise = 1;
    extraAfterUnits = [ "tailscaled.service" ];
  };
  defaults = {
    enable = false;
    nodes = { };
    pgPort = 5432;
    restApiPort = 8008;
    port = 5432;
    readPort = null;
    bindAddresses = [ "127.0.0.1" ];
    checkInter = "5s";
    checkTimeout = "8s";
    checkFall = 5;
    checkRise = 2;
    extraAfterUnits = [ ];
  };
  seen = config: {
    settings = settingsOf config;
    inherit (config.systemd.services.helios-proxy) after;
  };
in
{
  "it has the options of patroni-leader-proxy with their defaults, and no other" =
    is defaults
      (alone { } [ ]).config.services.patroni-leader-proxy;

  "imported alone it is the module, and beside it as well" = is true (
    let
      one = seen (alone usual [ ]).config;
      two = seen (alone usual [ ../../../nixos/module.nix ]).config;
    in
    one == two && lib.length one.settings.nodes == 3
  );

  "each option arrives" =
    let
      given = removeAttrs everything [ ];
    in
    is given (lib.getAttrs (lib.attrNames given) (alone everything [ ]).config.services.helios-proxy);

  "what it leaves open may be said in the new place" =
    is
      [
        60
        15432
      ]
      (
        let
          config =
            (alone usual [
              {
                services.helios-proxy = {
                  port = 15432;
                  settings.write_timeout_secs = 60;
                };
              }
            ]).config;
        in
        [
          (settingsOf config).write_timeout_secs
          config.services.helios-proxy.port
        ]
      );

  "while it is not enabled, nothing arrives" =
    is { }
      (alone (removeAttrs everything [ "enable" ]) [ ]).config.services.helios-proxy.nodes;
}
