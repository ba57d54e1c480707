# Hosts that use the module, to be built in the stand-in for NixOS: one for each thing that tests/nix/hosts.rs and
# mistakes.rs look at.
let
  lib = import ./stub/lib;
  pkgs = import ./stub/pkgs {
    inherit lib;
    system = builtins.currentSystem;
  };
  nixos = import ./stub/nixos {
    inherit lib;
    pkgsFor = _: pkgs;
  };

  host =
    module: settings:
    let
      inherit
        (nixos {
          modules = [
            module
            settings
          ];
        })
        config
        ;
    in
    {
      inherit config;
      inherit (config.system.build) toplevel;
      inherit (config.system.build.toplevel) manifest;
    };
  proxy = settings: host ../../nixos/module.nix { services.helios-proxy = settings; };
  alias =
    settings: host ../../nixos/patroni-leader-proxy.nix { services.patroni-leader-proxy = settings; };

  nodes = {
    pg1 = "10.0.0.11";
    pg2 = "10.0.0.12";
    pg3 = "10.0.0.13";
  };
  plain' = {
    enable = true;
    inherit nodes;
  };
  everything = plain' // {
    readPort = 5433;
    bindAddresses = [
      "127.0.0.1"
      "172.20.0.1"
    ];
    checkInter = "500ms";
    checkTimeout = 1500;
    extraAfterUnits = [ "wireguard-wg0.service" ];
  };
  withPlain = more: proxy (lib.recursiveUpdate plain' more);
in
{
  # As few options as work.
  plain = proxy plain';

  # The same with other settings, and with another package: what a switch may see of it.
  resettled = withPlain {
    readPort = 5433;
    settings.write_timeout_secs = 60;
  };
  repackaged = withPlain {
    package = (pkgs.callPackage ../../nixos/package.nix { }).overrideAttrs (_: {
      GENERATION = "2";
    });
  };

  # As many options as there are.
  full = proxy {
    enable = true;
    nodes = nodes // {
      pg3 = {
        host = "10.0.0.13";
        port = 5433;
        restHost = "mgmt3";
        restPort = 8009;
        weight = 50;
      };
    };
    pgPort = 6432;
    restApiPort = 8018;
    port = 543;
    readPort = 544;
    bindAddresses = [
      "127.0.0.1"
      "172.20.0.1"
      "fd00::1"
    ];
    checkInter = "1500ms";
    checkTimeout = "2s";
    checkFall = 3;
    checkRise = 1;
    extraAfterUnits = [ "tailscaled.service" ];
    provider = "patroni";
    admin.address = "10.0.0.5:9090";
    admin.openFirewall = true;
    openFirewall = true;
    credentials.admin-token = "/run/secrets/admin-token";
    environmentFile = "/run/secrets/helios.env";
    supplementaryGroups = [ "acme" ];
    settings = {
      admin_token_file = "\${CREDENTIALS_DIRECTORY}/admin-token";
      drain_timeout_secs = 120;
      max_connections = 50000;
      topology.scope = "\${SCOPE}";
    };
  };

  # A proxy for each of two clusters, one of them switched off.
  clusters = proxy {
    clusters = {
      orders.nodes = nodes;
      billing = {
        nodes.pg1 = "10.0.1.11";
        port = 5434;
        admin.address = null;
      };
      retired = {
        enable = false;
        nodes.pg1 = "10.0.2.11";
      };
    };
  };

  # The option path of the module that came before, and the same said in the new one.
  before = alias everything;
  after = proxy everything;

  # An assertion fails; the daemon refuses the file.
  broken = proxy { enable = true; };
  misspelt = withPlain { settings.max_conections = 5; };

  # Mistakes that have no value at all.
  untyped = {
    time = (withPlain { checkInter = "5 seconds"; }).config.services.helios-proxy.checkInter;
    option = (withPlain { nodez.pg1 = "10.0.0.11"; }).config.services.helios-proxy.port;
    port = (withPlain { port = 70000; }).config.services.helios-proxy.port;
  };
}
