# README's table of options against the module, and that each option is explained.
{
  lib,
  evaluate,
  hostWith,
  complaints,
  settingsOf,
  is,
  ...
}:
let
  inherit (evaluate [ ../../../nixos/module.nix ]) options;
  place = [
    "services"
    "helios-proxy"
  ];
  path = "services.helios-proxy.";
  # Without the set of all of them.
  every = lib.filter (option: option.visible != false && !option.internal && option.loc != place) (
    lib.optionAttrSetToDocList { inherit (options.services) helios-proxy; }
  );
  # Those that have a row: not what each node and each cluster has again.
  listed = lib.filter (
    option: lib.hasPrefix path option.name && !lib.hasInfix "<name>" option.name
  ) every;
  squeezed = lib.replaceStrings [ " " "\n" ] [ "" "" ];
  declared = lib.listToAttrs (
    map (
      option: lib.nameValuePair (lib.removePrefix path option.name) (squeezed option.default.text)
    ) listed
  );

  readme = builtins.readFile ../../../README.md;
  table = lib.elemAt (lib.splitString "| option of `services.helios-proxy` |" readme) 1;
  rows = map (lib.splitString "|") (
    lib.filter (lib.hasPrefix "| `") (lib.splitString "\n" (lib.head (lib.splitString "\n\n" table)))
  );
  cell = n: row: lib.trim (lib.elemAt row n);
  quoted = text: builtins.match "`(.*)`" text;
  # A default in words is none that could be compared.
  told = lib.listToAttrs (
    map (
      row:
      let
        name = lib.head (quoted (cell 1 row));
        default = quoted (cell 2 row);
      in
      lib.nameValuePair name (
        if default == null then declared.${name} or "" else squeezed (lib.head default)
      )
    ) rows
  );

  # The configuration that README shows, as it stands and with all that it has commented out.
  shown = lib.head (
    lib.splitString "```" (lib.elemAt (lib.splitString "# configuration.nix\n" readme) 1)
  );
  whole = lib.replaceStrings [ "\n    # " ] [ "\n    " ] shown;
  hostOf = text: hostWith [ (import (builtins.toFile "configuration.nix" text)) ];
in
{
  "README's configuration works, and so does what it has commented out" =
    is
      [
        [
          3
          1
          [ ]
        ]
        [
          3
          4
          [ ]
        ]
      ]
      (
        map
          (
            text:
            let
              host = hostOf text;
            in
            [
              (lib.length (settingsOf host).nodes)
              (lib.length (settingsOf host).listeners)
              (complaints host ++ lib.filter (lib.hasInfix "helios-proxy") host.warnings)
            ]
          )
          [
            shown
            whole
          ]
      );

  "README lists each option with its default" = is declared told;

  "each option has a description, an example and a type" = is [ ] (
    map (option: option.name) (
      lib.filter (
        option:
        (option.description or "") == "" || !(option ? example) || option.type == "unspecified value"
      ) every
    )
  );
}
