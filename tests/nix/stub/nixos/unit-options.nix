# The options of a unit.
{ lib }:
let
  inherit (lib) mkOption types;
  option = type: default: mkOption { inherit type default; };
  unitNames = option (types.listOf (
    types.strMatching "[a-zA-Z0-9@%:_.\\-]+[.](service|socket|target|path|timer|slice|device|mount)"
  )) [ ];
  scalar = types.nullOr (
    types.oneOf [
      types.bool
      types.int
      types.float
      types.str
      types.path
      types.package
    ]
  );
  # A directive: several definitions are equal, or one of them is a list and they are strung together.
  directive = types.mkOptionType {
    name = "systemd option";
    check = x: if lib.isList x then lib.all scalar.check x else scalar.check x;
    merge =
      loc: definitions:
      if lib.any (d: lib.isList d.value) definitions then
        lib.concatMap (d: lib.toList d.value) definitions
      else
        scalar.merge loc definitions;
  };
  directives = option (types.attrsOf directive) { };
  triggers = option (types.listOf types.unspecified) [ ];
  script = option types.lines "";
in
{
  common.options = {
    enable = option types.bool true;
    description = option types.str "";
    documentation = option (types.listOf types.str) [ ];
    wantedBy = unitNames;
    requiredBy = unitNames;
    requires = unitNames;
    wants = unitNames;
    upholds = unitNames;
    after = unitNames;
    before = unitNames;
    bindsTo = unitNames;
    partOf = unitNames;
    conflicts = unitNames;
    requisite = unitNames;
    onFailure = unitNames;
    onSuccess = unitNames;
    startLimitBurst = option (types.nullOr types.int) null;
    startLimitIntervalSec = option (types.nullOr types.int) null;
    unitConfig = directives;
    restartTriggers = triggers;
    reloadTriggers = triggers;
  };

  service = {
    serviceConfig = directives;
    environment = option (types.attrsOf (
      types.nullOr (
        types.oneOf [
          types.str
          types.path
          types.package
        ]
      )
    )) { };
    path = option (types.listOf (types.either types.package types.str)) [ ];
    restartIfChanged = option types.bool true;
    reloadIfChanged = option types.bool false;
    stopIfChanged = option types.bool true;
    script = script;
    preStart = script;
    postStart = script;
    reload = script;
    preStop = script;
    postStop = script;
  };

  socket = {
    socketConfig = directives;
    listenStreams = option (types.listOf types.str) [ ];
    listenDatagrams = option (types.listOf types.str) [ ];
  };

  section = name: { ${name} = directives; };
}
