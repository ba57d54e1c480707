# The unit for other distributions and the one of the module say the same, but for what is listed here.
{
  lib,
  usual,
  serviceOf,
  is,
  ...
}:
let
  text = builtins.readFile ../../../share/systemd/helios-proxy.service;
  pairs = lib.filter (found: found != null) (
    map (builtins.match "([A-Za-z]+)=(.*)") (lib.splitString "\n" text)
  );
  grouped = builtins.groupBy builtins.head pairs;
  plain = lib.mapAttrs (_: found: map lib.last found) grouped;

  word =
    value:
    if value == true then
      "yes"
    else if value == false then
      "no"
    else
      toString value;
  words = value: map word (lib.toList value);
  ours = lib.mapAttrs (_: words) (serviceOf (usual { })).serviceConfig;

  # systemd 252 knows neither notify-reload nor the steps nor a store that is kept, and says nothing of one; a folder of its own, and no build that
  # has checked the file.
  differing = [
    "Environment"
    "ExecReload"
    "ExecStart"
    "FileDescriptorStorePreserve"
    "RestartMaxDelaySec"
    "RestartPreventExitStatus"
    "RestartSteps"
    "Type"
    "User"
  ];
  # Of [Unit] and [Install].
  outside = [
    "After"
    "Description"
    "StartLimitIntervalSec"
    "WantedBy"
  ];
  seconds = text: if lib.hasSuffix "ms" text then text else lib.removeSuffix "s" text;
  inSeconds = lib.mapAttrs (
    name: values: if lib.hasSuffix "Sec" name then map seconds values else values
  );
  comparable = set: removeAttrs (inSeconds set) (differing ++ outside);
in
{
  "the unit for other distributions says the same as the module's" = is (comparable ours) (
    comparable plain
  );

  "what differs in it is there on one side at least" = is [ ] (
    lib.filter (key: !(plain ? ${key}) && !(ours ? ${key})) differing
  );
}
