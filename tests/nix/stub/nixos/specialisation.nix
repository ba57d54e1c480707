# Other configurations of the same host, to switch to.
{
  lib,
  config,
  extendModules,
  ...
}:
let
  special =
    { name, ... }:
    {
      options = {
        inheritParentConfig = lib.mkOption {
          type = lib.types.bool;
          default = true;
        };
        configuration = lib.mkOption {
          type = lib.types.deferredModule;
          default = { };
          apply =
            module:
            (extendModules {
              modules = [
                module
                { specialisation = lib.mkOverride 0 { }; }
              ];
            }).config;
        };
      };
    };
in
{
  options.specialisation = lib.mkOption {
    type = lib.types.attrsOf (lib.types.submodule special);
    default = { };
  };
}
