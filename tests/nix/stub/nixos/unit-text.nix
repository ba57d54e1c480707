# A unit's options as the text that systemd reads, with NixOS's own X- lines for the switch to another configuration.
{ lib, pkgs }:
kind: name: unit:
let
  word =
    x:
    if x == true then
      "true"
    else if x == false then
      "false"
    else
      toString x;
  lines =
    set:
    lib.concatStrings (
      lib.concatLists (
        lib.mapAttrsToList (n: x: map (y: "${n}=${word y}\n") (lib.toList x)) (
          lib.filterAttrs (_: x: x != null) set
        )
      )
    );
  unlessEmpty = lib.filterAttrs (_: x: x != "" && x != null);

  triggers =
    key: list:
    lib.optionalString (list != [ ]) "${pkgs.writeText "${key}-${name}" (toString (lib.flatten list))}";

  unitSection =
    unlessEmpty (
      {
        Description = unit.description;
        X-Restart-Triggers = triggers "X-Restart-Triggers" unit.restartTriggers;
        X-Reload-Triggers = triggers "X-Reload-Triggers" unit.reloadTriggers;
        StartLimitBurst = unit.startLimitBurst;
        StartLimitIntervalSec = unit.startLimitIntervalSec;
      }
      // lib.mapAttrs (_: toString) {
        Documentation = unit.documentation;
        Requires = unit.requires;
        Wants = unit.wants;
        Upholds = unit.upholds;
        After = unit.after;
        Before = unit.before;
        BindsTo = unit.bindsTo;
        PartOf = unit.partOf;
        Conflicts = unit.conflicts;
        Requisite = unit.requisite;
        OnFailure = unit.onFailure;
        OnSuccess = unit.onSuccess;
      }
    )
    // unit.unitConfig;

  # What NixOS says to its own program that switches configurations.
  switching =
    if unit.reloadIfChanged then
      { X-ReloadIfChanged = true; }
    else
      lib.optionalAttrs (!unit.restartIfChanged) { X-RestartIfChanged = false; };

  job =
    phase: text:
    lib.optionalAttrs (text != "") {
      ${phase} = pkgs.writeShellScript "${name}-${phase}" "set -e\n${text}";
    };
  jobs =
    job "ExecStartPre" unit.preStart
    // job "ExecStart" unit.script
    // job "ExecStartPost" unit.postStart
    // job "ExecReload" unit.reload
    // job "ExecStop" unit.preStop
    // job "ExecStopPost" unit.postStop;

  environment =
    lib.optionalAttrs (unit.path != [ ]) {
      PATH = lib.concatMapStringsSep ":" (p: "${p}/bin:${p}/sbin") unit.path;
    }
    // unit.environment;

  sections = {
    service =
      lib.concatStrings (
        lib.mapAttrsToList (n: x: "Environment=${builtins.toJSON "${n}=${toString x}"}\n") (
          lib.filterAttrs (_: x: x != null) environment
        )
      )
      + lines (switching // lib.optionalAttrs (!unit.stopIfChanged) { X-StopIfChanged = false; })
      + lines (jobs // unit.serviceConfig);
    socket = lines (
      unit.socketConfig
      // {
        ListenStream = unit.listenStreams ++ lib.toList (unit.socketConfig.ListenStream or [ ]);
        ListenDatagram = unit.listenDatagrams;
      }
    );
    timer = lines (unit.timerConfig or { });
    path = lines (unit.pathConfig or { });
    slice = lines (unit.sliceConfig or { });
  };
  title = lib.toUpper (lib.substring 0 1 kind) + lib.substring 1 (-1) kind;
in
"[Unit]\n${lines unitSection}"
+ lib.optionalString (sections ? ${kind}) "\n[${title}]\n${sections.${kind}}"
+ lib.optionalString (unit.wantedBy != [ ]) "\n[Install]\nWantedBy=${toString unit.wantedBy}\n"
