# The file: the defaults of patroni-leader-proxy, and that every key of it may be set.
{
  lib,
  host,
  usual,
  settingsOf,
  is,
  ...
}:
let
  plain = settingsOf (usual { });
in
{
  "the defaults are those of patroni-leader-proxy" = is {
    admin_address = "127.0.0.1:9090";
    health = {
      check_interval_ms = 5000;
      check_timeout_ms = 8000;
      failure_threshold = 5;
      success_threshold = 2;
    };
    listeners = [
      {
        address = "127.0.0.1:5432";
        route = "primary";
      }
    ];
    nodes = [
      {
        name = "pg1";
        host = "10.0.0.11";
        port = 5432;
      }
    ];
    rest.port = 8008;
    topology.provider = "check";
  } plain;

  "a read port is opened beside the other one at each address, in the way that the file writes it" =
    is
      [
        "primary 127.0.0.1:15432"
        "primary [fd00::1]:15432"
        "primary [::1]:15432"
        "primary 0.0.0.0:15432"
        "replica 127.0.0.1:15433"
        "replica [fd00::1]:15433"
        "replica [::1]:15433"
        "replica 0.0.0.0:15433"
      ]
      (
        map (listener: "${listener.route} ${listener.address}")
          (settingsOf (usual {
            port = 15432;
            readPort = 15433;
            bindAddresses = [
              "127.0.0.1"
              "fd00::1"
              "[::1]"
              "*"
            ];
          })).listeners
      );

  "a key that is set wins over its option and leaves its neighbours alone" =
    is
      (
        plain
        // {
          admin_address = "127.0.0.1:9999";
          write_timeout_secs = 60;
          health = plain.health // {
            failure_threshold = 9;
          };
        }
      )
      (
        settingsOf (usual {
          checkFall = 7;
          admin.address = "127.0.0.1:1";
          settings = {
            admin_address = "127.0.0.1:9999";
            write_timeout_secs = 60;
            health.failure_threshold = 9;
          };
        })
      );

  "a list that is set replaces what the options make, and one at their priority comes to it" =
    let
      socket = {
        address = "/run/helios-proxy/.s.PGSQL.5432";
      };
      listeners =
        priority:
        (settingsOf (usual {
          settings.listeners = priority [ socket ];
        })).listeners;
    in
    is
      [
        [ socket ]
        true
      ]
      [
        (listeners lib.id)
        (
          lib.length (listeners lib.mkDefault) == 2
          && lib.all (one: lib.elem one (listeners lib.mkDefault)) ([ socket ] ++ plain.listeners)
        )
      ];

  "no admin address is none" =
    is ""
      (settingsOf (usual {
        admin.address = null;
      })).admin_address;

  "the provider is the file's word" =
    is "patroni"
      (settingsOf (usual {
        provider = "patroni";
      })).topology.provider;

  "a module that is imported and not enabled adds nothing" =
    let
      idle = host { nodes.pg1 = "10.0.0.11"; };
      ours = lib.filter (lib.hasInfix "helios-proxy");
    in
    is [ ] (ours (lib.attrNames idle.systemd.services) ++ ours (lib.attrNames idle.environment.etc));
}
