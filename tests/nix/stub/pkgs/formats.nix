# File formats of settings: the type of their values, and how those are written down.
{ lib, pkgs }:
let
  inherit (lib) types;
  value =
    types.oneOf [
      types.bool
      types.int
      types.float
      types.str
      types.path
      (types.attrsOf value)
      (types.listOf value)
    ]
    // {
      description = "TOML value";
    };

  key = name: if lib.match "[A-Za-z0-9_-]+" name != null then name else builtins.toJSON name;
  isTable = x: lib.isAttrs x && !lib.isDerivation x;
  isTables = x: lib.isList x && x != [ ] && lib.all isTable x;
  inline =
    x:
    if lib.isList x then
      "[${lib.concatMapStringsSep ", " inline x}]"
    else if isTable x then
      "{ ${lib.concatStringsSep ", " (lib.mapAttrsToList (n: y: "${key n} = ${inline y}") x)} }"
    else if lib.isBool x || lib.isInt x || lib.isFloat x then
      builtins.toJSON x
    else
      builtins.toJSON (toString x);

  # A table: its plain keys first, since what follows a header belongs to that.
  table =
    path: set:
    let
      header = name: lib.concatMapStringsSep "." key (path ++ [ name ]);
      plain = lib.filterAttrs (_: x: !isTable x && !isTables x) set;
      below = lib.filterAttrs (_: x: isTable x || isTables x) set;
      written =
        name: x:
        if isTable x then
          "\n[${header name}]\n${table (path ++ [ name ]) x}"
        else
          lib.concatMapStrings (one: "\n[[${header name}]]\n${table (path ++ [ name ]) one}") x;
    in
    lib.concatStrings (lib.mapAttrsToList (name: x: "${key name} = ${inline x}\n") plain)
    + lib.concatStrings (lib.mapAttrsToList written below);
  # JSON is YAML too.
  json = { }: {
    type = types.anything;
    generate = name: x: pkgs.writeText name (builtins.toJSON x);
  };
in
{
  inherit json;
  yaml = json;
  toml = { }: {
    type = value;
    generate = name: set: pkgs.writeText name (table [ ] set);
  };
}
