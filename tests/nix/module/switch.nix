# A switch drops nobody: what changes in the unit, and what NixOS is told to do about it.
{
  lib,
  packageOf,
  usual,
  unitOf,
  serviceOf,
  is,
  holds,
  ...
}:
let
  isTrigger = lib.hasPrefix "X-Restart-Triggers=";
  lines = host: lib.splitString "\n" (unitOf host);
  rest = host: lib.filter (line: !isTrigger line) (lines host);
  triggers = host: lib.filter isTrigger (lines host);

  before = usual { };
  otherSettings = usual {
    nodes.pg2 = "10.0.0.12";
    readPort = 5433;
    checkInter = "1s";
    admin.address = "127.0.0.1:9091";
    settings.write_timeout_secs = 60;
  };
  otherPackage = usual { package = packageOf "2"; };
  after = [
    otherSettings
    otherPackage
  ];
  links = host: lib.mapAttrs (_: file: "${file.source}") host.environment.etc;
  ofFolder = lib.filterAttrs (name: _: lib.hasPrefix "helios-proxy/" name);
in
{
  "neither other settings nor another package change the unit, but for its triggers" = is [
    (rest before)
    (rest before)
  ] (map rest after);

  "both change the triggers" = is 3 (lib.length (lib.unique (map triggers ([ before ] ++ after))));

  "NixOS has no warning about the unit" = is [ ] before.warnings;

  "a changed unit is reloaded, and never stopped first" = is [
    "X-ReloadIfChanged=true"
    "X-StopIfChanged=false"
  ] (lib.filter (lib.hasInfix "IfChanged=") (lines before));

  "what is started and what it reads stand behind links that the switch moves" =
    let
      moved = map (host: ofFolder (links host)) ([ before ] ++ after);
      names = [
        "helios-proxy/config.toml"
        "helios-proxy/helios-proxy"
      ];
    in
    is
      [
        [
          names
          names
          names
        ]
        3
        2
        "/etc/helios-proxy/helios-proxy run --config /etc/helios-proxy/config.toml"
      ]
      [
        (map lib.attrNames moved)
        (lib.length (lib.unique (map (links: links."helios-proxy/config.toml") moved)))
        (lib.length (lib.unique (map (links: links."helios-proxy/helios-proxy") moved)))
        (serviceOf before).serviceConfig.ExecStart
      ];

  "systemd keeps the listening sockets, also while the unit is stopped" =
    let
      inherit (serviceOf before) serviceConfig;
    in
    holds (
      serviceConfig.FileDescriptorStoreMax > 0 && serviceConfig.FileDescriptorStorePreserve == "yes"
    );
}
