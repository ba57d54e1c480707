# What a guest must be given to be the configured host, as plain data.
{ lib }:
let
  names = lib.mapAttrs (_: _: { });
  system = config: {
    name = config.networking.hostName;
    inherit (config.systemd) units;
    etc = lib.mapAttrs' (
      _: file:
      lib.nameValuePair file.target {
        source = "${file.source}";
        inherit (file) mode user group;
      }
    ) (lib.filterAttrs (_: file: file.enable) config.environment.etc);
    firewall =
      let
        inherit (config.networking) firewall;
      in
      if firewall.enable then
        {
          tcp = firewall.allowedTCPPorts;
          udp = firewall.allowedUDPPorts;
          inherit (firewall) trustedInterfaces;
        }
      else
        null;
    packages = map (package: "${package}") config.environment.systemPackages;
    users = names config.users.users;
    groups = names config.users.groups;
    inherit (config.boot.kernel) sysctl;
    inherit (config.networking) hosts;
    tmpfiles = config.systemd.tmpfiles.rules;
  };
in
config: {
  base = system config;
  specialisations = lib.mapAttrs (_: special: system special.configuration) config.specialisation;
}
