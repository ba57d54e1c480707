# The mistakes that people make: each is refused in words that name the option.
{
  lib,
  pkgs,
  usual,
  host,
  hostWith,
  clusters,
  packageOf,
  complaints,
  is,
  holds,
  ...
}:
let
  # What is said of each of these clusters, without the path of its options.
  said =
    config: name:
    let
      path = "services.helios-proxy.clusters.${name}";
    in
    map (lib.replaceStrings [ path ] [ "…" ]) (lib.filter (lib.hasInfix path) (complaints config));
  host1 = clusters {
    a-no-nodes.nodes = { };
    b-no-address.bindAddresses = [ ];
    c-same-port = {
      port = 5432;
      readPort = 5432;
    };
    d-no-token.admin.address = "0.0.0.0:9090";
    e-token = {
      admin.address = "10.9.9.9:9092";
      credentials.admin-token = "/run/secrets/token";
      settings.admin_token_file = "\${CREDENTIALS_DIRECTORY}/admin-token";
    };
    f-insecure = {
      admin.address = "10.9.9.8:9093";
      settings.admin_allow_insecure = true;
    };
    g-covered.bindAddresses = [
      "10.7.0.1"
      "10.7.0.1"
    ];
    h-admin = {
      bindAddresses = [ "127.0.0.7" ];
      port = 9097;
      admin.address = "127.0.0.7:9097";
    };
    i-stored.credentials.token = "${builtins.storeDir}/secret";
    j-relative.credentials.token = "secret";
    k-named.credentials."a/b" = "/secret";
    l-fine = { };
    m-settings.settings = {
      backend.key_file = ./mistakes.nix;
      rest.password_file = "${builtins.storeDir}/password";
      listeners = [
        {
          address = "10.8.0.1:1";
          tls_key_file = "${builtins.storeDir}/key";
          tls_cert_file = "${builtins.storeDir}/public";
        }
      ];
    };
    n-environment.environmentFile = "${builtins.storeDir}/env";
  };
  only = prefix: found: lib.length found == 1 && lib.hasPrefix prefix (lib.head found);

  withPostgresql =
    settings: more:
    complaints (hostWith [
      {
        services.postgresql = {
          enable = true;
          settings = lib.mapAttrs (_: lib.mkForce) settings;
        };
        services.helios-proxy = lib.recursiveUpdate {
          enable = true;
          nodes.pg1 = "10.0.0.11";
        } more;
      }
    ]);
  taken = found: lib.filter (lib.hasInfix "services.postgresql") found != [ ];
in
{
  "a proxy without nodes is told how to name them" = is [
    "….nodes names nobody: name every Patroni member and its address, such as { pg1 = \"10.0.0.11\"; pg2 = \"10.0.0.12\"; }."
  ] (said host1 "a-no-nodes");

  "a proxy that listens nowhere is told so" = holds (
    only "….bindAddresses is empty" (said host1 "b-no-address")
  );

  "readPort is another port than port, and that is said once" = is [
    "….readPort and ….port are both 5432: readers need a port of their own, such as 5433."
  ] (said host1 "c-same-port");

  "an admin API off loopback needs a token, and the words say how to give it one" = is [
    "….admin.address 0.0.0.0:9090 is off loopback and there is no token: set ….credentials.admin-token to a file with one, and ….settings.admin_token_file = \"\\\${CREDENTIALS_DIRECTORY}/admin-token\"."
  ] (said host1 "d-no-token");

  "with a token, or with leave to go without, nothing is said" =
    is
      [
        [ ]
        [ ]
      ]
      [
        (lib.filter (lib.hasInfix "token") (said host1 "e-token"))
        (lib.filter (lib.hasInfix "token") (said host1 "f-insecure"))
      ];

  "one proxy's own addresses do not get in each other's way" = is [
    "….port: 10.7.0.1:5432 cannot be bound twice: choose another port or address."
    "….port and ….admin.address: 127.0.0.7:9097 cannot be bound twice: choose another port or address (admin.address = null: no admin API)."
  ] (said host1 "g-covered" ++ said host1 "h-admin");

  "a secret is an absolute path outside the store, under a name that can be a file's" = holds (
    only "….credentials.token = " (said host1 "i-stored")
    && only "….credentials.token = " (said host1 "j-relative")
    && only "….credentials.a/b: " (said host1 "k-named")
  );

  "a secret that the file or the environment would take from the store is refused" =
    is
      [
        "….settings.backend.key_file"
        "….settings.listeners[0].tls_key_file"
        "….settings.rest.password_file"
        "….environmentFile"
      ]
      (
        map (text: lib.head (lib.splitString " = " text)) (
          said host1 "m-settings" ++ said host1 "n-environment"
        )
      );

  "a sound proxy beside all of these is not complained of" = is [ ] (said host1 "l-fine");

  "clusters collide in ports and addresses, also where one address covers another" =
    is
      [
        "services.helios-proxy.clusters.a.port and services.helios-proxy.clusters.b.readPort: 10.0.0.1:5433 and 0.0.0.0:5433 cannot be bound at once: choose another port or address."
        "services.helios-proxy.clusters.a.admin.address and services.helios-proxy.clusters.b.admin.address: 127.0.0.1:9090 cannot be bound twice: choose another port or address (admin.address = null: no admin API)."
      ]
      (
        complaints (clusters {
          a = {
            bindAddresses = [ "10.0.0.1" ];
            port = 5433;
            admin.address = "127.0.0.1:9090";
          };
          b = {
            bindAddresses = [ "0.0.0.0" ];
            readPort = 5433;
            admin.address = "127.0.0.1:9090";
          };
          c.bindAddresses = [ "::" ];
        })
      );

  "the top level collides with its clusters as they do with each other" =
    let
      found = complaints (host {
        enable = true;
        nodes.pg1 = "10.0.0.11";
        clusters.orders = {
          package = packageOf "1";
          nodes.pg1 = "10.0.0.11";
          admin.address = null;
        };
      });
    in
    holds (only "services.helios-proxy.port and services.helios-proxy.clusters.orders.port: " found);

  "a cluster's name is part of a unit's and of a folder's" = is 2 (
    lib.length (
      complaints (clusters {
        helios-proxy = { };
        "a b" = { };
        Good_1-name = { };
      })
    )
  );

  "a port that services.postgresql has on the same address is refused in words" =
    is
      [
        "services.helios-proxy.port: 127.0.0.1:5432 is taken on this host by services.postgresql (listen_addresses = \"localhost\", port = 5432): choose another port, such as 15432."
      ]
      (
        withPostgresql {
          listen_addresses = "localhost";
          port = 5432;
        } { }
      );

  "whether services.postgresql is in the way depends on its addresses and its port" =
    is
      [
        true
        true
        true
        true
        false
        false
        false
        false
      ]
      (
        map taken [
          (withPostgresql { listen_addresses = "*"; } { bindAddresses = [ "172.20.0.1" ]; })
          (withPostgresql { listen_addresses = "10.0.0.1, 127.0.0.1"; } { })
          (withPostgresql { listen_addresses = "localhost"; } { bindAddresses = [ "0.0.0.0" ]; })
          (withPostgresql { listen_addresses = "localhost"; } {
            port = 15432;
            readPort = 5432;
          })
          (withPostgresql { listen_addresses = "localhost"; } { port = 15432; })
          (withPostgresql { listen_addresses = "localhost"; } { bindAddresses = [ "172.20.0.1" ]; })
          (withPostgresql { listen_addresses = ""; } { })
          (withPostgresql { port = 5433; } { })
        ]
      );

  "so is one that this host's own member of the cluster has, be it PostgreSQL's or Patroni's" =
    is
      [
        "services.helios-proxy.port: 0.0.0.0:5432 is taken on this host by services.patroni (nodeIp = \"10.0.0.11\", postgresqlPort = 5432, restApiPort = 8008): choose another port, such as 15432."
        "services.helios-proxy.admin.address: 10.0.0.11:8008 is taken on this host by services.patroni (nodeIp = \"10.0.0.11\", postgresqlPort = 5432, restApiPort = 8008): choose another port, such as 9091."
      ]
      (
        complaints (hostWith [
          {
            services.patroni = {
              enable = true;
              scope = "main";
              name = "pg1";
              nodeIp = "10.0.0.11";
              otherNodesIps = [ ];
              postgresqlPackage = pkgs.postgresql;
            };
            services.helios-proxy = {
              enable = true;
              nodes.pg1 = "10.0.0.11";
              bindAddresses = [ "0.0.0.0" ];
              admin.address = "10.0.0.11:8008";
              settings.admin_allow_insecure = true;
            };
          }
        ])
      );

  "so is the admin API's that this host's Prometheus has" =
    let
      beside =
        more:
        complaints (hostWith [
          {
            services.prometheus = {
              enable = true;
            }
            // more;
          }
          {
            services.helios-proxy = {
              enable = true;
              nodes.pg1 = "10.0.0.11";
            };
          }
        ]);
    in
    is
      [
        [
          "services.helios-proxy.admin.address: 127.0.0.1:9090 is taken on this host by services.prometheus (listenAddress = \"0.0.0.0\", port = 9090): choose another port, such as 9091."
        ]
        [ ]
      ]
      [
        (beside { })
        (beside { port = 9099; })
      ];

  "a credential that settings name and nobody hands over is warned of" = holds (
    lib.any (lib.hasInfix "names the credential admin-token")
      (usual {
        settings.admin_token_file = "\${CREDENTIALS_DIRECTORY}/admin-token";
      }).warnings
  );

  "a firewall that is opened for loopback alone is warned of" = holds (
    lib.any (lib.hasInfix "services.helios-proxy.openFirewall")
      (usual { openFirewall = true; }).warnings
  );
}
