# The unit: how it is restarted, what it is given and what it is kept from.
{
  lib,
  usual,
  clusters,
  serviceOf,
  is,
  holds,
  ...
}:
let
  plain = serviceOf (usual { });
  of = more: (serviceOf (usual more)).serviceConfig;
  subset = names: lib.filterAttrs (name: _: lib.elem name names);
  privileges = subset [
    "AmbientCapabilities"
    "CapabilityBoundingSet"
    "PrivateUsers"
    "SupplementaryGroups"
  ];
  socket = {
    address = "/run/helios-proxy/.s.PGSQL.5432";
    group = "app";
  };
  none = {
    AmbientCapabilities = "";
    CapabilityBoundingSet = "";
    PrivateUsers = true;
  };
  low = {
    AmbientCapabilities = "CAP_NET_BIND_SERVICE";
    CapabilityBoundingSet = "CAP_NET_BIND_SERVICE";
    PrivateUsers = false;
  };
in
{
  "it is restarted for ever, at first at once and then in steps" =
    is
      {
        Restart = "always";
        RestartSec = "200ms";
        RestartSteps = 5;
        RestartMaxDelaySec = "3s";
        startLimitIntervalSec = 0;
      }
      (
        subset [
          "Restart"
          "RestartSec"
          "RestartSteps"
          "RestartMaxDelaySec"
        ] plain.serviceConfig
        // {
          inherit (plain) startLimitIntervalSec;
        }
      );

  "it says when it is ready, reloaded and alive" =
    is
      {
        Type = "notify-reload";
        NotifyAccess = "main";
        WatchdogSec = "15s";
      }
      (
        subset [
          "Type"
          "NotifyAccess"
          "WatchdogSec"
        ] plain.serviceConfig
      );

  "it starts after the network, the name lookups and whatever else is named" =
    is
      {
        after = [
          "network-online.target"
          "nss-lookup.target"
          "tailscaled.service"
        ];
        wants = [ "network-online.target" ];
        wantedBy = [ "multi-user.target" ];
      }
      {
        inherit
          (serviceOf (usual {
            extraAfterUnits = [ "tailscaled.service" ];
          }))
          after
          wants
          wantedBy
          ;
      };

  "a stop has more time than the drain of the file has" =
    is
      [
        "90s"
        "136s"
        "infinity"
      ]
      (
        map (settings: (of { inherit settings; }).TimeoutStopSec) [
          { }
          {
            drain_delay_secs = 5;
            drain_timeout_secs = 100.5;
          }
          { drain_timeout_secs = "\${DRAIN:-60}"; }
        ]
      );

  "there is room for two descriptors a session" =
    is
      [
        65536
        201000
        1048576
      ]
      (
        map (settings: (of { inherit settings; }).LimitNOFILE) [
          { max_connections = 100; }
          { max_connections = 100000; }
          { max_connections = "\${MOST}"; }
        ]
      );

  "it has a privilege where a port is below 1024, and only there" =
    is
      [
        none
        low
        low
        low
        none
      ]
      (
        map (more: privileges (of more)) [
          { port = 1024; }
          { port = 1023; }
          { readPort = 432; }
          { admin.address = "127.0.0.1:80"; }
          { settings.listeners = [ { address = "127.0.0.1:0"; } ]; }
        ]
      );

  "a socket's group is joined and may be given the socket" =
    let
      config = of {
        supplementaryGroups = [ "acme" ];
        settings.listeners = [ socket ];
      };
    in
    is
      [
        (
          none
          // {
            PrivateUsers = "identity";
            SupplementaryGroups = "acme app";
          }
        )
        "@chown"
      ]
      [ (privileges config) (lib.last config.SystemCallFilter) ];

  "secrets are handed over by name, and the file holds names" =
    let
      host = usual {
        credentials.admin-token = "/run/secrets/100%";
        environmentFile = "/run/secrets/env";
        settings.admin_token_file = "\${CREDENTIALS_DIRECTORY}/admin-token";
      };
    in
    is
      {
        LoadCredential = [ "admin-token:/run/secrets/100%%" ];
        EnvironmentFile = "/run/secrets/env";
        warnings = [ ];
      }
      (
        subset [
          "LoadCredential"
          "EnvironmentFile"
        ] (serviceOf host).serviceConfig
        // {
          warnings = lib.filter (lib.hasInfix "helios-proxy") host.warnings;
        }
      );

  "nobody is handed a secret unless one is named" = holds (
    !(plain.serviceConfig ? LoadCredential) && !(plain.serviceConfig ? EnvironmentFile)
  );

  "the firewall is opened for what is asked for" =
    let
      open = more: (usual ({ readPort = 5433; } // more)).networking.firewall.allowedTCPPorts;
    in
    is
      [
        [ ]
        [
          5432
          5433
        ]
        [ 9090 ]
      ]
      (
        map open [
          { }
          {
            openFirewall = true;
            bindAddresses = [ "10.0.0.1" ];
          }
          { admin.openFirewall = true; }
        ]
      );

  "each cluster has a unit, a folder and a runtime folder of its own" =
    let
      host = clusters {
        orders = { };
        billing.enable = false;
        stock = { };
      };
      ours = lib.filterAttrs (name: _: lib.hasPrefix "helios-proxy" name);
    in
    is
      {
        helios-proxy-orders = [
          "/etc/helios-proxy/orders/helios-proxy run --config /etc/helios-proxy/orders/config.toml"
          "helios-proxy-orders"
        ];
        helios-proxy-stock = [
          "/etc/helios-proxy/stock/helios-proxy run --config /etc/helios-proxy/stock/config.toml"
          "helios-proxy-stock"
        ];
      }
      (
        lib.mapAttrs (_: service: [
          service.serviceConfig.ExecStart
          service.serviceConfig.RuntimeDirectory
        ]) (ours host.systemd.services)
      );
}
