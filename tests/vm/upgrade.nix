# A switch to another program and other settings under load, to a program that does not start, and back.
{
  helios,
  lib,
  pkgs,
  ...
}:
let
  stage = import ./lib {
    inherit helios lib pkgs;
    size = 1;
  };
  package = helios.packages.${pkgs.stdenv.hostPlatform.system}.default;
  newer = pkgs.runCommand "helios-proxy-newer" { meta.mainProgram = "helios-proxy"; } ''
    install -D ${lib.getExe package} "$out/bin/helios-proxy"
    echo "another program" >> "$out/bin/helios-proxy"
  '';
  # Takes the configuration for good, as the build asks of it, and never runs.
  broken = pkgs.writeShellScriptBin "helios-proxy" ''
    [ "$1" = check ] && exec ${lib.getExe package} "$@"
    exit 1
  '';
  configured = program: {
    configuration.services.helios-proxy = {
      package = lib.mkForce program;
      readPort = lib.mkForce null;
      nodes.pg2 = "192.168.1.200";
      settings.write_timeout_secs = 40;
    };
  };
in
{
  name = "upgrade";
  nodes = stage.nodes // {
    app = {
      imports = [ stage.nodes.app ];
      services.helios-proxy = { inherit package; };
      specialisation = lib.mapAttrs (_: configured) { inherit newer broken; };
    };
  };
  testScript = stage.script (builtins.readFile ./lib/unit.py + builtins.readFile ./upgrade.py);
}
