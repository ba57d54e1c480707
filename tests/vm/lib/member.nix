# A member of the Patroni cluster, with the fastest clockwork that Patroni accepts.
{ lib, members }:
{
  config,
  nodes,
  pkgs,
  ...
}:
let
  name = config.networking.hostName;
  addressOf = member: nodes.${member}.networking.primaryIPAddress;
in
{
  networking.firewall.allowedTCPPorts = [
    5432
    8008
  ];

  services.patroni = {
    enable = true;
    inherit name;
    scope = "demo";
    nodeIp = addressOf name;
    otherNodesIps = map addressOf (lib.remove name members);
    postgresqlPackage = pkgs.postgresql;
    settings = {
      etcd3.hosts = [ "${addressOf "etcd"}:2379" ];
      bootstrap = {
        dcs = {
          ttl = 20;
          loop_wait = 1;
          retry_timeout = 3;
          # What was acknowledged is on two members.
          synchronous_mode = lib.length members > 1;
          postgresql = {
            use_pg_rewind = true;
            parameters = {
              max_connections = 500;
              shared_buffers = "32MB";
              min_wal_size = "32MB";
              max_wal_size = "256MB";
              wal_keep_size = "64MB";
              wal_retrieve_retry_interval = "500ms";
              # A primary that stops waits this long for replicas it cannot reach.
              wal_sender_timeout = "5s";
            };
          };
        };
        initdb = [
          "data-checksums"
          "no-sync"
          { encoding = "UTF8"; }
          { locale = "C"; }
        ];
      };
      postgresql = {
        # Nobody here has a password, so none gets into the store.
        authentication = {
          superuser.username = "postgres";
          replication.username = "replicator";
        };
        pg_hba = [
          "local all all trust"
          "host all,replication all all trust"
        ];
        basebackup = [
          { checkpoint = "fast"; }
          "no-sync"
        ];
        parameters.unix_socket_directories = config.services.patroni.dataDir;
      };
    };
  };
}
