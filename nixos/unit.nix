# The systemd unit. share/systemd/helios-proxy.service says the same to other distributions.
{ lib }:
# A place, as place.nix makes it.
{
  bound,
  cfg,
  file,
  folder,
  program,
  unit,
  ...
}:
let
  inherit (cfg) settings;
  listeners = settings.listeners or [ ];
  isPrivileged = at: at ? port && at.port != 0 && at.port < 1024;
  bindsLow = lib.any (claim: isPrivileged claim.at) bound;

  # A socket's file is given to its group: that is a change of ownership, and names a group of the host.
  socketGroups = lib.concatMap (l: lib.optional (l ? group) l.group) listeners;
  chowns = socketGroups != [ ];
  groups = lib.unique (cfg.supplementaryGroups ++ socketGroups);

  capabilities = lib.optionalString bindsLow "CAP_NET_BIND_SERVICE";

  # Null for a value that only the start knows (`${VAR}`).
  number =
    key: default:
    let
      value = settings.${key} or default;
    in
    if builtins.isString value then null else builtins.ceil value;
  drain =
    let
      delay = number "drain_delay_secs" 0;
      timeout = number "drain_timeout_secs" 60;
    in
    if delay == null || timeout == null then null else delay + timeout;
  sessions = number "max_connections" 10000;
  escape = lib.replaceStrings [ "%" ] [ "%%" ];
in
{
  description = "Local PostgreSQL endpoint that follows the Patroni leader";
  wantedBy = [ "multi-user.target" ];
  wants = [ "network-online.target" ];
  after = [
    "network-online.target"
    "nss-lookup.target"
  ]
  ++ cfg.extraAfterUnits;

  # A switch drops nobody. Both triggers stand behind links in /etc, so nothing else here changes with them, and the daemon
  # hands over to another package by itself. NixOS would stop the unit first, and with it the descriptors that systemd keeps.
  # (With reloadIfChanged both kinds of trigger reload, and NixOS warns of reloadTriggers beside it.)
  restartTriggers = [
    "${file}"
    program
  ];
  reloadIfChanged = true;
  stopIfChanged = false;

  # Restarted for ever: a host without its proxy has no database.
  startLimitIntervalSec = 0;

  serviceConfig = {
    Type = "notify-reload";
    # The one that serves; a hand-over names the next one (MAINPID).
    NotifyAccess = "main";
    ExecStart = "/etc/${folder}/helios-proxy run --config /etc/${folder}/config.toml";
    # Also after a wrong configuration: the build has checked the file, so what is missing (a certificate, a variable) may come.
    Restart = "always";
    RestartSec = "200ms";
    RestartSteps = 5;
    RestartMaxDelaySec = "3s";
    WatchdogSec = "15s";
    # Also the limit of a reload, and with it of a hand-over.
    TimeoutStartSec = "90s";
    # What is left of the sessions when it ends is cut.
    TimeoutStopSec = if drain == null then "infinity" else "${toString (drain + 30)}s";
    # Two descriptors a session, and some. Raised in one step, so that the unit seldom changes with the settings.
    LimitNOFILE = if sessions == null then 1048576 else lib.max 65536 (2 * sessions + 1000);

    # The listening sockets outlive a restart.
    FileDescriptorStoreMax = 512;
    FileDescriptorStorePreserve = "yes";

    # A user of its own, made at the start and gone with the end.
    DynamicUser = true;
    RuntimeDirectory = unit;
    RuntimeDirectoryMode = "0755";
    UMask = "0077";

    CapabilityBoundingSet = capabilities;
    AmbientCapabilities = capabilities;

    NoNewPrivileges = true;
    ProtectSystem = "strict";
    ProtectHome = true;
    PrivateTmp = true;
    PrivateDevices = true;
    # In a user namespace no low port can be had, and another group only where it has a number of its own (systemd 257).
    PrivateUsers =
      if bindsLow then
        false
      else if chowns then
        "identity"
      else
        true;
    PrivateIPC = true;
    PrivateMounts = true;
    ProtectProc = "invisible";
    ProcSubset = "pid";
    ProtectClock = true;
    ProtectHostname = true;
    ProtectKernelLogs = true;
    ProtectKernelModules = true;
    ProtectKernelTunables = true;
    ProtectControlGroups = true;
    # AF_UNIX: the notify socket, journald, name lookups through nscd or systemd-resolved, unix listeners.
    RestrictAddressFamilies = "AF_INET AF_INET6 AF_UNIX";
    RestrictNamespaces = true;
    RestrictRealtime = true;
    RestrictSUIDSGID = true;
    RemoveIPC = true;
    LockPersonality = true;
    MemoryDenyWriteExecute = true;
    SystemCallArchitectures = "native";
    SystemCallFilter = [
      "@system-service"
      "~@privileged @resources"
    ]
    ++ lib.optional chowns "@chown";
    SystemCallErrorNumber = "EPERM";
  }
  // lib.optionalAttrs (groups != [ ]) { SupplementaryGroups = lib.concatStringsSep " " groups; }
  // lib.optionalAttrs (cfg.environmentFile != null) { EnvironmentFile = escape cfg.environmentFile; }
  // lib.optionalAttrs (cfg.credentials != { }) {
    LoadCredential = lib.mapAttrsToList (name: path: "${name}:${escape path}") cfg.credentials;
  };
}
