# services.patroni as nixpkgs declares it, as far as the scenarios use it; run as Debian's user.
{
  config,
  lib,
  pkgs,
  ...
}:
let
  cfg = config.services.patroni;
  format = pkgs.formats.yaml { };
  file = "patroni-${cfg.scope}-${cfg.name}.yaml";
  written = format.generate file cfg.settings;
  # In nixpkgs it is /var/lib/postgresql/17, where Debian's package has made a cluster already.
  data = "patroni/${cfg.postgresqlPackage.psqlSchema}";
  needed = type: lib.mkOption { inherit type; };
  preset = type: default: lib.mkOption { inherit type default; };
in
{
  options.services.patroni = {
    enable = lib.mkEnableOption "Patroni";
    scope = needed lib.types.str;
    name = needed lib.types.str;
    namespace = preset lib.types.str "/service";
    nodeIp = needed lib.types.str;
    otherNodesIps = needed (lib.types.listOf lib.types.str);
    postgresqlPackage = needed lib.types.package;
    postgresqlDataDir = preset lib.types.path "/var/lib/${data}";
    postgresqlPort = preset lib.types.port 5432;
    restApiPort = preset lib.types.port 8008;
    dataDir = preset lib.types.path "/var/lib/patroni";
    user = preset lib.types.str "postgres";
    group = preset lib.types.str "postgres";
    settings = preset format.type { };
  };

  config = lib.mkIf cfg.enable {
    environment.etc.${file}.source = written;
    services.patroni.settings = {
      inherit (cfg) scope name namespace;
      restapi = {
        listen = "${cfg.nodeIp}:${toString cfg.restApiPort}";
        connect_address = "${cfg.nodeIp}:${toString cfg.restApiPort}";
      };
      postgresql = {
        bin_dir = "${cfg.postgresqlPackage}/bin";
        data_dir = cfg.postgresqlDataDir;
        listen = "${cfg.nodeIp}:${toString cfg.postgresqlPort}";
        connect_address = "${cfg.nodeIp}:${toString cfg.postgresqlPort}";
        pgpass = "${cfg.dataDir}/pgpass";
      };
    };
    systemd.services.patroni = {
      description = "Runners to orchestrate a high-availability PostgreSQL";
      wantedBy = [ "multi-user.target" ];
      after = [ "network.target" ];
      serviceConfig = {
        Type = "simple";
        User = cfg.user;
        Group = cfg.group;
        ExecStart = "${lib.getExe pkgs.patroni} ${written}";
        ExecReload = "${pkgs.coreutils}/bin/kill -s HUP $MAINPID";
        KillMode = "process";
        Restart = "on-failure";
        TimeoutSec = 30;
        StateDirectory = "patroni ${data}";
        StateDirectoryMode = "0750";
      };
    };
  };
}
